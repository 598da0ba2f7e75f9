//! What people, other programs and time do in the examples that do not end by themselves.

use std::sync::mpsc::Receiver;

use serde_json::Value;

use super::{PAGE, submit};
use crate::house::{House, Role, await_that, hooks, person, program, set_secret, states};
use crate::receiver::{Call, call, next, receiver};

/// Takes every mail, and keeps it.
const SENDMAIL: &str = "#!/bin/sh
cat > \"$(mktemp \"$(dirname \"$0\")/mail.XXXXXX\")\"
";

/// Tasks that hooks and notices of the page begin.
const NOTIFY: &str = "name: notify
input: { text: {} }
steps:
  tell: { run: 'echo {{ input.text | quote }}' }
";
const PAGE_TASK: &str = "name: page
input: { code: { default: '-' }, step: { default: '-' }, tried: { default: '-' }, text: { default: '-' } }
steps:
  tell: { run: 'echo {{ input.code }} {{ input.step }} {{ input.tried }} {{ input.text | quote }}' }
";

/// A house with all that the examples speak of.
pub(super) struct Stage {
    pub(super) house: House,
    /// Who takes webhooks.
    url: String,
    calls: Receiver<Call>,
    _roles: [Role; 2],
}

impl Stage {
    pub(super) fn new() -> Stage {
        let mut house = House::new();
        let sendmail = program(&house, "post/sendmail", SENDMAIL);
        house.set("BOWLINE_MAIL__SENDMAIL", &sendmail.display().to_string());
        house.set("BOWLINE_SECRET_BACKUP_HOOK", "s3cret of backups");
        house.set("BOWLINE_SECRET_RELEASE_HOOK", "s3cret of releases");
        house.set("BOWLINE_ENVIRONMENTS__PRODUCTION", "{ reviewers: 1, wait: 100ms }");
        let server = house.start_server();
        let worker = house.start_worker("w", &["--tags", "script,linux", "--slots", "8"]);
        let (url, calls) = receiver(vec![Some("204 No Content")]);
        [NOTIFY, PAGE_TASK].iter().for_each(|task| push(&house, task));
        Stage { house, url, calls, _roles: [server, worker] }
    }

    /// What has followed on a job, when all of it is done with: `on_error task success`.
    fn followed(&self, id: &str, count: usize) -> Vec<(String, Value)> {
        await_that("all that follows is done with", || {
            let hooks = hooks(&self.house, id);
            let done = |hook: &Value| hook["state"] == "success" || hook["state"] == "delivered";
            (hooks.len() == count && hooks.iter().all(done)).then(|| {
                let word = |hook: &Value, key: &str| hook[key].as_str().expect("a word").to_owned();
                let told =
                    |hook: &Value| format!("{} {} {}", word(hook, "on"), word(hook, "kind"), word(hook, "state"));
                hooks.into_iter().map(|hook| (told(&hook), hook)).collect()
            })
        })
    }

    /// What the task that a hook began has said.
    fn said(&self, hook: &Value) -> String {
        self.house.log(hook["id"].as_str().expect("an id"), "tell")
    }

    /// Whether the mail of this hook went to these.
    fn mailed(&self, hook: &Value, to: &str) -> bool {
        let name = format!("Message-ID: <{}@", hook["id"].as_str().expect("an id"));
        let files = std::fs::read_dir(self.house.path("post")).expect("a folder").flatten();
        let mut mails = files.map(|file| std::fs::read_to_string(file.path()).expect("a text"));
        mails.any(|mail| mail.contains(&name) && mail.contains(&format!("To: {to}\n")))
    }
}

pub(super) fn push(house: &House, text: &str) {
    house.bowline(&["tasks", "push", &house.write("pushed.yaml", text).display().to_string()]).ok();
}

fn words(followed: &[(String, Value)]) -> Vec<&str> {
    followed.iter().map(|(words, _)| words.as_str()).collect()
}

/// Stopping and cleaning up.
pub(super) fn somebody_cancels(stage: &Stage, text: &str) {
    let house = &stage.house;
    let id = submit(house, text, &[]);
    await_that("it has begun", || (house.log(&id, "roll") == "rolling out v1\n").then_some(()));
    house.bowline(&["cancel", &id]).ok();
    house.bowline(&["wait", &id]).code(3);
    let log = house.log(&id, "roll");
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines.len() == 4 && lines[3].starts_with("--- Cleanup ended well after "), "{log}");
    assert!(PAGE.contains(&lines[..3].join("\n")), "the page has it otherwise: {log}");
}

/// Secrets.
pub(super) fn somebody_sets_the_secret(stage: &Stage, text: &str) {
    let house = &stage.house;
    let path = house.write("early.yaml", text).display().to_string();
    let refused = house.bowline(&["run", &path]).code(2);
    assert!(refused.err.contains("bowline secret set DEPLOY_KEY"), "{}", refused.err);
    set_secret(house, "DEPLOY_KEY", "hunter2-and-more").ok();
    let id = submit(house, text, &[]);
    assert_eq!(house.end(&id)["state"], "success");
    assert_eq!(house.log(&id, "ship"), "the key is ***\n");
}

/// Approvals and environments.
pub(super) fn people_say_yes(stage: &Stage, text: &str) {
    let house = &stage.house;
    let (ann, ben) = (person(house, "ann"), person(house, "ben"));
    let approve = |id: &str, step: &str, token: &str| house.bowline(&["approve", id, step, "--token", token]).ok();
    let id = submit(house, text, &[]);
    house.await_state(&id, Some("gate"), "held");
    house.bowline(&["approve", &id, "gate"]).code(2);
    approve(&id, "gate", &ann);
    approve(&id, "gate", &ben);
    house.await_state(&id, Some("rollout"), "held");
    approve(&id, "rollout", &ben);
    assert_eq!(states(&house.end(&id)), "build success, gate success, rollout success");
    assert_eq!(house.log(&id, "rollout"), "rolled out\n");
}

/// Hooks: one job for each key, since one has but one end.
pub(super) fn it_ends_in_every_way(stage: &Stage, text: &str) {
    let house = &stage.house;
    let text = text.replace("https://example.com/hook", &stage.url);
    let other = |run: &str| {
        let other = text.replace("run: echo copied", &format!("run: '{run}'"));
        assert_ne!(other, text, "the page has it otherwise");
        other
    };
    let cut_off = house.start_worker("cut", &["--tags", "script,cut"]);
    let good = submit(house, &text, &[]);
    let bad = submit(house, &other("exit 3"), &[]);
    let cancelled = submit(house, &other("sleep 10m"), &[]);
    let waits = other(&format!("until test -e {}; do sleep 0.05; done", house.path("go").display()));
    let waits = house.write("waits.yaml", &waits).display().to_string();
    let recovered = house.bowline(&["run", &waits, "--detach", "--tags", "cut"]).ok().out.trim().to_owned();

    assert_eq!(house.end(&good)["state"], "success");
    let followed = stage.followed(&good, 1);
    assert_eq!(words(&followed), ["on_success task success"]);
    assert_eq!(stage.said(&followed[0].1), format!("{good} is success\n"));

    assert_eq!(house.end(&bad)["state"], "failed");
    let followed = stage.followed(&bad, 2);
    assert_eq!(words(&followed), ["on_error task success", "on_error webhook delivered"]);
    assert_eq!(stage.said(&followed[0].1), "exit_code copy failed -\n");
    let told = next(&stage.calls);
    let signed = server::courier::signature(b"s3cret of backups", told.body.as_bytes());
    assert_eq!(told.header("x-bowline-signature"), Some(signed.as_str()));

    house.await_state(&cancelled, Some("copy"), "running");
    house.bowline(&["cancel", &cancelled]).ok();
    house.bowline(&["wait", &cancelled]).code(3);
    let followed = stage.followed(&cancelled, 1);
    assert_eq!(words(&followed), ["on_cancel mail delivered"]);
    assert!(stage.mailed(&followed[0].1, "ops@example.com"));

    house.await_state(&recovered, Some("copy"), "running");
    cut_off.kill();
    house.await_state(&recovered, Some("copy"), "recovering");
    let _back = house.start_worker("cut", &["--tags", "script,cut"]);
    house.await_state(&recovered, Some("copy"), "running");
    house.write("go", "");
    assert_eq!(house.end(&recovered)["state"], "success");
    let followed = stage.followed(&recovered, 2);
    assert_eq!(words(&followed), ["on_success task success", "on_recovered mail delivered"]);
    assert!(stage.mailed(&followed[1].1, "ops@example.com,\n boss@example.com"));
}

/// Notices: what takes hours there takes a moment here.
pub(super) fn it_takes_too_long(stage: &Stage, text: &str) {
    let house = &stage.house;
    let quick = text.replace("https://example.com/notice", &stage.url);
    let quick = quick.replace("expect: 30m", "expect: 300ms").replace("expect: 2h", "expect: 600ms");
    let id = submit(house, &quick, &[]);
    let followed = stage.followed(&id, 6);
    let each = ["on_notice mail delivered", "on_notice task success", "on_notice webhook delivered"];
    assert_eq!(words(&followed), [each, each].concat());
    let mut said = [stage.said(&followed[1].1), stage.said(&followed[4].1)];
    said.sort();
    let line = |time: &str| format!("- - - copy: takes longer than expected: {time}\n");
    assert_eq!(said, [line("300ms"), line("600ms")]);
    let mut kinds = [(); 2].map(|()| {
        let told: Value = serde_json::from_str(&next(&stage.calls).body).expect("JSON");
        told["notice"]["kind"].as_str().map(str::to_owned)
    });
    kinds.sort();
    assert_eq!(kinds, ["job_late", "step_late"].map(|kind| Some(kind.to_owned())));
    assert_eq!(house.job(&id)["state"], "running", "a notice changes nothing");
    house.bowline(&["cancel", &id, "--force"]).ok();
}

/// Triggers: the call. The time has a clock of its own.
pub(super) fn somebody_calls(stage: &Stage, text: &str) {
    let house = &stage.house;
    push(house, text);
    let refused = call(house, "release", "a guess", "{}");
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let taken = call(house, "release", "s3cret of releases", "{}");
    assert!(taken.starts_with("HTTP/1.1 202"), "{taken}");
    let (_, body) = taken.split_once("\r\n\r\n").expect("a body");
    let told: Value = serde_json::from_str(body).expect("JSON");
    let id = told["job"].as_str().expect("a job");
    assert_eq!(house.end(id)["state"], "success");
    assert_eq!(house.log(id, "clean"), "cleaning what is new\n");
}
