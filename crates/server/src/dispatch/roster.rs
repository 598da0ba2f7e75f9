//! The workers that this server knows: who is connected, what each holds, and who has a slot free.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use engine::workers::{Label, Unwilling, Workers};
use engine::{AttemptId, Epoch, Heard, JobId, Time, WorkerId};
use planted::Bug;
use store::rows::WorkerRow;
use uuid::Uuid;

use super::queue::Place;
use super::tags::TagSet;

/// One connection of one worker; never reused while the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// A worker's row says to within this when it was last heard from.
const SEEN_INTERVAL: Duration = Duration::from_secs(5);

/// Why such a worker gets no new work.
const REMOVED: &str = "removed";

/// The word for it in a worker's row.
pub const EPHEMERAL: &str = "ephemeral";

#[derive(Debug, Default)]
pub struct Roster {
    workers: BTreeMap<WorkerId, Worker>,
    /// Workers that can take an offer now, by their tags; within, the one with the most free slots last. Below zero are
    /// those whose slots are all taken, and who prepare some more.
    free: BTreeMap<TagSet, BTreeSet<(i64, WorkerId)>>,
    /// Where each held attempt belongs.
    places: HashMap<AttemptId, Place>,
    /// The same by job, with who holds them.
    of_job: BTreeSet<(JobId, AttemptId, WorkerId)>,
    connected: usize,
    /// An operator's order that nothing new is handed out.
    pause: Option<Pause>,
    /// When the last such order was taken back.
    resumed: Option<Heard>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    pub since: Time,
    pub by: String,
}

/// Why a worker gets no new work. Whoever said so takes only their own word back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drain {
    /// An operator, by `worker-drain`; stored.
    pub operator: bool,
    /// The worker itself: it is about to stop.
    pub own: bool,
    /// It only looks after what is left of another one.
    pub caretaker: bool,
}

impl Drain {
    pub fn is_on(self) -> bool {
        self.operator || self.own || self.caretaker
    }
}

#[derive(Debug, Clone)]
pub struct Worker {
    pub name: String,
    pub hostname: String,
    pub tags: TagSet,
    pub slots: u32,
    /// Offers beyond its slots that it prepares, as it last said.
    pub ahead: u32,
    pub epoch: Epoch,
    pub link: Option<LinkId>,
    /// Another server has its link: that one hands it work.
    pub elsewhere: bool,
    pub drain: Drain,
    /// Taken out of the fleet; kept for its name, and so that its next hello is answered.
    pub removed: bool,
    /// It refused an offer: no more until its next heartbeat.
    pub blocked: bool,
    pub last_seen: Option<Time>,
    /// When `last_seen` last went to the database.
    pub seen_written: Option<Time>,
    /// When its last heartbeat came; its hello counts as one.
    pub last_beat: Heard,
    /// Since when it takes no new work: its link was lost, or it is drained.
    pub left: Option<Heard>,
    /// When its link was seen to end.
    pub left_at: Option<Time>,
    /// Made by a scaler, for a single use.
    pub ephemeral: bool,
    /// It said that it will not come back for its attempts.
    pub no_reconnect: bool,
    /// Its link ended with a server, not by itself: it gets its window, whatever else is known.
    pub left_with_server: bool,
    /// Offered to it, or living on it.
    pub held: BTreeMap<AttemptId, Place>,
    /// What runs there and is no step's current attempt: given up, or not known at all. It takes slots all the same.
    pub strays: BTreeSet<AttemptId>,
}

impl Worker {
    /// Whether it is known to be connected elsewhere, with all that its row says.
    fn is_as_elsewhere(&self, row: &WorkerRow) -> bool {
        let drain = Drain { operator: row.draining, own: row.unwilling, caretaker: false };
        let link = self.elsewhere && !self.left_with_server && self.left.is_some() != self.takes_work();
        let named = self.name == row.name && self.hostname == row.hostname && self.ephemeral == (row.kind == EPHEMERAL);
        let alive = self.epoch >= row.epoch && self.last_seen == row.last_seen_at;
        link && named && self.is_tagged_as(row) && alive && self.slots == row.slots && self.drain == drain
    }

    fn is_tagged_as(&self, row: &WorkerRow) -> bool {
        self.tags.is_of_row(row)
    }

    /// What its row says of it, whoever has its link.
    fn take_over(&mut self, row: &WorkerRow) {
        self.name.clone_from(&row.name);
        self.hostname.clone_from(&row.hostname);
        if !self.is_tagged_as(row) {
            self.tags = TagSet::of_row(row);
        }
        self.slots = row.slots;
        self.epoch = self.epoch.max(row.epoch);
        self.last_seen = row.last_seen_at;
        self.ephemeral = row.kind == EPHEMERAL;
    }

    /// One that is not connected, and of which little is known yet.
    pub fn away(name: String) -> Worker {
        Worker {
            name,
            hostname: String::new(),
            tags: TagSet::default(),
            slots: 0,
            ahead: 0,
            epoch: Epoch::default(),
            link: None,
            elsewhere: false,
            drain: Drain::default(),
            removed: false,
            blocked: false,
            last_seen: None,
            seen_written: None,
            last_beat: Heard::MIN,
            left: None,
            left_at: None,
            ephemeral: false,
            no_reconnect: false,
            left_with_server: false,
            held: BTreeMap::new(),
            strays: BTreeSet::new(),
        }
    }

    /// Since when it takes no new work, if it takes none from now on. A caretaker that comes in its place changes nothing of that.
    pub fn without_work_since(&self, heard: Heard) -> Heard {
        self.left.filter(|_| !self.takes_work()).unwrap_or(heard)
    }

    /// Its link is gone, and it may come back to work.
    fn is_cut_off(&self) -> bool {
        !self.is_connected() && !self.drain.is_on()
    }

    /// It has a link, to whichever server.
    pub fn is_connected(&self) -> bool {
        self.link.is_some() || self.elsewhere
    }

    /// Whether it can take an offer now, be it only to prepare it.
    pub fn has_room(&self) -> bool {
        self.link.is_some() && self.takes_work() && !self.blocked && self.free() > -i64::from(self.ahead)
    }

    /// Slots that are not taken; below zero where more was offered than there are.
    fn free(&self) -> i64 {
        i64::from(self.slots) - i64::try_from(self.held.len() + self.strays.len()).unwrap_or(i64::MAX)
    }

    /// Connected, and willing in general.
    pub fn takes_work(&self) -> bool {
        self.unwilling().is_none()
    }

    /// Why it gets no new work at all, if so.
    pub fn unwilling(&self) -> Option<&'static str> {
        if self.removed { Some(REMOVED) } else { unwilling(self.is_connected(), self.drain.is_on()) }
    }
}

/// Why a worker that was not removed gets no new work, if so.
pub fn unwilling(connected: bool, draining: bool) -> Option<&'static str> {
    match (connected, draining) {
        (true, false) => None,
        (true, true) => Some("draining"),
        (false, false) => Some("not connected"),
        (false, true) => Some("draining, not connected"),
    }
}

impl Roster {
    /// Takes over what a worker's row says of it, while it has no link.
    pub fn know(&mut self, row: &WorkerRow, left: Heard) {
        self.update(row.id, |worker| {
            let worker = worker.get_or_insert_with(|| Worker::away(row.name.clone()));
            worker.take_over(row);
            // It may have come and gone at another server since it said that it takes no more.
            worker.drain = Drain { operator: row.draining, own: row.unwilling, caretaker: false };
            // A link that this server saw end by itself is not one that ended with a server.
            if worker.left.is_none() || worker.elsewhere {
                worker.left_with_server = true;
            }
            worker.left = Some(left);
            worker.elsewhere = false;
        });
    }

    /// Takes over what the row of a worker says whose link another server has.
    pub fn know_elsewhere(&mut self, row: &WorkerRow, heard: Heard) {
        // Every row is read with every mark, and hardly ever says anything new.
        if self.get(row.id).is_some_and(|worker| worker.is_as_elsewhere(row)) {
            return;
        }
        self.update(row.id, |worker| {
            let worker = worker.get_or_insert_with(|| Worker::away(row.name.clone()));
            worker.take_over(row);
            let without_work = worker.without_work_since(heard);
            worker.drain = Drain { operator: row.draining, own: row.unwilling, caretaker: false };
            worker.elsewhere = true;
            worker.left_with_server = false;
            worker.left = (!worker.takes_work()).then_some(without_work);
        });
    }

    pub fn get(&self, id: WorkerId) -> Option<&Worker> {
        self.workers.get(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (WorkerId, &Worker)> {
        self.workers.iter().map(|(id, worker)| (*id, worker))
    }

    /// How many entries there are of attempts that are held, by attempt and by job.
    pub fn places(&self) -> usize {
        self.places.len() + self.of_job.len()
    }

    /// Puts a worker in, or changes one, and keeps the index of free ones true.
    pub fn update(&mut self, id: WorkerId, change: impl FnOnce(&mut Option<Worker>)) {
        let mut worker = self.workers.remove(&id);
        if let Some(known) = &worker {
            self.connected -= usize::from(known.link.is_some());
            let free = known.free();
            if let Some(class) = self.free.get_mut(&known.tags)
                && class.remove(&(free, id))
                && class.is_empty()
            {
                self.free.remove(&known.tags);
            }
        }
        change(&mut worker);
        if let Some(mut worker) = worker {
            // What runs there besides is known from its link, and said again with its next hello.
            if worker.link.is_none() {
                worker.strays.clear();
            }
            self.connected += usize::from(worker.link.is_some());
            if worker.has_room() {
                self.free.entry(worker.tags.clone()).or_default().insert((worker.free(), id));
            }
            self.workers.insert(id, worker);
        }
    }

    /// Notes a sign of life. Returns whether the row's own note of it is old enough to be written again.
    pub fn heard_from(&mut self, id: WorkerId, now: Time) -> bool {
        let Some(worker) = self.workers.get_mut(&id) else { return false };
        worker.last_seen = Some(now);
        let due = worker.seen_written.is_none_or(|at| now.since(at) >= SEEN_INTERVAL);
        if due {
            worker.seen_written = Some(now);
        }
        due
    }

    /// Where an attempt that someone holds belongs.
    pub fn place(&self, attempt: AttemptId) -> Option<Place> {
        self.places.get(&attempt).copied()
    }

    /// The same, and who holds it.
    pub fn holder(&self, attempt: AttemptId) -> Option<(WorkerId, Place)> {
        let place = self.place(attempt)?;
        let (_, held, worker) = self.of_job.range((place.job, attempt, WorkerId(Uuid::nil()))..).next()?;
        (*held == attempt).then_some((*worker, place))
    }

    /// The worker now holds this attempt.
    pub fn hold(&mut self, id: WorkerId, attempt: AttemptId, place: Place) {
        self.places.insert(attempt, place);
        self.of_job.insert((place.job, attempt, id));
        self.update(id, |worker| {
            worker.get_or_insert_with(|| Worker::away(id.to_string())).held.insert(attempt, place);
        });
    }

    pub fn release(&mut self, id: WorkerId, attempt: AttemptId) {
        if let Some(place) = self.places.remove(&attempt) {
            self.of_job.remove(&(place.job, attempt, id));
        }
        self.update(id, |worker| {
            if let Some(worker) = worker {
                worker.held.remove(&attempt);
            }
        });
    }

    /// Whatever of this job somebody holds; returns that.
    pub fn release_job(&mut self, job: JobId) -> Vec<AttemptId> {
        let lowest = (job, AttemptId(Uuid::nil()), WorkerId(Uuid::nil()));
        let of_job = self.of_job.range(lowest..).take_while(|(of, ..)| *of == job);
        let held: Vec<(AttemptId, WorkerId)> = of_job.map(|(_, attempt, worker)| (*attempt, *worker)).collect();
        held.into_iter()
            .map(|(attempt, worker)| {
                self.release(worker, attempt);
                attempt
            })
            .collect()
    }

    /// Forgets what workers hold, before it is read again from the store.
    pub fn clear_held(&mut self) {
        self.places.clear();
        self.of_job.clear();
        let ids: Vec<WorkerId> = self.workers.keys().copied().collect();
        for id in ids {
            self.update(id, |worker| {
                if let Some(worker) = worker {
                    worker.held.clear();
                }
            });
        }
    }

    /// The matching worker with the most free slots; `avoid` only if there is no other.
    pub(super) fn best(&self, wanted: &TagSet, avoid: Option<WorkerId>) -> Option<WorkerId> {
        let mut best: Option<(i64, WorkerId)> = None;
        let mut last_resort = None;
        for (_, class) in self.free.iter().filter(|(tags, _)| tags.contains_all(wanted)) {
            for &(free, id) in class.iter().rev().take(2) {
                if Some(id) == avoid {
                    last_resort = Some(id);
                } else if best.is_none_or(|(most, _)| free > most) {
                    best = Some((free, id));
                }
            }
        }
        best.map(|(_, id)| id).or(last_resort)
    }

    /// Whether anything can be handed out at all now.
    pub(super) fn any_free(&self) -> bool {
        self.pause.is_none() && !self.free.is_empty()
    }

    pub fn pause(&self) -> Option<&Pause> {
        self.pause.as_ref()
    }

    pub fn pause_dispatch(&mut self, pause: Pause) {
        self.pause = Some(pause);
    }

    pub fn resume_dispatch(&mut self, heard: Heard) {
        self.pause = None;
        self.resumed = Some(heard);
    }

    /// Changes one party's word on whether the worker gets new work; the others' stay.
    pub fn drain(&mut self, id: WorkerId, heard: Heard, change: impl FnOnce(&mut Drain)) {
        self.update(id, |worker| {
            let Some(worker) = worker else { return };
            let took_work = worker.takes_work();
            change(&mut worker.drain);
            match (took_work, worker.takes_work()) {
                (true, false) => worker.left = Some(heard),
                (false, true) => worker.left = None,
                (true, true) | (false, false) => {}
            }
        });
    }

    /// Since when no worker could run a step with these tags; none if one could, or may come back within its
    /// window, or if nobody is asked.
    pub fn unmatched_since(&self, wanted: &TagSet, heard: Heard, window: Duration) -> Option<Heard> {
        if self.pause.is_some() {
            return None;
        }
        let mut since = self.resumed.unwrap_or(Heard::MIN);
        for worker in self.workers.values().filter(|w| !w.removed && w.tags.contains_all(wanted)) {
            let awaited = !planted::is(Bug::NobodyAwaited)
                && worker.is_cut_off()
                && worker.left.is_some_and(|left| heard < left + window);
            if worker.takes_work() || awaited {
                return None;
            }
            since = since.max(worker.left.unwrap_or(since));
        }
        Some(since)
    }

    /// Those that have all these tags, and get no new work.
    pub fn unwilling(&self, wanted: &TagSet) -> Vec<Unwilling> {
        let fitting = self.workers.values().filter(|w| w.tags.contains_all(wanted));
        fitting.filter_map(|w| Some(Unwilling { why: w.unwilling()?, name: w.name.clone() })).collect()
    }

    /// How many take new work.
    pub fn willing(&self) -> usize {
        self.workers.values().filter(|w| w.takes_work()).count()
    }

    /// Which of these tags nobody who takes new work has.
    pub fn missing(&self, wanted: &TagSet) -> Vec<String> {
        let has = |tag: &str| self.workers.values().any(|w| w.takes_work() && w.tags.iter().any(|t| t == tag));
        wanted.iter().filter(|tag| !has(tag)).map(str::to_owned).collect()
    }

    /// How many of those that are here were not made by a scaler.
    pub fn connected_static(&self) -> usize {
        self.workers.values().filter(|w| w.is_connected() && !w.ephemeral).count()
    }

    pub fn connected(&self) -> usize {
        self.connected
    }
}

/// Names for the engine's messages.
impl Workers for Roster {
    fn label(&self, id: WorkerId) -> Option<Label> {
        let worker = self.workers.get(&id)?;
        Some(Label { name: worker.name.clone(), host: worker.hostname.clone(), removed: worker.removed })
    }
}
