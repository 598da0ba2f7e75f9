//! Connections that are too many, too slow or too large.

use std::time::Duration;

use server::http::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{PATIENCE, read_answer};
use crate::site::{HELLO, Site};

#[tokio::test(flavor = "multi_thread")]
async fn headers_beyond_the_limit() {
    let site = Site::start().await;
    let large = site.as_admin("GET", "/api/jobs").header("x-large", &"x".repeat(300_000)).send().await;
    assert_eq!(large.status, 431);
    let mut many = site.as_admin("GET", "/api/jobs");
    for n in 0..150 {
        many = many.header(&format!("x-{n}"), "x");
    }
    assert_eq!(many.send().await.status, 431);
    site.get("/api/jobs").await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_never_end() {
    let limits = Limits { header_timeout: Duration::from_millis(200), ..Limits::default() };
    let site = Site::with(limits).await;
    let mut slow = TcpStream::connect(site.address).await.expect("connected");
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n").await.expect("sent");
    let mut answer = Vec::new();
    let end = tokio::time::timeout(PATIENCE, slow.read_to_end(&mut answer)).await.expect("the server gives up");
    end.expect("closed");
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "it was no request");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_limit_wait_for_their_turn() {
    let site = Site::with(Limits { connections: 2, ..Limits::default() }).await;
    let first = TcpStream::connect(site.address).await.expect("connected");
    let second = TcpStream::connect(site.address).await.expect("connected");
    let mut third = TcpStream::connect(site.address).await.expect("in the kernel's queue");
    third.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.expect("sent");
    let mut byte = [0];
    let early = tokio::time::timeout(Duration::from_millis(200), third.peek(&mut byte)).await;
    assert!(early.is_err(), "no answer while both places are taken");
    drop(first);
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, third.read_to_end(&mut answer)).await.expect("its turn").expect("an answer");
    assert_eq!(read_answer(&answer).status, 200);
    drop(second);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_takes_many_requests() {
    let site = Site::start().await;
    let mut stream = TcpStream::connect(site.address).await.expect("connected");
    for _ in 0..20 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
        let mut buffer = vec![0; 4096];
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await.expect("in time").expect("read");
        assert_eq!(read_answer(&buffer[..read]).status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_in_flight_is_answered_when_the_server_stops() {
    // Far beyond the test's own patience: nothing here may be cut.
    let site = Site::with(Limits { stop_grace: Duration::from_secs(600), ..Limits::default() }).await;
    let mut idle = TcpStream::connect(site.address).await.expect("connected");
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    idle.read_exact(&mut [0]).await.expect("answered");

    let body = serde_json::json!({ "spec": HELLO }).to_string();
    let head = format!(
        "POST /api/jobs HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
        site.admin,
        body.len()
    );
    let mut stream = TcpStream::connect(site.address).await.expect("connected");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut go_on = [0; 25];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut go_on)).await.expect("in time").expect("read");
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n", "the request is in flight");
    site.stop.send_replace(true);
    stream.write_all(body.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("in time").expect("read");
    assert_eq!(read_answer(&answer).status, 201);
    tokio::time::timeout(PATIENCE, site.served).await.expect("the server returns").expect("without a panic");
}
