//! `bowline job`: one job in full.

use std::time::Duration;

use api::job::{Attempt, Hook, HookKind, NOT_BEGUN, Notice, Usage};
use api::{AttemptState, HoldReason, Job, Step, StepState};
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
        let [cpu, memory] = used(latest.and_then(|attempt| attempt.usage));
        vec![
            step.name.clone(),
            state(step),
            step.attempt.to_string(),
            latest.map_or_else(|| doer(step), |attempt| attempt.worker.clone()),
            step_took(step),
            cpu,
            memory,
            step.error.as_ref().map(|error| error.message.clone()).unwrap_or_default(),
        ]
    });
    let columns = ["step", "state", "attempt", "worker", "took", "cpu", "memory", "error"];
    put_table(&columns, rows.collect(), "no steps")?;
    for lines in [job.steps.iter().flat_map(earlier).collect(), job.steps.iter().flat_map(cleanups).collect()] {
        let lines: Vec<String> = lines;
        if !lines.is_empty() {
            put(&format!("\n{}", lines.join("\n")))?;
        }
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

/// `attempt 1 of a: exit 75 on w, took 1.2s, cpu 10ms, memory 1.0 MiB`, for every attempt before the latest, which the table has.
fn earlier(step: &Step) -> Vec<String> {
    let before = step.attempts.split_last().map(|(_, before)| before).unwrap_or_default();
    let cut = before.len().saturating_sub(LISTED_MAX);
    let line = |attempt: &Attempt| {
        let [cpu, memory] = used(attempt.usage);
        let (end, took) = (end(attempt), attempt_took(attempt));
        format!(
            "attempt {} of {}: {end} on {}, took {took}, cpu {cpu}, memory {memory}",
            attempt.number, step.name, attempt.worker
        )
    };
    let older = (cut > 0).then(|| format!("… and {cut} attempts of {} before: `--json` lists all", step.name));
    older.into_iter().chain(before[cut..].iter().map(line)).collect()
}

/// How an attempt ended, in a word or two.
fn end(attempt: &Attempt) -> String {
    let code = attempt.error.as_ref().map(|error| error.code.as_str());
    match (attempt.state, code, attempt.exit_code, attempt.signal) {
        (AttemptState::Ended, None, _, _) => "success".to_owned(),
        (AttemptState::Ended, Some("exit_code"), Some(status), _) => format!("exit {status}"),
        (AttemptState::Ended, Some("signal"), _, Some(signal)) => format!("signal {signal}"),
        (AttemptState::Ended, Some(code), _, _) => code.to_owned(),
        (AttemptState::Lost | AttemptState::Superseded, code, _, _) => {
            let doubt = (!attempt.confirmed).then_some("may still run");
            let more: Vec<&str> = code.into_iter().chain(doubt).collect();
            if more.is_empty() { attempt.state.to_string() } else { format!("{} ({})", attempt.state, more.join(", ")) }
        }
        (AttemptState::Running | AttemptState::Recovering, _, _, _) => attempt.state.to_string(),
    }
}

/// CPU time and the most memory at once, where they are known.
fn used(usage: Option<Usage>) -> [String; 2] {
    usage.map_or_else(
        || ["-".to_owned(), "-".to_owned()],
        |usage| [short(Duration::from_millis(usage.cpu_ms)), bytes(usage.memory_bytes_max)],
    )
}

/// `cleanup of a (attempt 1): ended well`, for every attempt that was cleaned up after.
fn cleanups(step: &Step) -> impl Iterator<Item = String> {
    step.attempts.iter().filter_map(|attempt| {
        let cleanup = attempt.cleanup.as_ref()?;
        let problem = cleanup.problem.as_deref().unwrap_or("ended well");
        Some(format!("cleanup of {} (attempt {}): {problem}", step.name, attempt.number))
    })
}

/// How long the latest attempt ran. A step that no worker does took as long as those who do it.
fn step_took(step: &Step) -> String {
    step.attempts.last().map_or_else(|| took(step.started_at, step.ended_at), attempt_took)
}

/// How long it ran: as its worker measured it, where that is known. Whoever heard of the end late, since the server was away, does
/// not make it longer.
fn attempt_took(attempt: &Attempt) -> String {
    match attempt.duration_ms {
        Some(ms) => short(Duration::from_millis(ms)),
        None => took(Some(attempt.started_at), attempt.ended_at),
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
    fn each_earlier_attempt_has_its_line() {
        let attempt = |number: usize, more: &str| {
            let id = "01930000-0000-7000-8000-0000000000aa";
            let times = r#""started_at":"2026-01-01T00:00:00Z","ended_at":"2026-01-01T00:00:07Z""#;
            format!(r#"{{"id":"{id}","number":{number},"fence":1,"worker":"w{number}",{times}{more}}}"#)
        };
        let of = |attempts: &[String]| earlier(&step(&format!(r#","attempts":[{}]"#, attempts.join(","))));
        let error = |code: &str| format!(r#","error":{{"code":"{code}","message":"m"}}"#);
        let exit = r#","state":"ended","confirmed":true,"exit_code":75,"duration_ms":1200,"usage":{"cpu_ms":10,"memory_bytes_max":1048576}"#;
        let attempts = [
            attempt(1, &format!("{exit}{}", error("exit_code"))),
            attempt(2, &format!(r#","state":"ended","confirmed":true,"signal":9{}"#, error("signal"))),
            attempt(3, &format!(r#","state":"ended","confirmed":true,"signal":15{}"#, error("step_timeout"))),
            attempt(4, &format!(r#","state":"lost","confirmed":false{}"#, error("worker_lost"))),
            attempt(5, r#","state":"ended","confirmed":true"#),
        ];
        assert_eq!(
            of(&attempts),
            [
                "attempt 1 of a: exit 75 on w1, took 1.2s, cpu 10ms, memory 1.0 MiB",
                "attempt 2 of a: signal 9 on w2, took 7.0s, cpu -, memory -",
                "attempt 3 of a: step_timeout on w3, took 7.0s, cpu -, memory -",
                "attempt 4 of a: lost (worker_lost, may still run) on w4, took 7.0s, cpu -, memory -",
            ]
        );
        assert_eq!(of(&attempts[..1]), [] as [&str; 0], "the table has it");
        let many: Vec<String> = (1..=15).map(|number| attempt(number, r#","state":"lost","confirmed":true"#)).collect();
        let told = of(&many);
        assert_eq!((told.len(), told[0].as_str()), (11, "… and 4 attempts of a before: `--json` lists all"));
        assert!(told[1].starts_with("attempt 5 of a: lost on w5, "), "{told:?}");
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
