//! Files that steps leave, in a folder that all servers share: what the worker's depot does over HTTP, these functions do
//! with events. A set is as good as its name, so that nothing but names is carried.
//!
//! A piece goes through while there is a link, and the server at its other end lives and can be reached both ways. Whoever dies leaves
//! what was carried so far; and sometimes all is there, and only the answer is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol::attempt::{ArtifactSet, Ticket};
use server::artifacts::DepotError;
use worker::agent::Input;

use crate::dice::Dice;
use crate::hosts::{Job, Link};
use crate::net::Way;
use crate::world::World;

/// Pieces of every set.
const PIECES: u32 = 4;
const PIECE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(3));
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// What the servers' folder may hold, where that is all taken.
const QUOTA: u64 = 50 << 30;
/// What the depot says of a folder that was deleted.
const DELETED: &str = "cannot read spec.json: No such file or directory (os error 2)";
/// How often the answer to the last piece is lost.
const ANSWER_LOST: f64 = 0.2;

/// What lies in the servers' folder.
#[derive(Debug)]
pub(crate) struct Files {
    dice: Dice,
    /// Pieces of sets that are coming.
    coming: BTreeMap<String, u32>,
    stored: BTreeSet<String>,
    /// Nothing more is taken.
    pub(crate) full: bool,
    /// Pieces that were fetched for an attempt, in the life of its worker.
    fetched: BTreeMap<(u64, Ticket), u32>,
}

impl Files {
    pub(crate) fn new(seed: u64) -> Files {
        Files {
            dice: Dice::new(seed, "carriers"),
            coming: BTreeMap::new(),
            stored: BTreeSet::new(),
            full: false,
            fetched: BTreeMap::new(),
        }
    }
}

impl Files {
    /// Some of a set is here, and not all of it.
    pub(crate) fn are_coming(&self) -> bool {
        !self.coming.is_empty()
    }
}

/// The name of what an attempt leaves.
pub(crate) fn set_of(ticket: Ticket) -> ArtifactSet {
    ArtifactSet { id: format!("{:032x}{:032x}", ticket.attempt.as_u128(), ticket.fence), files: 1, bytes: 1000 }
}

impl World {
    pub(crate) fn order_files(&mut self, at: usize, job: Job) {
        let takes = self.files.dice.duration(PIECE.0, PIECE.1);
        self.order(at, job, takes);
    }

    /// The next piece of what an attempt leaves.
    pub(crate) fn store_files(&mut self, at: usize, ticket: Ticket) {
        if self.is_deleted(at, ticket) {
            return self.feed(at, Input::Stored { ticket, outcome: Err(DELETED.to_owned()) });
        }
        if self.hosts[at].disk.broken || !self.reaches_a_server(at) {
            let pause = self.files.dice.duration(RETRY.0, RETRY.1);
            return self.order(at, Job::Store { ticket }, pause);
        }
        let set = set_of(ticket);
        if !self.files.stored.contains(&set.id) {
            if self.files.full && !self.files.coming.contains_key(&set.id) {
                let full = DepotError::Full { bytes: set.bytes, used: QUOTA, max: QUOTA };
                return self.feed(at, Input::Stored { ticket, outcome: Err(full.to_string()) });
            }
            let pieces = self.files.coming.entry(set.id.clone()).or_default();
            *pieces += 1;
            if *pieces < PIECES {
                self.feed(at, Input::FilesMoved { ticket });
                return self.order_files(at, Job::Store { ticket });
            }
            self.files.coming.remove(&set.id);
            self.tell(|| format!("the files of {} are stored", ticket.attempt));
            self.check(|checks| checks.files_stored(&set.id));
            self.files.stored.insert(set.id.clone());
            if self.files.dice.chance(ANSWER_LOST) {
                return self.order_files(at, Job::Store { ticket });
            }
        }
        self.feed(at, Input::Stored { ticket, outcome: Ok(set) });
    }

    /// The next piece of what an attempt needs.
    pub(crate) fn fetch_files(&mut self, at: usize, ticket: Ticket) {
        let Some(life) = self.hosts[at].process.as_ref().map(|process| process.life) else { return };
        if self.is_deleted(at, ticket) {
            return self.feed(at, Input::Fetched { ticket, outcome: Err(DELETED.to_owned()) });
        }
        if self.hosts[at].disk.broken || !self.reaches_a_server(at) {
            let pause = self.files.dice.duration(RETRY.0, RETRY.1);
            return self.order(at, Job::Fetch { ticket }, pause);
        }
        let named = self.hosts[at].disk.lies_under(ticket);
        let Some(folder) = self.hosts[at].disk.attempts.get(&named) else { return };
        let wanted: Vec<String> = folder.spec.attempt.fetch.iter().map(|fetch| fetch.set.id.clone()).collect();
        if let Some(missing) = wanted.iter().find(|set| !self.files.stored.contains(*set)) {
            let why = format!("no server has {missing}");
            return self.feed(at, Input::Fetched { ticket, outcome: Err(why) });
        }
        let pieces = self.files.fetched.entry((life, ticket)).or_default();
        *pieces += 1;
        if *pieces < PIECES {
            self.feed(at, Input::FilesMoved { ticket });
            return self.order_files(at, Job::Fetch { ticket });
        }
        self.files.fetched.remove(&(life, ticket));
        if let Some(folder) = self.hosts[at].disk.attempts.get_mut(&named) {
            folder.fetched = wanted;
        }
        self.feed(at, Input::Fetched { ticket, outcome: Ok(()) });
    }

    /// No other try finds what the first one did not: the depot gives up at once there. A disk with errors says nothing.
    fn is_deleted(&self, at: usize, ticket: Ticket) -> bool {
        let disk = &self.hosts[at].disk;
        !disk.broken && disk.ticket_of(ticket.attempt).is_none()
    }

    fn reaches_a_server(&self, at: usize) -> bool {
        let Some(Link::Up(conn)) = self.hosts[at].process.as_ref().map(|process| process.link) else { return false };
        let Some(conn) = self.net.get(conn) else { return false };
        let (server, host) = (conn.server, conn.host);
        let lives = self.servers[server].process.as_ref().is_some_and(|process| process.life == conn.server_life);
        let cut = [Way::ToServer, Way::ToHost].into_iter().any(|way| self.net.is_cut(server, host, way));
        lives && !cut
    }
}
