//! Live changes.

use std::time::Duration;

use engine::Event;
use futures_util::FutureExt as _;
use serde_json::Value;
use server::bus::News;
use server::ledger::Command;

use crate::client::{Message, PATIENCE};
use crate::hand::Hand;
use crate::site::{HELLO, Site};

fn ids(messages: &[Message]) -> Vec<u64> {
    messages.iter().filter_map(|message| message.id.as_ref()?.parse().ok()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobs_events_end_with_the_job() {
    let site = Site::start().await;
    let id = site.submit(HELLO).await;
    let path = format!("/api/jobs/{id}/events");
    let live = site.as_admin("GET", &path).stream().await;
    site.submit(HELLO).await;
    let mut hand = Hand::join(&site, "w", 1).await;
    let spec = hand.start().await;
    hand.end(&spec, 0).await;
    let all = live.rest().await;
    let (end, events) = all.split_last().expect("messages");
    assert_eq!(end.event.as_deref(), Some("end"));
    assert!(events.iter().all(|event| event.data["job"] == id.as_str()), "only this job's: {events:?}");
    let last = &events.last().expect("events").data;
    assert_eq!((last["kind"].as_str(), last["to"].as_str()), (Some("job"), Some("success")));
    assert!(ids(events).is_sorted_by(|a, b| a < b));
    assert!(events.iter().any(|event| event.data["kind"] == "offer" && event.data["worker"] == "w"), "{events:?}");

    // Later, the same from the store; and from any place in it.
    let later = site.as_admin("GET", &path).stream().await.rest().await;
    assert_eq!(later, all);
    let second = events[1].id.clone().expect("an id");
    let resumed = site.as_admin("GET", &path).header("Last-Event-ID", &second).stream().await.rest().await;
    assert_eq!(resumed, all[2..]);
    let after = site.as_admin("GET", &format!("{path}?after={second}")).stream().await.rest().await;
    assert_eq!(after, all[2..]);
    let beyond = site.as_admin("GET", &format!("{path}?after=999999")).stream().await.rest().await;
    assert_eq!(beyond.len(), 1, "only the end: {beyond:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_events_begin_now_or_after_a_given_one() {
    let site = Site::start().await;
    let first = site.submit(HELLO).await;
    let mut live = site.as_admin("GET", "/api/events").stream().await;
    let second = site.submit(HELLO).await;
    let event = live.expect().await;
    assert_eq!(event.data["job"], second.as_str(), "what was before is not told");
    drop(live);
    let mut all = site.as_admin("GET", "/api/events?after=0").stream().await;
    assert_eq!(all.expect().await.data["job"], first.as_str());
}

/// On one thread, so that the follower stands still while the test does not wait for anything.
#[tokio::test]
async fn a_follower_that_was_left_behind_misses_nothing() {
    let site = Site::start().await;
    let id = site.submit(HELLO).await;
    let mut live = site.as_admin("GET", &format!("/api/jobs/{id}/events")).stream().await;
    let first = live.expect().await;
    let (reply, mut answer) = tokio::sync::oneshot::channel();
    let event = Event::Cancel { by: "the test".to_owned(), force: false };
    let cancel = Command::Event { job: id.parse().expect("an id"), event, reply };
    site.app.ledger.send(cancel).now_or_never().expect("there is room").expect("the ledger runs");
    while answer.try_recv().is_err() {
        std::thread::yield_now();
    }
    // More than the bus keeps for a listener: the cancel is no longer among it.
    for _ in 0..5_000 {
        site.app.bus.publish(News::default());
    }
    let mut all = vec![first];
    all.extend(live.rest().await);
    assert_eq!(all.last().expect("messages").event.as_deref(), Some("end"));
    assert!(all.iter().any(|event| event.data["kind"] == "cancel_asked"), "{all:?}");
    let stored = site.app.reader.events(None, 0, 100).expect("readable");
    assert_eq!(ids(&all), stored.iter().map(|event| event.id).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_and_waits_end_when_the_server_stops() {
    let site = Site::start().await;
    let id = site.submit(HELLO).await;
    let wait = tokio::spawn(site.as_admin("GET", &format!("/api/jobs/{id}?wait=60s")).send());
    while !site.app.bus.has_listeners() {
        tokio::task::yield_now().await;
    }
    let events = site.as_admin("GET", "/api/events?after=0").stream().await;
    let logs = site.as_admin("GET", &format!("/api/jobs/{id}/steps/greet/logs/stream")).stream().await;
    let server_log = site.as_admin("GET", &format!("/api/jobs/{id}/steps/_server/logs/stream")).stream().await;
    // Each stream's first message is out, so all of them wait now.
    let (mut events, mut logs, mut server_log) = (events, logs, server_log);
    tokio::join!(events.expect(), logs.expect(), server_log.expect());
    site.stop.send_replace(true);
    let all = async { tokio::join!(events.rest(), logs.rest(), server_log.rest()) };
    tokio::time::timeout(Duration::from_secs(5), all).await.expect("streams end promptly");
    let job: Value = wait.await.expect("no panic").is(200);
    assert_eq!(job["state"], "pending", "the wait is answered, not cut");
    tokio::time::timeout(PATIENCE, site.served).await.expect("the server returns").expect("without a panic");
    assert!(tokio::net::TcpStream::connect(site.address).await.is_err(), "nobody listens any more");
}
