//! Every moment that a fault can wait for does come, and whatever lies in wait for a commit strikes one: what never does
//! would test nothing, and nobody would notice.

use std::collections::BTreeSet;
use std::time::Duration;

use sim::Act;
use sim::case::Case;
use sim::faults::{Fault, FaultKind, Moment, Ways};
use sim::story::Story;

const MOMENTS: [Moment; 23] = [
    Moment::Prepared,
    Moment::Welcomed,
    Moment::EpochKept,
    Moment::BeforeIntent,
    Moment::AfterIntent,
    Moment::AfterExec,
    Moment::BeforeRecord,
    Moment::AfterRecord,
    Moment::BeforeVoid,
    Moment::AfterVoid,
    Moment::BeforeKept,
    Moment::Kept,
    Moment::BeforeWord,
    Moment::WordLeft,
    Moment::HelloSent,
    Moment::AcceptSent,
    Moment::EndedSent,
    Moment::RenewSent,
    Moment::WelcomeSent,
    Moment::OfferSent,
    Moment::GoSent,
    Moment::StopSent,
    Moment::ForgetSent,
];

/// Hits always, and harms nobody.
const BLINK: FaultKind = FaultKind::Cut { host: 0, server: None, ways: Ways::ToHost, time: Duration::from_millis(1) };

#[test]
fn every_moment_comes() {
    let armed = MOMENTS.map(|moment| Fault { at: Duration::from_millis(100), on: Some(moment), kind: BLINK });
    // Orders to stop come from people; a hello after the first ones wants a link that was lost.
    let cancels = (1..40).map(|minute| Fault {
        at: Duration::from_secs(60 * minute),
        on: None,
        kind: FaultKind::Act(Act::Cancel { force: false }),
    });
    let reset = Fault { at: Duration::from_secs(30), on: None, kind: FaultKind::MassReset };
    let leaves = Fault { at: Duration::from_secs(120), on: None, kind: FaultKind::StopWorker { host: 1 } };
    // Whoever asks to start and hears nothing is told later that nobody waits for it any more.
    let unheard = (1..9).map(|minute| Fault {
        at: Duration::from_secs(200 * minute),
        on: Some(Moment::AcceptSent),
        kind: FaultKind::Cut { host: 0, server: None, ways: Ways::Both, time: Duration::from_secs(60) },
    });
    let faults: Vec<Fault> = armed.into_iter().chain([reset, leaves]).chain(cancels).chain(unheard).collect();
    let mut come = BTreeSet::new();
    for seed in [3, 4] {
        let verdict = Case { faults: faults.clone(), servers: 1, ..Case::of(seed) }.run(&Story::untold(), None);
        assert_eq!(verdict.findings, []);
        come.extend(verdict.fired.into_keys().filter_map(|name| Some(name.strip_prefix("cut at ")?.to_owned())));
    }
    let missing: Vec<&str> = MOMENTS.iter().map(|moment| moment.name()).filter(|name| !come.contains(*name)).collect();
    assert!(missing.is_empty(), "never came: {missing:?}");
}

#[test]
fn all_that_lies_in_wait_for_a_commit_strikes_one() {
    let (server, count) = (0, 1);
    let kinds = [
        FaultKind::AnswersLost { server, count },
        FaultKind::AnswersLostAside { server, count },
        FaultKind::CommitErrors { server, count },
        FaultKind::Refusals { server, count },
        FaultKind::Poison { server },
        FaultKind::Conflicts { server, count },
        FaultKind::Falter { server, after: 1, calls: 1 },
        FaultKind::SlowCommit { server, time: Duration::from_millis(100) },
    ];
    let at = (1..).map(|minute| Duration::from_secs(60 * minute));
    let faults = at.zip(kinds).map(|(at, kind)| Fault { at, on: None, kind }).collect();
    let verdict = Case { faults, ..Case::of(3) }.run(&Story::untold(), None);
    assert_eq!(verdict.findings, []);
    let missing = kinds.iter().map(FaultKind::name).filter(|name| !verdict.fired.contains_key(*name));
    assert_eq!(missing.collect::<Vec<&str>>(), Vec::<&str>::new(), "they struck nothing");
}
