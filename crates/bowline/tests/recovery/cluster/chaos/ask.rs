//! One request to one server, which may be gone, frozen or without its database.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::super::town::{TOKEN, Town};

/// One that takes longer does not answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// A status and what came with it.
pub(super) type Answer = (u16, Value);

pub(super) fn get(town: &Town, server: &str, path: &str) -> io::Result<Answer> {
    ask(town, server, &format!("GET {path}"), "", "")
}

/// `headers`: whole lines.
pub(super) fn post(town: &Town, server: &str, path: &str, headers: &str, body: &str) -> io::Result<Answer> {
    ask(town, server, &format!("POST {path}"), headers, body)
}

fn ask(town: &Town, server: &str, what: &str, headers: &str, body: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(town.place(server))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    let request = format!(
        "{what} HTTP/1.1\r\nhost: bowline\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    parse(&answer).ok_or_else(|| io::Error::other("half an answer"))
}

/// None where it was cut short.
fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}
