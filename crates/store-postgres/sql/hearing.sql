SELECT mark_at, deaf_us, stretch_from, unsettled_since, verdicts_from, alarmed FROM hearing WHERE id = 1
