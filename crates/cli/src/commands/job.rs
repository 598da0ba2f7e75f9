//! `bowline job`: one job in full.

use std::time::Duration;

use api::job::{Attempt, Hook, HookKind, NOT_BEGUN, Notice};
use api::{HoldReason, Job, Step, StepState};
use clap::Args;
use client::Client;
use owo_colors::OwoColorize;

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::lineage::Kin;
use crate::print::{put, put_json};
use crate::style::job_state;
use crate::table::put_table;
use crate::times::{now, remaining, short, took, waiting_until, when};

/// Of notices, and of what followed, so many are shown.
const LISTED_MAX: usize = 10;

/// Show a job with its steps
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline job last\n  bowline job 0193a5b2 --json")]
pub struct JobArgs {
    /// A job's id, a unique prefix of one, or `last`
    pub id: String,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &JobArgs) -> Result<Exit, CliError> {
    let job = client.job(&args.id).await?;
    if args.json {
        put_json(&job)?;
        return Ok(Exit::Success);
    }
    put(&head(&job))?;
    let rows = job.steps.iter().map(|step| {
        let latest = step.attempts.last();
        let usage = latest.and_then(|attempt| attempt.usage);
        vec![
            step.name.clone(),
            state(step),
            step.attempt.to_string(),
            latest.map_or_else(|| doer(step), |attempt| attempt.worker.clone()),
            step_took(step),
            usage.map_or_else(|| "-".to_owned(), |usage| short(Duration::from_millis(usage.cpu_ms))),
            usage.map_or_else(|| "-".to_owned(), |usage| bytes(usage.memory_bytes_max)),
            step.error.as_ref().map(|error| error.message.clone()).unwrap_or_default(),
        ]
    });
    let columns = ["step", "state", "attempt", "worker", "took", "cpu", "memory", "error"];
    put_table(&columns, rows.collect(), "no steps")?;
    let cleanups: Vec<String> = job.steps.iter().flat_map(cleanups).collect();
    if !cleanups.is_empty() {
        put(&format!("\n{}", cleanups.join("\n")))?;
    }
    Ok(Exit::Success)
}

/// The state's word; for a step that is cut off, with the time that its worker has left; for one that waits for a time to
/// come, with what is left until then; for one that waits for people, with how many said yes and how many must.
fn state(step: &Step) -> String {
    match (&step.deadline, step.state) {
        (_, StepState::Waiting) => match &step.waiting {
            Some(waiting) => waiting_until(waiting.until, now()),
            None => step.state.to_string(),
        },
        (_, StepState::Held) => match &step.hold {
            Some(hold) if hold.reason == HoldReason::Restored => {
                format!("held ({}/{}, restored)", hold.approvals.len(), hold.wanted)
            }
            Some(hold) => format!("held ({}/{})", hold.approvals.len(), hold.wanted),
            None => step.state.to_string(),
        },
        (Some(deadline), StepState::Recovering) => format!("recovering ({})", remaining(deadline.at, now())),
        _ => step.state.to_string(),
    }
}

/// `cleanup of a (attempt 1): ended well`, for every attempt that was cleaned up after.
fn cleanups(step: &Step) -> impl Iterator<Item = String> {
    step.attempts.iter().filter_map(|attempt| {
        let cleanup = attempt.cleanup.as_ref()?;
        let problem = cleanup.problem.as_deref().unwrap_or("ended well");
        Some(format!("cleanup of {} (attempt {}): {problem}", step.name, attempt.number))
    })
}

/// How long the latest attempt ran: as its worker measured it, where that is known. Whoever heard of the end late, since the
/// server was away, does not make it longer. A step that no worker does took as long as those who do it.
fn step_took(step: &Step) -> String {
    match step.attempts.last() {
        None => took(step.started_at, step.ended_at),
        Some(Attempt { duration_ms: Some(ms), .. }) => short(Duration::from_millis(*ms)),
        Some(attempt) => took(Some(attempt.started_at), attempt.ended_at),
    }
}

/// Who does a step that no worker has.
fn doer(step: &Step) -> String {
    // From which job, the head says.
    if step.taken_over_from.is_some() {
        return "taken over".to_owned();
    }
    if let Some(by) = &step.settled_by {
        return format!("settled by {by}");
    }
    step.child.map_or_else(|| "-".to_owned(), |child| format!("job {child}"))
}

fn head(job: &Job) -> String {
    let mut lines = vec![
        format!("{} {}", "job".bold(), job.id),
        format!("task     {}", job.task),
        format!("state    {}", job_state(job.state)),
        format!("created  {}", when(Some(job.created_at))),
        format!("took     {}", took(job.started_at, job.ended_at)),
    ];
    if job.input.as_object().is_some_and(|input| !input.is_empty()) {
        lines.push(format!("input    {}", job.input));
    }
    // One that retention has deleted is known by its id only.
    let named = |relative| format!("job {relative}{}", if job.deleted.contains(&relative) { " (deleted)" } else { "" });
    if let Some(concurrency) = &job.concurrency {
        let waits = if concurrency.in_line { ", waits for room: `bowline why` says for whom" } else { "" };
        lines.push(format!("group    {} (limit {}){waits}", concurrency.group, concurrency.limit));
    }
    let kin = Kin {
        parent: job.parent,
        hook_of: job.hook_of,
        continues: job.continues,
        continues_how: job.continues_how.as_deref(),
        continued_by: &job.continued_by,
    };
    lines.extend(kin.words(named));
    if let Some(error) = &job.error {
        lines.push(format!("error    {} ({})", error.message, error.code));
    }
    lines.extend(first(&job.notices, notice, "notices"));
    lines.extend(first(&job.hooks, hook, "hooks"));
    lines.push(String::new());
    lines.join("\n")
}

/// Not a flood of them: JSON has all.
fn first<T>(all: &[T], line: impl Fn(&T) -> String, what: &str) -> impl Iterator<Item = String> {
    let more = all.len().saturating_sub(LISTED_MAX);
    let rest = (more > 0).then(|| format!("… and {more} more {what}: `--json` lists all"));
    all.iter().take(LISTED_MAX).map(line).chain(rest)
}

/// `notice   step build takes longer than expected: 30m`.
fn notice(notice: &Notice) -> String {
    let step = notice.step.as_ref().map(|step| format!("step {step} ")).unwrap_or_default();
    format!("notice   {step}{} ({})", notice.text, when(Some(notice.at)))
}

/// What followed on the end: `on_error  page (job …): success`.
fn hook(hook: &Hook) -> String {
    if let Some(error) = hook.error.as_ref().filter(|_| hook.state == NOT_BEGUN) {
        return format!("{}  {}: no job was begun: {error}", hook.on, hook.target);
    }
    let what = match hook.kind {
        HookKind::Task => format!("{} (job {})", hook.target, hook.id),
        HookKind::Webhook | HookKind::Mail => hook.target.clone(),
    };
    let problem = hook.error.as_ref().map(|error| format!(", last time {error}")).unwrap_or_default();
    format!("{}  {what}: {}{problem}", hook.on, hook.state)
}

/// Three digits at most before the unit, as in `7.3 MiB`.
fn bytes(count: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value < 10.0 { format!("{value:.1} {}", units[unit]) } else { format!("{value:.0} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(more: &str) -> Step {
        let text = format!(r#"{{"name":"a","state":"success","attempt":1,"dispatch_attempts":0{more}}}"#);
        serde_json::from_str(&text).expect("a step")
    }

    #[test]
    fn a_step_took_what_it_ran_and_not_until_somebody_heard_of_it() {
        let times = r#""started_at":"2026-01-01T00:00:00Z","ended_at":"2026-01-01T00:10:00Z""#;
        let attempt = |more: &str| {
            let id = "01930000-0000-7000-8000-0000000000aa";
            let whose = format!(r#""id":"{id}","number":1,"fence":1,"worker":"w","state":"ended","confirmed":true"#);
            step(&format!(r#","attempts":[{{{whose},{times}{more}}}]"#))
        };
        assert_eq!(step_took(&attempt(r#","duration_ms":3100"#)), "3.1s");
        assert_eq!(step_took(&attempt("")), "10m00s", "nobody said so");
        assert_eq!(step_took(&step(&format!(",{times}"))), "10m00s", "others did it");
        assert_eq!(step_took(&step("")), "-");
    }

    #[test]
    fn a_step_that_waits_says_until_when() {
        let waits = |more: &str| {
            let text = format!(r#"{{"name":"a","state":"waiting","attempt":1,"dispatch_attempts":0{more}}}"#);
            state(&serde_json::from_str(&text).expect("a step"))
        };
        assert_eq!(waits(r#","waiting":{"until":"2026-01-01T00:00:00Z","reason":"retry"}"#), "waiting (due)");
        let far = waits(r#","waiting":{"until":"9000-01-01T00:00:00Z","reason":"a later one"}"#);
        assert!(far.starts_with("waiting (") && far.ends_with("h)"), "{far}");
        assert_eq!(waits(""), "waiting", "an older server says no more");
    }

    #[test]
    fn a_flood_is_cut() {
        let told = |count: u32| first(&(0..count).collect::<Vec<_>>(), u32::to_string, "notices").collect::<Vec<_>>();
        assert_eq!(told(10).len(), 10);
        assert_eq!(told(7_548).len(), 11);
        assert_eq!(told(7_548)[10], "… and 7538 more notices: `--json` lists all");
    }

    #[test]
    fn a_hook_that_began_nothing_says_why() {
        let shown = serde_json::json!({
            "on": "on_error", "id": "00000000-0000-0000-0000-000000000000", "kind": "task", "target": "page",
            "state": NOT_BEGUN, "error": "the input `n` is required",
        });
        let told = hook(&serde_json::from_value(shown).expect("a hook"));
        assert_eq!(told, "on_error  page: no job was begun: the input `n` is required");
    }

    #[test]
    fn sizes_read_well() {
        let told = [0, 1024, 7_654_321, 123_456_789, 5 << 30, 9 << 50].map(bytes);
        assert_eq!(told, ["0.0 KiB", "1.0 KiB", "7.3 MiB", "118 MiB", "5.0 GiB", "9216 TiB"]);
    }
}
