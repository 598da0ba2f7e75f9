//! Words that rows, messages and people's programs hold. They never change, and each is read back as what it was.

use engine::attempt::AttemptState;
use engine::deadline::{Action, Owner};
use engine::definition::WhenFull;
use engine::state::Ground;
use engine::table::Verb;
use engine::{FailureKind, JobState, StateName, WorkerId};
use uuid::Uuid;

const WORKER: WorkerId = WorkerId(Uuid::from_u128(7));

#[test]
fn states() {
    let words = "pending queued running recovering cancelling held waiting success failed cancelled skipped";
    assert_eq!(StateName::ALL.map(StateName::word).join(" "), words);
    assert_eq!(StateName::ALL.map(|state| state.to_string()).join(" "), words);
    for state in StateName::ALL {
        assert_eq!(StateName::from_word(state.word()), Some(state));
    }
    assert_eq!(StateName::from_word("asleep"), None);
}

#[test]
fn states_of_jobs() {
    let words = "pending running held recovering cancelling success failed cancelled";
    assert_eq!(JobState::ALL.map(JobState::word).join(" "), words);
    assert_eq!(JobState::ALL.map(|state| state.to_string()).join(" "), words);
    for state in JobState::ALL {
        assert_eq!(JobState::from_word(state.word()), Some(state));
    }
    assert_eq!(JobState::from_word("queued"), None);
}

#[test]
fn states_of_attempts() {
    assert_eq!(AttemptState::ALL.map(AttemptState::word).join(" "), "running recovering ended lost superseded");
    for state in AttemptState::ALL {
        assert_eq!(AttemptState::from_word(state.word()), Some(state));
    }
    assert_eq!(AttemptState::from_word("queued"), None);
}

#[test]
fn verbs() {
    let words = "enqueue wait hold start skip complete fail cancel timer_done approve reject expire succeed retry \
                 requeue stop cancel_graceful cancel_force recover";
    assert_eq!(Verb::ALL.map(Verb::word).join(" "), words);
    assert_eq!(Verb::ALL.map(|verb| verb.to_string()).join(" "), words);
}

#[test]
fn actions() {
    let words = "look_again withdraw_offer decide_unmatched stop_for_timeout decide_loss force_cancel expire_hold \
                 timer_done cancel_for_timeout expire give_notice";
    assert_eq!(Action::ALL.map(Action::word).join(" "), words);
    for action in Action::ALL {
        assert_eq!(Action::from_word(action.word()), Some(action));
    }
    assert_eq!(Action::from_word("hope"), None);
}

#[test]
fn owners() {
    let owners = [
        (Owner::Needs, "needs"),
        (Owner::Steps, "steps"),
        (Owner::Child, "child"),
        (Owner::Group, "group"),
        (Owner::Dispatcher, "dispatcher"),
        (Owner::Worker(WORKER), "worker"),
        (Owner::Timer, "timer"),
        (Owner::Person, "person"),
        (Owner::Operator, "operator"),
    ];
    for (owner, word) in owners {
        assert_eq!(owner.word(), word);
        assert_eq!(Owner::from_word(word, owner.worker()), Some(owner));
    }
    assert_eq!(Owner::from_word("worker", None), None, "a worker has an id");
    assert_eq!(Owner::from_word("nobody", None), None);
}

#[test]
fn failures() {
    let failures = [
        (FailureKind::ExitCode(3), "exit_code"),
        (FailureKind::Signal(9), "signal"),
        (FailureKind::OomKilled, "oom_killed"),
        (FailureKind::SpawnFailed, "spawn_failed"),
        (FailureKind::BadOutput, "bad_output"),
        (FailureKind::Artifacts, "artifacts"),
        (FailureKind::StepTimeout, "step_timeout"),
        (FailureKind::JobTimeout, "job_timeout"),
        (FailureKind::Expired, "expired"),
        (FailureKind::HoldExpired, "hold_expired"),
        (FailureKind::Rejected, "rejected"),
        (FailureKind::Cancelled, "cancelled"),
        (FailureKind::WorkerLost, "worker_lost"),
        (FailureKind::MachineRebooted, "machine_rebooted"),
        (FailureKind::WorkerRemoved, "worker_removed"),
        (FailureKind::RunnerLost, "runner_lost"),
        (FailureKind::ResultNotAvailable, "result_not_available"),
        (FailureKind::RunnerStale, "runner_stale"),
        (FailureKind::LeaseExpired, "lease_expired"),
        (FailureKind::Unmatched, "unmatched"),
        (FailureKind::DispatchExhausted, "dispatch_exhausted"),
        (FailureKind::Poison, "poison"),
        (FailureKind::Template, "template"),
        (FailureKind::Secret, "secret"),
        (FailureKind::UnknownTask, "unknown_task"),
        (FailureKind::InvalidInput, "invalid_input"),
        (FailureKind::GroupFull, "group_full"),
        (FailureKind::GroupDeadlock, "group_deadlock"),
        (FailureKind::Resolved, "resolved"),
        (FailureKind::Internal, "internal"),
    ];
    for (kind, code) in failures {
        assert_eq!(kind.code(), code);
        assert_eq!(FailureKind::from_code(code, kind.detail()), Some(kind));
    }
    assert_eq!(FailureKind::from_code("exit_code", None), None, "an exit code has a number");
    assert_eq!(FailureKind::from_code("bad_luck", None), None);
}

/// What becomes of a job whose concurrency group is full, as its task file has it.
#[test]
fn full_groups() {
    let words = [WhenFull::Queue, WhenFull::Reject, WhenFull::CancelOldest].map(WhenFull::word);
    assert_eq!(words, ["queue", "reject", "cancel_oldest"]);
}

/// Why a step was repeated, for people.
#[test]
fn grounds() {
    let words = [
        (Ground::NeverStarted, "it never started"),
        (Ground::ReportedGone, "it was reported over"),
        (Ground::LeaseOver, "its lease is over"),
        (Ground::MayRepeat, "its effects allow a repeat and its window is over"),
        (Ground::PersonsWord, "a person says that it is dead"),
    ];
    for (ground, word) in words {
        assert_eq!(ground.word(), word);
    }
}

#[test]
fn resolutions() {
    let resolve = |how| crate::support::script::resolve(engine::StepIx(0), engine::AttemptId(Uuid::nil()), how, false);
    let words = ["succeeded", "failed", "rerun", "late"].map(|how| resolve(how).how.word());
    assert_eq!(words, ["succeeded", "failed", "rerun", "accept_late"]);
}
