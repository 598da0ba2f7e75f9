//! Whose a host's state folder is, and what people do to it: they copy it, or empty it.

use std::time::Duration;

use engine::WorkerId;
use protocol::attempt::Ticket;
use protocol::folder::ExitError;
use runner::folder_io::FolderError;
use runner::remains::Remains;
use serde::{Deserialize, Serialize};
use store::rows::{NewWorker, TokenRow};
use uuid::Uuid;
use worker::adopt::Orphans;
use worker::state::{Home, Mark, Place, is_set_aside};

use super::{Host, HostEvent};
use crate::disk::{Disk, Folder};
use crate::runners::Group;
use crate::servers::DAWN;
use crate::world::{Event, World};

/// How a copy lies there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Copied {
    /// On the same machine.
    Beside,
    /// The same, on a file system that does not tell it from its original for certain.
    BesideInDoubt,
    /// To another machine, file by file.
    Elsewhere,
    /// To another machine, as the image of a disk.
    AsImage,
}

impl Copied {
    fn is_beside(self) -> bool {
        matches!(self, Copied::Beside | Copied::BesideInDoubt)
    }

    /// What tells it from its original.
    fn mark(self, original: Mark, number: usize) -> Mark {
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        let (inode, created_us) = (original.inode + 1000 * number, original.created_us.map(|at| at + number));
        match self {
            Copied::Beside | Copied::Elsewhere => Mark { inode, created_us },
            Copied::BesideInDoubt => Mark { inode, ..original },
            Copied::AsImage => original,
        }
    }
}

/// What of a state folder is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Emptied {
    Attempts,
    /// Its identity as well.
    All,
}

impl World {
    /// A worker's start: whether it may use the folder at all, by the product's own judgement.
    pub(super) fn settles(&mut self, at: usize) -> bool {
        let host = &mut self.hosts[at];
        let known = Place { machine: Some(&host.disk.machine), mark: host.disk.mark };
        let known = Some(known).filter(|_| host.disk.named);
        let here = Place { machine: Some(&host.machine), mark: Some(host.disk.lies_at) };
        match Home::judge(known, here) {
            Home::AtHome => return true,
            Home::Unmarked => {}
            Home::Nameless => {
                self.set_unfinished_aside(at);
                self.hosts[at].disk.moved |= self.hosts[at].disk.enrolled;
            }
            Home::Moved => {
                self.set_unfinished_aside(at);
                self.hosts[at].disk.moved = true;
            }
            Home::Copy => {
                self.tell(|| format!("host {at}: no worker starts on a copied state folder"));
                return false;
            }
        }
        let host = &mut self.hosts[at];
        host.disk.named = true;
        host.disk.machine.clone_from(&host.machine);
        host.disk.mark = Some(host.disk.lies_at);
        true
    }

    fn set_unfinished_aside(&mut self, at: usize) {
        let host = &self.hosts[at];
        let aside = host.disk.attempts.iter().filter(|(ticket, folder)| {
            let torn = || FolderError::Exit(ExitError::Torn);
            let record = if folder.torn { Err(torn()) } else { Ok(folder.recorded()) };
            is_set_aside(&record, host.residents(**ticket) != Orphans::NONE)
        });
        let aside: Vec<Ticket> = aside.map(|(ticket, _)| *ticket).collect();
        // What was set aside lies there, and somebody has to see to it.
        self.hosts[at].disk.moved |= !aside.is_empty();
        for ticket in aside {
            self.hosts[at].disk.attempts.remove(&ticket);
            if self.hosts[at].copy_of.is_none() {
                self.check(|checks| checks.folder_deleted(ticket));
            }
        }
    }

    /// A folder without a credential: somebody enrols it, as a new worker.
    pub(super) fn enrol_again(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        let (worker, token) = (host.dice.uuid(), host.dice.uuid());
        host.worker = worker;
        host.disk.enrolled = true;
        host.disk.last_epoch = 0;
        let (state_id, name) = (host.disk.state_id, format!("host-{at} again"));
        self.put_worker(token, WorkerId(worker), state_id, name);
        if self.hosts[at].setup.no_reconnect {
            self.check(|checks| checks.will_not_come_back(WorkerId(worker)));
        }
    }

    /// Whether the server lets the host's worker speak at all: one that was deleted for its absence is let in to be told so. A server
    /// that cannot ask its database lets the ledger find out.
    pub(super) fn is_enrolled(&self, server: usize, at: usize) -> bool {
        let worker = WorkerId(self.hosts[at].worker);
        self.database.trouble(server, |trouble| trouble.away)
            || !matches!(self.database.store().worker(worker), Ok(None))
            || self.is_departed(at)
    }

    /// The host's worker was deleted for its absence.
    pub(super) fn is_departed(&self, at: usize) -> bool {
        matches!(self.database.reader().departed(WorkerId(self.hosts[at].worker)), Ok(Some(_)))
    }

    /// Some worker was deleted for its absence, and does not know it yet. It is told with its next try, and puts away what it has.
    pub(crate) fn has_untold(&self) -> bool {
        (0..self.hosts.len()).any(|at| {
            let host = &self.hosts[at];
            host.copy_of.is_none() && (host.process.is_some() || host.disk.enrolled) && self.is_departed(at)
        })
    }

    /// The commit of its enrolment was lost: somebody enrols the folder again, but not a copy of one.
    pub(super) fn enrolment_is_gone(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        host.disk.enrolled = host.copy_of.is_some();
        self.tell(|| format!("host {at}: no server knows its worker"));
    }

    pub(super) fn put_worker(&mut self, token: Uuid, id: WorkerId, state_id: Uuid, name: String) {
        let token = TokenRow {
            id: token,
            kind: "enroll".to_owned(),
            role: String::new(),
            name: String::new(),
            hash: *blake3::hash(format!("token {token}").as_bytes()).as_bytes(),
            tags: Vec::new(),
            uses_left: Some(1),
            created_at: DAWN,
            expires_at: None,
            revoked_at: None,
        };
        let credential_hash = *blake3::hash(format!("credential {id}").as_bytes()).as_bytes();
        self.story.call(id.0, || name.clone());
        let new = NewWorker { id, name, credential_hash, state_id };
        let now = DAWN + self.agenda.now();
        let mut store = self.database.store();
        store.put_token(&token).expect("the database takes a token");
        store.enroll(&token.hash, &new, now).expect("the database takes a worker");
    }

    /// Somebody copies the folder, and starts a worker on the copy.
    pub(crate) fn copy_folder(&mut self, original: usize, copied: Copied) {
        let number = self.hosts.len();
        let host = &self.hosts[original];
        let machine = if copied.is_beside() { host.machine.clone() } else { format!("machine-{number}") };
        let disk = host.disk.copy(copied.mark(host.disk.lies_at, number));
        let mut copy = Host::new(self.seed, number, host.worker, host.setup.clone(), disk);
        copy.machine = machine;
        copy.boots = host.boots;
        copy.booted_at = host.booted_at;
        copy.copy_of = Some(original);
        copy.beside = copied.is_beside().then_some(original);
        self.hosts.push(copy);
        self.check(|checks| checks.folder_copied(original));
        self.tell(|| format!("host {original}: its state folder is copied, to host {number}"));
        self.agenda.after(Duration::from_secs(1), Event::Host { host: number, what: HostEvent::StartWorker });
    }

    /// Somebody deletes what lies in the state folder. Who has files open there goes on with them.
    pub(crate) fn empty_folder(&mut self, at: usize, what: Emptied) {
        let host = &mut self.hosts[at];
        let gone = std::mem::take(&mut host.disk.attempts);
        let tickets: Vec<Ticket> = gone.keys().copied().collect();
        host.deleted.extend(gone);
        let mut unkept = Vec::new();
        if what == Emptied::All {
            unkept.extend(std::mem::take(&mut host.disk.kept).into_keys());
            let state_id = host.dice.uuid();
            let (full, broken) = (host.disk.full, host.disk.broken);
            let lies_at = host.disk.lies_at;
            let new = Disk::new(state_id, host.machine.clone(), lies_at);
            host.disk = Disk { full, broken, named: false, enrolled: false, ..new };
        }
        self.tell(|| format!("host {at}: {} attempts are deleted from its state folder", tickets.len()));
        for ticket in tickets {
            self.check(|checks| checks.folder_deleted(ticket));
        }
        for ticket in unkept {
            self.check(|checks| checks.keeps(ticket, false));
        }
    }
}

impl Host {
    /// The folder as its runner has it open, also when it was deleted under it.
    pub(crate) fn open_folder(&mut self, ticket: Ticket) -> Option<&mut Folder> {
        let there = if self.disk.attempts.contains_key(&ticket) { &mut self.disk.attempts } else { &mut self.deleted };
        there.get_mut(&ticket)
    }

    /// The attempts of which processes live whose folder is not there any more.
    pub(super) fn all_orphans(&self) -> Vec<Ticket> {
        self.deleted.keys().copied().filter(|ticket| self.orphans(*ticket) != Orphans::NONE).collect()
    }

    pub(crate) fn orphans(&self, ticket: Ticket) -> Orphans {
        if self.deleted.contains_key(&ticket) { self.residents(ticket) } else { Orphans::NONE }
    }

    /// A folder that was deleted is gone when nobody has it open any more.
    pub(crate) fn forget_if_lifeless(&mut self, ticket: Ticket) {
        if self.residents(ticket) == Orphans::NONE {
            self.deleted.remove(&ticket);
        }
    }

    fn residents(&self, ticket: Ticket) -> Orphans {
        let group = self.groups.get(&ticket);
        let runner = self.runner_of(ticket).is_some() || group.is_some_and(Group::is_guarded);
        Orphans { runner, step: group.is_some() }
    }

    pub(crate) fn runner_of(&self, ticket: Ticket) -> Option<u32> {
        self.runners.iter().find(|(_, runner)| runner.ticket == ticket).map(|(pid, _)| *pid)
    }

    /// KILL is sent to a step, and to this runner.
    pub(crate) fn doom(&mut self, ticket: Ticket, runner: Option<u32>) -> Remains {
        let group = self.groups.get_mut(&ticket);
        let remains = if group.is_some() || runner.is_some() { Remains::Dying } else { Remains::None };
        group.into_iter().for_each(|group| group.doomed = true);
        self.doomed_runners.extend(runner);
        remains
    }
}

impl Disk {
    /// Every lock of a copy is free.
    fn copy(&self, lies_at: Mark) -> Disk {
        let mut copy = Disk { lies_at, full: false, broken: false, ..self.clone() };
        copy.attempts.values_mut().for_each(|folder| folder.runner = None);
        copy
    }
}
