//! The link as the agent sees it: hello and welcome, signs of life, and what is repeated until it is answered.

use std::time::Duration;

use planted::Bug;
use protocol::attempt::{StopMode, StopReason, Ticket};
use protocol::link::{
    Kept, LinkSettings, PROTOCOL_VERSION, RefusedCode, ServerMessage, Verdict, VerdictKind, Welcome, WorkerMessage,
};

use super::event::{Action, ExitReason, Found, StopLevel};
use super::held::Phase;
use super::{Agent, held};

/// A server that says nothing to a hello for this long is not one; a welcome waits for one commit.
const WELCOME_PATIENCE: Duration = Duration::from_secs(30);
/// So many pings in a row without any frame in return, and the link is lost.
const PINGS_UNANSWERED_MAX: u32 = 3;

#[derive(Debug)]
pub(super) enum Session {
    Down,
    /// The hello was sent.
    Greeting {
        since: Duration,
    },
    Up(Box<Up>),
}

#[derive(Debug)]
pub(super) struct Up {
    settings: LinkSettings,
    /// The highest number of an offer, go or forget on this link.
    processed: u64,
    ping_at: Duration,
    pings_sent: u64,
    pings_unanswered: u32,
    /// When the last frame came.
    heard_at: Duration,
    heartbeat_at: Duration,
    /// When to look for reports without an answer.
    repeat_at: Duration,
    /// An offer was refused for want of a slot: the server waits to hear that there is one.
    slots_asked: bool,
}

impl Session {
    pub(super) fn deadline(&self) -> Option<Duration> {
        match self {
            Session::Down => None,
            Session::Greeting { since } => Some(*since + WELCOME_PATIENCE),
            Session::Up(up) => Some(up.ping_at.min(up.heartbeat_at).min(up.repeat_at)),
        }
    }

    pub(super) fn processed(&self) -> u64 {
        match self {
            Session::Up(up) => up.processed,
            Session::Down | Session::Greeting { .. } => 0,
        }
    }

    pub(super) fn number_seen(&mut self, number: u64) {
        if let Session::Up(up) = self {
            up.processed = up.processed.max(number);
        }
    }

    /// How long an answer may take before the question is asked again. `None` without a link.
    pub(super) fn patience(&self) -> Option<Duration> {
        match self {
            Session::Up(up) => Some(up.patience()),
            Session::Down | Session::Greeting { .. } => None,
        }
    }

    pub(super) fn next_ping(&mut self) -> u64 {
        match self {
            Session::Up(up) => {
                up.pings_sent += 1;
                up.pings_sent
            }
            Session::Down | Session::Greeting { .. } => 0,
        }
    }

    /// The next heartbeat comes at this time at the latest.
    pub(super) fn heartbeat_by(&mut self, at: Duration) {
        if let Session::Up(up) = self {
            up.heartbeat_at = up.heartbeat_at.min(at);
        }
    }

    pub(super) fn ask_for_slots_later(&mut self) {
        if let Session::Up(up) = self {
            up.slots_asked = true;
        }
    }
}

impl Up {
    fn new(settings: LinkSettings, now: Duration) -> Self {
        let mut up = Up {
            settings,
            processed: 0,
            ping_at: now,
            pings_sent: 0,
            pings_unanswered: 0,
            heard_at: now,
            heartbeat_at: now,
            repeat_at: now,
            slots_asked: false,
        };
        up.ping_at += up.ping_interval();
        up.repeat_at += up.patience();
        up
    }

    fn patience(&self) -> Duration {
        at_least_a_moment(self.settings.dispatch_ack_ms)
    }

    fn ping_interval(&self) -> Duration {
        at_least_a_moment(self.settings.ping_ms)
    }

    fn heartbeat_interval(&self) -> Duration {
        at_least_a_moment(self.settings.heartbeat_ms)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A server's zero must not make the worker spin.
fn at_least_a_moment(ms: u64) -> Duration {
    Duration::from_millis(ms.max(10))
}

impl Agent {
    pub(super) fn link_up(&mut self, now: Duration) {
        self.out.link_stands = false;
        self.session = Session::Greeting { since: now };
        let mut hello = self.hello.clone();
        hello.offline_ms = self.offline_since.map_or(0, |since| millis(now.saturating_sub(since)));
        hello.held = self.held.iter().map(|(ticket, held)| held.describe(*ticket)).collect();
        self.out.push(Action::Send(WorkerMessage::Hello(hello)));
    }

    pub(super) fn link_down(&mut self, now: Duration) {
        // A link that never came to a welcome ends nothing: the outage goes on.
        if self.offline_since.is_none() {
            self.offline_since = Some(now);
        }
        self.out.link_stands = false;
        self.leave_session();
        self.held.values_mut().for_each(held::Held::forget_link);
        if self.hello.no_reconnect {
            self.stop(StopLevel::EndSteps, ExitReason::LinkLost, now);
        }
    }

    pub(super) fn hear(&mut self, messages: Vec<ServerMessage>, now: Duration) {
        if let Session::Up(up) = &mut self.session {
            up.pings_unanswered = 0;
            up.heard_at = now;
        }
        for message in messages {
            match &self.session {
                // Still on its way when the link was given up.
                Session::Down => return,
                Session::Greeting { since } => {
                    let since = *since;
                    self.hear_greeting(message, since, now);
                }
                Session::Up(_) => self.hear_message(message, now),
            }
        }
    }

    fn hear_greeting(&mut self, message: ServerMessage, since: Duration, now: Duration) {
        match message {
            ServerMessage::Welcome(welcome) if welcome.protocol == PROTOCOL_VERSION => {
                self.welcome(&welcome, since, now);
            }
            ServerMessage::Welcome(welcome) => {
                let message =
                    format!("the server speaks protocol {}, this worker {PROTOCOL_VERSION}", welcome.protocol);
                self.refused(RefusedCode::UnsupportedProtocol, message, now);
            }
            ServerMessage::Refused { code, message } => self.refused(code, message, now),
            ServerMessage::Ping { n } => self.out.push(Action::Send(WorkerMessage::Pong { n })),
            other => tracing::debug!(?other, "a message before the welcome is ignored"),
        }
    }

    fn hear_message(&mut self, message: ServerMessage, now: Duration) {
        match message {
            ServerMessage::Offer { number, spec } => self.offered(number, spec),
            ServerMessage::Go { number, ticket } => {
                self.session.number_seen(number);
                self.go(ticket, now);
            }
            ServerMessage::Secrets { ticket, values } => self.secrets_came(ticket, values),
            ServerMessage::Withdraw { ticket } => self.withdrawn(ticket),
            ServerMessage::Stop { ticket, mode, reason, grace_ms: _ } => self.stop_attempt(ticket, mode, reason, now),
            ServerMessage::Forget { number, ticket } => {
                self.session.number_seen(number);
                self.forget(ticket);
            }
            ServerMessage::LogAck { ticket, seq, dropped } => self.out.push(Action::LogAcked { ticket, seq, dropped }),
            ServerMessage::StaleDispatch { ticket, about } => self.stale(ticket, &about),
            ServerMessage::Ping { n } => self.out.say(WorkerMessage::Pong { n }),
            ServerMessage::Pong { n } => self.pong(n, now),
            ServerMessage::Refused { code, message } => self.refused(code, message, now),
            ServerMessage::Renewed { renewals } => self.renewed(&renewals),
            ServerMessage::Welcome(_) | ServerMessage::Unknown => {}
        }
    }

    fn welcome(&mut self, welcome: &Welcome, hello_at: Duration, now: Duration) {
        self.session = Session::Up(Box::new(Up::new(welcome.settings, now)));
        self.out.link_stands = true;
        self.offline_since = None;
        self.hello.last_epoch = welcome.epoch;
        // What was brought back and is on record is put away again by the verdicts.
        self.hello.kept = self.hello.kept.map(|_| Kept::Apart);
        self.out.push(Action::Welcomed {
            worker: welcome.worker,
            epoch: welcome.epoch,
            max_reconnect_delay_ms: welcome.settings.max_reconnect_delay_ms,
        });
        self.adjust_rules(&welcome.settings);
        self.link_is_back_for_files(now);
        for held in self.held.values_mut() {
            // The hello was the question that a verdict answers.
            held.said_at = Some(hello_at);
        }
        for verdict in &welcome.verdicts {
            self.judged(verdict, now);
        }
        // What the verdicts left open is said again.
        let open: Vec<Ticket> = self.held.keys().copied().collect();
        for ticket in open {
            self.restate(ticket, now);
        }
        self.ask_again_to_renew();
    }

    fn judged(&mut self, verdict: &Verdict, now: Duration) {
        let ticket = verdict.ticket;
        if !self.held.contains_key(&ticket) {
            return;
        }
        self.ship(ticket, verdict.log_acked_seq);
        match verdict.verdict {
            VerdictKind::Continue | VerdictKind::SendResult => {}
            VerdictKind::Go => self.go(ticket, now),
            VerdictKind::Forget => self.forget(ticket),
            VerdictKind::Finish => self.finish(ticket),
            VerdictKind::StopGraceful => self.stop_attempt(ticket, StopMode::Graceful, StopReason::Cancelled, now),
            VerdictKind::StopKill => self.stop_attempt(ticket, StopMode::Kill, StopReason::Superseded, now),
        }
    }

    /// Says what a server that has just welcomed us should know about an attempt.
    fn restate(&mut self, ticket: Ticket, now: Duration) {
        let Some(held) = self.held.get(&ticket) else { return };
        match held.phase {
            // It asks when it has what it needs.
            Phase::Waiting if held.files.is_fetching() => {}
            Phase::Waiting if held.barrier.is_none() => self.ask_when_free(ticket, now),
            Phase::Running { pid: Some(pid) } => self.out.say(WorkerMessage::Started { ticket, pid }),
            _ if planted::is(Bug::ReportedOnce) => {}
            _ => self.say_report(ticket, now),
        }
    }

    /// What the server had whole, and may have forgotten: it is told once more, with the next hello.
    pub(super) fn recalled(&mut self, found: Vec<Found>, complete: bool) {
        for (ticket, held) in found.into_iter().map(held::Held::found).filter(|(_, held)| !held.is_active()) {
            self.held.entry(ticket).or_insert(held);
        }
        self.hello.kept = Some(Kept::Recalled);
        // What it does not bring it may have all the same.
        self.hello.scan_complete &= complete;
    }

    fn refused(&mut self, code: RefusedCode, message: String, now: Duration) {
        match code {
            RefusedCode::Removed => self.stop(StopLevel::EndSteps, ExitReason::Refused { code, message }, now),
            RefusedCode::UnsupportedProtocol => self.stop(StopLevel::Leave, ExitReason::Refused { code, message }, now),
            RefusedCode::Recall => {
                self.out.push(Action::Recall);
                self.drop_link(format!("the server asks for what was put away: {message}"));
            }
            RefusedCode::DuplicateIdentity | RefusedCode::BadMessage | RefusedCode::GoingAway => {
                self.drop_link(format!("the server refused the link: {message}"));
            }
        }
    }

    /// The next hello says how far this link came.
    fn leave_session(&mut self) {
        if let Session::Up(up) = &self.session {
            self.hello.processed = up.processed;
        }
        self.session = Session::Down;
    }

    fn drop_link(&mut self, why: String) {
        self.out.link_stands = false;
        self.leave_session();
        self.out.push(Action::DropLink { why });
    }

    /// Does what is due by time, whatever the input was.
    pub(super) fn keep_time(&mut self, now: Duration) {
        match &mut self.session {
            Session::Down => {}
            Session::Greeting { since } if now >= *since + WELCOME_PATIENCE => {
                self.drop_link("the server did not answer the hello".to_owned());
            }
            Session::Greeting { .. } => {}
            Session::Up(up) => {
                let ping_due = now >= up.ping_at;
                let slot_asked = up.slots_asked;
                let brisk_unsaid = self.pace.is_news();
                let heartbeat_due = now >= up.heartbeat_at;
                let repeat_due = now >= up.repeat_at;
                if ping_due {
                    self.ping(now);
                }
                if heartbeat_due || brisk_unsaid || slot_asked && self.free_slots() > 0 {
                    self.heartbeat(now);
                }
                if repeat_due {
                    self.repeat_unanswered(now);
                }
            }
        }
    }

    fn ping(&mut self, now: Duration) {
        let Session::Up(up) = &mut self.session else { return };
        if up.pings_unanswered >= PINGS_UNANSWERED_MAX {
            // Nobody was there while they were sent.
            self.offline_since = Some(up.heard_at);
            self.drop_link(format!("{PINGS_UNANSWERED_MAX} pings in a row were not answered"));
            return;
        }
        up.pings_unanswered += 1;
        up.ping_at = now + up.ping_interval();
        let n = self.session.next_ping();
        self.out.say(WorkerMessage::Ping { n });
    }

    fn heartbeat(&mut self, now: Duration) {
        if let Session::Up(up) = &mut self.session {
            up.heartbeat_at = now + up.heartbeat_interval();
            up.slots_asked = false;
            self.brisk_was_told();
            self.say_heartbeat(now);
        }
    }

    fn repeat_unanswered(&mut self, now: Duration) {
        let Session::Up(up) = &mut self.session else { return };
        let patience = up.patience();
        up.repeat_at = now + patience / 2;
        let overdue = |said_at: Option<Duration>| said_at.is_none_or(|said_at| now >= said_at + patience);
        let unanswered =
            self.held.iter().filter(|(ticket, held)| overdue(held.said_at) && !self.pace.is_ahead(**ticket));
        let unanswered: Vec<Ticket> = unanswered.map(|(ticket, _)| *ticket).collect();
        for ticket in unanswered {
            match self.held[&ticket].phase {
                Phase::Waiting if self.held[&ticket].is_carried() => {}
                Phase::Waiting => self.ask_anew(ticket, now),
                _ if planted::is(Bug::ReportedOnce) => {}
                _ => self.say_report(ticket, now),
            }
        }
    }
}
