//! Commands as processes, against a server that follows a script: for what the real one does rarely.

#[path = "../../client/tests/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use support::{Answer, Request, Scripted};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

const ID: &str = "01930000-0000-7000-8000-0000000000aa";

/// No test here should take a second; a hang must not take an hour.
const PATIENCE: Duration = Duration::from_secs(20);

fn command(server: &str, words: &[&str]) -> Command {
    let deps = std::env::current_exe().expect("we run");
    let program: PathBuf = deps.parent().and_then(|deps| deps.parent()).expect("target/…/deps").join("examples/client");
    let mut command = Command::new(program);
    command.args(words).env_clear().env("BOWLINE_SERVER", server).env("BOWLINE_TOKEN", "t");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn output(server: &str, words: &[&str]) -> (i32, String, String) {
    let child = command(server, words).spawn().expect("it starts");
    finished(child).await
}

async fn finished(child: Child) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").expect("it is awaited");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

fn job(state: &str, steps: &[(&str, &str, u32)], error: &str) -> String {
    let steps: Vec<String> = steps
        .iter()
        .map(|(name, state, attempt)| {
            format!(r#"{{"name":"{name}","state":"{state}","attempt":{attempt},"dispatch_attempts":0,"error":null,"deadline":null}}"#)
        })
        .collect();
    format!(
        r#"{{"id":"{ID}","task":"t","state":"{state}","input":{{}},"created_at":"2026-01-01T00:00:00Z","started_at":null,
            "ended_at":null,"error":{error},"last_event":0,"steps":[{}]}}"#,
        steps.join(",")
    )
}

fn event(id: u64, kind: &str, step: &str, to: &str) -> String {
    let step = if step.is_empty() { String::new() } else { format!(r#""step":"{step}","attempt":1,"#) };
    format!(
        "id: {id}\ndata: {{\"id\":{id},\"at\":\"2026-01-01T00:00:00Z\",\"job\":\"{ID}\",{step}\"kind\":\"{kind}\",\"to\":\"{to}\",\"reason\":\"r\"}}\n\n"
    )
}

fn page(lines: &[(u64, &str, &str)], complete: bool) -> String {
    let last = lines.last().map_or(0, |(seq, ..)| *seq);
    let lines: Vec<String> = lines
        .iter()
        .map(|(seq, stream, text)| {
            format!(r#"{{"seq":{seq},"sub":0,"attempt":1,"stream":"{stream}","time":"2026-01-01T00:00:00Z","text":"{text}"}}"#)
        })
        .collect();
    let next = last + 1;
    format!("id: {last}.0\ndata: {{\"lines\":[{}],\"next\":{next},\"complete\":{complete}}}\n\n", lines.join(","))
}

fn is_stream_of(request: &Request, step: &str) -> bool {
    request.line.contains(&format!("/steps/{step}/logs/stream"))
}

fn not_found() -> Answer {
    Answer::json(404, r#"{"error":{"code":"not_found","message":"no job `nope`","hint":"see `bowline jobs`"}}"#)
}

#[tokio::test]
async fn steps_are_prefixed_and_a_broken_stream_repeats_nothing() {
    let streams = AtomicU32::new(0);
    let server = Scripted::start(move |request| match request.line.as_str() {
        "POST /api/jobs" => Answer::json(201, &job("pending", &[("a", "queued", 0), ("b", "pending", 0)], "null")),
        line if line.contains("/events") => match request.header("last-event-id") {
            None => Answer::events(&event(1, "step", "a", "running")),
            Some("1") => Answer::events(&format!(
                "{}{}{}event: end\ndata: {{}}\n\n",
                event(2, "step", "a", "success"),
                event(3, "step", "b", "running"),
                event(4, "job", "", "success"),
            )),
            Some(other) => panic!("resumed after {other}"),
        },
        _ if is_stream_of(request, "a") => match streams.fetch_add(1, Ordering::SeqCst) {
            0 => Answer::events(&page(&[(1, "stdout", "one")], false)),
            // A server that repeats itself must not make us do so.
            _ => Answer::events(&page(&[(1, "stdout", "one"), (2, "stderr", "two"), (3, "stdout", "three")], true)),
        },
        _ if is_stream_of(request, "b") => Answer::events(&page(&[(1, "stdout", "bee")], true)),
        _ => Answer::json(200, &job("success", &[("a", "success", 1), ("b", "success", 1)], "null")),
    })
    .await;

    let (code, stdout, stderr) = output(&server.url, &["run", "t"]).await;
    assert_eq!(code, 0, "{stderr}");
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a | one", "a | three", "b | bee"]);
    assert!(stderr.contains("a | two\n"), "{stderr}");
    assert_eq!(stderr.matches("trying to connect again").count(), 1, "{stderr}");
    assert!(stderr.contains("connected again"), "{stderr}");
}

/// It was begun with the job, so no change tells of it: what is known in the beginning does.
#[tokio::test]
async fn the_job_that_does_a_step_is_named_with_how_to_follow_it() {
    let child = ID.replace("aa", "cc");
    let of_child = format!(r#""kind":"task","child":"{child}","state":"running""#);
    for steps in [&[("a", "running", 0)][..], &[("a", "running", 0), ("b", "pending", 0)]] {
        let begun = job("running", steps, "null").replacen(
            r#""state":"running","attempt""#,
            &format!(r#"{of_child},"attempt""#),
            1,
        );
        assert!(begun.contains(&child), "{begun}");
        let over: Vec<(&str, &str, u32)> = steps.iter().map(|(name, ..)| (*name, "success", 0)).collect();
        let over = job("success", &over, "null");
        let server = Scripted::start(move |request| match request.line.as_str() {
            "POST /api/jobs" => Answer::json(201, &begun),
            line if line.contains("/events") => Answer::events(&event(1, "job", "", "success")),
            _ if request.line.contains("/logs/stream") => Answer::events(&page(&[], true)),
            _ => Answer::json(200, &over),
        })
        .await;
        let (code, _, stderr) = output(&server.url, &["run", "t"]).await;
        assert_eq!(code, 0, "{stderr}");
        assert!(stderr.contains(&format!("see it with `bowline attach {child}`")), "{stderr}");
    }
}

#[tokio::test]
async fn one_step_prints_bare_and_its_failure_is_ours() {
    let server = Scripted::start(|request| match request.line.as_str() {
        "POST /api/jobs" => Answer::json(201, &job("pending", &[("run", "queued", 0)], "null")),
        line if line.contains("/events") => {
            Answer::events(&format!("{}{}", event(1, "step", "run", "running"), event(2, "job", "", "failed")))
        }
        _ if is_stream_of(request, "run") => Answer::events(&page(&[(1, "stdout", "out"), (2, "stderr", "err")], true)),
        _ => Answer::json(
            200,
            &job("failed", &[("run", "failed", 1)], r#"{"code":"exit_code","message":"exit code 7","step":"run"}"#),
        ),
    })
    .await;
    let (code, stdout, stderr) = output(&server.url, &["exec", "--", "x"]).await;
    assert_eq!((code, stdout.as_str()), (1, "out\n"));
    assert!(stderr.starts_with("err\n") && stderr.contains("error: step run: exit code 7 (exit_code)"), "{stderr}");
    assert!(stderr.contains(&format!("bowline logs {ID} run")), "{stderr}");
}

#[tokio::test]
async fn interrupts_cancel_then_force() {
    // A server that never comes to the end of it.
    let server = Scripted::start(|request| match request.line.as_str() {
        "POST /api/jobs" => Answer::json(201, &job("running", &[("run", "running", 1)], "null")),
        line if line.contains("/cancel") => Answer::json(202, &job("cancelling", &[("run", "cancelling", 1)], "null")),
        line if line.contains("/events") => Answer::events(": hello\n\n").closing(false),
        _ if is_stream_of(request, "run") => Answer::events(&page(&[(1, "stdout", "started")], false)).closing(false),
        _ => Answer::json(200, &job("cancelled", &[("run", "cancelled", 1)], "null")),
    })
    .await;
    let mut child = command(&server.url, &["exec", "--", "x"]).spawn().expect("it starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).await.expect("a line");
    assert_eq!(line, "started\n");

    for expected in ["cancelling job", "forcing the end", "leaving"] {
        interrupt(&child).await;
        line.clear();
        tokio::time::timeout(PATIENCE, stderr.read_line(&mut line)).await.expect("it reacts").expect("a line");
        assert!(line.contains(expected), "{line}");
        if expected != "leaving" {
            await_cancels(&server, if expected == "cancelling job" { 1 } else { 2 }).await;
        }
    }
    let status = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends").expect("it is awaited");
    assert_eq!(status.code(), Some(3));
    let bodies: Vec<String> =
        server.requests().into_iter().filter(|r| r.line.contains("/cancel")).map(|r| r.body).collect();
    assert_eq!(bodies, [r#"{"force":false}"#, r#"{"force":true}"#]);
}

#[tokio::test]
async fn a_hang_up_leaves_the_job_alone() {
    let server = Scripted::start(|request| match request.line.as_str() {
        "POST /api/jobs" => Answer::json(201, &job("running", &[("run", "running", 1)], "null")),
        _ if is_stream_of(request, "run") => Answer::events(&page(&[(1, "stdout", "started")], false)).closing(false),
        _ => Answer::nothing().closing(false),
    })
    .await;
    let mut child = command(&server.url, &["exec", "--", "x"]).spawn().expect("it starts");
    let mut first = [0; 8];
    child.stdout.as_mut().expect("piped").read_exact(&mut first).await.expect("a line");
    signal(&child, "HUP").await;
    let status = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends").expect("it is awaited");
    assert!(!status.success());
    assert!(server.requests().iter().all(|request| !request.line.contains("cancel")));
}

#[tokio::test]
async fn whoever_watches_gets_the_steps_and_no_logs() {
    let server = Scripted::start(|request| match request.line.as_str() {
        "POST /api/jobs" => Answer::json(201, &job("pending", &[("run", "queued", 0)], "null")),
        line if line.contains("/logs") => panic!("nobody wants them"),
        line if line.contains("/events") => Answer::events(&format!(
            "{}{}{}",
            event(1, "step", "run", "running"),
            event(2, "step", "run", "success"),
            event(3, "job", "", "success")
        )),
        _ => Answer::json(200, &job("success", &[("run", "success", 1)], "null")),
    })
    .await;
    let (code, stdout, stderr) = output(&server.url, &["run", "t", "--watch"]).await;
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "", "run: running\nrun: success in 0ms\n"));
    let (code, stdout, stderr) = output(&server.url, &["exec", "--watch", "--", "true"]).await;
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "", "run: running\nrun: success in 0ms\n"));
    assert!(server.requests().iter().all(|request| !request.line.contains("/logs")));
    let (code, ..) = output(&server.url, &["run", "t", "--watch", "--detach"]).await;
    assert_eq!(code, 2);
}

#[tokio::test]
async fn the_graph_of_a_name_is_asked_of_the_server() {
    let server = Scripted::start(|request| match request.line.as_str() {
        "GET /api/tasks/good" => Answer::json(
            200,
            r#"{"name":"good","usable":true,"spec":"name: good\nsteps: { b: { run: x, needs: [a] }, a: { approve: {} } }"}"#,
        ),
        _ => Answer::json(200, r#"{"name":"bad","usable":false}"#),
    })
    .await;
    let (code, stdout, _) = output(&server.url, &["graph", "good"]).await;
    assert_eq!((code, stdout.as_str()), (0, "good: 2 steps in 2 layers\n1  ●── a  approve\n2  ╰─▶ b\n"));
    let (code, _, stderr) = output(&server.url, &["graph", "bad"]).await;
    assert_eq!(code, 2);
    assert!(stderr.contains("was ever good") && stderr.contains("bowline tasks"), "{stderr}");
}

#[tokio::test]
async fn detached_prints_the_id_alone() {
    let server = Scripted::start(|_| Answer::json(201, &job("pending", &[("run", "queued", 0)], "null"))).await;
    let (code, stdout, stderr) = output(&server.url, &["run", "t", "--detach", "-i", "a=1", "--tags", "x,y"]).await;
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, format!("{ID}\n").as_str(), ""));
    let requests = server.requests();
    assert_eq!(requests[0].body, r#"{"task":"t","input":{"a":"1"},"tags":["x","y"]}"#);
    assert_eq!(requests.iter().map(|request| request.connection).max(), Some(0), "one connection, one request");
}

#[tokio::test]
async fn logs_are_bytes_as_they_were_written() {
    let server = Scripted::start(|request| {
        let line = |seq: u64, rest: &str| {
            format!(r#"{{"seq":{seq},"sub":0,"attempt":2,"stream":"stdout","time":"2026-01-01T00:00:00Z",{rest}}}"#)
        };
        let lines = [
            line(1, r#""text":"on","continued":true"#),
            line(2, r#""text":"e""#),
            line(3, r#""text":"\ufffd","bytes_base64":"/w==""#),
            line(4, r#""text":"end","unterminated":true"#),
        ];
        match request.line.strip_prefix(&format!("GET /api/jobs/{ID}/steps/run/logs?")) {
            Some("attempt=2") => {
                Answer::json(200, &format!(r#"{{"lines":[{}],"next":3,"complete":false}}"#, lines[..2].join(",")))
            }
            Some("from=3&attempt=2") => {
                Answer::json(200, &format!(r#"{{"lines":[{}],"next":5,"complete":true}}"#, lines[2..].join(",")))
            }
            Some(other) => panic!("asked for {other}"),
            None => Answer::json(200, &job("success", &[("run", "success", 2)], "null")),
        }
    })
    .await;
    let child = command(&server.url, &["logs", "last", "run"]).spawn().expect("it starts");
    let output = child.wait_with_output().await.expect("it is awaited");
    assert_eq!(output.stdout, b"one\n\xff\nend");
    assert_eq!(output.status.code(), Some(0));
}

/// A step as the API has it, of a kind and with some more.
fn step(name: &str, state: &str, attempt: u32, more: &str) -> String {
    format!(
        r#"{{"name":"{name}","state":"{state}","attempt":{attempt},"dispatch_attempts":0,"error":null,"deadline":null{more}}}"#
    )
}

fn with_steps(state: &str, error: &str, steps: &[String]) -> String {
    job(state, &[], error).replace(r#""steps":[]"#, &format!(r#""steps":[{}]"#, steps.join(",")))
}

#[tokio::test]
async fn steps_without_a_log_are_passed_over() {
    const CHILD: &str = "01930000-0000-7000-8000-0000000000bb";
    let server = Scripted::start(|request| {
        let child = format!(r#","child":"{CHILD}""#);
        let steps = [
            step("first", "success", 1, ""),
            step("kid", "success", 1, &format!(r#","kind":"task"{child}"#)),
            step("each", "success", 0, r#","kind":"fan_out","items":"task""#),
            step("each[0]", "success", 1, &format!(r#","kind":"task","item":1{child}"#)),
            step("ask", "success", 0, r#","kind":"approve""#),
            step("last", "success", 2, ""),
        ];
        match request.line.strip_prefix(&format!("GET /api/jobs/{ID}/steps/")) {
            Some(rest) => {
                let (name, query) = rest.split_once("/logs?").expect("a log");
                assert!(["first", "last"].contains(&name), "asked for {rest}");
                assert!(name == "last" || !query.contains("attempt=2"), "asked for {rest}");
                let line = format!(r#""stream":"stdout","time":"2026-01-01T00:00:00Z","text":"of {name}""#);
                let lines = format!(r#"[{{"seq":1,"sub":0,"attempt":1,{line}}}]"#);
                Answer::json(200, &format!(r#"{{"lines":{lines},"next":2,"complete":true}}"#))
            }
            None if request.line.contains("/api/jobs/only") => {
                Answer::json(200, &with_steps("success", "null", &steps[1..2]))
            }
            None => Answer::json(200, &with_steps("success", "null", &steps)),
        }
    })
    .await;
    let all = (0, "first | of first\nlast | of last\n".to_owned(), String::new());
    for more in [&[][..], &["--tail", "5"], &["--attempt", "1"]] {
        assert_eq!(output(&server.url, &[&["logs", "last"], more].concat()).await, all, "{more:?}");
    }
    let second = output(&server.url, &["logs", "last", "--attempt", "2"]).await;
    assert_eq!(second, (0, "last | of last\n".to_owned(), String::new()));
    let told = format!("step kid has no log: job {CHILD} does it; read it with `bowline logs {CHILD}`\n");
    for words in [&["logs", "last", "kid"][..], &["logs", "only"]] {
        assert_eq!(output(&server.url, words).await, (0, String::new(), told.clone()));
    }
}

#[tokio::test]
async fn whoever_watches_a_job_that_is_over_hears_its_end() {
    let failure = r#"{"code":"exit_code","message":"exit code 7","step":"f[0]"}"#;
    let over = job("failed", &[("a", "success", 1), ("f[0]", "failed", 1), ("c", "skipped", 0)], failure);
    let server = Scripted::start(move |_| Answer::json(200, &over)).await;
    let (code, stdout, stderr) = output(&server.url, &["attach", "last", "--watch"]).await;
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.starts_with("a: success\nf[0]: failed\nc: skipped\nerror: step f[0]: exit code 7"), "{stderr}");
    assert!(stderr.contains(&format!("`bowline logs {ID} 'f[0]'` shows its output")), "{stderr}");
}

#[tokio::test]
async fn a_step_took_what_it_ran_although_the_server_was_away_when_it_ended() {
    let server = Scripted::start(|request| match request.line.as_str() {
        "POST /api/jobs" => Answer::json(201, &job("pending", &[("a", "queued", 0), ("b", "queued", 0)], "null")),
        line if line.contains("/events") => match request.header("last-event-id") {
            None => Answer::events(&event(1, "step", "a", "running")),
            Some(_) => {
                let late = |text: String| text.replace("00:00:00Z", "00:00:12Z");
                Answer::events(&(late(event(2, "step", "a", "success")) + &late(event(3, "job", "", "success"))))
            }
        },
        _ => {
            let id = r#""id":"01930000-0000-7000-8000-0000000000cc","number":1,"fence":1,"worker":"w""#;
            let times = r#""started_at":"2026-01-01T00:00:00Z","ended_at":"2026-01-01T00:00:12Z","duration_ms":3000"#;
            let attempt = format!(r#"{{{id},"state":"ended","confirmed":true,{times}}}"#);
            let a = step("a", "success", 1, &format!(r#","attempts":[{attempt}]"#));
            Answer::json(200, &with_steps("success", "null", &[a, step("b", "skipped", 0, "")]))
        }
    })
    .await;
    let (code, _, stderr) = output(&server.url, &["run", "t", "--watch"]).await;
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("a: success in 3.0s\n"), "{stderr}");
}

#[tokio::test]
async fn nobody_is_sent_to_the_log_of_what_never_ran() {
    let error = r#"{"code":"unmatched","message":"no worker has the tag","step":"a"}"#;
    let over = job("failed", &[("a", "failed", 0)], error);
    let server = Scripted::start(move |_| Answer::json(200, &over)).await;
    let (code, _, stderr) = output(&server.url, &["attach", "last"]).await;
    assert_eq!(code, 1);
    assert!(stderr.ends_with(&format!("hint: `bowline why {ID}` says more\n")), "{stderr}");
}

#[tokio::test]
async fn a_held_step_is_told_with_what_moves_it() {
    for (hold, reason, told) in [
        ("approval", "has waited 1s for approval", format!("; say `bowline approve {ID} 'f[0]'`, or `reject`\n")),
        ("restored", "may still run: `bowline resolve ID STEP --rerun`", "--rerun`\n".to_owned()),
    ] {
        let server = Scripted::start(move |request| match request.line.as_str() {
            line if line.contains("/why") => {
                let step = format!(r#"{{"name":"f[0]","state":"held","owner":"a person","reason":"{reason}"}}"#);
                Answer::json(200, &format!(r#"{{"summary":"s","steps":[{step}]}}"#))
            }
            line if line.contains("/events") => Answer::events(": hello\n\n").closing(false),
            _ => {
                let times = r#""since":"2026-01-01T00:00:00Z","expires_at":null"#;
                let rest = r#""wanted":1,"allow_submitter":true,"environment":null,"message":null"#;
                let hold = format!(r#","hold":{{"reason":"{hold}",{times},{rest}}}"#);
                Answer::json(200, &with_steps("held", "null", &[step("f[0]", "held", 1, &hold)]))
            }
        })
        .await;
        let mut child = command(&server.url, &["attach", "last", "--watch"]).spawn().expect("it starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("bowline:") {
            line.clear();
            stderr.read_line(&mut line).await.expect("a line");
        }
        assert!(line.starts_with(&format!("bowline: step f[0] {reason}")) && line.ends_with(&told), "{line}");
    }
}

#[tokio::test]
async fn errors_say_what_to_do_and_have_their_codes() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    drop(listener);
    let (code, _, stderr) = output(&url, &["jobs"]).await;
    let expected = format!(
        "error: cannot reach the server at {url}: connection refused\nhint: is the server running? start one with `bowline up`\n"
    );
    assert_eq!((code, stderr), (4, expected));

    let refused = r#"{"error":{"code":"unauthorized","message":"the token is unknown","hint":null}}"#;
    let server = Scripted::start(move |request| match request.line.as_str() {
        "GET /api/workers" => Answer::json(401, refused),
        _ => not_found(),
    })
    .await;
    let (code, _, stderr) = output(&server.url, &["workers"]).await;
    assert!(code == 4 && stderr.contains("refused the token: the token is unknown"), "{code} {stderr}");
    let (code, _, stderr) = output(&server.url, &["job", "nope"]).await;
    assert_eq!((code, stderr.as_str()), (2, "error: no job `nope`\nhint: see `bowline jobs`\n"));
    let (code, _, stderr) = output(&server.url, &["run", "./nowhere.yaml"]).await;
    assert!(code == 2 && stderr.contains("cannot read ./nowhere.yaml"), "{code} {stderr}");
    let (code, _, stderr) = output(&server.url, &["exec", "--image", "alpine:3", "--", "x"]).await;
    assert!(code == 2 && stderr.contains("not supported yet"), "{code} {stderr}");
    let (code, ..) = output(&server.url, &["jobs", "--state", "levitating"]).await;
    assert_eq!(code, 2);
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_error() {
    let items: Vec<String> = (0..5_000).map(|_| job("success", &[], "null")).collect();
    let body = format!(r#"{{"items":[{}],"next":null}}"#, items.join(","));
    let server = Scripted::start(move |_| Answer::json(200, &body)).await;
    let mut child = command(&server.url, &["jobs", "--json"]).spawn().expect("it starts");
    let mut first = [0; 1];
    let mut stdout = child.stdout.take().expect("piped");
    stdout.read_exact(&mut first).await.expect("a byte");
    drop(stdout);
    let (code, _, stderr) = finished(child).await;
    assert_eq!((code, stderr.as_str()), (0, ""));
}

async fn interrupt(child: &Child) {
    signal(child, "INT").await;
}

async fn signal(child: &Child, name: &str) {
    let pid = child.id().expect("it runs").to_string();
    let status = Command::new("kill").args(["-s", name, &pid]).status().await.expect("kill runs");
    assert!(status.success());
}

/// The request goes out right after its notice; this waits for it, not for a time.
async fn await_cancels(server: &Scripted, count: usize) {
    let all_there = async {
        while server.requests().iter().filter(|request| request.line.contains("/cancel")).count() < count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, all_there).await.expect("the request comes");
}

fn fleet_worker(busy: u32) -> String {
    format!(
        r#"{{"id":"{ID}","name":"build-1","status":"draining","connected":true,"kind":"static","tags":[],"slots":2,
            "busy":{busy},"session_id":null,"boot_id":null,"started_at":null,"last_seen_at":null,"version":null,
            "platform":null,"hostname":"h1","pid":null,"draining_by":["operator"]}}"#
    )
}

#[tokio::test]
async fn a_drain_can_wait_until_nothing_is_left() {
    let looks = AtomicU32::new(0);
    let server = Scripted::start(move |request| match request.line.as_str() {
        "POST /api/workers/build-1/drain" => Answer::json(200, &fleet_worker(2)),
        "GET /api/workers" => {
            let busy = if looks.fetch_add(1, Ordering::Relaxed) == 0 { 1 } else { 0 };
            Answer::json(200, &format!(r#"{{"items":[{}],"next":null}}"#, fleet_worker(busy)))
        }
        _ => not_found(),
    })
    .await;
    let (code, stdout, stderr) = output(&server.url, &["worker-drain", "build-1"]).await;
    let told = "worker build-1 (h1) gets no new work; 2 of its slots are still taken\n";
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "", told));
    let (code, _, stderr) = output(&server.url, &["worker-drain", "build-1", "--wait"]).await;
    assert_eq!((code, stderr.as_str()), (0, "worker build-1 (h1) gets no new work and has nothing left\n"));
    let (code, ..) = output(&server.url, &["worker-drain", "build-1", "--wait", "--off"]).await;
    assert_eq!(code, 2);
}

#[tokio::test]
async fn a_removal_and_a_pause_say_what_they_did() {
    let server = Scripted::start(move |request| match request.line.as_str() {
        "DELETE /api/workers/build-1" => {
            Answer::json(200, &format!(r#"{{"id":"{ID}","name":"build-1","hostname":"h1","offers":1,"attempts":2}}"#))
        }
        "POST /api/dispatch/pause" | "GET /api/dispatch" => {
            Answer::json(200, r#"{"paused":true,"since":"2026-01-01T00:00:00Z","by":"ann"}"#)
        }
        "GET /api/workers" => Answer::json(200, r#"{"items":[],"next":null}"#),
        _ => not_found(),
    })
    .await;
    let (code, _, stderr) = output(&server.url, &["worker-remove", "build-1"]).await;
    assert!(code == 0 && stderr.starts_with("worker build-1 (h1) is removed\n1 steps"), "{stderr}");
    let paused = "dispatch was paused by ann 2026-01-01T00:00:00Z: nothing new is handed out\n";
    let (code, _, stderr) = output(&server.url, &["dispatch", "pause"]).await;
    assert_eq!((code, stderr.as_str()), (0, paused));
    let (code, _, stderr) = output(&server.url, &["workers"]).await;
    assert!(code == 0 && stderr.contains(paused), "{stderr}");
    let (code, stdout, _) = output(&server.url, &["dispatch", "status", "--json"]).await;
    assert!(code == 0 && stdout.contains(r#""by": "ann""#), "{stdout}");
}

/// What was over before anybody followed is news as well, unless all is well with it.
#[tokio::test]
async fn steps_that_had_not_gone_well_before_are_named() {
    let steps = [("a", "success", 1), ("b", "skipped", 0), ("c", "failed", 1), ("d", "running", 1)];
    let server = Scripted::start(move |request| match request.line.as_str() {
        "GET /api/jobs/last" => Answer::json(200, &job("running", &steps, "null")),
        line if line.contains("/events") => {
            Answer::events(&format!("{}event: end\ndata: {{}}\n\n", event(1, "job", "", "failed")))
        }
        line if line.contains("/logs/stream") => Answer::events(&page(&[], true)),
        _ => Answer::json(
            200,
            &job(
                "failed",
                &[("a", "success", 1), ("b", "skipped", 0), ("c", "failed", 1), ("d", "success", 1)],
                "null",
            ),
        ),
    })
    .await;
    let (code, _, stderr) = output(&server.url, &["attach", "last"]).await;
    assert_eq!(code, 1, "{stderr}");
    let told: Vec<&str> = stderr.lines().filter(|line| line.get(1..2) == Some(":")).collect();
    assert_eq!(told, ["b: skipped", "c: failed", "d: success"], "{stderr}");
}

/// Each once; and where there is no file, there is no place in one.
#[tokio::test]
async fn inputs_that_are_not_good_are_told_once() {
    let problem = |message: &str, hint: &str| {
        format!(
            r#"{{"file":"input of t","line":0,"column":0,"severity":"error","code":"invalid_input","message":"{message}","hint":{hint}}}"#
        )
    };
    let (n, m) = (problem("`n` must be a whole number", "null"), problem("`m` is not there", r#""did you mean `n`?""#));
    for (diagnostics, told) in [
        (n.clone(), "error: both messages\nhint: a hint\n"),
        (
            format!("{n},{m}"),
            "error: 2 inputs are not good\n- `n` must be a whole number\n- `m` is not there\n  hint: did you mean `n`?\n",
        ),
    ] {
        let server = Scripted::start(move |_| {
            let rest = format!(r#""message":"both messages","hint":"a hint","diagnostics":[{diagnostics}]"#);
            Answer::json(422, &format!(r#"{{"error":{{"code":"invalid_input",{rest}}}}}"#))
        })
        .await;
        let (code, _, stderr) = output(&server.url, &["run", "t", "-i", "n=x"]).await;
        assert_eq!((code, stderr.as_str()), (2, told));
    }
}

#[tokio::test]
async fn what_nobody_took_is_listed_and_tried_again() {
    let delivery = |state: &str, error: &str| {
        format!(
            r#"{{"id":"{ID}","job":"{}","url":"https://example.com/hook","state":"{state}","tries":20,
                "created_at":"2026-01-01T00:00:00Z","next_at":null,"delivered_at":null,"error":{error}}}"#,
            ID.replace("aa", "bb")
        )
    };
    let server = Scripted::start(move |request| match request.line.as_str() {
        "GET /api/outbox" => {
            Answer::json(200, &format!(r#"{{"items":[{}],"next":null}}"#, delivery("dead", r#""it answered 500""#)))
        }
        line if line == format!("POST /api/outbox/{ID}/retry") => Answer::json(200, &delivery("waiting", "null")),
        _ => not_found(),
    })
    .await;
    let (code, stdout, stderr) = output(&server.url, &["outbox"]).await;
    assert_eq!((code, stderr.as_str()), (0, ""));
    let rows: Vec<Vec<&str>> = stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["ID", "JOB", "TO", "TRIES", "SINCE", "ERROR"], "{stdout}");
    let job = ID.replace("aa", "bb");
    let told = [ID, &job, "https://example.com/hook", "20", "2026-01-01T00:00:00Z", "it", "answered", "500"];
    assert_eq!(rows[1], told, "{stdout}");
    let (code, stdout, _) = output(&server.url, &["outbox", "--json"]).await;
    assert!(code == 0 && stdout.contains(r#""state": "dead""#), "{stdout}");
    let (code, _, stderr) = output(&server.url, &["outbox", "retry", ID]).await;
    assert_eq!((code, stderr), (0, format!("{ID} to https://example.com/hook is waiting\n")));
}

const LATE: &str = r#"{"result":{"kind":"exited","code":0},"duration_ms":3140}"#;

/// A job whose step `a` was lost, and reported its end late.
fn lost_job(late: &str) -> String {
    let attempt = format!(
        r#"{{"id":"{ID}","number":1,"fence":7,"worker":"w","state":"lost","confirmed":false,"started_at":"2026-01-01T00:00:00Z",
            "ended_at":null,"exit_code":null,"signal":null,"error":null,"late_outcome":{late}}}"#
    );
    job("failed", &[("a", "failed", 1)], "null")
        .replace(r#""deadline":null"#, &format!(r#""deadline":null,"attempts":[{attempt}]"#))
}

#[tokio::test]
async fn a_resolve_names_what_it_saw() {
    let server = Scripted::start(move |request| match request.line.as_str() {
        "GET /api/jobs/last" => Answer::json(200, &lost_job(LATE)),
        line if line.ends_with("/steps/a/resolve") => {
            Answer::json(201, &job("pending", &[], "null").replace("aa\"", "bb\""))
        }
        _ => not_found(),
    })
    .await;
    let (code, stdout, stderr) = output(&server.url, &["resolve", "last", "a", "--accept-late"]).await;
    let next = ID.replace("aa", "bb");
    assert_eq!((code, stdout.trim()), (0, next.as_str()));
    assert!(stderr.contains("attempt 1 reported its end late: exit code 0 after 3.1s"), "{stderr}");
    let asked = server.requests().into_iter().find(|r| r.line.ends_with("/resolve")).expect("the request");
    assert_eq!(asked.line, format!("POST /api/jobs/{ID}/steps/a/resolve"), "by the whole id");
    let body: serde_json::Value = serde_json::from_str(&asked.body).expect("JSON");
    let expected = serde_json::json!({
        "how": "accept_late", "attempt": ID, "late_outcome": { "result": { "kind": "exited", "code": 0 }, "duration_ms": 3140 }, "confirm_dead": false
    });
    assert_eq!(body, expected);
    for words in [
        &["resolve", "last", "a"][..],
        &["resolve", "last", "a", "--failed", "--rerun"],
        &["resolve", "last", "a", "--failed", "-o", "x=1"],
    ] {
        assert_eq!(output(&server.url, words).await.0, 2, "{words:?}");
    }
}

#[tokio::test]
async fn a_retry_prints_the_new_id_alone() {
    let server = Scripted::start(move |request| match request.line.as_str() {
        "POST /api/jobs/last/retry" => Answer::json(201, &job("pending", &[], "null")),
        _ => not_found(),
    })
    .await;
    let (code, stdout, _) = output(&server.url, &["retry", "last", "--from-failed"]).await;
    assert_eq!((code, stdout.trim()), (0, ID));
    let asked = server.requests().pop().expect("a request");
    assert_eq!(asked.body, r#"{"from_failed":true,"confirm_dead":false}"#);
}

#[tokio::test]
async fn a_recovery_prints_how_many_with_worker_and_host() {
    let stale = format!(
        r#"{{"job":"{ID}","step":"a","state":"running","attempt":"{ID}","worker":"build-1","worker_id":"{ID}",
            "hostname":"h1","last_sign":"2026-01-01T00:00:00Z","silent_ms":400000}}"#
    );
    let server = Scripted::start(move |request| match request.line.as_str() {
        "GET /api/recovery/stale?older_than=1m" | "POST /api/recovery/fail" => {
            Answer::json(200, &format!(r#"{{"items":[{stale}],"next":null}}"#))
        }
        "POST /api/recovery/requeue" => Answer::json(200, r#"{"items":[],"next":null}"#),
        _ => not_found(),
    })
    .await;
    let (code, stdout, stderr) = output(&server.url, &["recover", "stale", "--older-than", "1m"]).await;
    assert_eq!((code, stderr.as_str()), (0, "1 attempt without a sign of life\n"));
    assert!(stdout.contains("build-1") && stdout.contains("h1") && stdout.contains("6m40s"), "{stdout}");
    let (code, _, stderr) = output(&server.url, &["recover", "fail"]).await;
    assert_eq!((code, stderr.as_str()), (0, "1 attempt told to stop and given up\n"));
    let (code, stdout, stderr) = output(&server.url, &["recover", "requeue"]).await;
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "", "0 attempts queued again\n"));
    assert_eq!(output(&server.url, &["recover", "fail", "--older-than", "soon"]).await.0, 2);
}
