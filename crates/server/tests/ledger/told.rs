//! What the server's own log says of attempts that were cut off: the words and fields that operators search for.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::link::{HeldAttempt, HeldState};
use serde_json::{Value, json};

use crate::desk::{Desk, ONE};

#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("one writer at a time").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The fields of every line that `story` leaves in the log with this message.
fn said(message: &str, story: impl FnOnce()) -> Vec<Value> {
    let paper = Paper::default();
    let copy = paper.clone();
    let subscriber = tracing_subscriber::fmt().json().with_writer(move || copy.clone()).finish();
    tracing::subscriber::with_default(subscriber, story);
    let bytes = paper.0.lock().expect("nobody writes any more").clone();
    let lines = String::from_utf8(bytes).expect("text");
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    let fields = lines.map(|mut line| line["fields"].take());
    fields.filter(|fields| fields["message"] == message).collect()
}

#[test]
fn a_return_is_told_with_true_values() {
    let mut ids = None;
    let lines = said("Job recovered from agent reconnection", || {
        let mut desk = Desk::new();
        let mut w = desk.worker("w", "script", 1);
        let job = desk.submit(ONE);
        let spec = desk.start(&mut w);
        desk.hang_up(&w);
        desk.pass(Duration::from_secs(45));
        let held = HeldAttempt {
            ticket: spec.ticket,
            job: spec.job,
            step: spec.step.clone(),
            state: HeldState::Running,
            log_first_seq: 1,
            log_last_seq: 238,
            events: 2,
            unsure: false,
        };
        let w = desk.connect(w.worker, "w", "script", 1, vec![held]);
        ids = Some((job, spec.ticket.attempt, w.worker));
    });
    let (job, attempt, worker) = ids.expect("the story was told");
    let expected = json!({
        "message": "Job recovered from agent reconnection",
        "recovery_duration": 45_000,
        "agent_id": worker.to_string(),
        "job_id": job.to_string(),
        "step": "a",
        "run_id": attempt.to_string(),
        "buffered_messages_count": 240,
    });
    assert_eq!(lines, [expected]);
}

#[test]
fn the_end_of_the_window_is_told_and_so_is_what_may_still_run() {
    let story = || {
        let mut desk = Desk::new();
        let mut w = desk.worker("w", "script", 1);
        let job = desk.submit(ONE);
        desk.start(&mut w);
        desk.hang_up(&w);
        desk.pass(Duration::from_secs(120));
        desk.check(job, "failed: failed");
    };
    let lines = said("recovery timeout exceeded", story);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((&lines[0]["recovery_duration"], &lines[0]["verdict"]), (&json!(120_000), &json!("failed")));
    let alarms = said("an attempt is unconfirmed: it may still run", story);
    assert_eq!(alarms.len(), 1, "{alarms:?}");
    assert!(alarms[0]["reason"].as_str().is_some_and(|r| r.contains("worker w on here")), "{alarms:?}");
}
