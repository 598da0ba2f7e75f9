//! Servers: the product's ledger, link machines and clock, with simulated sockets around them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::{Time, WorkerId};
use protocol::link::{RefusedCode, ServerMessage, encode_text};
use serde::{Deserialize, Serialize};
use server::bus::Bus;
use server::clock::{Anchor, Reading, Tick, follow};
use server::dispatch::LinkId;
use server::ledger::{
    self, AGREE_EVERY, Command, Commit, Core, Delivered, LinkEvent, LinkOut, LinkSender, LogFrame, SLEEP_MAX,
    TRY_WITHIN, next_try,
};
use server::link::{HELLO_TIMEOUT, Inbound, Machine, Silence};
use server::metrics::Metrics;
use server::random::Random;
use tokio::sync::{mpsc, oneshot};

use crate::check::Checks;
use crate::database::{Handle, Trouble};
use crate::millis;
use crate::net::{ConnId, Parcel, Way};
use crate::secrets::Purse;
use crate::users::Reply;
use crate::world::{Event, World};

/// When the world begins, by a clock that is right.
pub(crate) const DAWN: Time = Time(1_700_000_000_000_000);

/// A machine for a server, and the process on it, if one runs.
pub(crate) struct ServerNode {
    pub process: Option<ServerProcess>,
    pub lives: u64,
    /// How far its own clock is from the right time. Where several share a database, they go by the clock of that.
    pub skew_us: i64,
    /// Events for a process that is stopped.
    pub frozen: Option<Vec<Event>>,
    /// What is to happen at its next commit, and for how long it is down if it dies of it.
    pub ambush: Option<(Ambush, Duration)>,
    /// More log frames come than it can take.
    pub drops_logs: bool,
    /// It is of a later version than the workers.
    pub newer: bool,
}

impl ServerNode {
    pub(crate) fn new() -> ServerNode {
        ServerNode { process: None, lives: 0, skew_us: 0, frozen: None, ambush: None, drops_logs: false, newer: false }
    }
}

/// A fault that waits for the next commit that writes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ambush {
    DieBefore,
    /// Committed, and nobody is told.
    DieAfter,
    /// Committed, and stopped for so long before anybody is told.
    FreezeAfter(#[serde(with = "millis")] Duration),
}

pub(crate) struct ServerProcess {
    pub life: u64,
    pub core: Core<Handle>,
    clock: Reading,
    /// What the clock that all servers have in common said last.
    common: Option<Anchor>,
    /// When it was asked, by the clock that stands still while the machine sleeps.
    agreed: Duration,
    started: Duration,
    /// Time that its machine slept, which the monotonic clock does not count.
    pub slept: Duration,
    inbox: Vec<Command>,
    sockets: BTreeMap<ConnId, Socket>,
    links: BTreeMap<LinkId, ConnId>,
    turn_is_due: bool,
    wake_at: Duration,
    /// The database is away, and the same batch is tried again after this pause.
    retry: Option<Duration>,
    /// When the first of these tries failed.
    away_since: Option<Duration>,
    pub replies: Vec<Reply>,
    /// Words to the outside.
    post: mpsc::UnboundedReceiver<ledger::Parcel>,
}

struct Socket {
    link: LinkId,
    machine: Machine,
    sender: LinkSender,
    outgoing: mpsc::Receiver<LinkOut>,
    greeted: bool,
    heard_at: Duration,
}

#[derive(Debug)]
pub(crate) enum ServerEvent {
    Turn,
    Wake,
    /// The same batch again.
    Retry,
    Knock(ConnId),
    /// Whether this link has been silent for too long.
    Listen(ConnId),
    Parcel(ConnId, Parcel),
    Delivered(Delivered),
}

impl World {
    /// A server process comes to life, if the database lets it.
    pub(crate) fn start_server(&mut self, at: usize) {
        if self.servers[at].process.is_some() {
            return;
        }
        let now = self.agenda.now();
        let node = &mut self.servers[at];
        node.lives += 1;
        let life = node.lives;
        let reader = self.database.reader();
        let away = self.database.trouble(at, |trouble| trouble.away);
        let floor = reader.hearing().ok().flatten().map(|row| row.mark_at).unwrap_or_default();
        let own = wall(now, node.skew_us);
        let common = self.common_clock().and_then(|time| Anchor::said(time, now, now));
        let tick = Tick { now: floor.max(common.map_or(own, |anchor| anchor.time_at(now))), mono: Duration::ZERO };
        let clock = Reading { tick, boot: now };
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        seed[8..16].copy_from_slice(&(at as u64).to_le_bytes());
        seed[16..24].copy_from_slice(&life.to_le_bytes());
        self.check(Checks::server_tries_to_start);
        let core = if away {
            None
        } else {
            Core::new(
                self.database.open(at),
                self.setup.core.clone(),
                self.definitions.clone(),
                Bus::default(),
                Arc::new(Metrics::default()),
                Random::from_seed(seed),
                tick,
            )
            .ok()
            .map(|core| core.with_secrets(Arc::new(Purse::of(at))))
        };
        let Some(core) = core else {
            self.tell(|| format!("server {at} cannot start: the database is away"));
            self.check(Checks::start_failed);
            // Whoever supervises it tries again.
            self.agenda.after(Duration::from_secs(2), Event::StartServer(at));
            return;
        };
        let (post, parcels) = mpsc::unbounded_channel();
        let core = core.with_post(post);
        self.tell(|| format!("server {at} starts, life {life}"));
        if life == 1 {
            self.database.begin();
        }
        let alone = self.servers.iter().all(|node| node.process.is_none());
        self.check(|checks| checks.server_starts(at, alone));
        let process = ServerProcess {
            life,
            core,
            clock,
            common,
            agreed: Duration::ZERO,
            started: now,
            slept: Duration::ZERO,
            inbox: Vec::new(),
            sockets: BTreeMap::new(),
            links: BTreeMap::new(),
            turn_is_due: false,
            wake_at: Duration::MAX,
            retry: None,
            away_since: None,
            replies: Vec::new(),
            post: parcels,
        };
        self.servers[at].process = Some(process);
        self.tell_triggers(at);
        self.wake_server_in_time(at);
    }

    /// A server that has read its tasks knows what they start by themselves.
    pub(crate) fn tell_triggers(&mut self, at: usize) {
        if !self.setup.schedules.is_empty() || !self.setup.calls.is_empty() {
            // Nobody waits for the answer.
            let (reply, _) = oneshot::channel();
            self.command(at, Command::Triggers(self.book.clone(), reply));
        }
    }

    /// The process is gone, with all that it only knew. Its kernel closes its connections.
    pub(crate) fn kill_server(&mut self, at: usize) {
        let node = &mut self.servers[at];
        node.frozen = None;
        node.ambush = None;
        let Some(process) = node.process.take() else { return };
        self.tell(|| format!("server {at} dies"));
        self.check(|checks| checks.server_dies(at));
        let ServerProcess { life, core, replies, .. } = process;
        drop(core);
        for reply in replies {
            self.unanswered(&reply);
        }
        for conn in self.net.of_server(at, life) {
            self.net.drop_unread(conn, Way::ToHost);
            self.send(conn, Way::ToHost, Parcel::End);
        }
    }

    /// An orderly stop: workers are told to come back, what was sent is committed.
    pub(crate) fn stop_server(&mut self, at: usize) {
        let Some(process) = &mut self.servers[at].process else { return };
        for socket in process.sockets.values() {
            let message = "the server is stopping; come back".to_owned();
            socket.sender.send(ServerMessage::Refused { code: RefusedCode::GoingAway, message });
        }
        self.turn_server(at);
        self.flush_server(at);
        if let Some(process) = &mut self.servers[at].process {
            // Without the database the others find out by its silence.
            let _ = process.core.leave();
        }
        self.kill_server(at);
    }

    pub(crate) fn server_event(&mut self, at: usize, event: ServerEvent) {
        match event {
            ServerEvent::Turn => self.turn_server(at),
            ServerEvent::Wake => {
                let now = self.agenda.now();
                if self.servers[at].process.as_ref().is_some_and(|process| process.wake_at == now) {
                    self.turn_server(at);
                }
            }
            ServerEvent::Retry => {
                if self.servers[at].process.as_ref().is_some_and(|process| process.retry.is_some()) {
                    self.commit_server(at);
                }
            }
            ServerEvent::Knock(conn) => self.knock(at, conn),
            ServerEvent::Listen(conn) => self.listen(at, conn),
            ServerEvent::Parcel(conn, parcel) => self.hear(at, conn, parcel),
            ServerEvent::Delivered(delivered) => self.command(at, Command::Delivered(delivered)),
        }
    }

    /// Hands the ledger a command; it is decided with what else is there.
    pub(crate) fn command(&mut self, at: usize, command: Command) {
        let Some(process) = &mut self.servers[at].process else { return };
        process.inbox.push(command);
        if !process.turn_is_due && process.retry.is_none() {
            process.turn_is_due = true;
            let pause = self.setup.commit_time;
            self.later_at_server(at, pause, ServerEvent::Turn);
        }
    }

    fn turn_server(&mut self, at: usize) {
        let now = self.agenda.now();
        let skew = self.servers[at].skew_us;
        let Some(process) = &mut self.servers[at].process else { return };
        if process.retry.is_some() {
            return;
        }
        process.turn_is_due = false;
        let tick = process.tick(now, skew);
        let commands = std::mem::take(&mut process.inbox);
        process.core.begin(commands, tick);
        self.check(|checks| checks.turn_begins(at));
        self.commit_server(at);
    }

    fn commit_server(&mut self, at: usize) {
        if self.servers[at].ambush.is_some_and(|(ambush, _)| ambush == Ambush::DieBefore) {
            // Whatever was said before the commit has left.
            self.send_what_was_said(at);
            return self.spring_ambush(at);
        }
        if let Some(pause) = self.database.trouble(at, Trouble::take_pause) {
            self.send_what_was_said(at);
            return self.wait_for_the_database(at, pause);
        }
        let commits = self.database.trouble(at, |trouble| trouble.commits);
        let done = self.carry_out(at);
        let wrote = self.database.trouble(at, |trouble| trouble.commits) > commits;
        if wrote {
            self.spring_ambush(at);
        }
        if done {
            self.flush_server(at);
        }
    }

    /// Commits what was begun and all pieces of it. False while the database is away.
    fn carry_out(&mut self, at: usize) -> bool {
        let now = self.agenda.now();
        let skew = self.servers[at].skew_us;
        let Some(process) = &mut self.servers[at].process else { return false };
        let mut pieces = false;
        loop {
            match process.core.commit() {
                Commit::Split => continue,
                Commit::Retry(_) => {
                    let away_since = *process.away_since.get_or_insert(now);
                    process.core.send_workers_away(now.saturating_sub(away_since));
                    let pause = next_try(process.retry);
                    self.send_what_was_said(at);
                    self.wait_for_the_database(at, pause);
                    return false;
                }
                Commit::Done => {}
            }
            process.clock = process.clock.caught_up(process.core.now());
            let tick = process.tick(now, skew);
            match process.core.take_split() {
                Some(piece) => {
                    process.core.begin(piece, tick);
                    pieces = true;
                }
                // Pieces hand nothing out; what they queued goes out now.
                None if std::mem::take(&mut pieces) => process.core.begin(Vec::new(), tick),
                None => break,
            }
        }
        (process.retry, process.away_since) = (None, None);
        self.agree(at);
        if let Some(process) = &mut self.servers[at].process {
            process.core.tidy(false);
        }
        true
    }

    /// Asks the clock that all servers have in common, as often as the ledger's thread does.
    fn agree(&mut self, at: usize) {
        let (now, common) = (self.agenda.now(), self.common_clock());
        let away = self.database.trouble(at, |trouble| trouble.away);
        let (Some(process), Some(time)) = (&mut self.servers[at].process, common.filter(|_| !away)) else { return };
        let mono = process.mono(now);
        if mono >= process.agreed + AGREE_EVERY {
            process.agreed = mono;
            process.common = Anchor::said(time, now, now).or(process.common);
        }
    }

    /// That of the database, where several servers share one.
    fn common_clock(&self) -> Option<Time> {
        (self.servers.len() > 1).then(|| wall(self.agenda.now(), self.common_skew_us))
    }

    /// The clock that this server goes by, or that would tell it right now.
    pub(crate) fn clock_of(&self, at: usize) -> Time {
        self.common_clock().unwrap_or_else(|| wall(self.agenda.now(), self.servers[at].skew_us))
    }

    /// The ledger's thread does nothing else until then.
    fn wait_for_the_database(&mut self, at: usize, pause: Duration) {
        let Some(process) = &mut self.servers[at].process else { return };
        process.retry = Some(pause);
        self.later_at_server(at, pause, ServerEvent::Retry);
    }

    /// The database is well, and whoever waits for it has its answer then.
    pub(crate) fn database_answers(&mut self, at: usize, when: Duration) {
        let Some(process) = self.servers[at].process.as_ref().filter(|process| process.retry.is_some()) else { return };
        self.agenda.at(when, Event::Server { server: at, life: process.life, what: ServerEvent::Retry });
    }

    /// Sends what the ledger has for workers, gives users their answers, and sees when the ledger wants to be called.
    pub(crate) fn flush_server(&mut self, at: usize) {
        if self.servers[at].frozen.is_some() {
            return;
        }
        self.send_what_was_said(at);
        self.carry_outside(at);
        self.collect_replies(at);
        let Some(process) = &mut self.servers[at].process else { return };
        if !process.inbox.is_empty() && !process.turn_is_due {
            process.turn_is_due = true;
            let pause = self.setup.commit_time;
            self.later_at_server(at, pause, ServerEvent::Turn);
        }
        self.wake_server_in_time(at);
    }

    fn send_what_was_said(&mut self, at: usize) {
        let Some(process) = &mut self.servers[at].process else { return };
        let mut parcels = Vec::new();
        // Hardly any link has something to say at a time.
        for (conn, socket) in process.sockets.iter_mut().filter(|(_, socket)| !socket.outgoing.is_empty()) {
            let (messages, close) = socket.take_outgoing();
            if !messages.is_empty() {
                parcels.push((*conn, Parcel::Text(encode_text(&messages))));
            }
            if close {
                parcels.push((*conn, Parcel::End));
            }
        }
        for (conn, parcel) in parcels {
            let ends = matches!(parcel, Parcel::End);
            self.send(conn, Way::ToHost, parcel);
            if ends {
                self.close_socket(at, conn);
            }
        }
    }

    /// Whoever is outside takes a word, or does not, and may not be heard when it says so.
    fn carry_outside(&mut self, at: usize) {
        let Some(process) = &mut self.servers[at].process else { return };
        let parcels: Vec<ledger::Parcel> = std::iter::from_fn(|| process.post.try_recv().ok()).collect();
        for parcel in parcels {
            let (arrives, heard) = match (self.refuses_words, self.at_peace) {
                (true, _) => (false, true),
                (false, true) => (true, true),
                (false, false) => (self.outside.chance(0.8), self.outside.chance(0.8)),
            };
            let takes = self.outside.duration(Duration::from_millis(1), Duration::from_secs(2));
            let pause = if heard { takes } else { TRY_WITHIN };
            self.tell(|| {
                format!("server {at} → outside: {} of {}, try {}", parcel.letter.on, parcel.job, parcel.tries)
            });
            if arrives {
                self.check(|checks| checks.arrived(parcel.id, &parcel.letter.text));
            }
            let outcome = if arrives && heard { Ok(()) } else { Err("nobody answers".to_owned()) };
            let delivered = Delivered { id: parcel.id, tries: parcel.tries, outcome };
            self.later_at_server(at, pause, ServerEvent::Delivered(delivered));
        }
    }

    fn wake_server_in_time(&mut self, at: usize) {
        let now = self.agenda.now();
        let skew = self.servers[at].skew_us;
        let Some(process) = &mut self.servers[at].process else { return };
        // By the clock as it is now: nobody's ping puts off what is due.
        let ahead = process.core.wake_at().since(process.tick(now, skew).now);
        // Nor does the ledger's thread sleep for less than it takes to turn around.
        let pause = ahead.clamp(Duration::from_millis(1), SLEEP_MAX);
        // Most calls change nothing about it, and it is on the agenda already.
        if process.wake_at != now + pause {
            process.wake_at = now + pause;
            self.later_at_server(at, pause, ServerEvent::Wake);
        }
    }

    fn later_at_server(&mut self, at: usize, pause: Duration, what: ServerEvent) {
        let Some(life) = self.servers[at].process.as_ref().map(|process| process.life) else { return };
        self.agenda.after(pause, Event::Server { server: at, life, what });
    }

    fn knock(&mut self, at: usize, conn: ConnId) {
        let now = self.agenda.now();
        let Some(process) = &mut self.servers[at].process else { return };
        self.next_link += 1;
        let link = LinkId(self.next_link);
        let (sender, outgoing) = LinkSender::channel();
        let socket = Socket { link, machine: Machine::default(), sender, outgoing, greeted: false, heard_at: now };
        process.sockets.insert(conn, socket);
        process.links.insert(link, conn);
        self.send(conn, Way::ToHost, Parcel::Accepted);
        self.later_at_server(at, HELLO_TIMEOUT, ServerEvent::Listen(conn));
    }

    /// The link's task wakes up when nothing came for a while.
    fn listen(&mut self, at: usize, conn: ConnId) {
        let now = self.agenda.now();
        let ping = Duration::from_millis(self.setup.core.link.ping_ms);
        let Some(process) = &mut self.servers[at].process else { return };
        let Some(socket) = process.sockets.get_mut(&conn) else { return };
        let patience = if socket.greeted { ping } else { HELLO_TIMEOUT };
        let quiet_until = socket.heard_at + patience;
        if now < quiet_until {
            return self.later_at_server(at, quiet_until - now, ServerEvent::Listen(conn));
        }
        let silence = if socket.greeted { socket.machine.silence() } else { Silence::Lost };
        match silence {
            Silence::Ping(n) => {
                socket.sender.send(ServerMessage::Ping { n });
                socket.heard_at = now;
                self.later_at_server(at, ping, ServerEvent::Listen(conn));
                self.flush_server(at);
            }
            Silence::Lost => {
                self.tell(|| format!("server {at} gives up a silent link"));
                self.send(conn, Way::ToHost, Parcel::End);
                self.close_socket(at, conn);
            }
        }
    }

    fn hear(&mut self, at: usize, conn: ConnId, parcel: Parcel) {
        let now = self.agenda.now();
        let Some(process) = &mut self.servers[at].process else { return };
        let Some(socket) = process.sockets.get_mut(&conn) else { return };
        let inbound = match parcel {
            Parcel::Accepted => return,
            Parcel::End => return self.close_socket(at, conn),
            Parcel::Text(text) => socket.machine.text(&text),
            Parcel::Binary(bytes) => socket.machine.binary(&bytes).map(|inbound| vec![inbound]),
        };
        // Silence before counts from the last ping as well.
        socket.heard_at = now;
        match inbound {
            Ok(inbound) => {
                for inbound in inbound {
                    self.pass_on(at, conn, inbound);
                }
            }
            Err(fault) => {
                let refused = ServerMessage::Refused { code: fault.code(), message: fault.to_string() };
                socket.sender.send(refused);
                socket.sender.close();
                self.flush_server(at);
            }
        }
    }

    fn pass_on(&mut self, at: usize, conn: ConnId, inbound: Inbound) {
        let worker = self.net.get(conn).map(|conn| self.hosts[conn.host].worker);
        let Some(process) = &mut self.servers[at].process else { return };
        let (Some(worker), Some(socket)) = (worker, process.sockets.get_mut(&conn)) else { return };
        let link = socket.link;
        match inbound {
            Inbound::Reply(message) => {
                socket.sender.send(message);
                self.flush_server(at);
            }
            Inbound::Hello(hello) => {
                socket.greeted = true;
                let sender = socket.sender.clone();
                let (now, worker) = (self.agenda.now(), WorkerId(worker));
                self.check(|checks| checks.worker_comes(now, worker));
                for held in hello.held.iter().filter(|held| held.unsure) {
                    self.check(|checks| checks.cannot_know(held.ticket));
                }
                self.later_at_server(at, Duration::from_millis(1), ServerEvent::Listen(conn));
                self.command(at, Command::Link(LinkEvent::Hello { link, worker, hello, sender }));
            }
            Inbound::Messages(messages) => self.command(at, Command::Link(LinkEvent::Messages { link, messages })),
            Inbound::Log(header, _) if self.servers[at].drops_logs => {
                self.command(at, Command::Link(LinkEvent::LogDropped { link, ticket: header.ticket }));
            }
            Inbound::Log(header, blocks) => {
                self.command(at, Command::Link(LinkEvent::Log(LogFrame { link, header, blocks })));
            }
        }
    }

    /// The server's end of a connection is closed; the ledger is told whatever the reason.
    fn close_socket(&mut self, at: usize, conn: ConnId) {
        let Some(process) = &mut self.servers[at].process else { return };
        let Some(socket) = process.sockets.remove(&conn) else { return };
        process.links.remove(&socket.link);
        self.send(conn, Way::ToHost, Parcel::End);
        self.command(at, Command::Link(LinkEvent::Closed { link: socket.link }));
    }

    /// Its process is stopped (SIGSTOP), and goes on where it was after a while.
    pub(crate) fn freeze_server(&mut self, at: usize, time: Duration) {
        let Some(process) = &self.servers[at].process else { return };
        let life = process.life;
        if self.servers[at].frozen.is_none() {
            self.tell(|| format!("server {at} is frozen for {time:?}"));
            self.servers[at].frozen = Some(Vec::new());
            self.agenda.after(time, Event::ThawServer { server: at, life });
        }
    }

    pub(crate) fn thaw_server(&mut self, at: usize) {
        let Some(backlog) = self.servers[at].frozen.take() else { return };
        self.tell(|| format!("server {at} goes on"));
        self.check(|checks| checks.server_goes_on());
        for event in backlog {
            self.agenda.after(Duration::ZERO, event);
        }
        // It may have been stopped right before a piece of what is old was to go.
        if let Some(process) = self.servers[at].process.as_mut().filter(|process| process.retry.is_none()) {
            process.core.tidy(false);
        }
        // What was decided and not sent before goes out first.
        self.flush_server(at);
    }
}

impl ServerProcess {
    pub(crate) fn sockets_count(&self) -> usize {
        self.sockets.len()
    }

    /// By its own clock, when it last looked.
    pub(crate) fn now(&self) -> Time {
        self.clock.tick.now
    }

    /// Since it started, while its machine was awake.
    fn mono(&self, now: Duration) -> Duration {
        (now - self.started).saturating_sub(self.slept)
    }

    fn tick(&mut self, now: Duration, skew_us: i64) -> Tick {
        let time = self.common.map_or_else(|| wall(now, skew_us), |anchor| anchor.time_at(now));
        let read = Reading { tick: Tick { now: time, mono: self.mono(now) }, boot: now };
        self.clock = follow(self.clock, read);
        self.clock.tick
    }
}

impl Socket {
    fn take_outgoing(&mut self) -> (Vec<ServerMessage>, bool) {
        let mut messages = Vec::new();
        while let Ok(out) = self.outgoing.try_recv() {
            match out {
                LinkOut::Message(message) => messages.push(message),
                LinkOut::Close => return (messages, true),
            }
        }
        (messages, false)
    }
}

/// What a clock shows that is off by so much.
pub(crate) fn wall(now: Duration, skew_us: i64) -> Time {
    let micros = i64::try_from(now.as_micros()).expect("a world lives for hours, not for ages");
    Time(DAWN.0 + micros + skew_us)
}
