//! Files of steps over the API, and workers who bring and fetch them.

use pack::{FileEntry, Manifest};
use protocol::attempt::ArtifactSet;
use serde_json::json;
use server::artifacts::UPLOADS_MAX;
use uuid::Uuid;

use crate::client::{Answer, Request};
use crate::hand::Hand;
use crate::site::Site;

const TASK: &str = "name: t\nsteps:\n  make: { run: 'true', artifacts: [ out ] }\n";
/// Of `hello` and of `bin`.
const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
const BIN: &str = "51a1f05af85e342e3c849b47d387086476282d5f50dc240c19216d6edfb1eb5a";

fn manifest() -> (Vec<u8>, String) {
    let file = |path: &str, size, sha256: &str, executable| FileEntry {
        path: path.to_owned(),
        size,
        sha256: sha256.to_owned(),
        executable,
    };
    let (text, id) = Manifest::new(vec![file("out/b", 3, BIN, true), file("out/a b", 5, HELLO, false)]).encode();
    (text, id.to_string())
}

struct Worker<'s> {
    site: &'s Site,
    credential: String,
}

impl Worker<'_> {
    async fn new(site: &Site) -> Worker<'_> {
        let token = site.post("/api/tokens", &json!({ "kind": "enroll" })).await.is(201);
        let token = token["token"].as_str().expect("a token").to_owned();
        let enrolled = site.request("POST", "/api/worker/enroll").token(&token);
        let answer = enrolled.json(&json!({ "name": "w", "state_id": Uuid::nil() })).send().await.is(200);
        Worker { site, credential: answer["credential"].as_str().expect("a credential").to_owned() }
    }

    fn request(&self, method: &str, rest: &str) -> Request {
        self.site.request(method, &format!("/api/worker/artifacts/{rest}")).token(&self.credential)
    }

    async fn announce(&self, id: &str, text: &[u8]) -> Answer {
        self.request("POST", id).body(text.to_vec()).send().await
    }

    async fn put(&self, id: &str, from: u64, bytes: &[u8]) -> Answer {
        self.request("PUT", &format!("{id}?from={from}")).body(bytes.to_vec()).send().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_is_brought_and_fetched_by_workers_only() {
    let site = Site::start().await;
    let worker = Worker::new(&site).await;
    let (text, id) = manifest();
    worker.request("POST", &id).send().await.is_error(404, "not_found");
    assert_eq!(worker.announce(&id, &text).await.is(200), json!({ "bytes": 0, "stored": false }));
    assert_eq!(worker.put(&id, 0, b"hell").await.is(200), json!({ "bytes": 4, "stored": false }));
    worker.put(&id, 6, b"n").await.is_error(409, "conflict");
    worker.request("GET", &id).send().await.is_error(404, "not_found");
    assert_eq!(worker.put(&id, 4, b"obin").await.is(200), json!({ "bytes": 8, "stored": true }));
    assert_eq!(worker.request("POST", &id).send().await.is(200), json!({ "bytes": 8, "stored": true }));
    let pack = worker.request("GET", &id).header("range", "bytes=-8").send().await;
    assert_eq!((pack.status, pack.body.as_str()), (206, "hellobin"));

    worker.announce(&"0".repeat(64), &text).await.is_error(400, "bad_request");
    worker.announce("etc", &text).await.is_error(400, "bad_request");
    let stranger = site.as_admin("GET", &format!("/api/worker/artifacts/{id}")).send().await;
    stranger.is_error(401, "unauthorized");
    site.request("POST", &format!("/api/worker/artifacts/{id}")).send().await.is_error(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_is_refused_with_both_figures() {
    let site = Site::start().await;
    let worker = Worker::new(&site).await;
    let entry = FileEntry { path: "x".to_owned(), size: 1 << 40, sha256: HELLO.to_owned(), executable: false };
    let (text, id) = Manifest::new(vec![entry]).encode();
    let refused = worker.announce(&id.to_string(), &text).await.is_error(413, "too_large");
    let message = refused["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("1099511627776") && message.contains("524288"), "{message}");
    assert!(site.get("/metrics").await.body.contains("bowline_artifacts_refused_total 1\n"));
}

/// Each has a thread of the server's.
#[tokio::test(flavor = "multi_thread")]
async fn so_many_send_at_a_time_and_others_come_again() {
    let site = Site::start().await;
    let worker = Worker::new(&site).await;
    let (text, id) = manifest();
    worker.announce(&id, &text).await.is(200);
    let depot = site.app.artifacts.clone();
    let mut places: Vec<_> = std::iter::from_fn(|| depot.place()).collect();
    assert_eq!(places.len(), UPLOADS_MAX);
    let refused = worker.put(&id, 0, b"hellobin").await.is_error(429, "too_many_requests");
    assert_eq!(refused["message"], "64 sets of artifacts are being sent already");
    drop(places.pop());
    // The first one gives its place back.
    worker.put(&id, 0, b"hell").await.is(200);
    assert_eq!(worker.put(&id, 4, b"obin").await.is(200)["stored"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_listed_and_given_out_in_parts() {
    let site = Site::start().await;
    let worker = Worker::new(&site).await;
    let (text, id) = manifest();
    worker.announce(&id, &text).await.is(200);
    worker.put(&id, 0, b"hellobin").await.is(200);
    let job = site.submit(TASK).await;
    let mut hand = Hand::join_able(&site, "hand", &["artifacts"]).await;
    let spec = hand.start().await;
    assert_eq!(spec.artifacts.as_ref().map(|rule| rule.bytes_max), Some(1 << 20));
    let list = format!("/api/jobs/{job}/artifacts");
    assert_eq!(site.get(&list).await.is(200), json!({ "items": [], "next": null }));
    hand.end_with(&spec, ArtifactSet { id, files: 2, bytes: 8 }).await;
    site.get(&format!("/api/jobs/{job}?wait=10s")).await.is(200);

    let first = site.get(&format!("{list}?limit=1")).await.is(200);
    let expected =
        json!({ "step": "make", "attempt": 1, "path": "out/a b", "size": 5, "sha256": HELLO, "executable": false });
    assert_eq!((&first["items"][0], &first["next"]), (&expected, &json!("1")));
    let second = site.get(&format!("{list}?limit=1&cursor=1&step=make")).await.is(200);
    assert_eq!((&second["items"][0]["path"], &second["next"]), (&json!("out/b"), &json!(null)));
    site.get(&format!("{list}?step=nobody")).await.is_error(404, "not_found");

    let file = format!("/api/jobs/{job}/steps/make/artifacts/out/a%20b");
    let whole = site.get(&file).await;
    assert_eq!((whole.status, whole.body.as_str()), (200, "hello"));
    assert!(whole.head.contains(&format!("etag: \"{HELLO}\"")) && whole.head.contains("nosniff"), "{}", whole.head);
    let part = site.as_admin("GET", &file).header("range", "bytes=1-2").send().await;
    assert_eq!((part.status, part.body.as_str()), (206, "el"));
    assert!(part.head.contains("content-range: bytes 1-2/5"), "{}", part.head);
    let known = site.as_admin("GET", &file).header("if-none-match", &format!("\"{HELLO}\"")).status().await;
    assert_eq!(known, 304);
    site.get(&format!("/api/jobs/{job}/steps/make/artifacts/out/c")).await.is_error(404, "not_found");

    let all = format!("/api/jobs/{job}/steps/make/artifacts");
    let stream = site.get(&all).await;
    assert_eq!((stream.status, stream.body.as_str()), (200, "hellobin"));
    let rest = site.as_admin("GET", &all).header("range", "bytes=3-").send().await;
    assert_eq!((rest.status, rest.body.as_str()), (206, "lobin"));
    site.get(&format!("/api/jobs/{job}/steps/nobody/artifacts")).await.is_error(404, "not_found");
    let figures = site.get("/metrics").await.body;
    let bytes = text.len() + 8 + "hellobin".len();
    assert!(figures.contains("bowline_artifact_sets 1\n"), "{figures}");
    assert!(figures.contains(&format!("bowline_artifact_bytes {bytes}\n")), "{figures}");
    assert!(figures.contains("bowline_artifacts_refused_total 0\n"), "{figures}");
}

/// An older worker would leave the files where they are.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_leaves_files_goes_to_nobody_who_does_not_know_of_them() {
    let site = Site::start().await;
    let mut old = Hand::join_able(&site, "old", &[]).await;
    let job = site.submit(TASK).await;
    let plain = site.submit("name: p\nsteps:\n  a: { run: 'true' }\n").await;
    let spec = old.start().await;
    assert_eq!(spec.job.to_string(), plain, "the other one is passed over");
    let steps = site.get(&format!("/api/jobs/{job}")).await.is(200);
    assert_eq!(steps["steps"][0]["state"], "queued");
    let workers = site.get("/api/workers").await.is(200);
    assert_eq!(workers["items"][0]["tags"], json!(["script"]), "what a build can do is no tag of anybody's");
}
