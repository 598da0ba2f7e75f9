//! What one of several servers does for all: who takes over when it is gone, and what becomes of what it does too late.

use std::time::Duration;

use engine::{JobId, Time};
use server::ledger::{Command, Commit, PruneOrder};
use server::schedule::plan::job_id;
use store::{JobFilter, Lease, Store};
use tokio::sync::oneshot;

use crate::cluster::Cluster;
use crate::desk::{Desk, ONE};

const SECOND: Duration = Duration::from_secs(1);

/// As long as a lease lasts without its holder, and until the next one asks for it.
const RELIEVED: Duration = Duration::from_secs(11);

/// Every ten minutes.
const TIDY: &str = "name: tidy\nsteps:\n  a: { run: 'true' }\ntriggers: [{ cron: '*/10 * * * *' }]\n";
const ID: &str = "tidy:cron:1";
const DUE: Time = Time(1_700_000_400_000_000);

/// Which server has the lease, by its place, and in which epoch.
fn holder<S: Store>(desk: &Desk<S>, lease: Lease) -> Option<(usize, u64)> {
    let servers = desk.reader.servers().expect("a read");
    let row = desk.reader.leases().expect("a read").into_iter().find(|row| row.lease == lease)?;
    Some((servers.iter().position(|server| server.id == row.holder)?, row.epoch))
}

fn fired<S: Store>(desk: &Desk<S>) -> Vec<JobId> {
    let filter = JobFilter { limit: 100, ..JobFilter::default() };
    desk.reader.jobs(&filter).expect("readable").items.iter().map(|job| job.id).collect()
}

/// Right before the trigger is due.
fn shortly_before(cluster: &mut Cluster) {
    cluster.pass(DUE.since(cluster.now) - SECOND);
}

fn order_to_prune(desk: &mut Desk<impl Store>) {
    let order = PruneOrder { older_than: Some(Duration::ZERO) };
    desk.round(vec![Command::Prune(order, oneshot::channel().0)]);
}

#[test]
fn a_holder_keeps_what_it_has_for_as_long_as_it_lives() {
    let mut cluster = Cluster::new(3);
    assert_eq!(holder(cluster.desk(1), Lease::Sweep), Some((0, 1)));
    assert_eq!(holder(cluster.desk(1), Lease::Cron), None, "nobody has read its tasks");
    assert_eq!(holder(cluster.desk(1), Lease::Retention), None, "nobody deletes anything");
    cluster.desk(2).tasks(&[TIDY]);
    cluster.desk(0).tasks(&[TIDY]);
    cluster.pass(SECOND * 900);
    assert_eq!(holder(cluster.desk(1), Lease::Sweep), Some((0, 1)));
    assert_eq!(holder(cluster.desk(1), Lease::Cron), Some((2, 1)));
}

#[test]
fn who_dies_is_relieved_soon_and_who_leaves_at_once() {
    let mut cluster = Cluster::new(3);
    cluster.kill(0);
    cluster.pass(SECOND * 5);
    assert_eq!(holder(cluster.desk(1), Lease::Sweep), Some((0, 1)));
    cluster.pass(RELIEVED - SECOND * 5);
    let (next, epoch) = holder(cluster.desk(1), Lease::Sweep).expect("a holder");
    assert!(next > 0 && epoch == 2, "{next} in {epoch}");
    cluster.desk(next).core().leave().expect("a write");
    cluster.kill(next);
    cluster.pass(SECOND * 3);
    assert_eq!(holder(cluster.desk(3 - next), Lease::Sweep), Some((3 - next, 3)));
}

/// The database is away for all: nobody can renew, and nobody loses anything.
#[test]
fn time_in_which_nobody_is_heard_ends_no_lease() {
    let mut cluster = Cluster::new(2);
    cluster.freeze(0);
    cluster.freeze(1);
    cluster.pass(SECOND * 600);
    cluster.thaw(1);
    cluster.pass(SECOND * 3);
    cluster.thaw(0);
    cluster.pass(SECOND * 60);
    assert_eq!(holder(cluster.desk(1), Lease::Sweep), Some((0, 1)));
}

#[test]
fn what_was_decided_before_a_sleep_is_not_written_after_it() {
    let mut cluster = Cluster::new(2);
    (0..2).for_each(|place| cluster.desk(place).tasks(&[TIDY]));
    assert_eq!(holder(cluster.desk(1), Lease::Cron), Some((0, 1)));
    shortly_before(&mut cluster);
    // It is stopped in the middle of the round in which the time has come.
    cluster.now = DUE;
    let tick = cluster.desk(0).tick();
    cluster.desk(0).core().begin(Vec::new(), tick);
    cluster.freeze(0);
    cluster.pass(SECOND * 60);
    assert_eq!(holder(cluster.desk(1), Lease::Cron), Some((1, 2)));
    assert_eq!(fired(cluster.desk(1)), [job_id(ID, DUE)]);
    let made = cluster.desk(1).stored(job_id(ID, DUE)).job;
    assert!(made.created_at.since(DUE) < RELIEVED, "{:?}", made.created_at);
    let before = cluster.database.commits();
    assert!(matches!(cluster.desk(0).core().commit(), Commit::Split), "its batch is refused");
    assert_eq!(cluster.database.commits(), before);
    cluster.thaw(0);
    cluster.pass(SECOND * 60);
    assert_eq!(fired(cluster.desk(0)), [job_id(ID, DUE)]);
    assert_eq!(holder(cluster.desk(0), Lease::Cron), Some((1, 2)));
    cluster.pass(SECOND * 600);
    assert_eq!(fired(cluster.desk(0)).len(), 2, "all goes on");
}

#[test]
fn what_a_server_would_delete_after_a_sleep_stays() {
    let mut cluster = Cluster::new(2);
    let job = cluster.desk(0).submit(ONE);
    cluster.desk(0).event(job, engine::Event::Cancel { by: "ann".to_owned(), force: true }).expect("it can be");
    cluster.pass(SECOND * 60);
    // One piece of a run is done with each of these: what earlier runs left, then a look at all jobs.
    order_to_prune(cluster.desk(0));
    assert_eq!(holder(cluster.desk(0), Lease::Retention), Some((0, 1)));
    cluster.now = cluster.now + SECOND;
    cluster.desk(0).round(Vec::new());
    assert_eq!(cluster.desk(0).core().retention().ended_at, None, "it is under way");
    // It is stopped right before the next one.
    cluster.now = cluster.now + SECOND;
    let tick = cluster.desk(0).tick();
    cluster.desk(0).core().begin(Vec::new(), tick);
    assert!(matches!(cluster.desk(0).core().commit(), Commit::Done));
    cluster.freeze(0);
    // Somebody else has it now, whoever had it.
    order_to_prune(cluster.desk(1));
    assert_eq!(holder(cluster.desk(0), Lease::Retention), Some((1, 2)));
    let before = cluster.database.commits();
    assert!(cluster.desk(0).core().tidy(false), "it tries");
    assert_eq!(cluster.database.commits(), before, "and nothing of it is written");
    let progress = cluster.desk(0).core().retention();
    assert!(progress.ended_at.is_some() && progress.tally.jobs == 0, "{progress:?}");
    assert!(!cluster.desk(0).core().tidy(false), "its run is dropped");
    assert!(cluster.desk(0).reader.job(job).expect("a read").is_some());
    cluster.thaw(0);
    cluster.pass(SECOND * 10);
    assert!(cluster.desk(1).reader.job(job).expect("a read").is_none(), "the other one has deleted it");
}

/// Of two orders the last one counts, and neither takes the other's lease back.
#[test]
fn an_order_takes_the_lease_once() {
    let mut cluster = Cluster::new(2);
    order_to_prune(cluster.desk(0));
    order_to_prune(cluster.desk(1));
    cluster.pass(SECOND * 60);
    assert_eq!(holder(cluster.desk(0), Lease::Retention), Some((1, 2)));
    let ends = [0, 1].map(|place| cluster.desk(place).core().retention().ended_at.is_some());
    assert_eq!(ends, [true, true]);
}

/// The holder does not know the task: servers of a rolling upgrade may have other tasks.
#[test]
fn what_the_holder_does_not_know_another_one_fires() {
    let mut cluster = Cluster::new(2);
    cluster.desk(0).tasks(&["name: other\nsteps:\n  a: { run: 'true' }\n"]);
    cluster.desk(1).tasks(&[TIDY]);
    assert_eq!(holder(cluster.desk(1), Lease::Cron), Some((0, 1)));
    shortly_before(&mut cluster);
    cluster.pass(SECOND * 5);
    assert_eq!(fired(cluster.desk(1)), []);
    cluster.pass(RELIEVED - SECOND * 5);
    assert_eq!(fired(cluster.desk(1)), [job_id(ID, DUE)]);
}

/// One that is started again on a database of its own does not wait for the one that it was.
#[test]
fn alone_on_its_database_a_server_has_all_of_it_from_its_start() {
    let mut desk = Desk::new();
    desk.tasks(&[TIDY]);
    desk.down(SECOND);
    desk.tasks(&[TIDY]);
    desk.pass(DUE.since(desk.now));
    assert_eq!(desk.stored(job_id(ID, DUE)).job.created_at, DUE);
    assert_eq!(holder(&desk, Lease::Cron), Some((1, 2)));
}
