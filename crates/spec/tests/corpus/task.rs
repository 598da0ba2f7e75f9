//! One input of the `task` fuzz target: a text, read as every kind of file; a task that comes out lives a whole job.

use std::sync::Arc;

use engine::attempt::{Outcome, Report, Usage};
use engine::deadline::Rules;
use engine::event::{Event, Ticket};
use engine::{AttemptId, Clocks, Ctx, Epoch, Fence, Job, JobId, StateName, StepIx, Time, WorkerId};
use serde_json::{Map, json};
use spec::Diagnostic;
use spec::eval::Templates;
use spec::task::{Options, Task};
use uuid::Uuid;

/// Larger jobs say nothing new and cost the time of many small ones.
const EXECUTIONS_MAX: u64 = 30;

pub(crate) fn drive(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let none = std::iter::empty::<(String, String)>;
    show(&spec::config::server::parse(text, "s.yaml", none()).1);
    show(&spec::config::worker::parse(text, "w.yaml", none()).1);
    let (task, diagnostics) = spec::task::parse(text, "t.yaml", &Options::default());
    show(&diagnostics);
    assert_eq!(task.is_some(), !diagnostics.iter().any(Diagnostic::is_error), "a task or an error, never both");
    if let Some(task) = task {
        show(&task.not_supported);
        live(&task);
    }
}

fn show(diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics {
        assert!(diagnostic.line() >= 1 && diagnostic.column() >= 1);
        assert!(!diagnostic.message.is_empty());
    }
    assert_eq!(spec::render(diagnostics, false).is_empty(), diagnostics.is_empty());
}

/// Submits a job, and lets each of its steps that comes up run and succeed.
fn live(task: &Task) {
    let Ok(input) = task.bind(Map::new()) else { return };
    let rules = Rules::default();
    let Clocks { now, heard, verdicts_from } = Clocks::never_deaf(Time(1_000_000_000));
    let ctx = Ctx { now, heard, verdicts_from, random: 7, rules: &rules, workers: &(), evaluator: &Templates };
    let id = JobId(Uuid::nil());
    let Ok(group) = engine::group_of(&task.definition, &input, id, &Templates) else { return };
    let (mut job, _) = engine::submit(id, task.definition.clone(), Arc::new(input), group, "ann".into(), &ctx);
    if job.awaits_slot() {
        let admit = Event::Admit { reason: "there is room".to_owned() };
        job.absorb(&engine::apply(&job, &admit, &ctx).expect("a job that waits can be admitted"));
    }
    for execution in 1..=EXECUTIONS_MAX {
        let Some(step) = queued(&job) else { return };
        for event in execution_of(step, execution) {
            let changes = engine::apply(&job, &event, &ctx).expect("a queued step can be offered, started and ended");
            job.absorb(&changes);
        }
    }
}

fn queued(job: &Job) -> Option<StepIx> {
    job.steps.iter().position(|step| step.state.name() == StateName::Queued).map(StepIx::of)
}

fn execution_of(step: StepIx, number: u64) -> [Event; 3] {
    let ticket = Ticket { step, attempt: AttemptId(Uuid::from_u128(number.into())), fence: Fence(number) };
    let epoch = Epoch(1);
    let report = Report {
        outcome: Outcome::Exited(0),
        stopped: None,
        output: json!({ "sha": "abc", "count": 3, "files": ["a", "b"] }),
        output_error: None,
        artifacts: None,
        usage: Usage::default(),
        cleanup: None,
    };
    [
        Event::Offer { ticket, worker: WorkerId(Uuid::nil()), epoch },
        Event::Accepted { ticket, epoch },
        Event::Ended { ticket, report },
    ]
}
