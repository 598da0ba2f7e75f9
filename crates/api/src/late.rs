//! The late end of an attempt, as people say it.

use serde_json::Value;

/// `exit code 0 after 3.1s`; what this build does not know stays as it came.
pub fn late_outcome_in_words(outcome: &Value) -> String {
    let Some(ended) = outcome.get("result").and_then(result) else {
        return outcome.as_str().map_or_else(|| outcome.to_string(), str::to_owned);
    };
    let after = match outcome.get("duration_ms").and_then(Value::as_u64) {
        Some(millis) => format!(" after {}", seconds(millis)),
        None => String::new(),
    };
    let stopped = match outcome.get("stopped").and_then(Value::as_str) {
        None => "",
        Some("cancelled") => ", stopped by a cancel",
        Some("timeout") => ", stopped by its timeout",
        Some("lease_expired") => ", stopped at the end of its lease",
        Some("superseded") => ", stopped for its successor",
        Some("worker_stopped") => ", stopped with its worker",
        Some(_) => ", stopped",
    };
    format!("{ended}{after}{stopped}")
}

fn result(result: &Value) -> Option<String> {
    let number = |key: &str| result.get(key).and_then(Value::as_i64);
    match result.get("kind")?.as_str()? {
        "exited" => Some(format!("exit code {}", number("code")?)),
        "signaled" if result.get("oom").and_then(Value::as_bool) == Some(true) => Some("out of memory".to_owned()),
        "signaled" => Some(format!("ended by signal {}", number("signal")?)),
        "spawn_failed" => Some(format!("it could not be started: {}", result.get("message")?.as_str()?)),
        _ => None,
    }
}

/// `3.1s`, `75s`: in whole seconds from ten on.
fn seconds(millis: u64) -> String {
    if millis < 10_000 {
        format!("{}.{}s", millis / 1_000, millis % 1_000 / 100)
    } else {
        format!("{}s", millis / 1_000)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn late_ends_are_told_in_words() {
        let told = |result: Value, stopped: Value| {
            late_outcome_in_words(
                &json!({ "result": result, "stopped": stopped, "duration_ms": 3_140, "log_last_seq": 7 }),
            )
        };
        assert_eq!(told(json!({ "kind": "exited", "code": 0 }), Value::Null), "exit code 0 after 3.1s");
        assert_eq!(
            told(json!({ "kind": "signaled", "signal": 15, "oom": false }), json!("cancelled")),
            "ended by signal 15 after 3.1s, stopped by a cancel"
        );
        assert_eq!(
            told(json!({ "kind": "signaled", "signal": 9, "oom": true }), Value::Null),
            "out of memory after 3.1s"
        );
        let spawn = json!({ "kind": "spawn_failed", "message": "no bash" });
        assert_eq!(late_outcome_in_words(&json!({ "result": spawn })), "it could not be started: no bash");
    }

    #[test]
    fn what_is_not_known_stays_as_it_came() {
        let odd = json!({ "result": { "kind": "vanished" } });
        assert_eq!(late_outcome_in_words(&odd), odd.to_string());
        assert_eq!(late_outcome_in_words(&json!("exited 0")), "exited 0");
    }
}
