//! The world: everything that lives in one simulation, and the loop that lets it happen.
//!
//! ```text
//!  users ──► servers (ledger, links) ◄═ net ═► hosts (agent, disk) ──► runners ──► children
//!                 │                                                        │
//!                 └──► database ──► witness ──► checks ◄──── lived ◄───────┘
//! ```
//! One thread, one agenda. Whatever happens is an [`Event`]; what a party does about it is decided by the product's code.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::JobId;
use protocol::attempt::Ticket;
use server::ledger::Definitions;
use server::schedule::Book;

use crate::agenda::Agenda;
use crate::check::Checks;
use crate::database::Database;
use crate::dice::Dice;
use crate::faults::{Fault, FaultEvent, Scene, messages_in};
use crate::files::Files;
use crate::hosts::{Host, HostEvent};
use crate::looks::ASK_WHY_EVERY;
use crate::net::{ConnId, Network, Parcel, Way, newer};
use crate::runners::{GroupEvent, Part, RunnerEvent};
use crate::servers::{ServerEvent, ServerNode};
use crate::setup::Setup;
use crate::story::Story;
use crate::users::{UserEvent, Users};
use crate::workload::{self, JobPlan};

/// After the last job: workers that are away come back, their logs are sent, or closed after a window.
const SETTLE: Duration = Duration::from_secs(300);

/// By how much the clocks of servers' machines are off, where nobody goes by them: an hour.
const OFF_MAX_US: i64 = 3_600_000_000;

/// The longest that anything runs, with its end.
const LAST_END: Duration = Duration::from_secs(1200);

pub struct World {
    pub(crate) seed: u64,
    pub(crate) setup: Setup,
    pub(crate) agenda: Agenda<Event>,
    pub(crate) database: Database,
    pub(crate) servers: Vec<ServerNode>,
    /// How far the clock of the database is from the right time, where servers go by that.
    pub(crate) common_skew_us: i64,
    pub(crate) hosts: Vec<Host>,
    pub(crate) net: Network,
    pub(crate) users: Users,
    /// The triggers that servers are told of.
    pub(crate) book: Arc<Book>,
    pub(crate) checks: Arc<Mutex<Checks>>,
    pub(crate) story: Story,
    pub(crate) dice: Dice,
    /// What becomes of words to the outside.
    pub(crate) outside: Dice,
    /// Nobody outside takes any.
    pub(crate) refuses_words: bool,
    pub(crate) files: Files,
    pub(crate) next_link: u64,
    pub(crate) next_life: u64,
    pub(crate) at_peace: bool,
    /// When an explanation is asked for next, and of what.
    next_why: Duration,
    pub(crate) curiosity: Dice,
    /// What the texts of tasks say. All servers share it: a text means the same to each, and they read it from its row anyway.
    pub(crate) definitions: Arc<Definitions>,
    /// Since when every job is over.
    over_since: Option<Duration>,
    /// Faults that had an effect, by name.
    pub(crate) fired: BTreeMap<String, u64>,
    /// Faults that wait for their moment, and who is there when one has come.
    pub(crate) armed: Vec<Fault>,
    pub(crate) scene: Option<Scene>,
    /// Whose concurrency group an operator acts on.
    pub(crate) holder: Option<JobId>,
    /// Events so far; with the seed they name a moment.
    pub(crate) events: u64,
}

/// Something that happens. The lives say which process it was meant for: nobody opens a dead one's letters.
pub(crate) enum Event {
    StartServer(usize),
    Server {
        server: usize,
        life: u64,
        what: ServerEvent,
    },
    ThawServer {
        server: usize,
        life: u64,
    },
    Host {
        host: usize,
        what: HostEvent,
    },
    /// For the worker process of a host.
    Worker {
        host: usize,
        life: u64,
        what: crate::hosts::WorkerEvent,
    },
    Runner {
        host: usize,
        pid: u32,
        what: RunnerEvent,
    },
    Group {
        host: usize,
        ticket: Ticket,
        part: Part,
        what: GroupEvent,
    },
    Arrive {
        conn: ConnId,
        way: Way,
    },
    /// Somebody waits for such a message to be on its way.
    Sent {
        conn: ConnId,
        way: Way,
        message: &'static str,
    },
    User(UserEvent),
    Fault(FaultEvent),
}

/// How a simulation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub seed: u64,
    /// What is wrong, in the order in which it was found; empty if nothing is.
    pub findings: Vec<crate::check::Finding>,
    pub jobs: usize,
    pub faults_fired: u64,
    /// The same by the names of the faults.
    pub fired: BTreeMap<String, u64>,
    pub events: u64,
    pub simulated: Duration,
}

impl World {
    /// A world as this seed wants it, before anything has happened.
    pub fn new(seed: u64, setup: Setup, faults: Vec<Fault>) -> World {
        let plans = JobPlan::roll_all(seed, &setup);
        World::with(seed, setup, plans, faults, Story::untold())
    }

    /// A world with these jobs and these faults.
    pub fn with(seed: u64, setup: Setup, plans: Vec<JobPlan>, faults: Vec<Fault>, story: Story) -> World {
        let checks = Arc::new(Mutex::new(Checks::new(&setup, &plans)));
        let database = Database::new(setup.backing, setup.servers, checks.clone(), story.clone());
        let mut world = World {
            seed,
            agenda: Agenda::new(),
            database,
            servers: (0..setup.servers).map(|_| ServerNode::new()).collect(),
            common_skew_us: 0,
            hosts: Vec::new(),
            net: Network::new(Dice::new(seed, "net")),
            users: Users::new(seed, plans, &setup.calls),
            book: workload::book(&setup.schedules, &setup.calls),
            checks,
            story,
            dice: Dice::new(seed, "world"),
            outside: Dice::new(seed, "outside"),
            refuses_words: false,
            files: Files::new(seed),
            next_link: 0,
            next_life: 0,
            at_peace: false,
            next_why: Duration::ZERO,
            curiosity: Dice::new(seed, "curiosity"),
            definitions: Arc::default(),
            over_since: None,
            fired: BTreeMap::new(),
            armed: Vec::new(),
            scene: None,
            holder: None,
            events: 0,
            setup,
        };
        if world.servers.len() > 1 {
            let mut dice = Dice::new(seed, "own clocks");
            world
                .servers
                .iter_mut()
                .for_each(|node| node.skew_us = OFF_MAX_US - dice.below(2 * OFF_MAX_US as usize) as i64);
        }
        world.enrol_hosts();
        world.check(|checks| checks.expect(&faults));
        for server in 0..world.setup.servers {
            world.agenda.at(Duration::from_millis(10 * server as u64), Event::StartServer(server));
        }
        for host in 0..world.hosts.len() {
            let at = Duration::from_millis(200 + 37 * host as u64);
            world.agenda.at(at, Event::Host { host, what: HostEvent::StartWorker });
        }
        world.plan_users();
        world.plan_faults(faults);
        world
    }

    /// Lets the world run its course: its hour with faults, then peace until every job is over. Stops before event
    /// `until`.
    pub fn run(mut self, until: Option<u64>) -> (Verdict, Story) {
        let peace = self.setup.length;
        let end = peace + self.setup.patience;
        while let Some(next_at) = self.agenda.next_at() {
            if next_at > end || until.is_some_and(|until| self.events >= until) || self.has_findings() {
                break;
            }
            if !self.at_peace && next_at >= peace {
                self.at_peace = true;
                self.make_peace();
                continue;
            }
            if self.at_peace && self.is_quiet(next_at) {
                break;
            }
            self.next();
            if next_at >= self.next_why {
                self.next_why = next_at + ASK_WHY_EVERY;
                self.ask_why();
            }
        }
        if until.is_none() && !self.has_findings() {
            self.last_look();
        }
        let findings = self.checks.lock().expect("no checker panics").findings().to_vec();
        self.count_struck_commits();
        let verdict = Verdict {
            seed: self.seed,
            findings,
            jobs: self.users.submitted(),
            faults_fired: self.fired.values().sum(),
            fired: self.fired,
            events: self.events,
            // Peace comes with the first event after it.
            simulated: if self.at_peace { self.agenda.now().max(peace) } else { self.agenda.now() },
        };
        (verdict, self.story)
    }

    /// Lets the next thing happen.
    pub(crate) fn next(&mut self) {
        let Some(event) = self.agenda.next() else { return };
        let now = self.agenda.now();
        self.events += 1;
        self.story.turn_to(now, self.events);
        self.check(|checks| checks.moment(now));
        self.happens(event);
    }

    /// Every job has been over for so long that whatever follows from that is done too.
    fn is_quiet(&mut self, now: Duration) -> bool {
        if self.over_since.is_none() && self.users.all_is_over(&self.checks.lock().expect("no checker panics")) {
            self.over_since = Some(now);
        }
        if self.over_since.is_some() && self.database.store().next_outbox().is_ok_and(|next| next.is_some()) {
            // Somebody is still to hear of it.
            self.over_since = Some(now);
        }
        let settled = self.over_since.is_some_and(|since| now > since + SETTLE);
        // What was given up and is let run to its end has it soon, and is told and put away then. So is what a worker has that
        // was deleted for its absence.
        let lives = || self.checks.lock().expect("no checker panics").has_living();
        if settled && now < self.setup.length + LAST_END && (lives() || self.has_untold()) {
            self.over_since = Some(now);
            return false;
        }
        settled
    }

    fn has_findings(&self) -> bool {
        !self.checks.lock().expect("no checker panics").findings().is_empty()
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::StartServer(server) => self.start_server(server),
            Event::Server { server, life, what } => {
                let node = &mut self.servers[server];
                if node.process.as_ref().is_none_or(|process| process.life != life) {
                    return;
                }
                match &mut node.frozen {
                    Some(backlog) => backlog.push(Event::Server { server, life, what }),
                    None => self.server_event(server, what),
                }
            }
            Event::ThawServer { server, life } => {
                if self.servers[server].process.as_ref().is_some_and(|process| process.life == life) {
                    self.thaw_server(server);
                }
            }
            Event::Host { host, what } => self.host_event(host, what),
            Event::Worker { host, life, what } => self.worker_event_for(host, life, what),
            Event::Runner { host, pid, what } => self.runner_event_for(host, pid, what),
            Event::Group { host, ticket, part, what } => self.group_event(host, ticket, part, what),
            Event::Arrive { conn, way } => self.arrive(conn, way),
            Event::Sent { conn, way, message } => self.message_stage(conn, way, message),
            Event::User(what) => self.user_event(what),
            Event::Fault(what) => self.fault_event(what),
        }
    }

    pub(crate) fn send(&mut self, conn: ConnId, way: Way, parcel: Parcel) {
        let now = self.agenda.now();
        self.tell_of_parcel(conn, way, &parcel);
        let parcel = if self.is_newer(conn, way) { newer(parcel) } else { parcel };
        let messages = if self.armed.is_empty() { Vec::new() } else { messages_in(&parcel) };
        if let Some(due) = self.net.send(conn, way, parcel, now) {
            self.agenda.at(due.at, Event::Arrive { conn, way });
        }
        for message in messages {
            self.agenda.after(Duration::ZERO, Event::Sent { conn, way, message });
        }
    }

    fn arrive(&mut self, conn: ConnId, way: Way) {
        let Some(parcel) = self.net.arrive(conn, way) else { return };
        let Some(ends) = self.net.get(conn) else { return };
        match way {
            Way::ToServer => {
                let (server, life) = (ends.server, ends.server_life);
                if self.servers[server].process.as_ref().is_some_and(|process| process.life == life) {
                    self.agenda
                        .after(Duration::ZERO, Event::Server { server, life, what: ServerEvent::Parcel(conn, parcel) });
                } else if !matches!(parcel, Parcel::End) {
                    // The kernel answers for a process that is no more.
                    self.send(conn, Way::ToHost, Parcel::End);
                }
            }
            Way::ToHost => {
                let (host, life) = (ends.host, ends.worker_life);
                if self.hosts[host].has_worker(life) {
                    let what = crate::hosts::WorkerEvent::Parcel(conn, parcel);
                    self.agenda.after(Duration::ZERO, Event::Worker { host, life, what });
                } else if !matches!(parcel, Parcel::End) && self.hosts[host].is_on() {
                    self.send(conn, Way::ToServer, Parcel::End);
                }
            }
        }
    }

    fn is_newer(&self, conn: ConnId, way: Way) -> bool {
        self.net.get(conn).is_some_and(|ends| match way {
            Way::ToServer => self.hosts[ends.host].newer,
            Way::ToHost => self.servers[ends.server].newer,
        })
    }

    fn tell_of_parcel(&self, conn: ConnId, way: Way, parcel: &Parcel) {
        let (Parcel::Text(frame), Some(ends)) = (parcel, self.net.get(conn)) else { return };
        let direction = || match way {
            Way::ToServer => format!("host {} → server {}", ends.host, ends.server),
            Way::ToHost => format!("server {} → host {}", ends.server, ends.host),
        };
        self.story.sent(direction, frame);
    }

    pub(crate) fn tell(&self, words: impl FnOnce() -> String) {
        self.story.add(words);
    }

    pub(crate) fn check(&self, look: impl FnOnce(&mut Checks)) {
        look(&mut self.checks.lock().expect("no checker panics"));
    }
}
