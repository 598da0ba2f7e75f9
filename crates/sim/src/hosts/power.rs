//! What happens to a machine as a whole, or to its worker from outside.

use std::time::Duration;

use protocol::attempt::Ticket;

use super::HostEvent;
use crate::disk::Shortened;
use crate::runners::RunnerEvent;
use crate::world::{Event, World};

impl World {
    /// The machine loses its power: all processes are gone, and nobody is told.
    pub(crate) fn cut_power(&mut self, at: usize, time: Duration) {
        if !self.hosts[at].on {
            return;
        }
        self.tell(|| format!("host {at} loses its power for {time:?}"));
        self.all_dies(at);
        self.agenda.after(time, Event::Host { host: at, what: HostEvent::Boot });
    }

    /// It is off, and nothing runs there any more.
    fn all_dies(&mut self, at: usize) {
        let now = self.agenda.now();
        self.check(|checks| checks.host_wakes(now, at));
        self.hosts[at].on = false;
        self.hosts[at].asleep = None;
        self.hosts[at].frozen = None;
        self.hosts[at].process = None;
        self.hosts[at].deleted.clear();
        let pids: Vec<u32> = self.hosts[at].runners.keys().copied().collect();
        for pid in pids {
            self.runner_gone(at, pid);
        }
        let groups: Vec<Ticket> = self.hosts[at].groups.keys().copied().collect();
        for ticket in groups {
            self.kill_group(at, ticket);
        }
    }

    /// The same, and what was written and not synced is gone as well.
    pub(crate) fn pull_plug(&mut self, at: usize, time: Duration) {
        self.cut_power(at, time);
        let now = self.agenda.now();
        let host = &mut self.hosts[at];
        let logs = host.disk.lose_unsynced(now, &mut host.dice);
        for Shortened { ticket, last_seq } in logs {
            self.check(|checks| checks.log_rolled_back(ticket, last_seq));
        }
    }

    pub(super) fn boot(&mut self, at: usize) {
        let now = self.agenda.now();
        let host = &mut self.hosts[at];
        if host.taken_away {
            return;
        }
        host.on = true;
        host.boots += 1;
        host.booted_at = now;
        self.tell(|| format!("host {at} boots"));
        self.agenda.after(Duration::from_secs(3), Event::Host { host: at, what: HostEvent::StartWorker });
    }

    /// The machine sleeps: nothing runs, clocks that count sleep go on.
    pub(crate) fn put_to_sleep(&mut self, at: usize, time: Duration) {
        let host = &mut self.hosts[at];
        if host.on && host.asleep.is_none() {
            host.asleep = Some(Vec::new());
            self.tell(|| format!("host {at} sleeps for {time:?}"));
            self.check(|checks| checks.host_sleeps(at));
            self.agenda.after(time, Event::Host { host: at, what: HostEvent::Wake });
        }
    }

    /// Whatever keeps the host from working is over.
    pub(crate) fn host_at_peace(&mut self, at: usize) {
        if self.hosts[at].copy_of.is_some() {
            self.tell(|| format!("host {at}: somebody sees that it is a copy, and takes it away"));
            self.hosts[at].taken_away = true;
            return self.all_dies(at);
        }
        if !self.hosts[at].on {
            self.boot(at);
        }
        self.wake_host(at);
        if let Some(life) = self.hosts[at].process.as_ref().map(|process| process.life) {
            self.thaw_worker(at, life);
        }
        let frozen: Vec<u32> = self.hosts[at].runners.keys().copied().collect();
        for pid in frozen {
            self.agenda.after(Duration::ZERO, Event::Runner { host: at, pid, what: RunnerEvent::Thaw });
        }
        self.agenda.after(Duration::from_secs(1), Event::Host { host: at, what: HostEvent::StartWorker });
    }

    pub(super) fn wake_host(&mut self, at: usize) {
        let Some(backlog) = self.hosts[at].asleep.take() else { return };
        self.tell(|| format!("host {at} wakes up"));
        let now = self.agenda.now();
        self.check(|checks| checks.host_wakes(now, at));
        backlog.into_iter().for_each(|event| self.agenda.after(Duration::ZERO, event));
    }

    pub(crate) fn freeze_worker(&mut self, at: usize, time: Duration) {
        let host = &mut self.hosts[at];
        if let Some(process) = &host.process
            && host.frozen.is_none()
        {
            let life = process.life;
            host.frozen = Some(Vec::new());
            self.tell(|| format!("host {at}: the worker is frozen for {time:?}"));
            self.agenda.after(time, Event::Host { host: at, what: HostEvent::ThawWorker { life } });
        }
    }

    pub(super) fn thaw_worker(&mut self, at: usize, life: u64) {
        if self.hosts[at].has_worker(life)
            && let Some(backlog) = self.hosts[at].frozen.take()
        {
            self.tell(|| format!("host {at}: the worker goes on"));
            backlog.into_iter().for_each(|event| self.agenda.after(Duration::ZERO, event));
        }
    }
}
