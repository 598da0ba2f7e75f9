SELECT min(job_id) FROM doomed
