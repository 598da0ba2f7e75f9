//! Whatever is sent, the answer has the API's own shape.

use serde_json::json;

use crate::site::{HELLO, Site};

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_not_what_is_taken() {
    let site = Site::start().await;
    for body in
        ["", "{", "[]", "null", "\"text\"", "{\"spec\": 5}", "{\"spek\": \"x\"}", "{\"spec\":\"a\"} tail", "\u{0}"]
    {
        let answer = site.as_admin("POST", "/api/jobs").body(body.as_bytes().to_vec()).send().await;
        answer.is_error(400, "bad_request");
    }
    let deep = format!("{{\"spec\": \"x\", \"input\": {}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
    site.as_admin("POST", "/api/jobs").body(deep.into_bytes()).send().await.is_error(400, "bad_request");
    site.as_admin("POST", "/api/jobs").body(vec![0xff; 100]).send().await.is_error(400, "bad_request");
    let unknown = site.post("/api/jobs", &json!({ "spec": HELLO, "spek": 1 })).await.is_error(400, "bad_request");
    assert!(unknown["message"].as_str().expect("a message").contains("spek"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_beyond_the_limit() {
    let site = Site::start().await;
    let fits = json!({ "spec": "x".repeat(1024 * 1024) });
    site.post("/api/jobs", &fits).await.is_error(422, "invalid_task");
    let large = json!({ "spec": "x".repeat(3 * 1024 * 1024) });
    site.post("/api/jobs", &large).await.is_error(413, "too_large");
    site.as_admin("PUT", "/api/tasks/x").json(&large).send().await.is_error(413, "too_large");
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_and_methods_that_are_not_there() {
    let site = Site::start().await;
    for path in ["/api", "/api/nothing", "/api/jobs/x/y/z", "/favicon.ico", "/api/jobs/", "//"] {
        site.get(path).await.is_error(404, "not_found");
    }
    let wrong = site.as_admin("DELETE", "/api/jobs").send().await;
    wrong.is_error(405, "method_not_allowed");
    assert!(wrong.head.contains("allow:"), "{}", wrong.head);
    site.as_admin("POST", "/healthz").send().await.is_error(405, "method_not_allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_that_make_no_sense() {
    let site = Site::start().await;
    site.submit(HELLO).await;
    for path in [
        "/api/jobs?state=dancing",
        "/api/jobs?limit=0",
        "/api/jobs?limit=many",
        "/api/jobs?limit=-1",
        "/api/jobs?cursor=x",
        "/api/jobs?colour=red",
        "/api/jobs/last?wait=soon",
        "/api/jobs/last/steps/greet/logs?from=x",
        "/api/jobs/last/steps/greet/logs?limit=0",
        "/api/jobs/last/events?after=-1",
        "/api/jobs/%ff",
    ] {
        let answer = site.get(path).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
        answer.is_error(400, "bad_request");
    }
    for path in ["/api/jobs/last/events", "/api/events", "/api/jobs/last/steps/greet/logs/stream"] {
        let answer = site.as_admin("GET", path).header("Last-Event-ID", "nonsense").send().await;
        answer.is_error(400, "bad_request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_lead_nowhere_or_to_several() {
    let site = Site::start().await;
    site.get("/api/jobs/last").await.is_error(404, "not_found");
    let first = site.submit(HELLO).await;
    let second = site.submit(HELLO).await;
    for id in
        ["00000000-0000-0000-0000-000000000000", "ffff", "zzzz", "....", "0000-0000-0000-0000-0000-0000-0000-0000"]
    {
        site.get(&format!("/api/jobs/{id}")).await.is_error(404, "not_found");
    }
    for id in ["1", "abc"] {
        site.get(&format!("/api/jobs/{id}")).await.is_error(400, "bad_request");
    }
    let common = first.bytes().zip(second.bytes()).take_while(|(a, b)| a == b).count();
    let error = site.get(&format!("/api/jobs/{}", &first[..common])).await.is_error(409, "ambiguous_id");
    assert!(error["message"].as_str().expect("a message").contains(&first), "{error}");
    let unique = site.get(&format!("/api/jobs/{}", &first[..=common])).await.is(200);
    assert_eq!(unique["id"], first.as_str());
    let upper = site.get(&format!("/api/jobs/{}", first[..=common].to_ascii_uppercase())).await.is(200);
    assert_eq!(upper["id"], first.as_str());
    site.get("/api/jobs/last/steps/nobody/logs").await.is_error(404, "not_found");
    site.get("/api/jobs/last/steps/greet/logs?attempt=1").await.is_error(404, "not_found");
    for path in ["why", "events"] {
        site.get(&format!("/api/jobs/{}/{path}", uuid::Uuid::nil())).await.is_error(404, "not_found");
    }
}
