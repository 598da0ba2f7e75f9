//! Somebody who takes webhooks, and somebody who calls ours.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::house::House;

/// Vouches for the certificate, and is known to no machine.
pub(crate) const AUTHORITY: &str = include_str!("tls/ca.pem");
const CERTIFICATE: &[u8] = include_bytes!("tls/receiver.pem");
const KEY: &[u8] = include_bytes!("tls/receiver.key");

/// One request that a receiver got.
pub(crate) struct Call {
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, v)| v)
    }
}

/// Listens on a port of its own, and answers with these, one after the other; the last one for ever. None: hangs up.
pub(crate) fn receiver(answers: Vec<Option<&'static str>>) -> (String, Receiver<Call>) {
    let (address, calls) = listen(move |mut stream, number| {
        let answer = answers.get(number).or(answers.last()).copied().flatten();
        take(&mut stream, answer)
    });
    (format!("http://{address}/hook"), calls)
}

/// The same behind TLS, with a certificate that only `AUTHORITY` vouches for; it takes all.
pub(crate) fn tls_receiver() -> (String, Receiver<Call>) {
    let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(CERTIFICATE).collect();
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("a version that it has")
        .with_no_client_auth()
        .with_single_cert(chain.expect("a certificate"), key)
        .expect("its key");
    let config = Arc::new(config);
    let (address, calls) = listen(move |stream, _| {
        let session = ServerConnection::new(config.clone()).expect("a good configuration");
        let mut stream = StreamOwned::new(session, stream);
        let call = take(&mut stream, Some("204 No Content"))?;
        // Whoever called waits for the end of what is said.
        stream.conn.send_close_notify();
        let _ = stream.flush();
        Some(call)
    });
    (format!("https://{address}/hook"), calls)
}

/// What is got of each connection, one after the other, with its number.
fn listen(mut get: impl FnMut(TcpStream, usize) -> Option<Call> + Send + 'static) -> (SocketAddr, Receiver<Call>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (sender, calls) = mpsc::channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(stream) = stream else { return };
            let Some(call) = get(stream, number) else { continue };
            if sender.send(call).is_err() {
                return;
            }
        }
    });
    (address, calls)
}

/// One request on this stream, answered if there is an answer to it.
fn take(stream: &mut (impl Read + Write), answer: Option<&str>) -> Option<Call> {
    let call = read(stream)?;
    if let Some(answer) = answer {
        let _ = write!(stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    }
    Some(call)
}

fn read(stream: &mut impl Read) -> Option<Call> {
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

pub(crate) fn next(calls: &Receiver<Call>) -> Call {
    calls.recv_timeout(Duration::from_secs(60)).expect("a call in time")
}

/// Calls the house's webhook `name`, signed with `key`; returns the whole answer.
pub(crate) fn call(house: &House, name: &str, key: &str, body: &str) -> String {
    let signature = server::courier::signature(key.as_bytes(), body.as_bytes());
    let head = format!(
        "POST /hooks/{name} HTTP/1.1\r\nhost: bowline\r\nconnection: close\r\nx-bowline-signature: {signature}\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let address = house.url.strip_prefix("http://").expect("the server is up");
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.write_all(format!("{head}{body}").as_bytes()).expect("the call goes out");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}
