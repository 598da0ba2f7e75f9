//! A command that ran to its end.

use std::io::Read;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::wait::PATIENCE;

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
    pub raw: Vec<u8>,
}

impl Ran {
    /// It must have succeeded.
    pub fn ok(self) -> Ran {
        self.code(0)
    }

    pub fn code(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.out, self.err);
        self
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: not JSON: {}", self.out))
    }
}

/// Waits for a command, with patience.
pub fn finish(mut child: Child) -> Ran {
    let out = reader(child.stdout.take().expect("a pipe"));
    let err = reader(child.stderr.take().expect("a pipe"));
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("waited") {
            break status;
        }
        if started.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("a command did not end in {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let (raw, err) = (out.join().expect("read"), err.join().expect("read"));
    Ran {
        code: status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&raw).into_owned(),
        err: String::from_utf8_lossy(&err).into_owned(),
        raw,
    }
}

/// Both pipes are read at once: a full one would block the command.
fn reader(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        text
    })
}
