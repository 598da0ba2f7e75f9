//! Looking at jobs, waiting for them, ending them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::hand::Hand;
use crate::site::{HELLO, Site};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_shows_its_attempts() {
    let site = Site::start().await;
    let id = site.submit(HELLO).await;
    let mut hand = Hand::join(&site, "build-1", 1).await;
    let spec = hand.start().await;
    let job = site.get(&format!("/api/jobs/{id}")).await.is(200);
    assert_eq!((job["state"].as_str(), job["steps"][0]["state"].as_str()), (Some("running"), Some("running")));
    hand.end(&spec, 3).await;
    let job = site.get(&format!("/api/jobs/{id}?wait=20s")).await.is(200);
    assert_eq!(job["state"], "failed");
    assert_eq!((job["error"]["code"].as_str(), job["error"]["step"].as_str()), (Some("exit_code"), Some("greet")));
    let attempt = &job["steps"][0]["attempts"][0];
    assert_eq!(attempt["id"], spec.ticket.attempt.to_string());
    assert_eq!((attempt["worker"].as_str(), attempt["exit_code"].as_i64()), (Some("build-1"), Some(3)));
    assert_eq!(attempt["usage"], json!({ "cpu_ms": 5, "memory_bytes_max": 1024 }));
    assert_eq!(attempt["duration_ms"], 1, "as the runner measured it, however long the word was on its way");
    assert_eq!(job["steps"][0]["started_at"], attempt["started_at"]);
    assert_eq!(job["steps"][0]["ended_at"], attempt["ended_at"]);
    assert_eq!(job["steps"][0]["deadline"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_became_many_says_when_it_began_and_ended() {
    let site = Site::start().await;
    let id = site.submit("name: many\nsteps:\n  each: { for_each: [1], run: 'true' }\n").await;
    let mut hand = Hand::join(&site, "build-1", 1).await;
    let spec = hand.start().await;
    let job = site.get(&format!("/api/jobs/{id}")).await.is(200);
    assert!(job["steps"][0]["started_at"].is_string(), "{job}");
    assert_eq!(job["steps"][0]["ended_at"], Value::Null);
    hand.end(&spec, 0).await;
    let job = site.get(&format!("/api/jobs/{id}?wait=20s")).await.is(200);
    assert_eq!(job["steps"][0]["ended_at"], job["ended_at"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_with_the_job_or_with_its_time() {
    let site = Site::start().await;
    let id = site.submit(HELLO).await;
    let job = site.get(&format!("/api/jobs/{id}?wait=50ms")).await.is(200);
    assert_eq!(job["state"], "pending", "the time is over first");
    let mut hand = Hand::join(&site, "w", 1).await;
    let path = format!("/api/jobs/{id}?wait=60s");
    let waiting = site.get(&path);
    let working = async {
        let spec = hand.start().await;
        hand.end(&spec, 0).await;
    };
    let (job, ()) = tokio::join!(waiting, working);
    let job = job.is(200);
    assert_eq!((job["state"].as_str(), job["steps"][0]["output"]["answer"].as_u64()), (Some("success"), Some(42)));
    // It is over: no wait at all.
    let again = tokio::time::timeout(Duration::from_secs(5), site.get(&path)).await.expect("at once");
    assert_eq!(again.is(200)["state"], "success");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_paged_newest_first() {
    let site = Site::start().await;
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.push(site.submit(HELLO).await);
    }
    site.post(&format!("/api/jobs/{}/cancel", ids[2]), &json!({})).await.is(202);
    let mut seen = Vec::new();
    let mut path = "/api/jobs?limit=3".to_owned();
    loop {
        let page = site.get(&path).await.is(200);
        let items = page["items"].as_array().expect("items").clone();
        assert!(items.len() <= 3);
        seen.extend(items.iter().map(|job| job["id"].as_str().expect("an id").to_owned()));
        match page["next"].as_str() {
            Some(next) => path = format!("/api/jobs?limit=3&cursor={next}"),
            None => break,
        }
    }
    // By their ids, which begin with the time: two of one millisecond may stand either way.
    ids.sort_unstable_by(|one, other| other.cmp(one));
    assert_eq!(seen, ids);
    let count =
        async |query: &str| site.get(&format!("/api/jobs?{query}")).await.is(200)["items"].as_array().map(Vec::len);
    assert_eq!(count("state=cancelled").await, Some(1));
    assert_eq!(count("state=pending,cancelled").await, Some(7));
    assert_eq!(count("state=pending,cancelled&limit=5").await, Some(5));
    assert_eq!(count("state=success").await, Some(0));
    assert_eq!(count("task=hello").await, Some(7));
    assert_eq!(count("task=other").await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_is_asked_once_and_told() {
    let site = Site::start().await;
    let id = site.submit(HELLO).await;
    let path = format!("/api/jobs/{id}/cancel");
    let job = site.as_admin("POST", &path).send().await.is(202);
    assert_eq!(job["state"], "cancelled");
    site.post(&path, &json!({ "force": true })).await.is_error(409, "already_final");
    site.post(&path, &json!({ "hard": true })).await.is_error(400, "bad_request");
    let nobody = format!("/api/jobs/{}/cancel", uuid::Uuid::nil());
    site.as_admin("POST", &nobody).send().await.is_error(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_show_what_they_do() {
    let site = Site::start().await;
    let mut hand = Hand::join(&site, "build-1", 4).await;
    site.submit(HELLO).await;
    hand.start().await;
    let workers = site.get("/api/workers").await.is(200);
    let worker = &workers["items"][0];
    assert_eq!((worker["name"].as_str(), worker["status"].as_str()), (Some("build-1"), Some("active")));
    assert_eq!((worker["busy"].as_u64(), worker["slots"].as_u64()), (Some(1), Some(4)));
    assert_eq!((worker["connected"].as_bool(), worker["kind"].as_str()), (Some(true), Some("static")));
}

#[tokio::test(flavor = "multi_thread")]
async fn why_says_who_must_move() {
    let site = Site::start().await;
    let id = site.submit(HELLO).await;
    let why = site.get(&format!("/api/jobs/{id}/why")).await.is(200);
    assert!(why["summary"].as_str().is_some_and(|summary| !summary.is_empty()), "{why}");
    let step = &why["steps"][0];
    assert_eq!((step["name"].as_str(), step["state"].as_str()), (Some("greet"), Some("queued")));
    assert!(step["reason"].as_str().is_some_and(|reason| reason.contains("script")), "{why}");
    assert!(step["next"]["at"].is_string(), "{why}");
    let mut hand = Hand::join(&site, "build-1", 1).await;
    hand.start().await;
    let why = site.get(&format!("/api/jobs/{id}/why")).await.is(200);
    assert!(why["steps"][0]["owner"].as_str().is_some_and(|owner| owner.contains("build-1")), "{why}");
}
