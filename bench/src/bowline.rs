//! Bowline as an operator would start it: a server and workers as processes of their own, in a folder of their own.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::{CreateTokenRequest, TokenKind};
use client::{Client, Endpoint};
use rustix::fs::statfs;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::Outcome;
use crate::process::Process;

/// What `statfs` says of a folder that is not on a disk.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// A worker enrols and connects in a few milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
const CONNECT_POLL: Duration = Duration::from_millis(5);

/// The binary, and where its data goes.
#[derive(Debug)]
pub(crate) struct Bowline {
    program: PathBuf,
    data: PathBuf,
}

impl Bowline {
    pub(crate) fn new(program: &Path, data: Option<&Path>) -> Outcome<Bowline> {
        let found = |error| format!("cannot find {}: {error}; build it with `make build`", program.display());
        let program = program.canonicalize().map_err(found)?;
        let beside = program.parent().and_then(Path::parent).ok_or("the binary is not in a folder")?;
        let data = data.unwrap_or(beside).canonicalize()?;
        if u64::try_from(statfs(&data)?.f_type) == Ok(TMPFS_MAGIC) {
            return Err(format!("{} is in memory; name a folder on a disk with --data", data.display()).into());
        }
        Ok(Bowline { program, data })
    }

    pub(crate) fn version(&self) -> Outcome<String> {
        let output = std::process::Command::new(&self.program).arg("--version").output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// A new folder on the disk that is measured; gone when it is dropped.
    pub(crate) fn folder(&self) -> Outcome<TempDir> {
        let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(&self.data);
        folder.map_err(|error| format!("cannot make a folder in {}: {error}", self.data.display()).into())
    }

    /// A command that knows nothing of the user's own Bowline.
    fn command(&self, home: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(home).env("HOME", home).env("XDG_CONFIG_HOME", home.join("config"));
        for name in ["BOWLINE_SERVER", "BOWLINE_TOKEN", "BOWLINE_ADMIN_TOKEN"] {
            command.env_remove(name);
        }
        command
    }

    /// `bowline up` on a data folder, and the time until it was ready.
    pub(crate) async fn up(&self, home: &Path, data: &Path) -> Outcome<(Process, Duration)> {
        let mut command = self.command(home);
        command.arg("up").arg("--data").arg(data).arg("--listen").arg(free_address()?);
        Process::start_ready(&mut command, &home.join("up.log")).await
    }

    /// A server with an empty database and no worker yet.
    pub(crate) async fn server(&self) -> Outcome<Server<'_>> {
        self.server_with("").await
    }

    /// A server whose configuration has these lines besides.
    pub(crate) async fn server_with(&self, lines: &str) -> Outcome<Server<'_>> {
        let folder = self.folder()?;
        let address = free_address()?;
        let config = folder.path().join("server-config.yaml");
        std::fs::write(&config, format!("listen: {address}\ndata: ./data\n{lines}"))?;
        std::fs::create_dir(folder.path().join("tasks"))?;
        let process = self.serve(folder.path()).await?;
        let data = folder.path().join("data");
        let token = std::fs::read_to_string(data.join("admin.token"))?.trim().to_owned();
        let endpoint: Endpoint = format!("http://{address}").parse()?;
        Ok(Server { bowline: self, folder, process, address, endpoint, token })
    }
}

impl Bowline {
    /// A server with the configuration in `home`.
    async fn serve(&self, home: &Path) -> Outcome<Process> {
        let mut command = self.command(home);
        command.arg("server").arg("--config").arg(home.join("server-config.yaml"));
        Ok(Process::start_ready(&mut command, &home.join("server.log")).await?.0)
    }
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server<'b> {
    bowline: &'b Bowline,
    folder: TempDir,
    pub(crate) process: Process,
    address: String,
    endpoint: Endpoint,
    token: String,
}

impl Server<'_> {
    /// A client with connections of its own.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.endpoint.clone(), Some(&self.token))
    }

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// One of the counters that it publishes.
    pub(crate) async fn metric(&self, name: &str) -> Outcome<f64> {
        let head = format!(
            "GET /metrics HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
            self.address, self.token
        );
        let mut stream = TcpStream::connect(&self.address).await?;
        stream.write_all(head.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let line = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.ok_or_else(|| format!("the server publishes no {name}"))?.trim().parse()?)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// For so many workers.
    pub(crate) async fn enroll_token(&self, uses: u32) -> Outcome<String> {
        let uses = Some(uses);
        let (kind, tags) = (TokenKind::Enroll, Vec::new());
        let request = CreateTokenRequest { kind, role: None, name: None, ttl: None, tags, uses };
        Ok(self.client().create_token(&request).await?.token)
    }

    /// A worker with the default number of slots, or with so many; it is connected when this returns.
    pub(crate) async fn worker(&self, slots: Option<u32>) -> Outcome<Process> {
        let name = slots.map_or("worker".to_owned(), |slots| format!("worker-{slots}"));
        let home = self.folder.path();
        let mut command = self.bowline.command(home);
        command.arg("worker").arg("--server").arg(self.endpoint.to_string());
        command.arg("--enroll-token").arg(self.enroll_token(1).await?);
        command.arg("--name").arg(&name).arg("--state").arg(home.join(&name));
        if let Some(slots) = slots {
            command.arg("--slots").arg(slots.to_string());
        }
        let worker = Process::start(&mut command, &home.join(format!("{name}.log")))?;
        match timeout(CONNECT_TIMEOUT, self.connected(&name)).await {
            Ok(Ok(())) => Ok(worker),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(worker.complaint("it did not connect")),
        }
    }

    async fn connected(&self, name: &str) -> Outcome<()> {
        let client = self.client();
        loop {
            let workers = client.workers().await?;
            if workers.items.iter().any(|worker| worker.name == name && worker.connected) {
                return Ok(());
            }
            sleep(CONNECT_POLL).await;
        }
    }

    /// Kills it with signal 9.
    pub(crate) async fn kill(&mut self) -> Outcome<()> {
        self.process.kill().await
    }

    /// Kills it with signal 9 and starts it anew, on the same data and at the same address.
    pub(crate) async fn crash(&mut self) -> Outcome<()> {
        self.process.kill().await?;
        self.process = self.bowline.serve(self.folder.path()).await?;
        Ok(())
    }

    /// Stops it and gives its folder, with the data that it leaves.
    pub(crate) async fn stop(self) -> Outcome<TempDir> {
        self.process.stop().await?;
        Ok(self.folder)
    }
}

/// An address on which nobody listens now.
fn free_address() -> Outcome<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
