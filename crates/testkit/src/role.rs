//! A server or a worker: a process that runs until the test ends it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;

use crate::process;
use crate::wait::{PATIENCE, await_that};

/// A process that ends with the test.
pub struct Role {
    pub child: Child,
    /// What it printed to stdout, line by line.
    lines: mpsc::Receiver<String>,
}

impl Role {
    /// The command's stdout must be a pipe.
    pub fn start(mut command: Command) -> Role {
        let mut child = command.spawn().expect("the binary starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Role { child, lines }
    }

    /// Waits for `ready`; returns the address that was printed before it.
    pub fn wait_ready(&self) -> String {
        let mut url = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line == "ready" => return url,
                Ok(line) => url = line.trim_end_matches('/').to_owned(),
                Err(error) => panic!("no `ready` came: {error}"),
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        process::signal(self.pid(), name);
    }

    /// KILL, and wait for the end.
    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }

    /// TERM, and wait for the end.
    pub fn stop(mut self) -> ExitStatus {
        self.signal("TERM");
        self.wait()
    }

    pub fn wait(&mut self) -> ExitStatus {
        await_that("the process ends", || self.child.try_wait().expect("waited"))
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        // Ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
