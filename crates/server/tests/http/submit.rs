//! Jobs come in once, whole, or not at all.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::site::{HELLO, Site};

const WITH_INPUT: &str = "name: greet
input:
  who: { type: string, required: true }
  times: { type: integer, default: 1 }
steps:
  say: { run: 'echo {{ input.who }}' }
";

async fn count(site: &Site) -> usize {
    site.get("/api/jobs").await.is(200)["items"].as_array().expect("items").len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_becomes_a_job() {
    let site = Site::start().await;
    let job = site.post("/api/jobs", &json!({ "spec": HELLO })).await.is(201);
    assert_eq!((job["task"].as_str(), job["state"].as_str()), (Some("hello"), Some("pending")));
    assert_eq!(job["steps"][0]["name"], "greet");
    assert_eq!(job["steps"][0]["state"], "queued");
    assert_eq!(job["steps"][0]["deadline"]["owner"], "dispatcher");
    assert_eq!(job["submitted_by"], "admin");
    assert_eq!(site.get("/api/jobs/last").await.is(200)["id"], job["id"]);
}

/// Deadlines of silence move with every look.
fn without_deadlines(mut job: Value) -> Value {
    for step in job["steps"].as_array_mut().expect("steps") {
        step.as_object_mut().expect("a step").remove("deadline");
    }
    job
}

/// A small new job is answered from memory, a large one from its rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_submit_is_answered_with_what_a_look_shows() {
    let site = Site::start().await;
    let many = |count: usize| {
        format!("name: many\nsteps:\n  each: {{ run: 'true', for_each: {:?} }}\n", (0..count).collect::<Vec<_>>())
    };
    let texts = [
        HELLO.to_owned(),
        "name: one\nconcurrency: { group: only, limit: 1 }\nsteps:\n  a: { run: 'true' }\n".to_owned(),
        "name: one\nconcurrency: { group: only, limit: 1 }\nsteps:\n  b: { run: 'true' }\n".to_owned(),
        "name: ask\nsteps:\n  yes: { approve: { message: really? } }\n  go: { run: 'true', needs: [yes] }\n".to_owned(),
        many(3),
        many(80),
    ];
    for text in texts {
        let made = site.post("/api/jobs", &json!({ "spec": text })).await.is(201);
        let seen = site.get(&format!("/api/jobs/{}", made["id"].as_str().expect("an id"))).await.is(200);
        assert_eq!(without_deadlines(made), without_deadlines(seen), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_are_bound_and_all_problems_are_told() {
    let site = Site::start().await;
    let job =
        site.post("/api/jobs", &json!({ "spec": WITH_INPUT, "input": { "who": "Ada", "times": "3" } })).await.is(201);
    assert_eq!(job["input"], json!({ "who": "Ada", "times": 3 }));
    let answer = site.post("/api/jobs", &json!({ "spec": WITH_INPUT, "input": { "whom": 1, "times": "x" } })).await;
    let error = answer.is_error(422, "invalid_input");
    let diagnostics = error["diagnostics"].as_array().expect("diagnostics");
    assert_eq!(diagnostics.len(), 3, "{error}");
    assert!(diagnostics.iter().all(|one| (&one["line"], &one["column"]) == (&json!(0), &json!(0))), "{error}");
    assert_eq!(count(&site).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_text_makes_nothing() {
    let site = Site::start().await;
    let bad = "name: bad\nsteps:\n  a: { run: 'true', retires: 3 }\n  b: { run: 'true', needs: [c] }\n";
    let error = site.post("/api/jobs", &json!({ "spec": bad, "file": "bad.yaml" })).await.is_error(422, "invalid_task");
    let diagnostics = error["diagnostics"].as_array().expect("diagnostics");
    assert_eq!(diagnostics.len(), 2, "{error}");
    assert_eq!((diagnostics[0]["file"].as_str(), diagnostics[0]["line"].as_u64()), (Some("bad.yaml"), Some(3)));
    let later = "name: later\nsteps:\n  a: { docker: { image: alpine } }\n";
    site.post("/api/jobs", &json!({ "spec": later })).await.is_error(422, "not_supported");
    for body in [json!({}), json!({ "spec": HELLO, "task": "hello" })] {
        site.post("/api/jobs", &body).await.is_error(400, "bad_request");
    }
    site.post("/api/jobs", &json!({ "task": "nobody" })).await.is_error(404, "not_found");
    assert_eq!(count(&site).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_makes_a_submit_safe_to_repeat() {
    let site = Site::start().await;
    site.write_task("hello.yaml", HELLO);
    site.app.tasks.refresh(site.app.clock.now());
    let submit =
        |key: &str, body: Value| site.as_admin("POST", "/api/jobs").header("Idempotency-Key", key).json(&body).send();
    let by_name = json!({ "task": "hello" });
    let first = submit("k 1", by_name.clone()).await.is(201);
    let second = submit("k 1", by_name.clone()).await.is(200);
    assert_eq!(first["id"], second["id"]);
    submit("k 1", json!({ "spec": HELLO })).await.is_error(409, "idempotency_conflict");
    assert_ne!(submit("k 2", by_name.clone()).await.is(201)["id"], first["id"]);

    // The task is gone; the key still gives the job of then.
    std::fs::remove_file(site.folder.path().join("tasks/hello.yaml")).expect("removed");
    site.app.tasks.refresh(site.app.clock.now());
    assert_eq!(submit("k 1", by_name.clone()).await.is(200)["id"], first["id"]);
    submit("k 3", by_name.clone()).await.is_error(404, "not_found");

    // Keys of different callers never meet.
    let other = site.post("/api/tokens", &json!({ "kind": "api" })).await.is(201);
    let other = site.request("POST", "/api/jobs").token(other["token"].as_str().expect("a token"));
    let theirs = other.header("Idempotency-Key", "k 1").json(&json!({ "spec": HELLO })).send().await.is(201);
    assert_ne!(theirs["id"], first["id"]);

    for bad in ["", "caf\u{e9}", &"k".repeat(201)] {
        submit(bad, by_name.clone()).await.is_error(400, "bad_request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repeats_at_the_same_time_make_one_job() {
    let site = Site::start().await;
    let body = json!({ "spec": HELLO });
    let requests =
        (0..24).map(|_| site.as_admin("POST", "/api/jobs").header("Idempotency-Key", "same").json(&body).send());
    let answers = futures_util::future::join_all(requests).await;
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(made, 1, "one is the first");
    let ids: BTreeSet<String> =
        answers.into_iter().map(|a| a.json()["id"].as_str().expect("an id").to_owned()).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(count(&site).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submit_may_say_more_than_its_task() {
    let site = Site::start().await;
    site.write_task("hello.yaml", HELLO);
    site.app.tasks.refresh(site.app.clock.now());
    for target in [json!({ "spec": HELLO }), json!({ "task": "hello" })] {
        let with = |key: &str, value: Value| {
            let mut body = target.clone();
            body[key] = value;
            body
        };
        let job = site.post("/api/jobs", &with("priority", json!(7))).await.is(201);
        assert_eq!(job["priority"], 7);
        let job = site.post("/api/jobs", &with("tags", json!(["gpu"]))).await.is(201);
        let why = site.get(&format!("/api/jobs/{}/why", job["id"].as_str().expect("an id"))).await.is(200);
        assert!(why["steps"][0]["reason"].as_str().is_some_and(|reason| reason.contains("gpu")), "{why}");
        assert_eq!(site.post("/api/jobs", &target).await.is(201)["priority"], 0, "the task itself is as it was");
        for (key, bad) in [
            ("priority", json!(2_000_000)),
            ("priority", json!("high")),
            ("tags", json!(["not a tag"])),
            ("tags", json!(vec!["t"; 51])),
            ("labels", json!({})),
        ] {
            site.post("/api/jobs", &with(key, bad)).await.is_error(400, "bad_request");
        }
    }
}
