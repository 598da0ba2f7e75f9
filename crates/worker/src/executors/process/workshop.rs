//! The threads that do what blocks, so that the shell never does.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use protocol::attempt::{AttemptSpec, Ticket};
use protocol::folder::{Claim, RunnerRules};
use runner::folder_io::FolderError;
use runner::remains::Remains;
use uuid::Uuid;

use super::prepare::{Prepare, PrepareError};
use crate::adopt::{self, Look, OnDisk};
use crate::agent::Found;
use crate::state::Places;

/// Starting a process keeps a core busy in the kernel for most of its time; more threads than this only get in each
/// other's way.
const THREADS_MAX: usize = 4;

#[derive(Debug)]
pub(crate) enum Job {
    Prepare { spec: Box<AttemptSpec>, rules: RunnerRules },
    Void { ticket: Ticket, told: bool },
    Examine { ticket: Ticket },
    EndLease { ticket: Ticket },
}

#[derive(Debug)]
pub(crate) enum Done {
    Prepared {
        ticket: Ticket,
        launched: Result<UnixStream, PrepareError>,
    },
    Claimed {
        ticket: Ticket,
        told: bool,
        claim: Result<Claim, FolderError>,
    },
    Looked {
        ticket: Ticket,
        look: Result<Look, FolderError>,
    },
    LeaseEnded {
        ticket: Ticket,
        remains: Result<Remains, FolderError>,
    },
    /// What the broom brought back.
    Recalled {
        found: Vec<Found>,
        complete: bool,
    },
}

/// The handle of the threads, which end when this is dropped and the last job is done.
pub(crate) struct Workshop {
    jobs: Sender<Job>,
}

impl Workshop {
    pub(crate) fn start(
        places: &Places,
        prepare: Prepare,
        of_earlier_boot: BTreeSet<Uuid>,
        done: &tokio::sync::mpsc::Sender<Done>,
    ) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let (jobs, queue) = mpsc::channel();
        let bench = Arc::new(Bench { places: places.clone(), prepare, of_earlier_boot, queue: Mutex::new(queue) });
        let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, THREADS_MAX));
        let mut handles = Vec::new();
        for _ in 0..threads {
            let (bench, done) = (Arc::clone(&bench), done.clone());
            let thread = std::thread::Builder::new().name("bowline-work".to_owned());
            handles.push(thread.spawn(move || bench.work(&done))?);
        }
        Ok((Workshop { jobs }, handles))
    }

    pub(crate) fn order(&self, job: Job) {
        // The threads only end when this handle is dropped.
        let _ = self.jobs.send(job);
    }
}

struct Bench {
    places: Places,
    prepare: Prepare,
    /// Attempts from before the machine was restarted. They may be readable only now, and nothing of them lives.
    of_earlier_boot: BTreeSet<Uuid>,
    queue: Mutex<Receiver<Job>>,
}

impl Bench {
    fn work(&self, done: &tokio::sync::mpsc::Sender<Done>) {
        while let Some(job) = self.next() {
            if done.blocking_send(self.perform(job)).is_err() {
                return;
            }
        }
    }

    fn next(&self) -> Option<Job> {
        // A thread that panicked left a queue that is as good as before.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }

    fn perform(&self, job: Job) -> Done {
        match job {
            Job::Prepare { spec, rules } => {
                let ticket = spec.ticket;
                Done::Prepared { ticket, launched: self.prepare.prepare(&self.places.attempt(ticket), *spec, rules) }
            }
            Job::Void { ticket, told } => {
                let claim = adopt::take_back(&mut OnDisk(&self.places.attempt(ticket)), told);
                Done::Claimed { ticket, told, claim }
            }
            Job::EndLease { ticket } => {
                Done::LeaseEnded { ticket, remains: adopt::end_lease(&mut OnDisk(&self.places.attempt(ticket))) }
            }
            Job::Examine { ticket } => {
                // A worker does not live through a restart of its machine: what it found may be older, what it made is not.
                let rebooted = self.of_earlier_boot.contains(&ticket.attempt);
                Done::Looked { ticket, look: adopt::look(&mut OnDisk(&self.places.attempt(ticket)), rebooted) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use protocol::folder::SPEC_FILE;
    use runner::folder_io;

    use super::*;
    use crate::options::{RunnerCommand, Spool, WorkerOptions};

    fn options(state: &Path) -> WorkerOptions {
        WorkerOptions {
            servers: Vec::new(),
            name: String::new(),
            tags: Vec::new(),
            slots: 1,
            state: state.to_owned(),
            enroll_token: None,
            no_reconnect: false,
            ephemeral: false,
            once: false,
            caretaker: false,
            caretaker_command: None,
            stop_grace: Duration::ZERO,
            stop_steps: false,
            spool: Spool::default(),
            runner: RunnerCommand { program: "bowline".into(), arguments: Vec::new() },
            version: String::new(),
        }
    }

    /// What a later look says of a folder whose spec went with the power, and which could not be read at the start.
    fn look_again(was_restarted: bool) -> Result<Look, FolderError> {
        let root = tempfile::tempdir().expect("a temporary folder");
        let [attempts, kept, aside] = ["attempts", "kept", "aside"].map(|name| root.path().join(name));
        let places = Places { attempts, kept, aside };
        let ticket = Ticket { attempt: Uuid::from_u128(7), fence: 0 };
        let folder = places.attempt(ticket);
        fs::create_dir_all(&folder).expect("writable");
        fs::write(folder.join(SPEC_FILE), "").expect("writable");
        folder_io::claim(&folder, Claim::Intent, false).expect("writable");
        let of_earlier_boot = Some(ticket.attempt).filter(|_| was_restarted).into_iter().collect();
        let prepare = Prepare::new(&options(root.path()), None);
        let bench = Bench { places, prepare, of_earlier_boot, queue: Mutex::new(mpsc::channel().1) };
        match bench.perform(Job::Examine { ticket }) {
            Done::Looked { look, .. } => look,
            other => panic!("a look, not {other:?}"),
        }
    }

    #[test]
    fn what_was_found_after_a_restart_of_the_machine_is_looked_at_as_such() {
        assert!(matches!(look_again(false), Ok(Look::Hollow)), "it may have run");
        assert!(matches!(look_again(true), Ok(Look::HalfMade)));
    }
}
