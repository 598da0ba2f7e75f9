//! How the client reads answers, keeps connections and takes up broken streams again.

mod support;

use api::{LogsQuery, SubmitRequest};
use client::{Client, Error, StreamItem};
use support::{Answer, Scripted};

const JOB: &str = r#"{"id":"019300000000700080000000000000aa","task":"t","state":"success","input":{},
    "created_at":"2026-01-01T00:00:00Z","started_at":null,"ended_at":null,"error":null,"steps":[],"from_the_future":1}"#;

fn client(server: &Scripted) -> Client {
    Client::new(server.url.parse().expect("an address"), Some("secret"))
}

#[tokio::test]
async fn a_closed_port_is_unreachable_with_a_hint() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    drop(listener);
    let error = Client::new(url.parse().expect("an address"), None).workers().await.expect_err("nobody listens");
    assert_eq!(error.to_string(), format!("cannot reach the server at {url}: connection refused"));
    assert!(error.hint().expect("a hint").contains("bowline up"));
}

#[tokio::test]
async fn answers_become_errors_of_their_kind() {
    let server = Scripted::start(|request| match request.line.as_str() {
        "GET /api/jobs/a%20b" => {
            Answer::json(404, r#"{"error":{"code":"not_found","message":"no job `a b`","hint":"see `bowline jobs`"}}"#)
        }
        "GET /api/workers" => {
            Answer::json(401, r#"{"error":{"code":"unauthorized","message":"the token is unknown","hint":null}}"#)
        }
        "GET /api/tasks" => Answer::json(200, "<html>"),
        _ => Answer::json(500, "oh"),
    })
    .await;
    let client = client(&server);

    let error = client.job("a b").await.expect_err("404");
    assert_eq!(error.code(), Some("not_found"));
    assert_eq!(error.to_string(), "no job `a b`");
    assert_eq!(error.hint().as_deref(), Some("see `bowline jobs`"));
    assert!(!error.is_unreachable_or_refused());

    let error = client.workers().await.expect_err("401");
    assert!(matches!(error, Error::Refused { .. }) && error.to_string().contains("the token is unknown"), "{error}");

    let error = client.tasks().await.expect_err("not JSON");
    assert!(matches!(error, Error::BadAnswer { .. }), "{error}");

    let error = client.tokens().await.expect_err("500");
    assert!(matches!(error, Error::Api { status: 500, .. }) && error.is_unreachable_or_refused(), "{error}");
}

#[tokio::test]
async fn requests_share_a_connection_and_carry_the_token() {
    let server = Scripted::start(|_| Answer::json(200, JOB)).await;
    let client = client(&server);
    for _ in 0..3 {
        client.job("last").await.expect("a job");
    }
    let requests = server.requests();
    assert!(requests.iter().all(|r| r.connection == 0), "{requests:?}");
    assert!(requests.iter().all(|r| r.header("authorization") == Some("Bearer secret")));
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_costs_nothing() {
    let server = Scripted::start(|_| Answer::json(200, JOB).closing(true)).await;
    let client = client(&server);
    for _ in 0..3 {
        client.job("last").await.expect("a job");
    }
    assert_eq!(server.requests().last().expect("a request").connection, 2);
}

#[tokio::test]
async fn a_submit_whose_answer_is_lost_is_repeated_with_its_key() {
    let server = Scripted::start(|request| match request.connection {
        0 => Answer::nothing(),
        _ => Answer::json(201, JOB),
    })
    .await;
    let request = SubmitRequest { task: Some("t".to_owned()), ..SubmitRequest::default() };
    client(&server).submit(&request, "key-1").await.expect("the second try");
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|r| r.header("idempotency-key") == Some("key-1")));
    assert_eq!(requests[0].body, r#"{"task":"t","input":{}}"#);
}

#[tokio::test]
async fn an_event_stream_goes_on_after_the_last_event_seen() {
    fn event(id: u64) -> String {
        format!(
            "id: {id}\ndata: {{\"id\":{id},\"at\":\"2026-01-01T00:00:00Z\",\"job\":null,\"kind\":\"brand_new\",\"reason\":\"r\"}}\n\n"
        )
    }
    let server = Scripted::start(|request| match request.connection {
        0 => Answer::events(&format!(": hi\n\n{}{}id: 3\ndata: {{\"half", event(1), event(2))),
        1 => Answer::nothing(),
        _ => Answer::events(&format!("{}event: end\ndata: {{}}\n\n", event(3))),
    })
    .await;
    let mut stream = client(&server).job_events("last", 0);
    let mut seen = Vec::new();
    while let Some(item) = stream.next().await.expect("no refusal") {
        seen.push(match item {
            StreamItem::Data(event) => event.id.to_string(),
            StreamItem::Lost(_) => "lost".to_owned(),
            StreamItem::Back => "back".to_owned(),
        });
    }
    assert_eq!(seen, ["1", "2", "lost", "back", "3"]);
    let resumed: Vec<_> = server.requests().iter().map(|r| r.header("last-event-id").map(str::to_owned)).collect();
    assert_eq!(resumed, [None, Some("2".to_owned()), Some("2".to_owned())]);
}

#[tokio::test]
async fn a_log_stream_ends_with_its_complete_page() {
    let server = Scripted::start(|_| {
        let line = r#"{"seq":1,"sub":0,"attempt":1,"stream":"stdout","time":"2026-01-01T00:00:00Z","text":"hi"}"#;
        Answer::events(&format!("id: 1.0\ndata: {{\"lines\":[{line}],\"next\":2,\"complete\":true}}\n\n"))
    })
    .await;
    let mut stream =
        client(&server).log_stream("last", "each[0]", &LogsQuery { attempt: Some(2), ..LogsQuery::default() });
    let page = match stream.next().await {
        Ok(Some(StreamItem::Data(page))) => page,
        other => panic!("not a page: {other:?}"),
    };
    assert_eq!(page.lines[0].text, "hi");
    assert!(stream.next().await.expect("no refusal").is_none());
    assert_eq!(server.requests()[0].line, "GET /api/jobs/last/steps/each%5B0%5D/logs/stream?attempt=2");
}

#[tokio::test]
async fn a_refused_stream_is_an_error_at_once() {
    let server =
        Scripted::start(|_| Answer::json(404, r#"{"error":{"code":"not_found","message":"no","hint":null}}"#)).await;
    let error = client(&server).job_events("x", 0).next().await.expect_err("404");
    assert_eq!(error.code(), Some("not_found"));
}

#[tokio::test]
async fn a_caller_who_stops_waiting_does_not_make_it_connect_anew() {
    let server = Scripted::start(|_| Answer::events("event: end\ndata: {}\n\n")).await;
    let mut stream = client(&server).job_events("x", 0);
    loop {
        tokio::select! {
            biased;
            item = stream.next() => {
                assert!(item.expect("no refusal").is_none());
                break;
            }
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(server.requests().len(), 1);
}
