SELECT job_id AS job, ix, NULL AS other,
       'its state is ' || state || ', its owner ' || coalesce(owner, 'nobody') || ', its action ' || coalesce(action, 'none') AS what
FROM steps
WHERE state NOT IN ('pending', 'queued', 'running', 'recovering', 'cancelling', 'held', 'waiting',
                    'success', 'failed', 'cancelled', 'skipped')
   OR owner NOT IN ('needs', 'steps', 'child', 'group', 'dispatcher', 'worker', 'timer', 'person', 'operator')
   OR action NOT IN ('look_again', 'withdraw_offer', 'decide_unmatched', 'stop_for_timeout', 'decide_loss', 'force_cancel',
                     'expire_hold', 'timer_done', 'cancel_for_timeout', 'expire', 'give_notice')
