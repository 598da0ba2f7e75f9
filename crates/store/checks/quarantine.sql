SELECT job_id AS job, NULL AS ix, NULL AS other, error AS what FROM quarantine
