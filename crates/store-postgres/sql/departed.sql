SELECT at FROM departed WHERE worker_id = $1
