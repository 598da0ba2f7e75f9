//! Settling steps and retrying jobs over HTTP.

use serde_json::{Value, json};

use crate::hand::Hand;
use crate::site::{HELLO, Site};

const TWO: &str = "name: two\nsteps:\n  a: { run: 'true' }\n  b: { needs: [a], run: 'true' }\n";

/// Step `a` runs on a worker that is then removed, so that the job fails and the attempt stays unconfirmed.
async fn lost(site: &Site) -> (String, Value) {
    let mut hand = Hand::join(site, "build-1", 1).await;
    let id = site.submit(TWO).await;
    hand.start().await;
    site.as_admin("DELETE", "/api/workers/build-1").send().await.is(200);
    let job = site.get(&format!("/api/jobs/{id}")).await.is(200);
    (id, job["steps"][0]["attempts"][0]["id"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_a_job_that_is_over_is_settled_in_a_new_one() {
    let site = Site::start().await;
    let (id, attempt) = lost(&site).await;
    let path = format!("/api/jobs/{id}/steps/a/resolve");
    let error = site.post(&path, &json!({ "how": "rerun", "attempt": attempt })).await.is(409);
    assert!(error["error"]["hint"].as_str().is_some_and(|hint| hint.contains("--confirm-dead")), "{error}");
    let error = site.post(&path, &json!({ "how": "succeeded" })).await.is(409);
    assert_eq!(error["error"]["code"], "conflict", "it does not say what it looked at: {error}");
    let body = json!({ "how": "succeeded", "attempt": attempt, "output": { "sha": "abc" } });
    let next = site.post(&path, &body).await.is(201);
    assert_eq!((&next["continues"], &next["steps"][0]["state"]), (&json!(id), &json!("success")));
    assert_eq!((&next["steps"][0]["output"], &next["steps"][1]["state"]), (&json!({ "sha": "abc" }), &json!("queued")));
    let old = site.get(&format!("/api/jobs/{id}")).await.is(200);
    assert_eq!((&old["state"], &old["resolved_by"]), (&json!("failed"), &next["id"]));
    let error = site.post(&path, &body).await.is(409);
    assert!(error["error"]["message"].as_str().is_some_and(|m| m.contains("already continues")), "{error}");
    let why = site.get(&format!("/api/jobs/{}/why", next["id"].as_str().expect("an id"))).await.is(200);
    let summary = why["summary"].as_str().expect("a summary");
    assert!(summary.contains(&format!("It continues job {id} (a step was resolved as succeeded).")), "{summary}");
    assert_eq!(why["steps"][0]["reason"], "it was settled by hand: admin resolved it as succeeded");
    assert_eq!(
        (&next["steps"][0]["settled_by"], &next["steps"][0]["taken_over_from"]),
        (&json!("admin"), &Value::Null)
    );
    let why = site.get(&format!("/api/jobs/{id}/why")).await.is(200);
    let next = next["id"].as_str().expect("an id");
    assert!(why["summary"].as_str().is_some_and(|s| s.contains(&format!("It is continued by job {next}."))), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_a_new_job() {
    let site = Site::start().await;
    let mut hand = Hand::join(&site, "w", 1).await;
    let id = site.submit(HELLO).await;
    let error = site.as_admin("POST", &format!("/api/jobs/{id}/retry")).send().await.is(409);
    assert_eq!(error["error"]["hint"], "wait for its end, or cancel it");
    let spec = hand.start().await;
    hand.end(&spec, 1).await;
    site.get(&format!("/api/jobs/{id}?wait=20s")).await.is(200);
    let next = site.post(&format!("/api/jobs/{id}/retry"), &json!({ "from_failed": true })).await.is(201);
    assert_eq!(next["continues"], json!(id));
    let spec = hand.start().await;
    assert_eq!(spec.job.to_string(), next["id"].as_str().expect("an id"));
    hand.end(&spec, 0).await;
    let done = site.get(&format!("/api/jobs/{}?wait=20s", spec.job)).await.is(200);
    assert_eq!(done["state"], "success");
    let error = site.post(&format!("/api/jobs/{}/retry", spec.job), &json!({ "from_failed": true })).await.is(409);
    assert_eq!(error["error"]["message"], "nothing in this job failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_said() {
    let site = Site::start().await;
    let (id, attempt) = lost(&site).await;
    let path = format!("/api/jobs/{id}/steps/a/resolve");
    site.post(&path, &json!({ "how": "failed", "attempt": attempt, "output": { "x": 1 } })).await.is(400);
    site.post(&path, &json!({ "how": "levitate" })).await.is(400);
    site.post(&format!("/api/jobs/{id}/steps/nowhere/resolve"), &json!({ "how": "failed" })).await.is(404);
    let error = site.post(&path, &json!({ "how": "accept_late", "attempt": attempt })).await.is(409);
    assert_eq!(error["error"]["message"], "the step has no end that came late");
}

#[tokio::test(flavor = "multi_thread")]
async fn why_names_what_may_still_run_and_what_came_late() {
    let site = Site::start().await;
    let mut hand = Hand::join(&site, "build-1", 1).await;
    let id = site.submit(TWO).await;
    let spec = hand.start().await;
    site.as_admin("DELETE", "/api/workers/build-1").send().await.is(200);
    let path = format!("/api/jobs/{id}/why");
    let reason = |why: &Value| why["steps"][0]["reason"].as_str().expect("a reason").to_owned();
    let told = reason(&site.get(&path).await.is(200));
    assert!(told.contains("attempt 1 on worker build-1 was given up") && told.contains("may still run"), "{told}");
    hand.end(&spec, 0).await;
    hand.is_told_stale().await;
    let told = reason(&site.get(&path).await.is(200));
    assert!(told.contains("reported its end late") && told.contains("--accept-late"), "{told}");
    let lines = site.get(&format!("/api/jobs/{id}/steps/_server/logs")).await.is(200).to_string();
    assert!(lines.contains("attempt late outcome"), "{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_with_other_inputs_is_checked_like_a_submit() {
    const ASKS: &str = "name: asks\ninput: { n: { type: integer, required: true }, who: { default: you } }\nsteps:\n  a: { run: 'true' }\n";
    let site = Site::start().await;
    let mut hand = Hand::join(&site, "w", 1).await;
    let job = site.post("/api/jobs", &json!({ "spec": ASKS, "input": { "n": 1 } })).await.is(201);
    let path = format!("/api/jobs/{}/retry", job["id"].as_str().expect("an id"));
    let spec = hand.start().await;
    hand.end(&spec, 1).await;
    site.get(&format!("/api/jobs/{}?wait=20s", spec.job)).await.is(200);
    for bad in [json!({ "n": "many" }), json!({ "m": 2 })] {
        let error = site.post(&path, &json!({ "input": bad })).await.is(422);
        assert_eq!(error["error"]["code"], "invalid_input", "{error}");
    }
    site.post(&path, &json!({ "input": { "n": 2 }, "from_failed": true })).await.is(400);
    let next = site.post(&path, &json!({ "input": { "n": "2" } })).await.is(201);
    assert_eq!(next["input"], json!({ "n": 2, "who": "you" }));
    assert_eq!((&next["continues"], &next["continues_how"]), (&job["id"], &json!("retry_changed")));
    let listed = site.get("/api/jobs").await.is(200);
    let (newer, older) = (&listed["items"][0], &listed["items"][1]);
    assert_eq!((&newer["continues"], &newer["continues_how"]), (&job["id"], &json!("retry_changed")));
    assert_eq!((&older["continues"], &older["continued_by"]), (&json!(null), &json!([next["id"]])));
    let old = site.get(&format!("/api/jobs/{}", spec.job)).await.is(200);
    assert_eq!((&old["continued_by"], &old["input"]["n"]), (&json!([next["id"]]), &json!(1)));
}
