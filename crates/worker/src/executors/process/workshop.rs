//! The threads that do what blocks, so that the shell never does.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use protocol::attempt::{AttemptSpec, Ticket};
use protocol::folder::{Claim, RunnerRules};
use runner::folder_io::FolderError;
use runner::remains::Remains;

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
    Void { ticket: Ticket },
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
        done: &tokio::sync::mpsc::Sender<Done>,
    ) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let (jobs, queue) = mpsc::channel();
        let bench = Arc::new(Bench { places: places.clone(), prepare, queue: Mutex::new(queue) });
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
            Job::Void { ticket } => {
                Done::Claimed { ticket, claim: adopt::take_back(&mut OnDisk(&self.places.attempt(ticket))) }
            }
            Job::EndLease { ticket } => {
                Done::LeaseEnded { ticket, remains: adopt::end_lease(&mut OnDisk(&self.places.attempt(ticket))) }
            }
            // In this boot: a worker does not live through a restart of its machine.
            Job::Examine { ticket } => {
                Done::Looked { ticket, look: adopt::look(&mut OnDisk(&self.places.attempt(ticket)), false) }
            }
        }
    }
}
