//! Rows and messages as words. Signs of life are left out: there are thousands, and they say nothing but that.

use serde_json::Value;
use store::rows::{EventRow, FleetChange};
use store::{Batch, Committed};

/// Messages that only show that somebody lives.
const SIGNS_OF_LIFE: [&str; 6] = ["ping", "pong", "heartbeat", "renew", "renewed", "log_ack"];

pub(super) fn of_commit(batch: &Batch, committed: &Committed) -> Vec<String> {
    let mut words = Vec::new();
    for job in &committed.conflicts {
        words.push(format!("{job} had moved on, what was decided about it is dropped"));
    }
    words.extend(batch.hellos.iter().map(|hello| format!("{} is on epoch {}", hello.id, hello.epoch.0)));
    let kept = batch.events.iter().filter(|event| !committed.conflicts.contains(&event.job));
    words.extend(kept.map(of_event));
    words.extend(batch.left.iter().map(|(worker, ..)| format!("{worker} has no link")));
    words.extend(batch.fleet.iter().map(|change| match change {
        FleetChange::Drain { worker, on: true } => format!("{worker} is draining"),
        FleetChange::Drain { worker, on: false } => format!("{worker} takes work again"),
        FleetChange::Remove { worker, .. } => format!("{worker} is removed"),
    }));
    words.extend(batch.confirmed.iter().map(|(attempt, _)| format!("{attempt} is over for certain")));
    words.extend(
        batch.late_outcomes.iter().map(|late| format!("the late outcome of {}: {}", late.attempt, late.outcome)),
    );
    words.extend(batch.marks.iter().map(|mark| format!("into the log of {}: {}", mark.attempt, mark.text)));
    words.extend(batch.log_closes.iter().map(|close| format!("the log of {} is closed", close.attempt)));
    words.extend(batch.quarantine.iter().map(|row| format!("quarantined, {}: {}", row.error, row.event)));
    if let Some(breaker) = &batch.breaker {
        words.push(format!("{} of {} workers are lost: it suspects itself", breaker.lost, breaker.connected));
    }
    words
}

fn of_event(event: &EventRow) -> String {
    let EventRow { job, kind, reason, .. } = event;
    let what = event.ix.map_or_else(|| job.to_string(), |ix| format!("{job}/#{}", ix.0));
    let verb = event.verb.map_or_else(
        || (*kind).to_owned(),
        |verb| if *kind == "step" { verb.to_owned() } else { format!("{kind} {verb}") },
    );
    let moved = match (event.from, event.to) {
        (Some(from), Some(to)) if from != to => format!(" {from} → {to}"),
        (_, Some(to)) => format!(" stays {to}"),
        _ => String::new(),
    };
    let by = event.worker.map(|worker| format!(" by {worker}")).unwrap_or_default();
    let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    format!("{what}{moved} ({verb}{by}){why}")
}

/// None if the frame holds nothing but signs of life.
pub(super) fn of_frame(frame: &str) -> Option<String> {
    let messages: Vec<Value> = serde_json::from_str(frame).ok()?;
    let words: Vec<String> = messages.iter().filter_map(of_message).collect();
    if words.is_empty() { None } else { Some(words.join("; ")) }
}

fn of_message(message: &Value) -> Option<String> {
    let kind = message["type"].as_str()?;
    if SIGNS_OF_LIFE.contains(&kind) {
        return None;
    }
    Some(match kind {
        "hello" => {
            format!("hello, last on epoch {}, holding [{}]", message["last_epoch"], list(&message["held"], "state"))
        }
        "welcome" => format!("welcome on epoch {}: [{}]", message["epoch"], list(&message["verdicts"], "verdict")),
        "offer" => format!("offer {}", attempt(&message["spec"])),
        "ended" => format!("ended {} {}", attempt(message), message["end"]["result"]),
        "refused" => format!("refused, {}: {}", plain(&message["code"]), plain(&message["message"])),
        _ => {
            let details = ["mode", "reason", "loss", "about", "detail"];
            let details: Vec<String> =
                details.iter().map(|key| plain(&message[*key])).filter(|d| !d.is_empty()).collect();
            format!("{kind} {} {}", attempt(message), details.join(", ")).trim_end().to_owned()
        }
    })
}

/// `attempt word` for each element.
fn list(elements: &Value, word: &str) -> String {
    let of_element = |element: &Value| format!("{} {}", attempt(element), plain(&element[word]));
    elements.as_array().map_or_else(String::new, |all| all.iter().map(of_element).collect::<Vec<_>>().join(", "))
}

fn attempt(message: &Value) -> String {
    plain(&message["ticket"]["attempt"])
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_they_are_about() {
        let frame = r#"[{"type":"ping","n":3},
            {"type":"welcome","epoch":5,"verdicts":[{"ticket":{"attempt":"a","fence":1},"verdict":"continue"}]},
            {"type":"stop","ticket":{"attempt":"b","fence":2},"mode":"kill","reason":"superseded","grace_ms":3}]"#;
        assert_eq!(of_frame(frame).as_deref(), Some("welcome on epoch 5: [a continue]; stop b kill, superseded"));
        assert_eq!(of_frame(r#"[{"type":"pong","n":3}]"#), None);
    }
}
