//! What a server keeps in memory of work that others moved on: what the rows say of it, and nothing that is over.

use std::time::Duration;

use protocol::link::{Hello, ServerMessage, VerdictKind, WorkerMessage};
use server::dispatch::LinkId;
use server::ledger::{Command, LinkEvent, LinkSender};

use crate::cluster::{Cluster, running};
use crate::desk::{Desk, ONE, hello};

const SECOND: Duration = Duration::from_secs(1);

/// Longer than a cut-off worker has to come back.
const WINDOW_OVER: Duration = Duration::from_secs(150);

#[test]
fn a_worker_that_goes_and_comes_in_one_round_holds_nothing_that_ended_with_its_link() {
    let mut cluster = Cluster::new(2);
    let worker = cluster.desk(0).enrol("w");
    let greeting = |held| Hello { no_reconnect: true, ..hello("w", "script", 1, held) };
    let mut first = cluster.desk(0).knock(worker, greeting(Vec::new())).welcomed();
    let job = cluster.desk(0).submit(ONE);
    let spec = cluster.desk(0).start(&mut first);
    let (sender, _queue) = LinkSender::channel();
    let again = Hello { last_epoch: first.welcome.epoch, ..greeting(vec![running(&spec)]) };
    let hello = LinkEvent::Hello { link: LinkId(77), worker, hello: Box::new(again), sender };
    cluster.desk(0).round(vec![Command::Link(LinkEvent::Closed { link: first.link }), Command::Link(hello)]);
    cluster.desk(0).check(job, "failed: failed");
    assert_eq!(cluster.desk(0).core().census().held, 0, "its row said otherwise until this very round");
}

#[test]
fn what_runs_besides_on_a_worker_is_forgotten_with_its_link() {
    let mut cluster = Cluster::new(2);
    let mut first = cluster.desk(0).worker("w", "script", 1);
    cluster.desk(0).submit(ONE);
    let spec = cluster.desk(0).start(&mut first);
    cluster.desk(0).hang_up(&first);
    cluster.pass(WINDOW_OVER);
    let back = cluster.desk(0).connect(first.worker, "w", "script", 1, vec![running(&spec)]);
    assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::Finish);
    assert_eq!(cluster.desk(0).core().census().strays, 1);
    cluster.desk(1).connect(first.worker, "w", "script", 1, vec![running(&spec)]);
    cluster.pass(SECOND * 20);
    let strays: Vec<usize> = (0..2).map(|place| cluster.desk(place).core().census().strays).collect();
    assert_eq!(strays, [0, 1], "the server that has the link knows");
}

#[test]
fn a_job_that_another_server_ended_is_kept_by_nobody() {
    let mut cluster = Cluster::new(3);
    let mut w = cluster.desk(1).worker("w", "script", 1);
    let job = cluster.desk(0).submit(ONE);
    cluster.pass(SECOND);
    let spec = cluster.desk(1).start(&mut w);
    cluster.pass(SECOND);
    cluster.desk(1).ends(&w, spec.ticket, 0);
    cluster.pass(SECOND);
    cluster.desk(0).check(job, "success: success");
    for place in 0..3 {
        let census = cluster.desk(place).core().census();
        assert_eq!((census.cached_jobs, census.held, census.queued), (0, 0, 0), "server {place}");
    }
}

#[test]
fn what_a_server_did_that_came_and_went_between_two_looks_is_seen() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    cluster.pass(SECOND * 20);
    let visitor = cluster.start();
    let job = cluster.desk(visitor).submit(ONE);
    cluster.desk(visitor).core().leave().expect("the database is there");
    cluster.kill(visitor);
    cluster.pass(SECOND * 6);
    assert_eq!(w.offer().job, job.0);
}

#[test]
fn what_a_round_decides_is_not_read_over_in_the_same_round() {
    const MANY: u32 = 8;
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(0).worker("w", "script", MANY);
    let jobs: Vec<_> = (0..MANY).map(|_| cluster.desk(0).submit(ONE)).collect();
    let desk = cluster.desk(0);
    let accepted = w.take().into_iter().map(|message| match message {
        ServerMessage::Offer { spec, .. } => WorkerMessage::Accept { ticket: spec.ticket },
        other => panic!("an offer, not {other:?}"),
    });
    desk.says(&w, accepted.collect());
    // Another server writes the jobs between the decision that their link is lost and the commit.
    let tick = desk.tick();
    desk.core().begin(vec![Command::Link(LinkEvent::Closed { link: w.link })], tick);
    assert!(jobs.iter().all(|job| cluster.database.touch(*job)));
    let desk = cluster.desk(0);
    desk.core().commit();
    let before: Vec<u64> = jobs.iter().map(|job| desk.stored(*job).job.version).collect();
    // Some are this server's to see to; the rest is left to the other one.
    desk.round(Vec::new());
    let lost = |desk: &Desk<_>| jobs.iter().filter(|job| desk.seen(**job).job == "recovering").count();
    assert!(lost(desk) > 0, "decided and written");
    for (job, before) in jobs.iter().zip(before) {
        let (seen, version) = (desk.seen(*job).job, desk.stored(*job).job.version);
        assert_eq!(version > before, seen == "recovering", "{seen}: {version} after {before}");
    }
}
