//! Logs in pages, and live.

use serde_json::{Value, json};

use crate::hand::Hand;
use crate::site::{HELLO, Site};

const TWICE: &str = "name: twice\nsteps:\n  a: { run: 'false', retry: { attempts: 2, delay: 0s } }\n";

fn texts(page: &Value) -> Vec<&str> {
    page["lines"].as_array().expect("lines").iter().map(|line| line["text"].as_str().expect("text")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_log() {
    let site = Site::start().await;
    let id = site.submit(HELLO).await;
    let path = format!("/api/jobs/{id}/steps/greet/logs");
    let none = site.get(&path).await.is(200);
    assert_eq!(none, json!({ "lines": [], "next": 1, "complete": false }), "no attempt yet");

    let mut hand = Hand::join(&site, "w", 1).await;
    let spec = hand.start().await;
    hand.log(&spec, 1, &["one", "two", "three"], false).await;
    hand.log(&spec, 4, &["four", "five"], false).await;
    let page = site.get(&format!("{path}?limit=2")).await.is(200);
    assert_eq!((texts(&page), &page["next"], &page["complete"]), (vec!["one", "two"], &json!(3), &json!(false)));
    let first = &page["lines"][0];
    assert_eq!((&first["seq"], &first["sub"], &first["attempt"]), (&json!(1), &json!(0), &json!(1)));
    assert_eq!((first["stream"].as_str(), first["time"].as_str()), (Some("stdout"), Some("1970-01-01T00:00:01Z")));
    let page = site.get(&format!("{path}?from=3")).await.is(200);
    assert_eq!((texts(&page), &page["next"]), (vec!["three", "four", "five"], &json!(6)));
    assert_eq!(page["complete"], false, "nobody said that this is all");
    assert_eq!(texts(&site.get(&format!("{path}?tail=2")).await.is(200)), ["four", "five"]);
    assert_eq!(texts(&site.get(&format!("{path}?tail=99&attempt=1")).await.is(200)).len(), 5);
    assert_eq!(site.get(&format!("{path}?from=100")).await.is(200)["next"], 100);

    hand.log(&spec, 6, &["six"], true).await;
    hand.end(&spec, 0).await;
    let page = site.get(&format!("{path}?from=6")).await.is(200);
    assert_eq!((texts(&page), &page["complete"]), (vec!["six"], &json!(true)));
    assert_eq!(site.get(&format!("{path}?limit=5")).await.is(200)["complete"], false, "a line is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_never_ran_has_a_whole_empty_log() {
    let site = Site::start().await;
    let id = site.submit(HELLO).await;
    site.post(&format!("/api/jobs/{id}/cancel"), &json!({})).await.is(202);
    let path = format!("/api/jobs/{id}/steps/greet/logs");
    assert_eq!(site.get(&path).await.is(200)["complete"], true);
    let stream = site.as_admin("GET", &format!("{path}/stream")).stream().await.rest().await;
    assert_eq!(stream.len(), 1);
    assert_eq!(stream[0].data["complete"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_follows_and_resumes() {
    let site = Site::start().await;
    let id = site.submit(HELLO).await;
    let path = format!("/api/jobs/{id}/steps/greet/logs/stream");
    let mut live = site.as_admin("GET", &path).stream().await;
    let first = live.expect().await;
    assert_eq!((texts(&first.data).len(), &first.data["complete"]), (0, &json!(false)), "the first comes at once");

    let mut hand = Hand::join(&site, "w", 1).await;
    let spec = hand.start().await;
    hand.log(&spec, 1, &["one", "two"], false).await;
    let page = live.expect().await;
    assert_eq!((texts(&page.data), page.id.as_deref()), (vec!["one", "two"], Some("1.2.0")));
    drop(live);

    hand.log(&spec, 3, &["three"], false).await;
    let mut again = site.as_admin("GET", &path).header("Last-Event-ID", "1.2.0").stream().await;
    let page = again.expect().await;
    assert_eq!((texts(&page.data), page.id.as_deref()), (vec!["three"], Some("1.3.0")), "nothing twice, nothing lost");
    hand.end(&spec, 0).await;
    hand.log(&spec, 4, &["four"], true).await;
    let rest = again.rest().await;
    assert_eq!(rest.iter().flat_map(|message| texts(&message.data)).collect::<Vec<_>>(), ["four"]);
    assert_eq!(rest.last().expect("a last page").data["complete"], true);

    let tail = site.as_admin("GET", &format!("{path}?tail=1")).stream().await.rest().await;
    assert_eq!(texts(&tail[0].data), ["four"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_with_the_next_attempt() {
    let site = Site::start().await;
    let id = site.submit(TWICE).await;
    let mut hand = Hand::join(&site, "w", 1).await;
    let path = format!("/api/jobs/{id}/steps/a/logs/stream");
    let live = site.as_admin("GET", &path).stream().await;
    let first = hand.start().await;
    hand.log(&first, 1, &["try one"], false).await;
    hand.end(&first, 1).await;
    let second = hand.start().await;
    // The first attempt's last line comes after the second one has started.
    hand.log(&first, 2, &["late"], true).await;
    hand.log(&second, 1, &["try two"], true).await;
    hand.end(&second, 0).await;
    let all = live.rest().await;
    let lines: Vec<(u64, &str)> = all
        .iter()
        .flat_map(|message| message.data["lines"].as_array().expect("lines"))
        .map(|line| (line["attempt"].as_u64().expect("a number"), line["text"].as_str().expect("text")))
        .collect();
    assert_eq!(lines, [(1, "try one"), (1, "late"), (2, "try two")]);
    assert_eq!(all.last().expect("a last page").data["complete"], true);

    let pinned = site.as_admin("GET", &format!("{path}?attempt=1")).stream().await.rest().await;
    assert_eq!(texts(&pinned[0].data), ["try one", "late"]);
    let resumed = site.as_admin("GET", &path).header("Last-Event-ID", "1.1.0").stream().await.rest().await;
    let lines: Vec<&str> = resumed.iter().flat_map(|message| texts(&message.data)).collect();
    assert_eq!(lines, ["late", "try two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_whose_log_never_completes_holds_nobody_up() {
    let site = Site::start().await;
    let id = site.submit(TWICE).await;
    let mut hand = Hand::join(&site, "w", 1).await;
    let live = site.as_admin("GET", &format!("/api/jobs/{id}/steps/a/logs/stream")).stream().await;
    let first = hand.start().await;
    hand.log(&first, 1, &["try one"], false).await;
    hand.end(&first, 1).await;
    let second = hand.start().await;
    hand.log(&second, 1, &["try two"], true).await;
    hand.end(&second, 0).await;
    let all = live.rest().await;
    let lines: Vec<&str> = all.iter().flat_map(|message| texts(&message.data)).collect();
    assert_eq!(lines, ["try one", "try two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_own_log() {
    let site = Site::start().await;
    let id = site.submit(HELLO).await;
    let path = format!("/api/jobs/{id}/steps/_server/logs");
    let live = site.as_admin("GET", &format!("{path}/stream")).stream().await;
    let mut hand = Hand::join(&site, "build-1", 1).await;
    let spec = hand.start().await;
    hand.end(&spec, 0).await;
    let streamed: Vec<Value> = live.rest().await.into_iter().map(|message| message.data).collect();
    let streamed_texts: Vec<&str> = streamed.iter().flat_map(texts).collect();
    let page = site.get(&path).await.is(200);
    assert_eq!(texts(&page), streamed_texts, "live and later are the same");
    assert_eq!(page["complete"], true);
    let seqs: Vec<u64> =
        page["lines"].as_array().expect("lines").iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert!(texts(&page).iter().any(|text| text.contains("build-1")), "{page}");
    assert!(texts(&page).last().is_some_and(|text| text.starts_with("job: running -> success")), "{page}");
    let tail = site.get(&format!("{path}?tail=1")).await.is(200);
    assert_eq!((texts(&tail).len(), &tail["complete"]), (1, &json!(true)));
    let some = site.get(&format!("{path}?from=2&limit=1")).await.is(200);
    assert_eq!((&some["lines"][0]["seq"], &some["next"], &some["complete"]), (&json!(2), &json!(3), &json!(false)));
    let resumed = site.as_admin("GET", &format!("{path}/stream")).header("Last-Event-ID", "0.2.0").stream().await;
    let rest: Vec<Value> = resumed.rest().await.into_iter().map(|message| message.data).collect();
    assert_eq!(rest.iter().flat_map(texts).count(), streamed_texts.len() - 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_lines_stand_in_their_place() {
    let site = Site::start().await;
    let id = site.submit(HELLO).await;
    let path = format!("/api/jobs/{id}/steps/greet/logs");
    let mut hand = Hand::join(&site, "w", 1).await;
    let spec = hand.start().await;
    hand.log(&spec, 1, &["one", "two"], false).await;
    let mut live = site.as_admin("GET", &format!("{path}/stream")).stream().await;
    assert_eq!(texts(&live.expect().await.data), ["one", "two"]);
    hand.leave().await;
    let mut hand = hand.come_back(&site, &spec, (4, 6), 3_000).await;

    // Live, before the first line that waited.
    let outage = "--- Orchestrator offline for 3s. Replaying 0 buffered events and 3 buffered log lines. \
                  1 log lines dropped due to buffer overflow. ---";
    let page = live.expect().await;
    assert_eq!((texts(&page.data), page.id.as_deref()), (vec![outage], Some("1.2.1")));
    assert_eq!(site.get(&format!("{path}?from=3")).await.is(200)["lines"], json!([]), "with the line that follows");
    hand.log_after_gap(&spec, 4, &["four", "five", "six"], 1).await;
    assert_eq!(texts(&live.expect().await.data), ["four", "five", "six"]);
    drop(live);

    // Later, in pages of any size: once, and the gap is not counted twice.
    let all = site.get(&path).await.is(200);
    assert_eq!(texts(&all), ["one", "two", outage, "four", "five", "six"]);
    assert_eq!((&all["lines"][2]["seq"], &all["lines"][2]["sub"]), (&json!(2), &json!(1)));
    let (mut from, mut paged) = (json!(1), Vec::new());
    for _ in 0..5 {
        let page = site.get(&format!("{path}?from={from}&limit=1")).await.is(200);
        paged.extend(texts(&page).into_iter().map(str::to_owned));
        from = page["next"].clone();
    }
    assert_eq!(paged, texts(&all));
    // And resumed on either side of it.
    for (seen, expected) in [("1.2.0", vec![outage, "four"]), ("1.2.1", vec!["four"])] {
        let mut again = site.as_admin("GET", &format!("{path}/stream")).header("Last-Event-ID", seen).stream().await;
        let page = again.expect().await;
        assert_eq!(texts(&page.data)[..expected.len()], expected, "after {seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_of_a_log_that_does_not_come_are_let_go() {
    let site = Site::with_window(std::time::Duration::from_millis(200)).await;
    let id = site.submit(HELLO).await;
    let path = format!("/api/jobs/{id}/steps/greet/logs");
    let mut hand = Hand::join(&site, "w", 1).await;
    let spec = hand.start().await;
    hand.log(&spec, 1, &["one"], false).await;
    let live = site.as_admin("GET", &format!("{path}/stream")).stream().await;
    hand.end_after(&spec, 0, 4).await;
    hand.leave().await;
    let rest = live.rest().await;
    let lost = "--- 3 log lines were not received: worker lost ---";
    assert_eq!(rest.iter().flat_map(|message| texts(&message.data)).collect::<Vec<_>>(), ["one", lost]);
    assert_eq!(rest.last().expect("a last page").data["complete"], true);
    let page = site.get(&format!("{path}?from=2")).await.is(200);
    assert_eq!((texts(&page), &page["complete"]), (vec![lost], &json!(true)));
}
