//! People's words on steps, and where they belong.

use serde_json::json;

use crate::site::Site;

const GATE: &str = "name: gate\nsteps:\n  yes: { approve: {} }\n";
const OUTER: &str =
    "name: outer\nsteps:\n  part: { task: inner }\n  many: { task: gate, for_each: [1, 2] }\n  run: { run: 'true' }\n";

/// Whoever is asked for a yes sees the job that they submitted; the step that waits is in another.
#[tokio::test(flavor = "multi_thread")]
async fn who_approves_a_step_of_other_jobs_is_sent_to_the_one_that_waits() {
    let site = Site::start().await;
    let inner = "name: inner\nsteps:\n  deep: { task: gate, for_each: [1] }\n";
    for (name, text) in [("gate", GATE), ("inner", inner)] {
        site.as_admin("PUT", &format!("/api/tasks/{name}")).json(&json!({ "spec": text })).send().await.is(200);
    }
    let id = site.submit(OUTER).await;
    let step = |job: String, name: &'static str| {
        let site = &site;
        async move {
            let job = site.get(&format!("/api/jobs/{job}")).await.is(200);
            let step = job["steps"].as_array().expect("steps").iter().find(|step| step["name"] == name).cloned();
            step.expect("it is there")
        }
    };
    let child = |step: serde_json::Value| step["child"].as_str().expect("a job").to_owned();
    let inner = child(step(id.clone(), "part").await);
    let deep = child(step(inner.clone(), "deep[0]").await);
    let item = child(step(id.clone(), "many[0]").await);
    for (name, waits) in [("part", &deep), ("many", &item), ("many[0]", &item)] {
        for verb in ["approve", "reject"] {
            let path = format!("/api/jobs/{id}/steps/{}/{verb}", name.replace('[', "%5B").replace(']', "%5D"));
            let refused = site.post(&path, &json!({})).await.is_error(409, "conflict");
            let hint = format!("a step of job {waits} waits: `bowline approve {waits} yes`, or `reject`");
            assert_eq!(refused["hint"], hint, "{name}");
        }
    }
    let refused = site.post(&format!("/api/jobs/{id}/steps/run/approve"), &json!({})).await.is_error(409, "conflict");
    assert_eq!(refused["hint"], "only a step that is held waits for a person");
    site.post(&format!("/api/jobs/{deep}/steps/yes/approve"), &json!({})).await.is(200);
    assert_eq!(site.get(&format!("/api/jobs/{inner}?wait=10s")).await.is(200)["state"], "success");
}
