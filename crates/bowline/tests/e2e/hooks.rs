//! What follows on a job's end, with a real receiver: signed, once if all goes well, again with the same key if not.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::Value;

use crate::house::{House, await_that};

/// One request that a receiver got.
struct Call {
    headers: String,
    body: String,
}

impl Call {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, v)| v)
    }
}

/// Listens on a port of its own, and answers with these, one after the other; the last one for ever. None: hangs up.
fn receiver(answers: Vec<Option<&'static str>>) -> (String, Receiver<Call>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let (sender, calls) = mpsc::channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let Some(call) = read(&mut stream) else { continue };
            let answer = answers.get(number).or(answers.last()).copied().flatten();
            if let Some(answer) = answer {
                let _ = write!(stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
            if sender.send(call).is_err() {
                return;
            }
        }
    });
    (url, calls)
}

fn read(stream: &mut TcpStream) -> Option<Call> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((headers, body)) = text.split_once("\r\n\r\n") {
            let length = headers.lines().filter_map(|line| line.split_once(": "));
            let length = length.filter(|(key, _)| key.eq_ignore_ascii_case("content-length"));
            let length: usize = length.filter_map(|(_, value)| value.parse().ok()).next().unwrap_or(0);
            if body.len() >= length {
                return Some(Call { headers: headers.to_owned(), body: body.to_owned() });
            }
        }
        let count = stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&chunk[..count]);
    }
}

fn next(calls: &Receiver<Call>) -> Call {
    calls.recv_timeout(Duration::from_secs(60)).expect("a call in time")
}

fn hooks(house: &House, id: &str) -> Vec<Value> {
    house.job(id)["hooks"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_job_and_a_signed_word_follow_on_a_failure() {
    let (house, _up) = {
        let mut house = House::new();
        house.set("BOWLINE_SECRET_PAGER", "s3cret");
        let up = house.start_up(&[]);
        (house, up)
    };
    let (url, calls) = receiver(vec![Some("204 No Content")]);
    let page = house.write(
        "page.yaml",
        "name: page\ninput: { text: { type: string } }\nsteps:\n  tell: { run: 'echo {{ input.text | quote }}' }\n",
    );
    house.bowline(&["tasks", "push", &page.display().to_string()]).ok();
    let id = house.submit(&format!(
        "name: nightly\nsteps:\n  work: {{ run: exit 3 }}\non_error:\n- task: page\n  with: {{ text: '{{{{ job.error.code }}}} at {{{{ job.error.step }}}}' }}\n- webhook: {url}\n  secret: PAGER\n"
    ));
    assert_eq!(house.end(&id)["state"], "failed");
    let call = next(&calls);
    let told: Value = serde_json::from_str(&call.body).expect("JSON");
    assert_eq!(
        (&told["event"], &told["job"]["id"], &told["job"]["error"]["code"]),
        (&"on_error".into(), &id.as_str().into(), &"exit_code".into())
    );
    let signed = server::courier::signature(b"s3cret", call.body.as_bytes());
    assert_eq!(call.header("x-bowline-signature"), Some(signed.as_str()));
    let followed = await_that("both are done", || {
        let hooks = hooks(&house, &id);
        let states: Vec<&str> = hooks.iter().filter_map(|hook| hook["state"].as_str()).collect();
        (states == ["success", "delivered"]).then(|| hooks.clone())
    });
    assert_eq!(followed[1]["id"].as_str(), call.header("idempotency-key"));
    let job = followed[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(house.log(&job, "tell"), "exit_code at work\n");
    assert_eq!(house.job(&job)["hook_of"], id.as_str());
    assert_eq!(house.job("last")["id"], id.as_str(), "nobody submitted what followed");
    assert!(calls.recv_timeout(Duration::from_millis(300)).is_err(), "it is told once");
}

/// Between the commit of the end and the word of its delivery.
#[test]
fn a_server_that_is_killed_while_it_delivers_delivers_again_with_the_same_key() {
    let mut house = House::new();
    let up = house.start_up(&[]);
    // The first one hears it, and says nothing; then there is nobody to hear the answer.
    let (url, calls) = receiver(vec![None, Some("200 OK")]);
    let id = house.submit(&format!("name: t\nsteps:\n  a: {{ run: 'true' }}\non_success: [{{ webhook: '{url}' }}]\n"));
    let first = next(&calls);
    up.kill();
    let _up = house.start_up(&[]);
    let second = next(&calls);
    assert_eq!(first.header("idempotency-key"), second.header("idempotency-key"));
    assert_eq!(
        (&first.body, first.header("x-bowline-signature")),
        (&second.body, second.header("x-bowline-signature"))
    );
    await_that("it is on record", || (hooks(&house, &id)[0]["state"] == "delivered").then_some(()));
    let none = house.bowline(&["outbox"]).ok();
    assert!(none.err.contains("nothing was given up"), "{}{}", none.out, none.err);
}

#[test]
fn what_cannot_follow_is_refused_before_anything_runs() {
    let (house, _up) = House::up();
    let file = house.write("t.yaml", "name: t\nsteps:\n  a: { run: 'true' }\non_error: [{ task: nobody }]\n");
    let refused = house.bowline(&["run", &file.display().to_string()]).code(2);
    assert!(refused.err.contains("`nobody`, which is not there"), "{}", refused.err);
    let bad = house.write("bad.yaml", "name: t\nsteps:\n  a: { run: 'true' }\non_error: [{ task: x, with: { a: '{{ job.stat }}' } }, { webhook: 'http://{{ input.x }}' }]\n");
    let refused = house.bowline(&["check", &bad.display().to_string()]).code(2);
    assert!(refused.out.contains("`stat`") && refused.out.contains("webhook"), "{}{}", refused.out, refused.err);
}
