//! Tasks by name: the folder, pushes, and what is wrong with them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::site::{HELLO, Site};

const TWO: &str = "name: hello\nsteps:\n  greet: { run: echo hello }\n  part: { run: echo bye }\n";
const BROKEN: &str = "name: hello\nsteps:\n  greet: { rum: echo hello }\n";

impl Site {
    async fn task(&self, name: &str) -> Option<Value> {
        let tasks = self.get("/api/tasks").await.is(200);
        tasks["items"].as_array().expect("items").iter().find(|task| task["name"] == name).cloned()
    }

    /// Waits until the watcher has seen what was done to the folder.
    async fn until(&self, name: &str, seen: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
        for _ in 0..500 {
            let task = self.task(name).await;
            if seen(task.as_ref()) {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the task folder's change was not seen: {:?}", self.task(name).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_is_read_again_when_it_changes() {
    let site = Site::start().await;
    assert_eq!(site.task("hello").await, None);
    site.write_task("hello.yaml", HELLO);
    let task = site.until("hello", |task| task.is_some()).await.expect("there");
    assert_eq!((&task["usable"], &task["steps"], &task["file"]), (&json!(true), &json!(1), &json!("hello.yaml")));
    site.post("/api/jobs", &json!({ "task": "hello" })).await.is(201);

    site.write_task("hello.yaml", BROKEN);
    let has_problems = |task: Option<&Value>| task.is_some_and(|task| task["diagnostics"][0]["line"] == 3);
    let task = site.until("hello", has_problems).await.expect("there");
    assert_eq!((&task["usable"], &task["steps"]), (&json!(true), &json!(1)), "the last good version stays");
    let job = site.post("/api/jobs", &json!({ "task": "hello" })).await.is(201);
    assert_eq!(job["steps"].as_array().map(Vec::len), Some(1));
    assert_eq!(site.get("/api/tasks/hello").await.is(200)["spec"], HELLO);

    site.write_task("hello.yaml", TWO);
    site.until("hello", |task| task.is_some_and(|task| task["steps"] == 2 && task["diagnostics"] == json!([]))).await;
    std::fs::remove_file(site.folder.path().join("tasks/hello.yaml")).expect("removed");
    site.until("hello", |task| task.is_none()).await;
    site.post("/api/jobs", &json!({ "task": "hello" })).await.is_error(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_no_good_are_shown() {
    let site = Site::start().await;
    site.write_task("a.yaml", HELLO);
    site.write_task("b.yml", TWO);
    site.write_task("broken.yaml", "steps: [");
    site.write_task("later.yaml", "name: later\nsteps:\n  a: { docker: { image: alpine } }\n");
    site.write_task(".draft.yaml", BROKEN);
    site.write_task("notes.txt", "no task");
    std::fs::write(site.folder.path().join("tasks/odd.yaml"), [0xff, 0xfe]).expect("written");
    std::fs::write(site.folder.path().join("tasks/huge.yaml"), vec![b'#'; 3 << 20]).expect("written");
    std::fs::create_dir(site.folder.path().join("tasks/folder.yaml")).expect("made");
    site.app.tasks.refresh(site.app.clock.now());
    let tasks = site.get("/api/tasks").await.is(200);
    let shown: Vec<(&str, &str, bool, &str)> = tasks["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|task| {
            let code = task["diagnostics"][0]["code"].as_str().unwrap_or("fine");
            let (name, file) = (task["name"].as_str().expect("a name"), task["file"].as_str().expect("a file"));
            (name, file, task["usable"].as_bool().expect("a word"), code)
        })
        .collect();
    let expected = [
        ("broken", "broken.yaml", false, "syntax"),
        ("hello", "a.yaml", true, "fine"),
        ("hello", "b.yml", false, "duplicate_task"),
        ("huge", "huge.yaml", false, "unreadable"),
        ("later", "later.yaml", false, "not_supported"),
        ("odd", "odd.yaml", false, "unreadable"),
    ];
    assert_eq!(shown, expected);
    site.post("/api/jobs", &json!({ "task": "broken" })).await.is_error(422, "invalid_task");
    site.post("/api/jobs", &json!({ "task": "later" })).await.is_error(422, "not_supported");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_can_be_pushed() {
    let site = Site::start().await;
    let push = |name: &str, spec: &str| {
        let body = json!({ "spec": spec, "file": "pushed.yaml" });
        site.as_admin("PUT", &format!("/api/tasks/{name}")).json(&body).send()
    };
    push("other", HELLO).await.is_error(422, "invalid_task");
    let error = push("hello", BROKEN).await.is_error(422, "invalid_task");
    assert_eq!(error["diagnostics"][0]["file"], "pushed.yaml");
    let task = push("hello", HELLO).await.is(200);
    assert_eq!((&task["usable"], &task["steps"], &task["file"]), (&json!(true), &json!(["greet"]), &Value::Null));
    site.post("/api/jobs", &json!({ "task": "hello" })).await.is(201);
    push("hello", TWO).await.is(200);
    assert_eq!(site.task("hello").await.expect("there")["steps"], 2);
    assert_eq!(site.app.reader.tasks().expect("readable").len(), 1, "it outlives the server");

    // A file goes before it.
    site.write_task("hello.yaml", HELLO);
    site.app.tasks.refresh(site.app.clock.now());
    assert_eq!(site.task("hello").await.expect("there")["file"], "hello.yaml");
    push("hello", TWO).await.is_error(409, "conflict");
    std::fs::remove_file(site.folder.path().join("tasks/hello.yaml")).expect("removed");
    site.app.tasks.refresh(site.app.clock.now());
    assert_eq!(site.task("hello").await.expect("there")["steps"], 2, "the pushed one is seen again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_shows_its_inputs() {
    let site = Site::start().await;
    let spec = "name: t\ndescription: says\ninput:\n  who: { type: string, required: true, pattern: '^a' }\nsteps:\n  a: { run: 'true' }\n";
    let task = site.as_admin("PUT", "/api/tasks/t").json(&json!({ "spec": spec })).send().await.is(200);
    assert_eq!(task["input"], json!({ "who": { "type": "string", "required": true, "pattern": "^a" } }));
    assert_eq!((task["description"].as_str(), task["spec"].as_str()), (Some("says"), Some(spec)));
    site.get("/api/tasks/nobody").await.is_error(404, "not_found");
}

const CALLS: &str = "name: calls\nsteps:\n  call: { task: hello }\n";

/// What a task begins is looked for when a job of it is submitted, and stays what it was then.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_begins_what_its_task_says() {
    let site = Site::start().await;
    let push = |name: &str, spec: &str| {
        site.as_admin("PUT", &format!("/api/tasks/{name}")).json(&json!({ "spec": spec })).send()
    };
    push("calls", CALLS).await.is(200);
    let error = site.post("/api/jobs", &json!({ "task": "calls" })).await.is_error(422, "invalid_task");
    assert_eq!(error["message"], "the task `calls` begins the task `hello`, which is not there");
    push("hello", HELLO).await.is(200);
    let job = site.post("/api/jobs", &json!({ "task": "calls", "priority": 7 })).await.is(201);
    let call = &job["steps"][0];
    assert_eq!((&call["kind"], &call["state"]), (&json!("task"), &json!("running")));
    assert!(call["started_at"].is_string() && call["ended_at"].is_null(), "{call}");
    let child = call["child"].as_str().expect("a job does it").to_owned();
    let begun = site.get(&format!("/api/jobs/{child}")).await.is(200);
    assert_eq!((&begun["task"], &begun["parent"], &begun["priority"]), (&json!("hello"), &job["id"], &json!(7)));
    let listed = site.get("/api/jobs?task=hello").await.is(200);
    assert_eq!(listed["items"][0]["parent"], job["id"]);
    let first_half = &job["id"].as_str().expect("an id")[..18];
    assert_eq!(site.get(&format!("/api/jobs/{first_half}")).await.is(200)["id"], job["id"], "it stands for its family");
    let why = site.get(&format!("/api/jobs/{}/why", job["id"].as_str().expect("an id"))).await.is(200);
    assert_eq!(why["steps"][0]["owner"], format!("job {child}"));

    // By hand it is its parent that goes on.
    site.post(&format!("/api/jobs/{child}/cancel"), &json!({})).await.is(202);
    let error = site.post(&format!("/api/jobs/{child}/retry"), &json!({})).await.is_error(409, "conflict");
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains(job["id"].as_str().unwrap_or("?"))), "{error}");
    let parent = site.get(&format!("/api/jobs/{}", job["id"].as_str().expect("an id"))).await.is(200);
    assert_eq!((&parent["state"], &parent["steps"][0]["state"]), (&json!("cancelled"), &json!("cancelled")));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_begin_each_other_are_refused() {
    let site = Site::start().await;
    let push = |name: &str, spec: &str| {
        site.as_admin("PUT", &format!("/api/tasks/{name}")).json(&json!({ "spec": spec })).send()
    };
    push("calls", CALLS).await.is(200);
    let error = push("hello", "name: hello\nsteps:\n  a: { task: calls }\n").await.is_error(422, "invalid_task");
    let words = "these tasks begin each other in a circle: `calls` → `hello` → `calls`";
    assert_eq!(error["message"], words);
    // In the folder nobody can be refused: none of them can be run.
    site.write_task("one.yaml", "name: one\nsteps:\n  a: { task: two }\n");
    site.write_task("two.yaml", "name: two\nsteps:\n  a: { task: one }\n");
    site.app.tasks.refresh(site.app.clock.now());
    let one = site.task("one").await.expect("there");
    assert_eq!((&one["usable"], &one["diagnostics"][0]["code"]), (&json!(false), &json!("task_cycle")));
    let place = (&one["diagnostics"][0]["line"], &one["diagnostics"][0]["column"]);
    assert_eq!(place, (&json!(3), &json!(14)), "where it begins the next one");
    site.post("/api/jobs", &json!({ "task": "two" })).await.is_error(422, "invalid_task");
    // A text that begins itself by way of others is no better.
    let deep: String = (1..=9).map(|n| format!("{n}")).collect();
    for (at, name) in deep.chars().enumerate() {
        let next = deep.chars().nth(at + 1).map_or("run: 'true'".to_owned(), |next| format!("task: t{next}"));
        push(&format!("t{name}"), &format!("name: t{name}\nsteps:\n  a: {{ {next} }}\n")).await.is(200);
    }
    site.post("/api/jobs", &json!({ "task": "t1" })).await.is(201);
    let spec = "name: top\nsteps:\n  a: { task: t1 }\n";
    let error = site.post("/api/jobs", &json!({ "spec": spec })).await.is_error(422, "invalid_task");
    assert!(error["message"].as_str().is_some_and(|m| m.contains("more than 8 levels deep: `top` → `t1`")), "{error}");
    assert_eq!(error["hint"], Value::Null, "nothing is missing");
    let own = "name: own\nsteps:\n  a: { task: own }\n";
    let error = site.post("/api/jobs", &json!({ "spec": own })).await.is_error(422, "invalid_task");
    assert_eq!(error["message"], "these tasks begin each other in a circle: `own` → `own`");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_task_cannot_take_is_told_before_anything_begins() {
    let site = Site::start().await;
    let push = async |name: &str, spec: &str| {
        let path = format!("/api/tasks/{name}");
        site.as_admin("PUT", &path).json(&json!({ "spec": spec })).send().await
    };
    let notify = "name: notify\ninput: { n: { type: integer, required: true } }\nsteps: { a: { run: x } }\n";
    push("notify", notify).await.is(200);
    let outer = "name: outer\nsteps:\n  a: { task: notify, with: { n: some } }\non_error: [ { task: notify } ]\n";
    let value = "the task `notify` cannot take this: `n` must be a whole number, not `some`";

    let submit = json!({ "spec": outer, "file": "outer.yaml" });
    let error = site.post("/api/jobs", &submit).await.is_error(422, "invalid_task");
    assert_eq!(error["message"], format!("the task is not good: {value}"));
    let places = |error: &Value| -> Vec<(String, u64, u64)> {
        let found = error["diagnostics"].as_array().expect("a list").iter();
        let place =
            |d: &Value| (d["file"].as_str().expect("a file").to_owned(), d["line"].as_u64(), d["column"].as_u64());
        found.map(place).map(|(file, line, column)| (file, line.expect("a line"), column.expect("a column"))).collect()
    };
    assert_eq!(places(&error), [("outer.yaml".to_owned(), 3, 33), ("outer.yaml".to_owned(), 4, 21)]);

    // One that begins a task that does it is told as well; what is pushed is only warned of, since either may change.
    let pushed = push("outer", outer).await.is(200);
    assert_eq!((&pushed["usable"], &pushed["diagnostics"][0]["severity"]), (&json!(true), &json!("warning")));
    assert_eq!(pushed["diagnostics"][0]["message"], value);
    let far = "name: far\nsteps: { a: { task: outer } }\non_error: [ { task: outer } ]\n";
    let error = site.post("/api/jobs", &json!({ "spec": far })).await.is_error(422, "invalid_task");
    assert_eq!(places(&error), [("outer".to_owned(), 3, 33), ("outer".to_owned(), 4, 21)]);

    push("notify", "name: notify\ninput: { n: { type: string } }\nsteps: { a: { run: x } }\n").await.is(200);
    assert_eq!(site.task("outer").await.expect("there")["diagnostics"], json!([]));
    site.post("/api/jobs", &json!({ "spec": far })).await.is(201);
}
