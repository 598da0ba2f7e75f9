//! Triggers over the API, and calls of webhooks.

use std::os::unix::fs::PermissionsExt as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::client::{Answer, Request};
use crate::hand::Hand;
use crate::site::Site;

const KEY: &str = "s3cret";
const SHIP: &str = "name: ship\ninput:\n  body: { type: object }\n  where: { type: string }\nsteps:\n  a: { run: 'true' }\n\
    triggers:\n  - { webhook: ship, secret: SHIP_KEY, with: { where: east } }\n  - cron: '0 3 * * *'\n    timezone: Europe/Oslo\n";
const HOOK: &str = "ship:webhook:ship";

fn signature(key: &str, body: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("any key is good").chain_update(body);
    let tag: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={tag}")
}

impl Site {
    async fn shipping() -> Site {
        let site = Site::start().await;
        site.as_admin("PUT", "/api/tasks/ship").json(&json!({ "spec": SHIP })).send().await.is(200);
        site
    }

    fn set_secret(&self, mode: u32) {
        let folder = self.folder.path().join("secrets");
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("SHIP_KEY");
        std::fs::write(&file, format!("{KEY}\n")).expect("a secret");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("its owner may");
    }

    fn call(&self, body: &str) -> Request {
        let call = self.request("POST", "/hooks/ship").header("x-bowline-signature", &signature(KEY, body));
        call.body(body.as_bytes().to_vec())
    }

    async fn trigger(&self, id: &str) -> Value {
        let triggers = self.get("/api/triggers").await.is(200);
        let found = triggers["items"].as_array().expect("items").iter().find(|trigger| trigger["id"] == id).cloned();
        found.unwrap_or_else(|| panic!("no {id} in {triggers:#}"))
    }
}

fn job_of(answer: Answer, repeated: bool) -> String {
    let answer = answer.is(202);
    assert_eq!(answer["repeated"], repeated, "{answer}");
    answer["job"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_call_starts_the_task_with_its_body() {
    let site = Site::shipping().await;
    site.set_secret(0o600);
    let id = job_of(site.call(r#"{"ref":"main"}"#).send().await, false);
    let job = site.get(&format!("/api/jobs/{id}")).await.is(200);
    assert_eq!(job["input"], json!({ "body": { "ref": "main" }, "where": "east" }));
    assert_eq!(job["submitted_by"], format!("trigger:{HOOK}"));
    let trigger = site.trigger(HOOK).await;
    assert_eq!((&trigger["last_job"], &trigger["path"]), (&json!(id), &json!("/hooks/ship")));
    // As GitHub signs.
    let body = r#"{"ref":"next"}"#;
    let call = site.request("POST", "/hooks/ship").header("x-hub-signature-256", &signature(KEY, body));
    job_of(call.body(body.as_bytes().to_vec()).send().await, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_sign_starts_nothing() {
    let site = Site::shipping().await;
    let unset = site.call("{}").send().await.is_error(503, "unavailable");
    assert_eq!(unset["message"], "calls cannot be checked now", "a stranger is told of no secret");
    site.set_secret(0o644);
    let open = site.call("{}").send().await.is_error(503, "unavailable");
    assert_eq!(open["hint"], "the server's log says why");
    site.set_secret(0o600);
    let forged = site.request("POST", "/hooks/ship").header("x-bowline-signature", &signature("guess", "{}"));
    forged.body(b"{}".to_vec()).send().await.is_error(401, "unauthorized");
    site.request("POST", "/hooks/ship").body(b"{}".to_vec()).send().await.is_error(401, "unauthorized");
    site.request("POST", "/hooks/other").body(b"{}".to_vec()).send().await.is_error(404, "not_found");
    site.call("no JSON").send().await.is_error(400, "bad_request");
    assert_eq!(site.get("/api/jobs").await.is(200)["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_comes_twice_makes_one_job() {
    let site = Site::shipping().await;
    site.set_secret(0o600);
    let named = |name: &'static str, body: &'static str| site.call(body).header("x-github-delivery", name).send();
    let first = job_of(named("one", "{}").await, false);
    assert_eq!(job_of(named("one", "{}").await, true), first);
    assert_ne!(job_of(named("two", "{}").await, false), first, "another delivery of the same");
    let other = named("one", r#"{"n":1}"#).await.is_error(409, "idempotency_conflict");
    assert_eq!(other["message"], "this X-GitHub-Delivery was used for a call with another body");
    assert_eq!(other["hint"], "use a new X-GitHub-Delivery for a new call");
    // Without a name the body is one.
    let first = job_of(site.call(r#"{"n":2}"#).send().await, false);
    assert_eq!(job_of(site.call(r#"{"n":2}"#).send().await, true), first);
    assert_ne!(job_of(site.call(r#"{"n":3}"#).send().await, false), first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_trigger_rests_and_says_so() {
    let site = Site::shipping().await;
    site.set_secret(0o600);
    let nightly = "ship:cron:1";
    let before = site.trigger(nightly).await;
    assert_eq!(before["next"].as_array().map(Vec::len), Some(3), "{before}");
    assert_eq!((&before["cron"], &before["timezone"]), (&json!("0 3 * * *"), &json!("Europe/Oslo")));
    let paused = site.post(&format!("/api/triggers/{nightly}/pause"), &json!({})).await.is(200);
    assert_eq!((&paused["paused"], &paused["next"]), (&json!(true), &json!([])));
    assert_eq!(site.trigger(nightly).await, paused);
    let task = site.get("/api/tasks/ship").await.is(200);
    assert_eq!(task["triggers"][0], paused);
    let resumed = site.post(&format!("/api/triggers/{nightly}/resume"), &json!({})).await.is(200);
    assert_eq!(resumed, before);

    site.post(&format!("/api/triggers/{HOOK}/pause"), &json!({})).await.is(200);
    let refused = site.call("{}").send().await.is_error(409, "conflict");
    assert_eq!(refused["message"], format!("the trigger {HOOK} is paused, and nothing was started"));
    site.post(&format!("/api/triggers/{HOOK}/resume"), &json!({})).await.is(200);
    job_of(site.call("{}").send().await, false);
    site.post("/api/triggers/nobody/pause", &json!({})).await.is_error(404, "not_found");
}

/// Whoever calls is told no, and so is whoever looks at the trigger later.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_for_a_full_group_is_seen_at_the_trigger() {
    let site = Site::start().await;
    let spec = format!("{SHIP}concurrency: {{ group: dock, limit: 1, when_full: reject }}\n");
    site.as_admin("PUT", "/api/tasks/ship").json(&json!({ "spec": spec })).send().await.is(200);
    site.set_secret(0o600);
    let first = job_of(site.call(r#"{"n":1}"#).send().await, false);
    let refused = site.call(r#"{"n":2}"#).send().await.is_error(409, "group_full");
    let trigger = site.trigger(HOOK).await;
    assert_eq!((&trigger["last_error"], &trigger["last_job"]), (&refused["message"], &json!(first)));
    site.post(&format!("/api/jobs/{first}/cancel"), &json!({})).await.is(202);
    job_of(site.call(r#"{"n":3}"#).send().await, false);
    assert_eq!(site.trigger(HOOK).await["last_error"], Value::Null);
}

/// Whatever else a call would be refused for: who paused it wants to hear that.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_trigger_says_so_before_anything_else() {
    let site = Site::start().await;
    let spec = format!("{SHIP}concurrency: {{ group: dock, limit: 1, when_full: reject }}\n");
    site.as_admin("PUT", "/api/tasks/ship").json(&json!({ "spec": spec })).send().await.is(200);
    site.set_secret(0o600);
    job_of(site.call(r#"{"n":1}"#).send().await, false);
    site.call(r#"{"n":2}"#).send().await.is_error(409, "group_full");
    site.call("[]").send().await.is_error(422, "invalid_input");
    let before = site.trigger(HOOK).await;
    site.post(&format!("/api/triggers/{HOOK}/pause"), &json!({})).await.is(200);
    for body in [r#"{"n":3}"#, "[]"] {
        let refused = site.call(body).send().await.is_error(409, "conflict");
        assert_eq!(refused["message"], format!("the trigger {HOOK} is paused, and nothing was started"), "{body}");
    }
    job_of(site.call(r#"{"n":1}"#).send().await, true);
    site.post(&format!("/api/triggers/{HOOK}/resume"), &json!({})).await.is(200);
    assert_eq!(site.trigger(HOOK).await["last_error"], before["last_error"], "no call was told of meanwhile");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_belongs_to_one_task() {
    let site = Site::shipping().await;
    let push = |name: &'static str| {
        let spec = SHIP.replace("name: ship", &format!("name: {name}"));
        site.as_admin("PUT", &format!("/api/tasks/{name}")).json(&json!({ "spec": spec })).send()
    };
    let taken = push("other").await.is_error(409, "conflict");
    assert_eq!(taken["message"], "the webhook `ship` starts the task `ship` already");
    push("ship").await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_says_why_nothing_followed_on_it() {
    let site = Site::start().await;
    let page = "name: page\ninput: { n: { type: integer, required: true } }\nsteps: { a: { run: x } }\n";
    site.as_admin("PUT", "/api/tasks/page").json(&json!({ "spec": page })).send().await.is(200);
    let spec = "name: t\nsteps: { a: { run: x } }\non_success: [ { task: page, with: { n: 1 } } ]\n\
                on_error:\n  - { task: page, with: { n: '{{ job.id }}' } }\n  - { task: page, with: { n: '{{ 7 }}' } }\n  \
                - { task: page, with: { n: '{{ job.state }}' } }\n";
    let id = site.submit(spec).await;
    let mut hand = Hand::join(&site, "w", 1).await;
    let attempt = hand.start().await;
    hand.end(&attempt, 1).await;
    let job = site.get(&format!("/api/jobs/{id}?wait=10s")).await.is(200);
    let hooks: Vec<(&str, &str, &str)> = job["hooks"].as_array().expect("a list").iter().map(told).collect();
    let refused = format!("`n` must be a whole number, not `{id}`");
    let expected = [
        ("on_error", "not_begun", refused.as_str()),
        ("on_error", "pending", ""),
        ("on_error", "not_begun", "`n` must be a whole number, not `failed`"),
    ];
    assert_eq!(hooks, expected);
}

fn told(hook: &Value) -> (&str, &str, &str) {
    let text = |key: &str| hook[key].as_str().unwrap_or_default();
    (text("on"), text("state"), text("error"))
}

/// What a submit would be refused is not begun by a call either; and what may go well is.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_for_what_could_only_fail_is_refused() {
    let site = Site::start().await;
    site.set_secret(0o600);
    let push = async |steps: &str| {
        let text = format!(
            "name: ship\nsteps:\n  first: {{ run: 'true' }}\n{steps}triggers:\n  - {{ webhook: ship, secret: SHIP_KEY }}\n"
        );
        site.as_admin("PUT", "/api/tasks/ship").json(&json!({ "spec": text })).send().await.is(200)
    };
    let other = "name: other\ninput: { n: { type: integer } }\nsteps: { a: { run: x } }\n";
    site.as_admin("PUT", "/api/tasks/other").json(&json!({ "spec": other })).send().await.is(200);
    let cases = [
        ("  b: { needs: [first], run: x, secrets: [NOT_SET] }\n", "missing_secret"),
        ("  b: { needs: [first], task: other, with: { n: many } }\n", "invalid_task"),
        ("  b: { needs: [first], task: nothere }\n", "invalid_task"),
    ];
    for (steps, code) in cases {
        let pushed = push(steps).await;
        assert_eq!(pushed["diagnostics"].as_array().map(Vec::len), Some(1), "{pushed:#}");
        let submitted = site.post("/api/jobs", &json!({ "task": "ship" })).await.is_error(422, code);
        let called = site.call("{}").send().await.is_error(422, code);
        assert_eq!(called["message"], submitted["message"]);
        let problem = site.trigger(HOOK).await["task_problem"].clone();
        assert_eq!(problem, submitted["message"], "it is seen before any call");
    }
    let may_go_well = [
        "  b: { needs: [first], run: x, if: 'failure()', secrets: [NOT_SET] }\n",
        "  b: { needs: [first], run: x, allow_failure: true, secrets: [NOT_SET] }\n",
        "  b: { needs: [first], task: other, with: { n: many }, if: 'failure()' }\n",
    ];
    for (n, steps) in may_go_well.into_iter().enumerate() {
        push(steps).await;
        job_of(site.call(&format!("{{\"n\":{n}}}")).send().await, false);
        assert_eq!(site.trigger(HOOK).await["task_problem"], Value::Null);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_cannot_be_called_says_why() {
    let site = Site::shipping().await;
    let problem = site.trigger(HOOK).await["task_problem"].clone();
    assert_eq!(problem, "its calls cannot be checked: the secret `SHIP_KEY` is not set on the server");
    site.set_secret(0o600);
    assert_eq!(site.trigger(HOOK).await["task_problem"], Value::Null);
    let later = SHIP.replace("name: ship", "name: zeppelin");
    site.write_task("zeppelin.yaml", &later);
    let id = "zeppelin:webhook:ship";
    let found = async || {
        let all = site.get("/api/triggers").await.is(200);
        all["items"].as_array().expect("items").iter().find(|trigger| trigger["id"] == id).cloned()
    };
    let mut trigger = None;
    for _ in 0..100 {
        trigger = found().await;
        if trigger.is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(trigger.expect("it was read")["task_problem"], format!("calls to this name are for {HOOK}"));
}
