//! A house with several servers, each with a name, a folder and an address of its own.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use testkit::{House, Role, await_that, postgres};

/// Of all servers, since they have one database.
pub(crate) const TOKEN: &str = "one-token-for-all-servers-of-the-town";

/// What a server says that finds the database older than what it has seen.
pub(crate) const LOST: &str = "commits were lost";

pub(crate) struct Town {
    pub(crate) house: House,
    addresses: BTreeMap<&'static str, String>,
}

impl Town {
    /// In which nothing is given up for lost unless it is said to be: a busy machine must not decide a test.
    pub(crate) fn patient() -> Town {
        Town::of(House::shared(), "30")
    }

    /// The recovery window is over after two seconds.
    pub(crate) fn hasty() -> Town {
        Town::of(House::shared(), "1")
    }

    /// It is over after six seconds: time enough to find out that a server does not answer, and to go to another.
    pub(crate) fn brisk() -> Town {
        Town::of(House::shared(), "3")
    }

    /// On a database that the test breaks itself; patient or hasty by its longest pause between two tries.
    pub(crate) fn on(url: &str, max_reconnect_delay: &str) -> Town {
        Town::of(House::on(url), max_reconnect_delay)
    }

    fn of(mut house: House, max_reconnect_delay: &str) -> Town {
        house.recovery(&[("MAX_RECONNECT_DELAY_SECS", max_reconnect_delay)]);
        house.set("BOWLINE_ADMIN_TOKEN", TOKEN);
        house.set("BOWLINE_TOKEN", TOKEN);
        Town { house, addresses: BTreeMap::new() }
    }

    /// Starts, or starts again at the same address, the server with this name. The first one is asked until another is.
    pub(crate) fn start(&mut self, name: &'static str) -> Role {
        let role = self.launch(name);
        let url = role.wait_ready();
        if self.house.url.is_empty() {
            self.house.url.clone_from(&url);
        }
        self.addresses.insert(name, url);
        role
    }

    /// Gives a server an address that nobody can have while it is away, however long that is.
    pub(crate) fn settle(&mut self, name: &'static str) {
        self.addresses.insert(name, format!("http://127.0.0.1:{}", postgres::free_port()));
    }

    /// Starts a server, and does not wait for it: it may have to wait itself.
    pub(crate) fn launch(&self, name: &'static str) -> Role {
        let listen = self.addresses.get(name).map_or("127.0.0.1:0", |url| host(url));
        let (data, tasks) = (self.house.path(&format!("data-{name}")), self.house.path("tasks"));
        std::fs::create_dir_all(&tasks).expect("made");
        let config = format!("listen: {listen}\ndata: {}\ntasks: {}\n", data.display(), tasks.display());
        let config = self.house.write(&format!("server-{name}.yaml"), &config);
        self.house.role(&["server", "--config", &config.display().to_string()])
    }

    /// Stops a server in good order, and starts it again.
    pub(crate) fn start_over(&mut self, name: &'static str, server: &mut Role) -> ExitStatus {
        server.signal("TERM");
        let status = server.wait();
        *server = self.start(name);
        status
    }

    /// Whatever is asked from now on is asked of this one.
    pub(crate) fn ask(&mut self, name: &str) {
        self.house.url.clone_from(&self.addresses[name]);
    }

    /// Address and port.
    pub(crate) fn place(&self, name: &str) -> &str {
        host(&self.addresses[name])
    }

    /// A worker that tries these servers in turn, the first one first.
    pub(crate) fn worker(&self, name: &str, servers: &[&str]) -> Role {
        let urls: Vec<&str> = servers.iter().map(|server| self.addresses[*server].as_str()).collect();
        self.house.start_worker_at(&urls.join(","), name, &["--slots", "4"])
    }

    /// The status and the body that a server answers with; asked without a token.
    pub(crate) fn get(&self, name: &str, path: &str) -> (u16, String) {
        self.ask_for(name, &format!("GET {path}"))
    }

    /// The same, and it must not take longer.
    pub(crate) fn get_within(&self, patience: Duration, name: &str, path: &str) -> (u16, String) {
        let asked = Instant::now();
        let answer = self.get(name, path);
        assert!(asked.elapsed() < patience, "{path} of {name} took {:?}: {answer:?}", asked.elapsed());
        answer
    }

    /// The same for a call without a body; the status alone.
    pub(crate) fn post(&self, name: &str, path: &str) -> u16 {
        self.ask_for(name, &format!("POST {path}")).0
    }

    fn ask_for(&self, name: &str, what: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.place(name)).expect("the server listens");
        write!(stream, "{what} HTTP/1.1\r\nhost: bowline\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            .expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }

    pub(crate) fn await_said(&self, words: &str) {
        await_that(&format!("somebody says {words:?}"), || self.house.read("roles.log").contains(words).then_some(()));
    }

    /// Nobody takes the database for an older one than it has seen.
    pub(crate) fn check_nothing_lost(&self) {
        let log = self.house.read("roles.log");
        let alarms: Vec<&str> = log.lines().filter(|line| line.contains(LOST)).collect();
        assert!(alarms.is_empty(), "{}", alarms.join("\n"));
    }

    /// How often a step of this job was given up for the moment.
    pub(crate) fn times_recovering(&self, id: &str) -> String {
        self.psql(&format!("SELECT count(*) FROM events WHERE job_id = '{id}' AND \"to\" = 'recovering'"))
    }

    /// Until every server has made a mark, and one more. With each it looks at what others want of workers and of itself.
    pub(crate) fn await_marks(&self) {
        for _ in 0..2 {
            let last = self.psql("SELECT max(beat_at) FROM servers");
            let behind = format!("SELECT count(*) FROM servers WHERE left_at IS NULL AND beat_at <= {last}");
            await_that("every server makes a mark", || (self.psql(&behind) == "0").then_some(()));
        }
    }

    pub(crate) fn psql(&self, sql: &str) -> String {
        let url = self.house.env.iter().find(|(name, _)| name == "BOWLINE_DATABASE").expect("it has one");
        postgres::psql(&url.1, sql)
    }
}

fn host(url: &str) -> &str {
    url.strip_prefix("http://").expect("an address")
}
