//! The transition table as the design writes it down, set against the one that the engine follows.

use engine::StateName::{self, *};
use engine::table::{Verb, check, targets};

/// From, by what, to. Every move that is not here is illegal.
const DESIGN: &[(StateName, &[Verb], &[StateName])] = &[
    (Pending, &[Verb::Enqueue], &[Queued]),
    (Pending, &[Verb::Wait], &[Waiting]),
    (Pending, &[Verb::Hold], &[Held]),
    (Pending, &[Verb::Start], &[Running]),
    (Pending, &[Verb::Skip], &[Skipped]),
    (Pending, &[Verb::Complete], &[Success]),
    (Pending, &[Verb::Fail], &[Failed]),
    (Pending, &[Verb::Cancel], &[Cancelled]),
    (Waiting, &[Verb::TimerDone], &[Queued, Held]),
    (Waiting, &[Verb::Cancel], &[Cancelled]),
    (Waiting, &[Verb::Hold], &[Held]),
    (Held, &[Verb::Approve], &[Queued, Success]),
    (Held, &[Verb::Reject, Verb::Expire, Verb::Cancel], &[Cancelled]),
    // The database was restored: a worker's word, or a person's, on what became of it.
    (Held, &[Verb::Hold], &[Held]),
    (Held, &[Verb::Start], &[Running]),
    (Held, &[Verb::Succeed], &[Success]),
    (Held, &[Verb::Fail], &[Failed]),
    (Queued, &[Verb::Start], &[Running]),
    (Queued, &[Verb::Hold], &[Held]),
    (Queued, &[Verb::Fail], &[Failed]),
    (Queued, &[Verb::Cancel], &[Cancelled]),
    (Running, &[Verb::Succeed], &[Success]),
    (Running, &[Verb::Fail], &[Failed]),
    (Running, &[Verb::Cancel], &[Cancelled]),
    (Running, &[Verb::Retry], &[Waiting]),
    (Running, &[Verb::Requeue], &[Queued]),
    (Running, &[Verb::Stop, Verb::CancelGraceful], &[Cancelling]),
    (Running, &[Verb::Recover], &[Recovering]),
    (Running, &[Verb::Hold], &[Held]),
    (Recovering, &[Verb::Start], &[Running]),
    (Recovering, &[Verb::Hold], &[Held]),
    (Recovering, &[Verb::Succeed], &[Success]),
    (Recovering, &[Verb::Fail], &[Failed]),
    (Recovering, &[Verb::Requeue], &[Queued]),
    (Recovering, &[Verb::Retry], &[Waiting]),
    (Recovering, &[Verb::Cancel, Verb::CancelGraceful], &[Cancelled]),
    (Cancelling, &[Verb::Complete], &[Cancelled, Failed, Waiting, Queued, Success]),
    (Cancelling, &[Verb::CancelForce], &[Cancelled, Failed, Waiting, Queued]),
    (Cancelling, &[Verb::Succeed, Verb::Fail], &[Cancelled]),
    (Cancelling, &[Verb::Recover], &[Cancelling]),
    (Cancelling, &[Verb::Hold], &[Held]),
];

#[test]
fn the_engine_follows_the_design() {
    for from in StateName::ALL {
        for verb in Verb::ALL {
            let row = DESIGN.iter().find(|(f, verbs, _)| *f == from && verbs.contains(&verb));
            let mut wanted: Vec<StateName> = row.map(|(_, _, to)| to.to_vec()).unwrap_or_default();
            let mut found = targets(from, verb).to_vec();
            wanted.sort();
            found.sort();
            assert_eq!(found, wanted, "{from} by {verb}");
            for to in StateName::ALL {
                assert_eq!(check(from, verb, to).is_ok(), wanted.contains(&to), "{from} by {verb} to {to}");
            }
        }
    }
}

#[test]
fn nothing_leaves_a_final_state() {
    for from in StateName::ALL.into_iter().filter(|s| s.is_final()) {
        assert!(Verb::ALL.into_iter().all(|verb| targets(from, verb).is_empty()), "{from}");
    }
}
