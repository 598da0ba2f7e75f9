//! Rounds that come to nothing, and what servers find out between two rounds: neither may be taken for what happened, nor be lost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use protocol::link::{Hello, Kept, RefusedCode, ServerMessage};
use server::ledger::{Command, Commit, FleetOrder, LinkEvent, LinkOut, LinkSender};
use uuid::Uuid;

use crate::cluster::Cluster;
use crate::desk::{Desk, Mailbox, ONE, hello};
use crate::faults::Faulty;

const SECOND: Duration = Duration::from_secs(1);

/// A job that nobody here can run.
const ELSEWHERE: &str = "name: elsewhere\nsteps:\n  a: { run: 'true', tags: [gpu], unmatched: 1h }\n";

fn closed(w: &Mailbox) -> Command {
    Command::Link(LinkEvent::Closed { link: w.link })
}

fn is_offer(message: &ServerMessage) -> bool {
    matches!(message, ServerMessage::Offer { .. })
}

fn was_removed(message: &ServerMessage) -> bool {
    matches!(message, ServerMessage::Refused { code: RefusedCode::Removed, .. })
}

#[test]
fn a_breaker_that_trips_in_a_refused_round_trips_when_it_is_decided_again() {
    let moody = Arc::new(AtomicU32::new(0));
    let flag = moody.clone();
    let mut desk = Desk::with(|inner| Faulty::moody(inner, flag));
    let fleet: Vec<Mailbox> = (0..6).map(|n| desk.worker(&format!("w{n}"), "script", 1)).collect();
    for w in &fleet[1..4] {
        desk.pass(SECOND);
        desk.hang_up(w);
    }
    moody.store(1, Ordering::Relaxed);
    desk.round(vec![closed(&fleet[4]), closed(&fleet[5])]);
    assert_eq!(moody.load(Ordering::Relaxed), 0, "the round was refused");
    let tripped = desk.reader.breaker().expect("readable").expect("a row");
    assert_eq!((tripped.lost, tripped.connected, tripped.ended_at), (5, 6, None));
}

/// A worker comes without a word of a loss, and right after it one that shows that commits were lost. The first one did not know that it was
/// to bring what it has put away.
#[test]
fn who_said_hello_right_before_a_loss_is_noticed_has_not_reported() {
    let mut cluster = Cluster::new(1);
    let w = cluster.desk(0).worker("w", "script", 1);
    let other = cluster.desk(0).worker("other", "other", 1);
    let job = cluster.desk(0).submit(ELSEWHERE);
    cluster.kill(0);
    let place = cluster.start();
    let comes = |from: &Mailbox, name: &str, tags: &str, ahead| {
        let hello = Hello { last_epoch: from.welcome.epoch + ahead, ..hello(name, tags, 1, Vec::new()) };
        let link = server::dispatch::LinkId(900 + ahead);
        let (sender, queue) = LinkSender::channel();
        (Command::Link(LinkEvent::Hello { link, worker: from.worker, hello: Box::new(hello), sender }), queue)
    };
    let (first, _other_hears) = comes(&other, "other", "other", 0);
    let (second, mut w_hears) = comes(&w, "w", "script gpu", 1);
    cluster.desk(place).round(vec![first, second]);
    cluster.pass(SECOND * 5);
    cluster.desk(place).check(job, "pending: queued");
    let mut is_offered = || {
        let heard = std::iter::from_fn(|| w_hears.try_recv().ok());
        heard.into_iter().any(|out| matches!(out, LinkOut::Message(ServerMessage::Offer { .. })))
    };
    assert!(!is_offered(), "nothing unsafe is offered before the other one has come again");
    let back = Hello { last_epoch: other.welcome.epoch + 1, ..hello("other", "other", 1, Vec::new()) };
    cluster.desk(place).knock(other.worker, back).welcomed();
    cluster.pass(SECOND);
    assert!(is_offered(), "both have come with all that they have");
}

/// A server decides a hello, and writes it after another one has noticed that commits were lost. The worker was not asked for what it keeps.
#[test]
fn a_hello_that_was_decided_before_a_loss_was_noticed_is_no_report() {
    let mut cluster = Cluster::new(2);
    let other = cluster.desk(0).worker("other", "script gpu", 1);
    let w = cluster.desk(1).worker("w", "script", 1);
    cluster.pass(SECOND * 3);
    let (sender, _queue) = LinkSender::channel();
    let comes = Hello { last_epoch: w.welcome.epoch, kept: Some(Kept::Apart), ..hello("w", "script", 1, Vec::new()) };
    let link = server::dispatch::LinkId(77);
    let comes = LinkEvent::Hello { link, worker: w.worker, hello: Box::new(comes), sender };
    let tick = cluster.desk(1).tick();
    cluster.desk(1).core().begin(vec![Command::Link(comes)], tick);
    // That its last link is not on record is how the first server knows.
    let ahead = Hello { last_epoch: other.welcome.epoch + 1, ..hello("other", "script gpu", 1, Vec::new()) };
    let mut other = cluster.desk(0).knock(other.worker, ahead).welcomed();
    let job = cluster.desk(0).submit(ELSEWHERE);
    assert!(matches!(cluster.desk(1).core().commit(), Commit::Done));
    cluster.pass(SECOND * 5);
    cluster.desk(0).check(job, "pending: queued");
    assert!(
        !other.take().iter().any(is_offer),
        "nothing unsafe is offered before the other one has brought what it keeps"
    );
    let epoch = w.welcome.epoch + 1;
    let brings = Hello { last_epoch: epoch, kept: Some(Kept::Recalled), ..hello("w", "script", 1, Vec::new()) };
    cluster.desk(1).knock(w.worker, brings).welcomed();
    cluster.pass(SECOND * 3);
    assert!(other.take().iter().any(is_offer), "both have come with all that they have");
}

/// Another server removes a worker. Its own server finds that in the rows when it reads them again after a refusal.
#[test]
fn a_removed_worker_is_told_so_though_its_server_had_to_read_everything_again() {
    static MOODY: LazyLock<Arc<AtomicU32>> = LazyLock::new(Arc::default);
    let mut cluster = Cluster::with(2, |inner| Faulty::moody(inner, MOODY.clone()));
    let mut w = cluster.desk(0).worker("w", "script", 1);
    cluster.pass(SECOND * 3);
    w.take();
    let remove = FleetOrder::Remove { worker: w.worker, by: "eve".to_owned() };
    cluster.desk(1).order(remove).expect("it is here");
    MOODY.store(1, Ordering::Relaxed);
    cluster.desk(0).submit(ELSEWHERE);
    assert_eq!(MOODY.load(Ordering::Relaxed), 0, "the round was refused");
    cluster.pass(SECOND * 5);
    let told = w.take();
    assert!(told.iter().any(was_removed), "{told:?}");
    assert!(w.closed, "it has nothing to report");
}

/// A second process waits for word from the first, whose link ends with a loss of commits: nobody will answer.
#[test]
fn who_waits_for_word_on_a_link_that_a_loss_ended_waits_no_longer() {
    let mut cluster = Cluster::new(1);
    let first = cluster.desk(0).worker("w", "script", 1);
    let before = cluster.database.commits();
    cluster.desk(0).submit(ELSEWHERE);
    cluster.database.forget_last(cluster.database.commits() - before);
    let session = Uuid::from_u128(8);
    let second = Hello { session, last_epoch: first.welcome.epoch, ..hello("w", "script", 1, Vec::new()) };
    let second = cluster.desk(0).knock(first.worker, second);
    cluster.pass(SECOND * 3);
    second.welcomed();
}

/// A hello waited for as long as its server was busy. Its worker has given it up, gone to another server and begun something there.
#[test]
fn a_hello_that_came_too_late_ends_nothing() {
    let mut cluster = Cluster::new(2);
    let mut w = cluster.desk(1).worker("w", "script", 1);
    let job = cluster.desk(1).submit(ONE);
    cluster.desk(1).start(&mut w);
    let mut late = cluster.desk(0).knock(w.worker, hello("w", "script", 1, Vec::new()));
    assert_eq!(late.refused().map(|(code, _)| code), Some(RefusedCode::GoingAway));
    cluster.pass(SECOND * 3);
    cluster.desk(0).check(job, "running: running");
    assert!(w.take().is_empty() && !w.closed, "its link stands");
}

/// The same where the end of its link is in another half of a batch that was refused.
#[test]
fn a_hello_whose_link_ends_in_a_later_piece_is_none() {
    let moody = Arc::new(AtomicU32::new(0));
    let flag = moody.clone();
    let mut desk = Desk::with(|inner| Faulty::moody(inner, flag));
    let w = desk.worker("w", "script", 1);
    let (sender, _) = LinkSender::channel();
    let link = server::dispatch::LinkId(77);
    let hello = Hello { last_epoch: w.welcome.epoch, ..hello("w", "script", 1, Vec::new()) };
    let knocked = LinkEvent::Hello { link, worker: w.worker, hello: Box::new(hello), sender };
    moody.store(1, Ordering::Relaxed);
    let (other, _answer) = crate::desk::submit(ELSEWHERE, None);
    desk.round(vec![Command::Link(knocked), other, Command::Link(LinkEvent::Closed { link })]);
    assert_eq!(moody.load(Ordering::Relaxed), 0, "the round was refused");
    let row = desk.reader.workers().expect("readable").remove(0);
    assert_eq!((row.epoch.0, row.left_heard), (w.welcome.epoch, None), "the link that it has counts");
}
