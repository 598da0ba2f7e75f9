//! Who gets in, and with what.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::Request;
use crate::hand::Hand;
use crate::site::{HELLO, Site};

/// Every route with a token of its own, as the API's description has them.
fn described_routes() -> Vec<(String, String)> {
    let description: Value = serde_json::from_str(&api::openapi().to_json().expect("JSON")).expect("JSON");
    let mut routes = Vec::new();
    for (path, methods) in description["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            routes.push((method.to_ascii_uppercase(), path.clone()));
        }
    }
    routes
}

/// The link is not part of this router; enrolment takes a token of its own kind and is tested below.
fn is_guarded(path: &str) -> bool {
    !["/healthz", "/readyz", "/api/worker/link", "/api/worker/enroll", "/hooks/{name}"].contains(&path)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_but_health_wants_a_token() {
    let site = Site::start().await;
    let enroll = site.post("/api/tokens", &json!({ "kind": "enroll" })).await.is(201);
    let enroll = enroll["token"].as_str().expect("a token").to_owned();
    let unknown = format!("bwl_api_{}", "0".repeat(64));
    let routes = described_routes();
    assert!(routes.len() > 20, "the description lists the routes");
    for (method, path) in routes.into_iter().filter(|(_, path)| is_guarded(path)) {
        let path = path.replace("{id}", &Uuid::nil().to_string()).replace("{step}", "a").replace("{name}", "a");
        let request = || site.request(&method, &path).body(Vec::new());
        let tries: [Request; 6] = [
            request(),
            request().token(&unknown),
            request().token(&enroll),
            request().token("bwl_worker_x"),
            request().header("authorization", &format!("Basic {}", site.admin)),
            request().header("authorization", "Bearer"),
        ];
        for request in tries {
            let shown = request.head.clone();
            let answer = request.send().await;
            assert_eq!(answer.status, 401, "{shown}");
            answer.is_error(401, "unauthorized");
            assert!(answer.head.contains("www-authenticate: bearer"));
        }
        let status = request().token(&site.admin).status().await;
        assert!(![401, 403, 405].contains(&status), "{method} {path}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_the_page_are_open() {
    let site = Site::start().await;
    site.submit(HELLO).await;
    for path in ["/healthz", "/readyz"] {
        site.request("GET", path).send().await.is(200);
    }
    let page = site.request("GET", "/").send().await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains(env!("CARGO_PKG_VERSION")) && page.body.contains("<td>1</td>"), "{}", page.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_lives_until_it_is_revoked_or_expires() {
    let site = Site::start().await;
    let made = site.post("/api/tokens", &json!({ "kind": "api", "role": "viewer", "ttl": "24h" })).await.is(201);
    let (id, text) = (made["id"].as_str().expect("an id"), made["token"].as_str().expect("a token"));
    assert!(text.starts_with("bwl_api_") && text.len() == 8 + 64, "{text}");
    assert_eq!(made["role"], "viewer");
    let with_it = || site.request("GET", "/api/jobs").token(text);
    with_it().send().await.is(200);
    with_it().send().await.is(200);

    let listed = site.get("/api/tokens").await;
    assert!(!listed.body.contains(text) && !listed.body.contains("hash"), "secrets are never listed");
    let listed = listed.is(200);
    assert!(listed["items"].as_array().expect("items").iter().any(|token| token["id"] == id));

    site.as_admin("DELETE", &format!("/api/tokens/{id}")).send().await.is(204);
    with_it().send().await.is_error(401, "unauthorized");
    site.as_admin("DELETE", &format!("/api/tokens/{id}")).send().await.is_error(404, "not_found");
    site.as_admin("DELETE", "/api/tokens/nonsense").send().await.is_error(404, "not_found");

    let brief = site.post("/api/tokens", &json!({ "kind": "api", "ttl": "1ms" })).await.is(201);
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let late = site.request("GET", "/api/jobs").token(brief["token"].as_str().expect("a token"));
    late.send().await.is_error(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_admin_makes_and_revokes_tokens() {
    let site = Site::start().await;
    let made = site.post("/api/tokens", &json!({ "kind": "api" })).await.is(201);
    assert_eq!(made["role"], "operator");
    let operator = made["token"].as_str().expect("a token");
    let create = site.request("POST", "/api/tokens").token(operator).json(&json!({ "kind": "api", "role": "admin" }));
    create.send().await.is_error(403, "forbidden");
    let path = format!("/api/tokens/{}", made["id"].as_str().expect("an id"));
    site.request("DELETE", &path).token(operator).send().await.is_error(403, "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_token_cannot_be_is_refused() {
    let site = Site::start().await;
    for (body, code, status) in [
        (json!({ "kind": "root" }), "bad_request", 400),
        (json!({ "kind": "api", "uses": 3 }), "bad_request", 400),
        (json!({ "kind": "api", "ttl": "soon" }), "bad_request", 400),
        (json!({ "kind": "api", "ttl": "0s" }), "bad_request", 400),
        (json!({ "kind": "enroll", "role": "admin" }), "bad_request", 400),
        (json!({ "kind": "enroll", "uses": 0 }), "bad_request", 400),
        (json!({ "kind": "enroll", "tags": ["not a tag"] }), "bad_request", 400),
        (json!({ "kind": "api", "tags": ["gpu"] }), "bad_request", 400),
        (json!({ "kind": "api", "colour": "red" }), "bad_request", 400),
    ] {
        site.post("/api/tokens", &body).await.is_error(status, code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_has_no_tag_that_its_enroll_token_did_not_allow() {
    let site = Site::start().await;
    let _hands = [
        Hand::join_tagged(&site, "a", &[], &["any", "thing"]).await,
        Hand::join_tagged(&site, "b", &["gpu", "script"], &["gpu", "root"]).await,
        Hand::join_tagged(&site, "c", &["gpu", "script"], &[]).await,
        Hand::join_tagged(&site, "d", &[], &[]).await,
    ];
    let workers = site.get("/api/workers").await.is(200);
    let tags: Vec<_> = (0..4).map(|n| workers["items"][n]["tags"].clone()).collect();
    assert_eq!(tags, [json!(["any", "thing"]), json!(["gpu"]), json!(["gpu", "script"]), json!(["script"])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enroll_token_brings_in_as_many_workers_as_it_says() {
    let site = Site::start().await;
    let made = site.post("/api/tokens", &json!({ "kind": "enroll", "uses": 2 })).await.is(201);
    let token = made["token"].as_str().expect("a token");
    assert!(token.starts_with("bwl_enroll_"));
    let enroll = |name: &str| {
        let body = json!({ "name": name, "state_id": Uuid::nil() });
        site.request("POST", "/api/worker/enroll").token(token).json(&body).send()
    };
    enroll(" ").await.is_error(400, "bad_request");
    let first = enroll("one").await.is(200);
    let credential = first["credential"].as_str().expect("a credential");
    assert!(credential.starts_with("bwl_worker_"));
    enroll("two").await.is(200);
    enroll("three").await.is_error(401, "unauthorized");

    let known = site.app.access.worker(credential).await.expect("the credential is good");
    assert_eq!(known.to_string(), first["worker"].as_str().expect("an id"));
    assert!(site.app.access.worker(&site.admin).await.is_err(), "an API token is no credential");
    let with_api_token =
        site.as_admin("POST", "/api/worker/enroll").json(&json!({ "name": "x", "state_id": Uuid::nil() }));
    with_api_token.send().await.is_error(401, "unauthorized");
    let workers = site.get("/api/workers").await.is(200);
    assert_eq!(workers["items"].as_array().expect("items").len(), 2);
    assert_eq!(workers["items"][0]["status"], "inactive");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_token_is_kept_renewed_and_preset() {
    let site = Site::start().await;
    let (access, data) = (&site.app.access, site.folder.path());
    let file = data.join("admin.token");
    let mode = std::fs::metadata(&file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&file).expect("readable").trim(), site.admin);
    assert_eq!(access.bootstrap(data, None).await.expect("kept"), site.admin);

    std::fs::remove_file(&file).expect("removed");
    let second = access.bootstrap(data, None).await.expect("renewed");
    assert_ne!(second, site.admin);
    site.request("GET", "/api/jobs").token(&second).send().await.is(200);

    std::fs::write(&file, "bwl_api_forged\n").expect("written");
    let third = access.bootstrap(data, None).await.expect("a forged file is not believed");
    assert_ne!(third, "bwl_api_forged");

    let preset = "a-preset-of-the-operators-choice";
    assert_eq!(access.bootstrap(data, Some(preset)).await.expect("preset"), preset);
    assert_eq!(access.bootstrap(data, Some(preset)).await.expect("again"), preset);
    assert_eq!(std::fs::read_to_string(&file).expect("readable").trim(), preset);
    let made = site.request("POST", "/api/tokens").token(preset).json(&json!({ "kind": "api" })).send().await;
    made.is(201);
    assert!(access.bootstrap(data, Some("with space")).await.is_err());
    assert!(access.bootstrap(data, Some("")).await.is_err());
}
