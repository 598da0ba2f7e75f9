//! Commits that are gone, and of which only one of several servers knows whom they were about: its siblings wait for those, too.

use std::time::Duration;

use protocol::link::Hello;

use crate::cluster::Cluster;
use crate::desk::{Desk, Mailbox, ONE, hello};

const SECOND: Duration = Duration::from_secs(1);

/// The worker comes again, with nothing that it would have to tell.
fn again<S: store::Store>(desk: &mut Desk<S>, w: &Mailbox, name: &str, slots: u32) -> Mailbox {
    let last_epoch = w.welcome.epoch;
    desk.knock(w.worker, Hello { last_epoch, ..hello(name, "script", slots, Vec::new()) }).welcomed()
}

/// By the rows that are left it has been away for longer than anybody is waited for. One server has seen it since, and has started a
/// step there; the others have not.
#[test]
fn who_is_remembered_by_one_server_is_waited_for_by_all() {
    let mut cluster = Cluster::new(2);
    let w = cluster.desk(0).worker("w", "script", 1);
    let other = cluster.desk(1).worker("other", "script", 1);
    cluster.desk(0).hang_up(&w);
    cluster.desk(1).hang_up(&other);
    cluster.pass(SECOND * 900);
    let job = cluster.desk(0).submit(ONE);
    let before = cluster.database.commits();
    let mut w = again(cluster.desk(0), &w, "w", 1);
    cluster.desk(0).start(&mut w);
    let lost = cluster.database.commits() - before;
    assert_eq!(cluster.database.forget_last(lost), lost);
    cluster.pass(SECOND * 3);
    w.take();
    assert!(w.closed, "it is asked to come again");
    let mut other = again(cluster.desk(1), &other, "other", 1);
    cluster.pass(SECOND * 3);
    other.none();
    cluster.desk(1).check(job, "pending: queued");
    // It has nothing of it any more, and says so: the step may start.
    let mut w = again(cluster.desk(0), &w, "w", 1);
    cluster.pass(SECOND * 3);
    assert!(!w.take().is_empty() || !other.take().is_empty(), "somebody has an offer");
}
