//! Draining and removing workers, pausing dispatch.

use serde_json::{Value, json};

use crate::hand::Hand;
use crate::site::{HELLO, Site};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_drained_by_name_and_back() {
    let site = Site::start().await;
    let mut hand = Hand::join(&site, "build-1", 1).await;
    let worker = site.as_admin("POST", "/api/workers/build-1/drain").send().await.is(200);
    assert_eq!((worker["status"].as_str(), &worker["draining_by"]), (Some("draining"), &json!(["operator"])));
    let id = site.submit(HELLO).await;
    assert_eq!(site.get(&format!("/api/jobs/{id}")).await.is(200)["steps"][0]["state"], "queued");
    let why = site.get(&format!("/api/jobs/{id}/why")).await.is(200);
    let reason = why["steps"][0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("takes no new work: build-1 (draining)"), "{reason}");
    let path = format!("/api/workers/{}/drain", worker["id"].as_str().expect("an id"));
    let worker = site.post(&path, &json!({ "draining": false })).await.is(200);
    assert_eq!((worker["status"].as_str(), worker.get("draining_by")), (Some("active"), None));
    let spec = hand.start().await;
    hand.end(&spec, 0).await;
    let error = site.post("/api/workers/nobody/drain", &json!({})).await.is(404);
    assert_eq!(error["error"]["hint"], "`bowline workers` lists them");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_two_workers_share_is_not_enough() {
    let site = Site::start().await;
    let _one = Hand::join(&site, "twin", 1).await;
    let _two = Hand::join(&site, "twin", 1).await;
    let error = site.as_admin("DELETE", "/api/workers/twin").send().await.is(409);
    assert_eq!(error["error"]["code"], "ambiguous_id");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_worker_is_gone_and_its_step_is_decided() {
    let site = Site::start().await;
    let mut hand = Hand::join(&site, "build-1", 1).await;
    let id = site.submit(HELLO).await;
    hand.start().await;
    let removal = site.as_admin("DELETE", "/api/workers/build-1").send().await.is(200);
    assert_eq!((&removal["name"], &removal["hostname"]), (&json!("build-1"), &json!("here")));
    assert_eq!((&removal["offers"], &removal["attempts"]), (&json!(0), &json!(1)));
    let job = site.get(&format!("/api/jobs/{id}")).await.is(200);
    assert_eq!(job["error"]["code"], "worker_removed");
    let attempt = &job["steps"][0]["attempts"][0];
    assert_eq!((&attempt["worker"], &attempt["confirmed"]), (&json!("build-1"), &json!(false)));
    assert_eq!(site.get("/api/workers").await.is(200)["items"], json!([]));
    site.as_admin("DELETE", "/api/workers/build-1").send().await.is(404);
    let lines = site.get(&format!("/api/jobs/{id}/steps/_server/logs")).await.is(200);
    let said = |text: &str| {
        lines["lines"].as_array().expect("lines").iter().any(|l| l["text"].as_str().is_some_and(|t| t.contains(text)))
    };
    assert!(said("attempt unconfirmed: worker build-1 on here, attempt 1"), "{lines}");
    assert!(said("running -> failed: its worker was removed by"), "{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_is_shown_wherever_someone_would_look() {
    let site = Site::start().await;
    let mut hand = Hand::join(&site, "build-1", 1).await;
    assert_eq!(site.get("/api/dispatch").await.is(200)["paused"], false);
    let dispatch = site.as_admin("POST", "/api/dispatch/pause").send().await.is(200);
    assert_eq!((&dispatch["paused"], dispatch["by"].is_string()), (&json!(true), true));
    let id = site.submit(HELLO).await;
    let why = site.get(&format!("/api/jobs/{id}/why")).await.is(200);
    let reason = why["steps"][0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("dispatch was paused by"), "{reason}");
    let ready = site.get("/readyz").await.is(200);
    assert!(ready["sweep"]["at"].is_string(), "the sweeper runs from the start: {ready}");
    assert_eq!((&ready["ready"], &ready["dispatch"]["paused"]), (&json!(true), &json!(true)));
    let resumed = site.as_admin("POST", "/api/dispatch/resume").send().await.is(200);
    assert_eq!(resumed, json!({ "paused": false, "since": Value::Null, "by": Value::Null }));
    let spec = hand.start().await;
    hand.end(&spec, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_silent_is_listed_and_what_is_well_is_not_given_up() {
    let site = Site::start().await;
    let mut hand = Hand::join(&site, "build-1", 1).await;
    let id = site.submit(HELLO).await;
    hand.start().await;
    assert_eq!(site.get("/api/recovery/stale").await.is(200)["items"], json!([]), "not for five minutes");
    let stale = site.get("/api/recovery/stale?older_than=0s").await.is(200);
    let found = &stale["items"][0];
    assert_eq!((&found["job"], &found["worker"], &found["hostname"]), (&json!(id), &json!("build-1"), &json!("here")));
    assert_eq!(site.as_admin("POST", "/api/recovery/fail").send().await.is(200)["items"], json!([]));
    assert_eq!(site.post("/api/recovery/requeue", &json!({ "older_than": "90s" })).await.is(200)["items"], json!([]));
    for action in ["requeue", "fail"] {
        let error = site.post(&format!("/api/recovery/{action}"), &json!({ "older_than": "59s" })).await.is(400);
        let message = error["error"]["message"].as_str().expect("a message");
        assert!(message.contains("must be at least 90s") && message.contains("workers (30s)"), "{message}");
        assert!(message.contains("runners (30s)"), "{message}");
    }
    assert_eq!(site.get(&format!("/api/jobs/{id}")).await.is(200)["steps"][0]["state"], "running");
    site.post("/api/recovery/fail", &json!({ "older_than": "soon" })).await.is(400);
}
