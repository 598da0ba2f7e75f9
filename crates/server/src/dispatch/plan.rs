//! Which queued step goes to which worker, now.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use engine::WorkerId;

use super::queue::{Place, Queue};
use super::roster::Roster;
use super::share::Turn;
use super::tags::TagSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assignment {
    pub place: Place,
    pub worker: WorkerId,
}

/// The next assignment: the first step in the order of service that some worker can take.
///
/// A lane whose workers are all busy is passed over, so a blocked step holds up nobody else. The caller carries
/// the assignment out (which takes the step from the queue and a slot from the worker) and asks again.
pub fn plan(queue: &Queue, roster: &Roster) -> Option<Assignment> {
    if !roster.any_free() || queue.is_empty() {
        return None;
    }
    let heads: BTreeMap<(Reverse<i32>, Turn), &TagSet> =
        queue.turns().map(|(tags, priority, turn)| ((priority, turn), tags)).collect();
    heads.into_iter().find_map(|((_, turn), tags)| {
        let place = turn.key.place;
        let worker = roster.best(tags, queue.avoid(place))?;
        Some(Assignment { place, worker })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::{AttemptId, Epoch, Heard, JobId, StepIx, Time};
    use uuid::Uuid;

    use super::super::queue::QueueKey;
    use super::super::roster::{Drain, LinkId, Pause, Worker};
    use super::super::share::{Whose, work};
    use super::*;

    const WINDOW: std::time::Duration = std::time::Duration::from_secs(120);

    fn tags(words: &str) -> TagSet {
        TagSet::new(words.split_whitespace().map(Arc::from))
    }

    fn worker(n: u128, words: &str, slots: u32) -> (WorkerId, Worker) {
        let worker = Worker {
            name: format!("w{n}"),
            hostname: String::new(),
            tags: tags(words),
            slots,
            ahead: 0,
            epoch: Epoch(1),
            link: Some(LinkId(1)),
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
            strays: std::collections::BTreeSet::new(),
        };
        (WorkerId(Uuid::from_u128(n)), worker)
    }

    fn roster(workers: Vec<(WorkerId, Worker)>) -> Roster {
        let mut roster = Roster::default();
        for (id, worker) in workers {
            roster.update(id, |slot| *slot = Some(worker));
        }
        roster
    }

    fn place(n: u128) -> Place {
        Place { job: JobId(Uuid::from_u128(n)), step: StepIx(0) }
    }

    fn key(n: u128, priority: i32, since: i64) -> QueueKey {
        QueueKey { priority: Reverse(priority), since: Time(since), place: place(n) }
    }

    /// By its number: from 1000 on somebody else's, from 2000 on another task of the first, from 3000 on another job.
    fn whose(n: u128) -> Whose {
        match n / 1_000 {
            0 => Whose::named("ann", "big", 1),
            1 => Whose::named("bob", "big", 2),
            2 => Whose::named("ann", "small", 3),
            _ => Whose::named("ann", "big", 4),
        }
    }

    /// Carries out plans until there is none, and tells which step went to which worker.
    fn run(queue: &mut Queue, roster: &mut Roster) -> Vec<(u128, u128)> {
        let mut made = Vec::new();
        while let Some(Assignment { place, worker }) = plan(queue, roster) {
            queue.remove(place);
            roster.hold(worker, AttemptId(place.job.0), place);
            queue.hold(AttemptId(place.job.0), whose(place.job.0.as_u128()));
            made.push((place.job.0.as_u128(), worker.0.as_u128()));
        }
        made
    }

    #[test]
    fn priority_then_age_and_one_worker_each() {
        let mut queue = Queue::default();
        queue.insert(key(1, 0, 10), tags("script"), None, whose(1));
        queue.insert(key(2, 0, 5), tags("script"), None, whose(2));
        queue.insert(key(3, 7, 20), tags("script"), None, whose(3));
        let mut roster = roster(vec![worker(100, "script", 2)]);
        assert_eq!(run(&mut queue, &mut roster), vec![(3, 100), (2, 100)]);
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn one_step_and_four_idle_workers_is_one_offer() {
        let mut queue = Queue::default();
        queue.insert(key(1, 0, 10), tags("script"), None, whose(1));
        let mut roster = roster((100..104).map(|n| worker(n, "script", 4)).collect());
        assert_eq!(run(&mut queue, &mut roster).len(), 1);
    }

    #[test]
    fn a_blocked_step_does_not_hold_up_others() {
        let mut queue = Queue::default();
        queue.insert(key(1, 9, 1), tags("gpu script"), None, whose(1));
        queue.insert(key(2, 0, 2), tags("script"), None, whose(2));
        let mut roster = roster(vec![worker(100, "script", 1)]);
        assert_eq!(run(&mut queue, &mut roster), vec![(2, 100)]);
    }

    #[test]
    fn the_least_busy_worker_is_taken_and_the_avoided_one_last() {
        let mut queue = Queue::default();
        queue.insert(key(1, 0, 1), tags("script"), Some(WorkerId(Uuid::from_u128(101))), whose(1));
        let mut roster = roster(vec![worker(100, "script", 1), worker(101, "script linux", 8)]);
        assert_eq!(run(&mut queue, &mut roster), vec![(1, 100)]);
        queue.insert(key(2, 0, 1), tags("script"), Some(WorkerId(Uuid::from_u128(101))), whose(2));
        assert_eq!(run(&mut queue, &mut roster), vec![(2, 101)]);
    }

    #[test]
    fn who_refused_is_asked_again_only_after_a_heartbeat() {
        let mut queue = Queue::default();
        queue.insert(key(1, 0, 1), tags("script"), None, whose(1));
        let (id, mut worker) = worker(100, "script", 1);
        worker.blocked = true;
        let mut roster = roster(vec![(id, worker)]);
        assert_eq!(plan(&queue, &roster), None);
        roster.update(id, |w| w.as_mut().expect("it is there").blocked = false);
        assert!(plan(&queue, &roster).is_some());
    }

    #[test]
    fn a_pause_and_a_drain_hand_nothing_out() {
        let mut queue = Queue::default();
        queue.insert(key(1, 0, 1), tags("script"), None, whose(1));
        let (id, brisk) = worker(100, "script", 1);
        let mut roster = roster(vec![(id, brisk)]);
        roster.pause_dispatch(Pause { since: Time(1), by: "ann".to_owned() });
        assert_eq!(plan(&queue, &roster), None);
        assert_eq!(roster.unmatched_since(&tags("gpu"), Heard(9), WINDOW), None, "nobody is asked");
        roster.resume_dispatch(Heard(5));
        assert!(plan(&queue, &roster).is_some());
        assert_eq!(roster.unmatched_since(&tags("gpu"), Heard(9), WINDOW), Some(Heard(5)), "patience begins anew");
        for (change, by) in [
            (Drain { operator: true, ..Drain::default() }, "an operator"),
            (Drain { own: true, ..Drain::default() }, "itself"),
            (Drain { caretaker: true, ..Drain::default() }, "its kind"),
        ] {
            roster.drain(id, Heard(7), |drain| *drain = change);
            assert_eq!(plan(&queue, &roster), None, "drained by {by}");
            assert_eq!(roster.unmatched_since(&tags("script"), Heard(9), WINDOW), Some(Heard(7)));
        }
    }

    #[test]
    fn a_free_slot_is_better_than_a_place_in_a_short_line() {
        let mut queue = Queue::default();
        for n in 1..=6 {
            queue.insert(key(n, 0, n as i64), tags("script"), None, whose(n));
        }
        let (brisk, mut worker_1) = worker(100, "script", 1);
        worker_1.ahead = 2;
        let mut roster = roster(vec![(brisk, worker_1), worker(101, "script", 2)]);
        let made: Vec<u128> = run(&mut queue, &mut roster).into_iter().map(|(_, worker)| worker).collect();
        assert_eq!(made.len(), 5, "three slots, and two places ahead");
        assert_eq!(made[3..], [100, 100], "a place ahead is given when no slot is left: {made:?}");
    }

    /// Ten thousand of one fan-out wait, and some of them run: whoever comes later has the next slot.
    #[test]
    fn a_large_fan_out_starves_nobody() {
        let mut queue = Queue::default();
        for n in 1..=999 {
            queue.insert(key(n, 0, 1), tags("script"), None, whose(n));
        }
        let mut roster = roster(vec![worker(100, "script", 4)]);
        assert_eq!(run(&mut queue, &mut roster).len(), 4);
        for (n, late) in [(3_000, "another job of the task"), (2_000, "another task"), (1_000, "another submitter")] {
            queue.insert(key(n, 0, 99), tags("script"), None, whose(n));
            free_one(&mut queue, &mut roster);
            assert_eq!(run(&mut queue, &mut roster), [(n, 100)], "{late}");
        }
        // Two others at once: the submitter with less at workers comes before the task with less.
        queue.insert(key(2_001, 0, 50), tags("script"), None, whose(2_001));
        queue.insert(key(1_001, 0, 99), tags("script"), None, whose(1_001));
        queue.release(AttemptId(Uuid::from_u128(1_000)));
        roster.release(WorkerId(Uuid::from_u128(100)), AttemptId(Uuid::from_u128(1_000)));
        assert_eq!(run(&mut queue, &mut roster), [(1_001, 100)]);
        // Priority goes before all of it.
        queue.insert(key(5, 1, 100), tags("script"), None, whose(5));
        free_one(&mut queue, &mut roster);
        assert_eq!(run(&mut queue, &mut roster), [(5, 100)]);
        let everyone = queue.len();
        queue.clear_held();
        assert_eq!(queue.len(), everyone, "what waits stays");
    }

    /// Slots of the worker that everybody shares.
    const SLOTS: u32 = 8;

    /// A fan-out of so many items of one submitter, and now and then a job of three steps of another, until all have run. Returns
    /// after how many grants at most a step of the small jobs was granted, and what was done for the costliest event.
    fn beside_a_fan_out(items: u128) -> (usize, u64) {
        let (mut queue, mut roster) = (Queue::default(), roster(vec![worker(100, "script", SLOTS)]));
        let mut costliest = 0;
        let mut ends_event = |_: &Queue| costliest = costliest.max(work::take());
        for n in 1..=items {
            queue.insert(key(n, 0, 1), tags("script"), None, Whose::named("ann", "big", 1));
            ends_event(&queue);
        }
        let is_small = |n: u128| n > items;
        let (mut small, mut running) = (0, std::collections::VecDeque::new());
        // When each of the small steps that wait came, in grants.
        let (mut waiting, mut grants, mut slowest) = (BTreeMap::new(), 0, 0);
        loop {
            while let Some(Assignment { place, worker }) = plan(&queue, &roster) {
                let n = place.job.0.as_u128();
                let whose = if is_small(n) { Whose::named("bob", "small", 2) } else { Whose::named("ann", "big", 1) };
                queue.remove(place);
                roster.hold(worker, AttemptId(place.job.0), place);
                queue.hold(AttemptId(place.job.0), whose);
                grants += 1;
                if let Some(came) = waiting.remove(&n) {
                    slowest = slowest.max(grants - came);
                }
                running.push_back((worker, AttemptId(place.job.0)));
                ends_event(&queue);
            }
            let Some((worker, attempt)) = running.pop_front() else { break };
            queue.release(attempt);
            roster.release(worker, attempt);
            ends_event(&queue);
            if grants % 100 == 0 && grants < items as usize {
                for _ in 0..3 {
                    small += 1;
                    let n = items + small;
                    queue.insert(key(n, 0, 2 + small as i64), tags("script"), None, Whose::named("bob", "small", 2));
                    waiting.insert(n, grants);
                    ends_event(&queue);
                }
            }
        }
        assert!(small > 0 && waiting.is_empty() && queue.is_empty(), "all have run");
        (slowest, costliest)
    }

    /// Whoever has little waits for a few grants at most, however much others have waiting; and no event costs more for that.
    #[test]
    fn ten_thousand_items_hold_up_nobody_and_cost_no_more_than_a_hundred() {
        let (slowest, costliest) = beside_a_fan_out(10_000);
        assert!(slowest <= SLOTS as usize, "a step of a small job waited for {slowest} grants");
        assert_eq!((slowest, costliest), beside_a_fan_out(1_000), "the same as beside a tenth of it");
        assert!(costliest <= 40, "{costliest} places were moved for one event");
    }

    /// One of the fan-out's steps ends.
    fn free_one(queue: &mut Queue, roster: &mut Roster) {
        let worker = WorkerId(Uuid::from_u128(100));
        let held = roster.get(worker).expect("it is there").held.keys().copied();
        let attempt = held.min().expect("it has something");
        queue.release(attempt);
        roster.release(worker, attempt);
    }

    /// Where everybody has as much, they take turns.
    #[test]
    fn equals_take_turns() {
        let mut queue = Queue::default();
        for n in (1..=6).chain(1_001..=1_003) {
            queue.insert(key(n, 0, n as i64), tags("script"), None, whose(n));
        }
        let mut roster = roster(vec![worker(100, "script", 6)]);
        let made: Vec<u128> = run(&mut queue, &mut roster).into_iter().map(|(step, _)| step).collect();
        assert_eq!(made, [1, 1_001, 2, 1_002, 3, 1_003]);
    }
}
