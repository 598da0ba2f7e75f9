DELETE FROM doomed WHERE job_id = $1
