//! Every moment that a fault can wait for does come, and whatever lies in wait for a commit strikes one: what never does
//! would test nothing, and nobody would notice.

use std::collections::BTreeSet;
use std::time::Duration;

use sim::Act;
use sim::case::Case;
use sim::faults::{Fault, FaultKind, Moment, Ways};
use sim::story::Story;

const MOMENTS: [Moment; 17] = [
    Moment::Prepared,
    Moment::Welcomed,
    Moment::EpochKept,
    Moment::BeforeIntent,
    Moment::AfterIntent,
    Moment::AfterExec,
    Moment::BeforeRecord,
    Moment::AfterRecord,
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
    let faults = armed.into_iter().chain([reset]).chain(cancels).collect();
    let verdict = Case { faults, servers: 1, ..Case::of(3) }.run(&Story::untold(), None);
    assert_eq!(verdict.findings, []);
    let come: BTreeSet<&str> = verdict.fired.keys().filter_map(|name| name.strip_prefix("cut at ")).collect();
    let missing: Vec<&str> = MOMENTS.iter().map(|moment| moment.name()).filter(|name| !come.contains(name)).collect();
    assert!(missing.is_empty(), "never came: {missing:?}");
}

#[test]
fn all_that_lies_in_wait_for_a_commit_strikes_one() {
    let (server, count) = (0, 1);
    let kinds = [
        FaultKind::AnswersLost { server, count },
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
