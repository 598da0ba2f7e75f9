//! Stories as data: what goes in, and what must come out.

mod caretakers;
mod files;
mod leases;
mod secrets;

use std::time::Duration;

use protocol::attempt::{
    AttemptSpec, Effects, End, EndResult, Program, SPEC_FORMAT, StopMode, StopPlan, StopReason, Ticket,
};
use protocol::folder::{Claim, FOLDER_FORMAT, FromRunner, RunnerRules};
use protocol::link::{
    Heartbeat, HeldState, Hello, Kept, LinkSettings, Loss, PROTOCOL_VERSION, RefuseReason, RefusedCode, ServerMessage,
    Verdict, VerdictKind, Welcome, WorkerMessage,
};
use uuid::Uuid;

use super::{Action, Agent, ExitReason, Finding, Found, Input, StopLevel};

const SETTINGS: LinkSettings = LinkSettings {
    heartbeat_ms: 30_000,
    ping_ms: 10_000,
    max_reconnect_delay_ms: 60_000,
    dispatch_ack_ms: 10_000,
    runner_heartbeat_ms: 30_000,
    caretaker_after_ms: None,
};

/// For so long leave to start is good, by these.
const PATIENCE: Duration = Duration::from_secs(10);

/// What runners are told by these.
const RULES: RunnerRules = RunnerRules { beat_ms: 30_000, caretaker_after_ms: None };

/// An agent with a clock. Heartbeats, pings and rules are left out of what [`Story::give`] returns unless a test asks.
struct Story {
    agent: Agent,
    now: Duration,
}

impl Story {
    fn new(slots: u32, found: Vec<Found>) -> Self {
        Story { agent: Agent::new(hello(slots), false, found), now: Duration::ZERO }
    }

    /// With a link that stands.
    fn linked(slots: u32) -> Self {
        let mut story = Story::new(slots, Vec::new());
        story.give(Input::LinkUp);
        story.hear(welcome(Vec::new()));
        story
    }

    /// With attempt 1 past `accept`.
    fn waiting() -> Self {
        let mut story = Story::linked(2);
        story.hear(offer(1));
        story.runner(1, ready());
        story
    }

    fn running() -> Self {
        let mut story = Story::waiting();
        story.hear(go(1));
        story.runner(1, FromRunner::Started { pid: 77, start_time: 1 });
        story
    }

    fn ended() -> Self {
        let mut story = Story::running();
        story.runner(1, FromRunner::Ended { end: end(0) });
        story
    }

    fn give(&mut self, input: Input) -> Vec<Action> {
        let mut actions = self.agent.handle(input, self.now);
        actions.retain(|action| {
            let kept_up = matches!(action, Action::Send(WorkerMessage::Heartbeat(_) | WorkerMessage::Ping { .. }));
            !kept_up && !matches!(action, Action::Rules { .. })
        });
        actions
    }

    fn hear(&mut self, message: ServerMessage) -> Vec<Action> {
        self.give(Input::Frame(vec![message]))
    }

    fn runner(&mut self, id: u64, said: FromRunner) -> Vec<Action> {
        self.give(Input::Runner { ticket: ticket(id), said })
    }

    /// All that is said and done until `seconds` from now, pings answered.
    fn pass(&mut self, seconds: u64) -> Vec<Action> {
        let until = self.now + Duration::from_secs(seconds);
        let mut all = Vec::new();
        while let Some(deadline) = self.agent.deadline().filter(|deadline| *deadline <= until) {
            self.now = self.now.max(deadline);
            for action in self.agent.handle(Input::Tick, self.now) {
                match action {
                    Action::Send(WorkerMessage::Ping { n }) => all.extend(self.hear(ServerMessage::Pong { n })),
                    Action::Send(WorkerMessage::Heartbeat(_)) => {}
                    other => all.push(other),
                }
            }
        }
        self.now = until;
        all
    }
}

/// Before it was told to go.
fn taken_back(id: u64) -> Action {
    Action::Void { ticket: ticket(id), told: false }
}

fn ticket(id: u64) -> Ticket {
    Ticket { attempt: Uuid::from_u128(u128::from(id)), fence: 100 + id }
}

fn hello(slots: u32) -> Hello {
    Hello {
        protocol: PROTOCOL_VERSION,
        version: "0.1.0".to_owned(),
        platform: "linux".to_owned(),
        hostname: "host".to_owned(),
        pid: 1,
        name: "w".to_owned(),
        tags: vec!["script".to_owned()],
        slots,
        session: Uuid::nil(),
        boot_id: "boot".to_owned(),
        state_id: Uuid::nil(),
        machine: "machine".to_owned(),
        started_at_ms: 0,
        last_epoch: 0,
        ephemeral: false,
        no_reconnect: false,
        caretaker: false,
        processed: 0,
        scan_complete: true,
        offline_ms: 0,
        held: Vec::new(),
        kept: None,
        features: Vec::new(),
    }
}

fn welcome(verdicts: Vec<Verdict>) -> ServerMessage {
    ServerMessage::Welcome(Welcome {
        protocol: PROTOCOL_VERSION,
        server_version: "0.1.0".to_owned(),
        worker: Uuid::nil(),
        epoch: 5,
        settings: SETTINGS,
        verdicts,
    })
}

fn verdict(id: u64, verdict: VerdictKind, log_acked_seq: u64) -> Verdict {
    Verdict { ticket: ticket(id), verdict, log_acked_seq }
}

fn spec(id: u64) -> Box<AttemptSpec> {
    Box::new(AttemptSpec {
        format: SPEC_FORMAT,
        ticket: ticket(id),
        job: Uuid::nil(),
        task: "t".to_owned(),
        step: "s".to_owned(),
        number: 1,
        program: Program::Command { argv: vec!["true".to_owned()] },
        env: Default::default(),
        workdir: None,
        timeout_ms: None,
        effects: Effects::Writes,
        on_disconnect: Default::default(),
        lease_ms: None,
        stop: StopPlan::default(),
        cleanup: None,
        secrets: Vec::new(),
        artifacts: None,
        fetch: Vec::new(),
    })
}

fn end(log_last_seq: u64) -> End {
    End {
        result: EndResult::Exited { code: 0 },
        stopped: None,
        log_last_seq,
        output: Default::default(),
        output_error: None,
        duration_ms: 1,
        cpu_ms: 0,
        memory_bytes_max: 0,
        cleanup: None,
        artifacts: None,
    }
}

fn found(id: u64, finding: Finding) -> Found {
    let (log_first_seq, log_last_seq) = (1, 9);
    Found {
        ticket: ticket(id),
        job: Uuid::nil(),
        step: "s".to_owned(),
        finding,
        log_first_seq,
        log_last_seq,
        lease: None,
        artifacts: None,
        fetches: false,
    }
}

fn ready() -> FromRunner {
    FromRunner::Ready { pid: 7, format: FOLDER_FORMAT }
}

fn offer(id: u64) -> ServerMessage {
    ServerMessage::Offer { number: id, spec: spec(id) }
}

fn go(id: u64) -> ServerMessage {
    ServerMessage::Go { number: 10 + id, ticket: ticket(id) }
}

fn forget(id: u64) -> ServerMessage {
    ServerMessage::Forget { number: 20 + id, ticket: ticket(id) }
}

fn stop(id: u64) -> ServerMessage {
    ServerMessage::Stop { ticket: ticket(id), mode: StopMode::Graceful, reason: StopReason::Cancelled, grace_ms: 1000 }
}

fn stale(id: u64) -> ServerMessage {
    ServerMessage::StaleDispatch { ticket: ticket(id), about: "accept".to_owned() }
}

fn goes(id: u64) -> impl Fn(&Action) -> bool {
    move |action| matches!(action, Action::Go { ticket: t, .. } if *t == ticket(id))
}

fn accept(id: u64) -> Action {
    Action::Send(WorkerMessage::Accept { ticket: ticket(id) })
}

fn said_ended(log_last_seq: u64) -> Action {
    Action::Send(WorkerMessage::Ended { ticket: ticket(1), end: end(log_last_seq) })
}

fn said_lost(loss: Loss, detail: &str) -> Action {
    Action::Send(WorkerMessage::Lost { ticket: ticket(1), loss, detail: detail.to_owned() })
}

fn refused(id: u64, reason: RefuseReason) -> impl Fn(&Action) -> bool {
    move |action| matches!(action, Action::Send(WorkerMessage::Refuse { ticket: t, reason: r, .. }) if (*t, *r) == (ticket(id), reason))
}

#[test]
fn a_step_from_offer_to_forget() {
    let mut story = Story::linked(2);
    assert_eq!(story.hear(offer(1)), [Action::Prepare { spec: spec(1), rules: RULES }]);
    assert_eq!(story.runner(1, ready()), [accept(1)]);
    assert_eq!(
        story.hear(go(1)),
        [
            Action::Go { ticket: ticket(1), asked_at: Duration::ZERO, until: Some(PATIENCE), cannot: None },
            Action::Ship { ticket: ticket(1), after_seq: 0 }
        ]
    );
    let started = Action::Send(WorkerMessage::Started { ticket: ticket(1), pid: 77 });
    assert_eq!(story.runner(1, FromRunner::Started { pid: 77, start_time: 1 }), [started]);
    assert_eq!(
        story.runner(1, FromRunner::Log { first_seq: 1, last_seq: 3, bytes: 90 }),
        [Action::LogGrew { ticket: ticket(1) }]
    );
    let ack = ServerMessage::LogAck { ticket: ticket(1), seq: 3, dropped: false };
    assert_eq!(story.hear(ack), [Action::LogAcked { ticket: ticket(1), seq: 3, dropped: false }]);
    let expected =
        [Action::Bye { ticket: ticket(1) }, said_ended(4), Action::LogEnded { ticket: ticket(1), last_seq: Some(4) }];
    assert_eq!(story.runner(1, FromRunner::Ended { end: end(4) }), expected);
    assert_eq!(story.give(Input::RunnerGone { ticket: ticket(1) }), []);
    assert_eq!(story.hear(forget(1)), [Action::Forget { ticket: ticket(1) }]);
    assert!(story.agent.held.is_empty());
}

#[test]
fn offers_are_refused_when_busy_and_a_free_slot_is_announced() {
    let mut story = Story::linked(1);
    story.hear(offer(1));
    let actions = story.hear(offer(2));
    assert!(actions.iter().any(refused(2, RefuseReason::Busy)), "{actions:?}");
    story.runner(1, ready());
    story.hear(go(1));
    let actions =
        story.agent.handle(Input::Runner { ticket: ticket(1), said: FromRunner::Ended { end: end(0) } }, story.now);
    let heartbeat =
        Heartbeat { processed: 11, held: vec![ticket(1)], free: 1, ahead: 0, draining: false, runners: Vec::new() };
    assert!(actions.contains(&Action::Send(WorkerMessage::Heartbeat(heartbeat))), "{actions:?}");
}

#[test]
fn offers_are_refused_when_draining_or_unpreparable() {
    let mut story = Story::running();
    story.give(Input::Stop(StopLevel::Leave));
    let actions = story.hear(offer(2));
    assert!(actions.iter().any(refused(2, RefuseReason::Draining)), "{actions:?}");

    let mut story = Story::linked(1);
    story.hear(offer(1));
    let failed = Input::PrepareFailed { ticket: ticket(1), reason: RefuseReason::DiskFull, detail: "full".to_owned() };
    let actions = story.give(failed);
    assert!(actions.iter().any(refused(1, RefuseReason::DiskFull)), "{actions:?}");
    assert_eq!(story.agent.free_slots(), 1);

    story.hear(offer(2));
    let actions = story.runner(2, FromRunner::Refused { why: "no".to_owned() });
    assert!(actions.iter().any(refused(2, RefuseReason::Broken)), "{actions:?}");
    assert_eq!(actions.last(), Some(&Action::Discard { ticket: ticket(2) }));
    // Whoever refused gets no offer before its next heartbeat, so that comes soon.
    let actions = story.agent.handle(Input::Tick, story.now + Duration::from_secs(1));
    let heartbeat = |action: &Action| matches!(action, Action::Send(WorkerMessage::Heartbeat(beat)) if beat.free == 1);
    assert!(actions.iter().any(heartbeat), "{actions:?}");
}

#[test]
fn a_late_go_is_dropped_and_asked_again() {
    let mut story = Story::waiting();
    story.now += Duration::from_millis(10_001);
    // Whether the clock or the message is seen first must not matter.
    for tick_first in [true, false] {
        let mut story = Story { agent: Story::waiting().agent, now: story.now };
        let mut actions = Vec::new();
        if tick_first {
            actions.extend(story.agent.handle(Input::Tick, story.now));
        }
        actions.extend(story.agent.handle(Input::Frame(vec![go(1)]), story.now));
        assert!(actions.contains(&accept(1)), "asked again: {actions:?}");
        assert!(!actions.iter().any(goes(1)), "an old go was used: {actions:?}");
        let barrier = actions.iter().rev().find_map(|action| match action {
            Action::Send(WorkerMessage::Ping { n }) => Some(*n),
            _ => None,
        });
        story.hear(ServerMessage::Pong { n: barrier.expect("a ping went with the question") });
        assert!(story.hear(go(1)).iter().any(goes(1)));
    }
}

#[test]
fn a_go_that_the_runner_heard_too_late_is_asked_for_again() {
    let mut story = Story::waiting();
    story.hear(go(1));
    story.now += PATIENCE;
    assert!(story.runner(1, ready()).iter().any(goes(1)), "it is still good");
    story.now += Duration::from_millis(1);
    let actions = story.agent.handle(Input::Runner { ticket: ticket(1), said: ready() }, story.now);
    assert!(actions.contains(&accept(1)) && !actions.iter().any(goes(1)), "{actions:?}");
    let ping = actions.iter().find_map(|action| match action {
        Action::Send(WorkerMessage::Ping { n }) => Some(*n),
        _ => None,
    });
    story.hear(ServerMessage::Pong { n: ping.expect("a ping went with the question") });
    let until = Some(story.now + PATIENCE);
    let fresh = Action::Go { ticket: ticket(1), asked_at: story.now, until, cannot: None };
    assert!(story.hear(go(1)).contains(&fresh));

    let mut story = Story::waiting();
    story.hear(go(1));
    story.give(Input::LinkDown);
    story.now += PATIENCE + Duration::from_millis(1);
    assert_eq!(story.runner(1, ready()), [], "nobody is there to be asked");
    let actions = story.give(Input::LinkUp);
    let Some(Action::Send(WorkerMessage::Hello(hello))) = actions.first() else { panic!("a hello: {actions:?}") };
    assert_eq!(hello.held[0].state, HeldState::Waiting);
}

#[test]
fn a_go_before_its_pong_is_asked_for_once_more() {
    let mut story = Story::waiting();
    story.now += Duration::from_secs(11);
    let actions = story.agent.handle(Input::Tick, story.now);
    let Some(Action::Send(WorkerMessage::Ping { n })) =
        actions.iter().rfind(|action| matches!(action, Action::Send(WorkerMessage::Ping { .. })))
    else {
        panic!("no ping: {actions:?}");
    };
    assert_eq!(story.hear(go(1)), []);
    assert_eq!(story.hear(ServerMessage::Pong { n: *n }), [accept(1)]);
    assert!(story.hear(go(1)).iter().any(goes(1)));
}

#[test]
fn the_question_is_repeated_until_it_is_answered() {
    let mut story = Story::waiting();
    let asked = story.pass(60).iter().filter(|action| **action == accept(1)).count();
    assert!((3..=6).contains(&asked), "asked {asked} times in a minute");
    assert!(story.hear(go(1)).iter().any(goes(1)));
    assert_eq!(story.pass(60), []);
}

#[test]
fn what_is_taken_back_before_go_leaves_nothing() {
    let withdraw = ServerMessage::Withdraw { ticket: ticket(1) };
    for message in [withdraw, forget(1)] {
        let mut story = Story::waiting();
        assert_eq!(story.hear(message.clone()), [taken_back(1)], "{message:?}");
        assert_eq!(story.hear(go(1)), [], "a go after {message:?}");
        let claimed = Input::Claimed { ticket: ticket(1), claim: Claim::Void };
        assert_eq!(
            story.give(claimed),
            [Action::SendAway { ticket: ticket(1) }, Action::Discard { ticket: ticket(1) }]
        );
        assert_eq!(story.agent.free_slots(), 2);

        let mut story = Story::linked(1);
        story.hear(offer(1));
        assert_eq!(story.hear(message), []);
        assert_eq!(story.runner(1, ready()), [taken_back(1)]);
    }
}

#[test]
fn a_stop_before_go_is_answered_with_a_proof() {
    let mut story = Story::waiting();
    assert_eq!(story.hear(stop(1)), [taken_back(1)]);
    let actions = story.give(Input::Claimed { ticket: ticket(1), claim: Claim::Void });
    let proof = said_lost(Loss::Void, "taken back before it was started");
    assert_eq!(actions, [Action::SendAway { ticket: ticket(1) }, proof]);
    assert_eq!(story.hear(forget(1)), [Action::Discard { ticket: ticket(1) }]);
}

/// Its leave may be on record, and be given up since.
#[test]
fn a_question_that_is_stale_is_taken_back_with_a_proof() {
    for answer in [stale(1), forget(1)] {
        let mut story = Story::waiting();
        assert_eq!(story.hear(stale(1)), [taken_back(1)]);
        assert_eq!(story.hear(go(1)), []);
        let actions = story.give(Input::Claimed { ticket: ticket(1), claim: Claim::Void });
        let proof = said_lost(Loss::Void, "taken back before it was started");
        assert_eq!(actions, [Action::SendAway { ticket: ticket(1) }, proof]);
        assert_eq!(story.agent.free_slots(), 2);
        assert_eq!(story.hear(answer), [Action::Discard { ticket: ticket(1) }]);
    }
    let mut story = Story::linked(1);
    story.hear(offer(1));
    assert_eq!(story.hear(stale(1)), []);
    assert_eq!(story.runner(1, ready()), [taken_back(1)]);
}

/// Its runner may be stopped itself, and hear the order only after the leave that came before it.
#[test]
fn a_stop_is_answered_with_a_proof_where_the_runner_has_made_nothing_of_its_leave() {
    let mut story = Story::waiting();
    story.hear(go(1));
    assert_eq!(story.hear(stop(1)), [Action::Void { ticket: ticket(1), told: true }]);
    assert_eq!(story.agent.free_slots(), 1);
    let actions = story.give(Input::Claimed { ticket: ticket(1), claim: Claim::Void });
    let proof = said_lost(Loss::Void, "taken back before it was started");
    assert_eq!(actions, [Action::SendAway { ticket: ticket(1) }, proof]);

    let mut story = Story::waiting();
    story.hear(go(1));
    story.hear(stop(1));
    story.give(Input::LinkDown);
    let actions = story.give(Input::LinkUp);
    let Some(Action::Send(WorkerMessage::Hello(hello))) = actions.first() else { panic!("a hello: {actions:?}") };
    assert_eq!(hello.held[0].state, HeldState::Running, "the runner may have been faster");
}

#[test]
fn an_offer_that_is_withdrawn_after_its_go_is_none_any_more() {
    let mut story = Story::waiting();
    story.hear(go(1));
    assert_eq!(story.hear(ServerMessage::Withdraw { ticket: ticket(1) }), []);
}

#[test]
fn an_intent_that_came_first_keeps_the_order_to_stop() {
    let order = Action::StopRunner { ticket: ticket(1), mode: StopMode::Graceful, reason: StopReason::Cancelled };
    for told in [false, true] {
        let stopped = || {
            let mut story = Story::waiting();
            if told {
                story.hear(go(1));
            }
            story.hear(stop(1));
            story
        };
        let mut story = stopped();
        let actions = story.give(Input::Claimed { ticket: ticket(1), claim: Claim::Intent });
        assert_eq!(actions[..2], [order.clone(), Action::Examine { ticket: ticket(1) }]);

        let mut story = stopped();
        assert!(story.runner(1, FromRunner::Started { pid: 7, start_time: 1 }).contains(&order));
        assert_eq!(story.give(Input::Claimed { ticket: ticket(1), claim: Claim::Intent }), []);
    }
}

#[test]
fn late_repeated_and_foreign_messages_change_nothing() {
    let foreign_fence = Ticket { fence: 1, ..ticket(1) };
    let mut story = Story::running();
    let harmless = [
        offer(1),
        go(1),
        go(9),
        stop(9),
        forget(9),
        forget(1),
        stale(9),
        stale(1),
        ServerMessage::Withdraw { ticket: ticket(1) },
        ServerMessage::Stop { ticket: foreign_fence, mode: StopMode::Kill, reason: StopReason::Cancelled, grace_ms: 0 },
        ServerMessage::Forget { number: 99, ticket: foreign_fence },
        ServerMessage::Unknown,
        welcome(vec![verdict(1, VerdictKind::StopKill, 0)]),
    ];
    for message in harmless {
        assert_eq!(story.hear(message.clone()), [], "{message:?}");
    }
    assert_eq!(story.runner(1, FromRunner::Started { pid: 77, start_time: 1 }), []);
    assert_eq!(story.runner(9, FromRunner::Ended { end: end(0) }), []);
    assert!(story.hear(stop(1)).iter().any(|action| matches!(action, Action::StopRunner { .. })), "it still runs");

    let mut story = Story::waiting();
    assert_eq!(story.hear(offer(1)), [accept(1)], "a repeated offer is answered again");
}

#[test]
fn an_end_is_repeated_until_it_is_forgotten() {
    let mut story = Story::ended();
    let said = story.pass(60);
    assert!((3..=6).contains(&said.len()) && said.iter().all(|action| *action == said_ended(0)), "{said:?}");
    story.hear(stale(1));
    assert_eq!(story.pass(60), [], "stale: the evidence is on record");
    assert_eq!(story.hear(forget(1)), [Action::Forget { ticket: ticket(1) }]);
}

#[test]
fn everything_held_is_named_in_the_hello_and_judged() {
    let held = || {
        vec![
            found(1, Finding::Waiting),
            found(2, Finding::Running),
            found(3, Finding::Ended(Box::new(end(9)))),
            found(4, Finding::Lost { loss: Loss::RunnerLost, detail: "dead".to_owned() }),
        ]
    };
    let mut story = Story::new(8, held());
    let actions = story.give(Input::LinkUp);
    let Some(Action::Send(WorkerMessage::Hello(hello))) = actions.first() else { panic!("{actions:?}") };
    let states: Vec<HeldState> = hello.held.iter().map(|held| held.state).collect();
    assert_eq!(states, [HeldState::Waiting, HeldState::Running, HeldState::Ended, HeldState::Running]);
    assert!(hello.held.iter().all(|held| (held.log_first_seq, held.log_last_seq) == (1, 9)));

    let verdicts = vec![
        verdict(1, VerdictKind::Go, 0),
        verdict(2, VerdictKind::Continue, 6),
        verdict(3, VerdictKind::SendResult, 9),
        verdict(4, VerdictKind::Continue, 0),
    ];
    let actions = story.hear(welcome(verdicts));
    let lost = WorkerMessage::Lost { ticket: ticket(4), loss: Loss::RunnerLost, detail: "dead".to_owned() };
    let expected = [
        Action::Welcomed { worker: Uuid::nil(), epoch: 5, max_reconnect_delay_ms: 60_000 },
        Action::Go { ticket: ticket(1), asked_at: Duration::ZERO, until: Some(PATIENCE), cannot: None },
        Action::Ship { ticket: ticket(1), after_seq: 0 },
        Action::LogGrew { ticket: ticket(1) },
        Action::Ship { ticket: ticket(2), after_seq: 6 },
        Action::LogGrew { ticket: ticket(2) },
        Action::Ship { ticket: ticket(3), after_seq: 9 },
        Action::LogEnded { ticket: ticket(3), last_seq: Some(9) },
        Action::Ship { ticket: ticket(4), after_seq: 0 },
        Action::LogEnded { ticket: ticket(4), last_seq: None },
        Action::Send(WorkerMessage::Ended { ticket: ticket(3), end: end(9) }),
        Action::Send(lost),
    ];
    assert_eq!(actions, expected);
}

#[test]
fn the_hello_says_what_is_left_of_a_log_and_how_long_there_was_no_link() {
    let mut story = Story::running();
    let hello = |actions: Vec<Action>| match actions.into_iter().next() {
        Some(Action::Send(WorkerMessage::Hello(hello))) => hello,
        other => panic!("a hello, not {other:?}"),
    };
    story.give(Input::LinkDown);
    story.runner(1, FromRunner::Log { first_seq: 1, last_seq: 300, bytes: 9 });
    story.pass(40);
    // The runner had to drop its oldest segment.
    story.runner(1, FromRunner::Log { first_seq: 101, last_seq: 450, bytes: 9 });
    let first = hello(story.give(Input::LinkUp));
    assert_eq!((first.held[0].log_first_seq, first.held[0].log_last_seq), (101, 450));
    assert_eq!(first.offline_ms, 40_000);
    // Nobody said welcome: it is still the same outage.
    story.give(Input::LinkDown);
    story.pass(5);
    assert_eq!(hello(story.give(Input::LinkUp)).offline_ms, 45_000);
    story.hear(welcome(vec![verdict(1, VerdictKind::Continue, 450)]));
    story.pass(7);
    story.give(Input::LinkDown);
    assert_eq!(hello(story.give(Input::LinkUp)).offline_ms, 0);
}

#[test]
fn an_outage_that_pings_find_began_with_the_last_word_of_the_server() {
    let mut story = Story::running();
    let said = loop {
        story.now = story.agent.deadline().expect("a ping is due").max(story.now);
        let actions = story.agent.handle(Input::Tick, story.now);
        if actions.iter().any(|action| matches!(action, Action::DropLink { .. })) {
            story.give(Input::LinkDown);
            break story.give(Input::LinkUp);
        }
    };
    let Some(Action::Send(WorkerMessage::Hello(hello))) = said.first() else { panic!("a hello: {said:?}") };
    assert_eq!(u128::from(hello.offline_ms), story.now.as_millis(), "nothing was heard since the start");
}

#[test]
fn a_log_that_the_server_does_not_want_is_not_sent_any_more() {
    let mut story = Story::running();
    let stale = ServerMessage::StaleDispatch { ticket: ticket(1), about: "log".to_owned() };
    assert_eq!(story.hear(stale), [Action::StopShipping { ticket: ticket(1) }]);
}

#[test]
fn hard_verdicts() {
    let stop = |mode, reason| Action::StopRunner { ticket: ticket(1), mode, reason };
    let cases = [
        (Finding::Running, VerdictKind::StopGraceful, stop(StopMode::Graceful, StopReason::Cancelled)),
        (Finding::Running, VerdictKind::StopKill, stop(StopMode::Kill, StopReason::Superseded)),
        (Finding::Waiting, VerdictKind::StopKill, taken_back(1)),
        (Finding::Waiting, VerdictKind::Finish, taken_back(1)),
        (Finding::Waiting, VerdictKind::Continue, accept(1)),
        (Finding::Ended(Box::new(end(9))), VerdictKind::Forget, Action::Forget { ticket: ticket(1) }),
        (Finding::Ended(Box::new(end(9))), VerdictKind::StopKill, said_ended(9)),
        (Finding::NeverStarted { detail: "x".to_owned() }, VerdictKind::Go, said_lost(Loss::Void, "x")),
    ];
    for (finding, kind, expected) in cases {
        let mut story = Story::new(1, vec![found(1, finding.clone())]);
        story.give(Input::LinkUp);
        let actions = story.hear(welcome(vec![verdict(1, kind, 0)]));
        assert!(actions.contains(&expected), "{finding:?} {kind:?}: {actions:?}");
    }
}

#[test]
fn a_cut_link_costs_nothing_and_all_is_said_again() {
    let mut story = Story::running();
    assert_eq!(story.give(Input::LinkDown), []);
    assert_eq!(story.hear(stop(1)), [], "a frame of the old link");
    let actions = story.runner(1, FromRunner::Ended { end: end(2) });
    assert_eq!(
        actions,
        [Action::Bye { ticket: ticket(1) }, Action::LogEnded { ticket: ticket(1), last_seq: Some(2) }],
        "nothing is said without a link"
    );
    story.give(Input::LinkUp);
    let actions = story.hear(welcome(vec![verdict(1, VerdictKind::SendResult, 1)]));
    assert!(actions.contains(&said_ended(2)) && actions.contains(&Action::Ship { ticket: ticket(1), after_seq: 1 }));
}

#[test]
fn a_silent_server_is_given_up_after_three_pings() {
    let mut story = Story::linked(1);
    let mut pings = 0;
    loop {
        story.now = story.agent.deadline().expect("there is always a next ping");
        let actions = story.agent.handle(Input::Tick, story.now);
        pings += actions.iter().filter(|action| matches!(action, Action::Send(WorkerMessage::Ping { .. }))).count();
        if actions.iter().any(|action| matches!(action, Action::DropLink { .. })) {
            break;
        }
    }
    assert_eq!((pings, story.now), (3, Duration::from_secs(40)));
    assert_eq!(story.agent.deadline(), None);
}

#[test]
fn any_frame_is_a_sign_of_life() {
    let mut story = Story::linked(1);
    for _ in 0..20 {
        story.now += Duration::from_secs(9);
        let actions = story.give(Input::Frame(Vec::new()));
        assert!(!actions.iter().any(|action| matches!(action, Action::DropLink { .. })), "at {:?}", story.now);
    }
    assert_eq!(story.hear(ServerMessage::Ping { n: 4 }), [Action::Send(WorkerMessage::Pong { n: 4 })]);
}

#[test]
fn a_server_that_does_not_answer_the_hello_is_given_up() {
    let mut story = Story::new(1, Vec::new());
    story.give(Input::LinkUp);
    story.now = story.agent.deadline().expect("the hello has a deadline");
    assert!(matches!(story.give(Input::Tick)[..], [Action::DropLink { .. }]));
}

#[test]
fn a_dead_runner_is_examined_before_anything_is_said() {
    let mut story = Story::running();
    assert_eq!(story.give(Input::RunnerGone { ticket: ticket(1) }), [Action::Examine { ticket: ticket(1) }]);
    let finding = Finding::Lost { loss: Loss::RunnerLost, detail: "gone".to_owned() };
    let actions = story.give(Input::Examined { ticket: ticket(1), finding });
    let expected = [said_lost(Loss::RunnerLost, "gone"), Action::LogEnded { ticket: ticket(1), last_seq: None }];
    assert_eq!(actions, expected);

    let mut story = Story::running();
    story.give(Input::RunnerGone { ticket: ticket(1) });
    let actions = story.give(Input::Examined { ticket: ticket(1), finding: Finding::Ended(Box::new(end(0))) });
    assert!(actions.contains(&said_ended(0)));

    let mut story = Story::waiting();
    story.hear(go(1));
    story.give(Input::RunnerGone { ticket: ticket(1) });
    assert_eq!(story.give(Input::Examined { ticket: ticket(1), finding: Finding::Waiting }), []);
    assert_eq!(
        story.runner(1, ready()),
        [Action::Go { ticket: ticket(1), asked_at: Duration::ZERO, until: Some(PATIENCE), cannot: None }],
        "it had not heard the go"
    );
}

#[test]
fn leaving_gives_back_what_waits_and_keeps_what_runs() {
    let mut story = Story::running();
    story.hear(offer(2));
    story.runner(2, ready());
    assert_eq!(story.give(Input::Stop(StopLevel::Leave)), [taken_back(2)]);
    let actions = story.give(Input::Claimed { ticket: ticket(2), claim: Claim::Void });
    let void = WorkerMessage::Lost {
        ticket: ticket(2),
        loss: Loss::Void,
        detail: "taken back before it was started".to_owned(),
    };
    let sent_away = Action::SendAway { ticket: ticket(2) };
    assert_eq!(actions, [sent_away, Action::Send(void), Action::Exit(ExitReason::Stopped)]);
}

#[test]
fn ending_the_steps_waits_for_their_ends() {
    let mut story = Story::running();
    let actions = story.give(Input::Stop(StopLevel::EndSteps));
    assert!(matches!(actions[..], [Action::StopRunner { reason: StopReason::WorkerStopped, .. }]), "{actions:?}");
    let actions = story.runner(1, FromRunner::Ended { end: end(0) });
    assert!(!actions.contains(&Action::Exit(ExitReason::Stopped)), "the server has not taken it yet");
    assert!(story.hear(forget(1)).contains(&Action::Exit(ExitReason::Stopped)));

    let mut story = Story::running();
    story.give(Input::Stop(StopLevel::EndSteps));
    story.runner(1, FromRunner::Ended { end: end(0) });
    assert!(story.pass(11).contains(&Action::Exit(ExitReason::Stopped)), "but not for ever");
}

#[test]
fn once_means_one_step() {
    let mut story = Story::linked(1);
    story.agent.once = true;
    story.hear(offer(1));
    story.runner(1, ready());
    story.hear(go(1));
    let actions = story.hear(offer(2));
    assert!(actions.iter().any(refused(2, RefuseReason::Draining)), "{actions:?}");
    story.runner(1, FromRunner::Ended { end: end(0) });
    let expected = [Action::Forget { ticket: ticket(1) }, Action::Exit(ExitReason::OnceDone)];
    assert_eq!(story.hear(forget(1)), expected);
}

#[test]
fn refusals_of_the_link() {
    let refused = |code| ServerMessage::Refused { code, message: "no".to_owned() };
    for code in [RefusedCode::DuplicateIdentity, RefusedCode::BadMessage, RefusedCode::GoingAway] {
        let mut story = Story::running();
        assert!(matches!(story.hear(refused(code))[..], [Action::DropLink { .. }]), "{code:?}: come back");
    }
    let exit = |code| Action::Exit(ExitReason::Refused { code, message: "no".to_owned() });
    let mut story = Story::running();
    assert!(story.hear(refused(RefusedCode::UnsupportedProtocol)).contains(&exit(RefusedCode::UnsupportedProtocol)));
    let mut story = Story::running();
    let actions = story.hear(refused(RefusedCode::Removed));
    assert!(matches!(actions[..], [Action::StopRunner { .. }]), "a removed worker ends its steps: {actions:?}");
    story.give(Input::LinkDown);
    let actions = story.runner(1, FromRunner::Ended { end: end(0) });
    assert!(actions.contains(&exit(RefusedCode::Removed)), "{actions:?}");
}

#[test]
fn without_reconnect_a_lost_link_ends_the_steps() {
    let mut story = Story::running();
    story.agent.hello.no_reconnect = true;
    assert!(matches!(story.give(Input::LinkDown)[..], [Action::StopRunner { .. }]));
    let actions = story.runner(1, FromRunner::Ended { end: end(0) });
    assert!(actions.contains(&Action::Exit(ExitReason::LinkLost)), "{actions:?}");
}

/// One slot, and enough short steps behind it that the next offer is prepared ahead.
fn brisk() -> Story {
    let mut story = Story::linked(1);
    for id in 1..=4 {
        story.hear(offer(id));
        story.runner(id, ready());
        story.hear(go(id));
        story.runner(id, FromRunner::Ended { end: end(0) });
        story.hear(forget(id));
    }
    story.hear(offer(5));
    story.runner(5, ready());
    story.hear(go(5));
    story
}

#[test]
fn short_steps_are_prepared_ahead_and_asked_for_with_the_report_that_frees_a_slot() {
    let mut story = brisk();
    assert!(matches!(story.hear(offer(6))[..], [Action::Prepare { .. }]));
    assert_eq!(story.runner(6, ready()), [], "there is one slot, and it is taken");
    let actions = story.runner(5, FromRunner::Ended { end: end(0) });
    assert!(actions.contains(&accept(6)), "{actions:?}");
}

#[test]
fn what_was_prepared_ahead_is_given_back_before_it_waits_for_long() {
    let mut story = brisk();
    story.hear(offer(6));
    story.runner(6, ready());
    let actions = story.pass(1);
    assert!(actions.iter().any(refused(6, RefuseReason::Busy)), "{actions:?}");
    assert!(actions.contains(&taken_back(6)), "{actions:?}");
    let actions = story.hear(offer(7));
    assert!(actions.iter().any(refused(7, RefuseReason::Busy)), "the pace was wrong: {actions:?}");
}

#[test]
fn the_server_hears_at_once_that_steps_are_short_and_that_they_are_not() {
    let aheads = |actions: Vec<Action>| -> Vec<u32> {
        let beats = actions.into_iter().filter_map(|action| match action {
            Action::Send(WorkerMessage::Heartbeat(beat)) => Some(beat.ahead),
            _ => None,
        });
        beats.collect()
    };
    let mut story = Story::linked(3);
    let mut told = Vec::new();
    for id in 1..=5 {
        story.hear(offer(id));
        story.runner(id, ready());
        story.hear(go(id));
        let mut ended = end(0);
        ended.duration_ms = if id == 5 { 60_000 } else { 2 };
        let said = FromRunner::Ended { end: ended };
        told.extend(aheads(story.agent.handle(Input::Runner { ticket: ticket(id), said }, story.now)));
    }
    assert_eq!(told, [3, 0]);
}

/// What could not be brought back it may have all the same: its silence proves nothing.
#[test]
fn a_recall_that_could_not_read_all_is_no_whole_scan() {
    let mut story = Story::new(1, Vec::new());
    story.give(Input::Recalled { found: Vec::new(), complete: false });
    let actions = story.give(Input::LinkUp);
    let [Action::Send(WorkerMessage::Hello(hello))] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((hello.kept, hello.scan_complete), (Some(Kept::Recalled), false));
}

/// The server's database lost commits: what was put away is told once more, and put away again where it is on record.
#[test]
fn what_was_put_away_is_brought_back_when_the_server_asks() {
    let mut story = Story::new(1, Vec::new());
    story.agent.hello.kept = Some(Kept::Apart);
    story.give(Input::LinkUp);
    let refusal = ServerMessage::Refused { code: RefusedCode::Recall, message: "what had you".to_owned() };
    assert!(matches!(story.hear(refusal)[..], [Action::Recall, Action::DropLink { .. }]));
    let found = Found {
        ticket: ticket(1),
        job: Uuid::nil(),
        step: "a".to_owned(),
        finding: Finding::Ended(Box::new(end(0))),
        log_first_seq: 0,
        log_last_seq: 0,
        lease: None,
        artifacts: None,
        fetches: false,
    };
    story.give(Input::Recalled { found: vec![found], complete: true });
    let actions = story.give(Input::LinkUp);
    let [Action::Send(WorkerMessage::Hello(hello))] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((hello.kept, hello.held.len(), hello.held[0].state), (Some(Kept::Recalled), 1, HeldState::Ended));
    assert!(hello.scan_complete);
    let verdict = Verdict { ticket: ticket(1), verdict: VerdictKind::Forget, log_acked_seq: 0 };
    assert!(story.hear(welcome(vec![verdict])).contains(&Action::Forget { ticket: ticket(1) }));
    assert_eq!(story.agent.hello.kept, Some(Kept::Apart));
}
