//! What follows on a job's end, with a real receiver: signed, once if all goes well, again with the same key if not.

use std::time::Duration;

use serde_json::Value;

use crate::house::{House, await_that, hooks};
use crate::receiver::{AUTHORITY, next, receiver, tls_receiver};

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

/// A certificate that nobody vouches for gets no word of ours; one that the server is told to trust does.
#[test]
fn a_receiver_behind_tls_is_believed_if_its_certificate_is() {
    let mut house = House::new();
    let up = house.start_up(&[]);
    let (url, calls) = tls_receiver();
    let task = format!("name: t\nsteps:\n  a: {{ run: 'true' }}\non_success: [{{ webhook: '{url}' }}]\n");
    let id = house.submit(&task);
    let hook = await_that("it was tried", || hooks(&house, &id).into_iter().find(|hook| hook["error"].is_string()));
    let error = hook["error"].as_str().expect("a text");
    assert!(error.contains("certificate"), "{hook}");
    assert_ne!(hook["state"], "delivered", "{hook}");
    let shown = house.bowline(&["job", &id]).ok().out;
    assert!(shown.contains(&format!("{url}: ")) && shown.contains("certificate"), "{shown}");
    assert!(calls.try_recv().is_err(), "nothing was said to it");

    drop(up);
    let authority = house.write("ca.pem", AUTHORITY).display().to_string();
    house.set("SSL_CERT_FILE", &authority);
    let _up = house.start_up(&[]);
    let trusted = house.submit(&task);
    await_that("it is on record", || {
        hooks(&house, &trusted).iter().any(|hook| hook["state"] == "delivered").then_some(())
    });
    // The first one may have been tried again by now.
    let told: Vec<Value> = calls.try_iter().map(|call| serde_json::from_str(&call.body).expect("JSON")).collect();
    assert!(told.iter().any(|told| told["job"]["id"] == trusted.as_str()), "{told:?}");
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
