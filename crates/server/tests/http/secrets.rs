//! Secrets over the API: values go in, and never come out.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::site::Site;

const VALUE: &str = "hunter2-and-more";
const DEPLOY: &str = "name: deploy\nsteps:\n  ship: { run: x, secrets: [DEPLOY_KEY] }\n";

impl Site {
    async fn set(&self, name: &str, value: &str) -> crate::client::Answer {
        let path = format!("/api/secrets/{name}");
        self.as_admin("PUT", &path).json(&json!({ "value": value })).send().await
    }

    async fn listed(&self) -> Vec<Value> {
        self.get("/api/secrets").await.is(200)["items"].as_array().expect("items").clone()
    }

    async fn token(&self, role: &str) -> String {
        let made = self.post("/api/tokens", &json!({ "kind": "api", "role": role })).await.is(201);
        made["token"].as_str().expect("a token").to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_set_listed_and_removed() {
    let site = Site::start().await;
    assert_eq!(site.listed().await, [] as [Value; 0]);
    let set = site.set("DEPLOY_KEY", &format!("{VALUE}\n")).await.is(200);
    assert_eq!((&set["name"], &set["source"]), (&json!("DEPLOY_KEY"), &json!("store")));
    let listed = site.listed().await;
    assert_eq!(listed.len(), 1);
    assert!(listed[0]["set_at"].is_string() && listed[0]["set_by"].is_string(), "{listed:?}");
    assert_eq!(site.app.secrets.get("DEPLOY_KEY").expect("stored"), VALUE.as_bytes());
    for file in ["bowline.db", "bowline.db-wal", "secrets.key"] {
        let bytes = std::fs::read(site.folder.path().join(file)).unwrap_or_default();
        assert!(!bytes.windows(VALUE.len()).any(|part| part == VALUE.as_bytes()), "{file} holds it");
    }
    let mode = std::fs::metadata(site.folder.path().join("secrets.key")).expect("the first makes it").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);

    // A file of the server comes before the store, and whoever sets it is told.
    let file = site.folder.path().join("secrets/DEPLOY_KEY");
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    std::fs::write(&file, "of the file").expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("its owner may");
    assert_eq!(site.set("DEPLOY_KEY", VALUE).await.is(200)["source"], "file");
    assert_eq!(site.listed().await[0]["source"], "file");
    std::fs::remove_file(file).expect("its owner may");

    assert_eq!(site.as_admin("DELETE", "/api/secrets/DEPLOY_KEY").status().await, 204);
    site.as_admin("DELETE", "/api/secrets/DEPLOY_KEY").send().await.is_error(404, "not_found");
    assert_eq!(site.listed().await, [] as [Value; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_admin_sets_them() {
    let site = Site::start().await;
    let (operator, viewer) = (site.token("operator").await, site.token("viewer").await);
    let put = |token: &str| site.request("PUT", "/api/secrets/A").token(token).json(&json!({ "value": VALUE }));
    put(&operator).send().await.is_error(403, "forbidden");
    put(&viewer).send().await.is_error(403, "forbidden");
    site.request("DELETE", "/api/secrets/A").token(&operator).send().await.is_error(403, "forbidden");
    site.request("GET", "/api/secrets").token(&operator).send().await.is(200);
    site.request("GET", "/api/secrets").token(&viewer).send().await.is_error(403, "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_secret_is_refused() {
    let site = Site::start().await;
    for (name, value) in [("a-b", VALUE), ("A", "abc"), ("A", "  "), ("A", "ab\0cd"), ("WEBHOOK_KEY", VALUE)] {
        site.set(name, value).await.is_error(400, "bad_request");
    }
    site.set("A", &"x".repeat(32 * 1024 + 1)).await.is_error(400, "bad_request");
    site.set("A", &"x".repeat(32 * 1024)).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_secrets_are_missing_is_not_begun() {
    let site = Site::start().await;
    let submit = async |spec: &str| site.post("/api/jobs", &json!({ "spec": spec })).await;
    let error = submit(DEPLOY).await.is_error(422, "missing_secret");
    let message = error["message"].as_str().expect("words");
    assert!(
        message.starts_with("step `ship` of `deploy` cannot start: the secret `DEPLOY_KEY` is not set"),
        "{message}"
    );
    assert!(error["hint"].as_str().expect("a hint").starts_with("`bowline secret set DEPLOY_KEY`"), "{error}");
    // The same of a task that a step begins.
    site.set("OTHER", VALUE).await.is(200);
    site.as_admin("PUT", "/api/tasks/deploy").json(&json!({ "spec": DEPLOY })).send().await.is(200);
    let parent = "name: parent\nsteps:\n  a: { run: x, secrets: [OTHER] }\n  b: { task: deploy, needs: [a] }\n";
    submit(parent).await.is_error(422, "missing_secret");
    site.set("DEPLOY_KEY", VALUE).await.is(200);
    submit(parent).await.is(201);
    submit(DEPLOY).await.is(201);
}

/// A step and a hook begin the same task.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_twice_is_named_once() {
    let site = Site::start().await;
    site.as_admin("PUT", "/api/tasks/deploy").json(&json!({ "spec": DEPLOY })).send().await.is(200);
    let spec = "name: twice\nsteps:\n  a: { task: deploy }\non_error: [{ task: deploy }]\n";
    let error = site.post("/api/jobs", &json!({ "spec": spec })).await.is_error(422, "missing_secret");
    assert_eq!(error["message"].as_str().map(|told| told.matches("cannot start").count()), Some(1), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_missing_is_named_at_once() {
    let site = Site::start().await;
    let spec = "name: many\nsteps:\n  a: { run: x, secrets: [ONE, TWO] }\n  b: { run: x, secrets: [THREE] }\n\
                on_error: [ { webhook: 'https://example.com/', secret: FOUR } ]\n";
    let error = site.post("/api/jobs", &json!({ "spec": spec })).await.is_error(422, "missing_secret");
    let expected = "step `a` of `many` cannot start: the secrets `ONE` and `TWO` are not set on the server; \
                    step `b` of `many` cannot start: the secret `THREE` is not set on the server; \
                    a webhook in `on_error` of `many` cannot be signed: the secret `FOUR` is not set on the server";
    assert_eq!(error["message"], expected);
    for name in ["ONE", "TWO", "THREE"] {
        site.set(name, VALUE).await.is(200);
    }
    let error = site.post("/api/jobs", &json!({ "spec": spec })).await.is_error(422, "missing_secret");
    assert!(error["hint"].as_str().is_some_and(|hint| hint.starts_with("`bowline secret set FOUR`")), "{error}");
    site.set("FOUR", VALUE).await.is(200);
    site.post("/api/jobs", &json!({ "spec": spec })).await.is(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_says_which_of_its_secrets_are_missing() {
    let site = Site::start().await;
    let spec = "name: hooked\nsteps:\n  a: { run: x, secrets: [ONE] }\ntriggers: [ { webhook: in, secret: TWO } ]\n\
                on_error:\n  - webhook: https://example.com/\n    secret: THREE\n";
    let pushed = site.as_admin("PUT", "/api/tasks/hooked").json(&json!({ "spec": spec })).send().await.is(200);
    let told = |task: &Value| -> Vec<(u64, u64, String)> {
        let number = |value: &Value| value.as_u64().expect("a number");
        let one =
            |d: &Value| (number(&d["line"]), number(&d["column"]), d["message"].as_str().expect("words").to_owned());
        task["diagnostics"].as_array().expect("a list").iter().map(one).collect()
    };
    let not_set = |name: &str| format!("the secret `{name}` is not set on the server");
    assert_eq!(told(&pushed), [(3, 26, not_set("ONE")), (4, 36, not_set("TWO")), (7, 13, not_set("THREE"))]);
    assert_eq!((&pushed["usable"], &pushed["diagnostics"][0]["code"]), (&json!(true), &json!("missing_secret")));
    site.set("ONE", VALUE).await.is(200);
    site.set("THREE", VALUE).await.is(200);
    let listed = site.get("/api/tasks").await.is(200);
    assert_eq!(told(&listed["items"][0]), [(4, 36, not_set("TWO"))]);
}
