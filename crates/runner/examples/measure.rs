//! What a runner costs: `cargo run --release -p runner --example measure`.
//!
//! Prints the median time from spawn to `ready`, from `go` to `ended` for `/bin/true` and from spawn until the runner
//! has left, whole attempts per second with two at a time, each for runners from a nursery and for runners started by
//! themselves, and log lines per second from a noisy step, without secrets and with three. The first line is what `/bin/true` costs without a runner,
//! for comparison. `MEASURE_IN` names another folder than `/var/tmp`.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use protocol::attempt::{AttemptSpec, Effects, OnDisconnect, Program, SPEC_FORMAT, StopPlan, Ticket};
use protocol::folder::{FolderSpec, FromRunner, Local, RunnerRules, ToRunner};
use protocol::secret::{SecretValue, SecretValues};
use runner::nursery::{self, Nursery};
use uuid::Uuid;

const ROUNDS: u32 = 300;
const THREADS: u32 = 2;
const NOISY_LINES: u64 = 10_000_000;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|word| word == "runner") {
        return match arguments.next() {
            Some(word) if word == nursery::FLAG => nursery::main(),
            Some(folder) => runner::main(Path::new(&folder)),
            None => ExitCode::from(2),
        };
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("measure: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Outcome<()> {
    measure_bare()?;
    let cgroups = runner::cgroup::find_parent();
    println!("cgroup parent: {cgroups:?}");
    let nursery = Nursery::new(&std::env::current_exe()?, &["runner"]);
    let starts = [("forked", Some(&nursery)), ("started", None)];
    let effects = [("none", Effects::None), ("writes", Effects::Writes)];
    // Deleted only at the end: ext4 is slow to make files for minutes after many were deleted.
    let mut labs = Vec::new();
    for (name, effects) in effects {
        for cgroup in [None, cgroups.clone()].into_iter().take(1 + usize::from(cgroups.is_some())) {
            let with = if cgroup.is_some() { "with" } else { "without" };
            for (start, nursery) in starts {
                let lab = Lab::new(effects, cgroup.clone(), nursery)?;
                print!("{start}, effects {name}, {with} cgroup: ");
                measure_attempts(&lab)?;
                labs.push(lab);
            }
        }
    }
    measure_lines()
}

fn measure_attempts(lab: &Lab<'_>) -> Outcome<()> {
    let times: Vec<Times> = (0..ROUNDS).map(|_| lab.attempt()).collect::<Outcome<_>>()?;
    let rate = rate_of(|| lab.attempt().map(drop))?;
    println!(
        "spawn to ready {:?}, go to ended {:?}, whole {:?}; {rate:.0} attempts/s with {THREADS} at a time",
        median(&times, |times| times.ready),
        median(&times, |times| times.ended),
        median(&times, |times| times.whole),
    );
    Ok(())
}

fn measure_bare() -> Outcome<()> {
    let one = || -> Outcome<()> { Ok(std::process::Command::new("/bin/true").status().map(drop)?) };
    let start = Instant::now();
    (0..ROUNDS).try_for_each(|_| one())?;
    let each = start.elapsed() / ROUNDS;
    println!("bare /bin/true: {each:?}; {:.0}/s with {THREADS} at a time", rate_of(one)?);
    Ok(())
}

/// How often `work` can be done in a second by all threads together.
fn rate_of(work: impl Fn() -> Outcome<()> + Sync) -> Outcome<f64> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| (0..ROUNDS).try_for_each(|_| work()))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })?;
    Ok(f64::from(ROUNDS * THREADS) / start.elapsed().as_secs_f64())
}

fn measure_lines() -> Outcome<()> {
    let lab = Lab::new(Effects::None, None, None)?;
    for (name, script) in [
        ("seq", format!("seq 1 {NOISY_LINES}")),
        ("60-byte lines", format!("yes {} | head -n {NOISY_LINES}", "x".repeat(59))),
    ] {
        for secrets in [SecretValues::new(), three_secrets()?] {
            let program = Program::Script { shell: vec!["sh".to_owned()], text: script.clone() };
            let mut worker = lab.launch(program, secrets.keys().cloned().collect())?;
            worker.wait_for_ready()?;
            let (start, count) = (Instant::now(), secrets.len());
            worker.send(&ToRunner::Secrets { values: secrets })?;
            worker.send(&ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None })?;
            let lines = worker.wait_for_end()?;
            let rate = lines as f64 / start.elapsed().as_secs_f64();
            worker.leave()?;
            println!("{name}, {count} secrets: {lines} lines, {rate:.0} lines/s");
        }
    }
    Ok(())
}

fn three_secrets() -> Outcome<SecretValues> {
    let values = ["ghp_0a1b2c3d4e5f6a7b8c9d", "correct horse battery staple", "p4ssw0rd"];
    let named = values.iter().enumerate().map(|(n, text)| Ok((format!("S{n}"), SecretValue::new((*text).to_owned())?)));
    named.collect()
}

/// A place for attempts.
struct Lab<'a> {
    home: tempfile::TempDir,
    /// `None`: each runner is started by itself.
    nursery: Option<&'a Nursery>,
    effects: Effects,
    cgroup: Option<PathBuf>,
}

struct Times {
    ready: Duration,
    ended: Duration,
    whole: Duration,
}

impl<'a> Lab<'a> {
    fn new(effects: Effects, cgroup: Option<PathBuf>, nursery: Option<&'a Nursery>) -> Outcome<Self> {
        let home = tempfile::TempDir::new_in(std::env::var_os("MEASURE_IN").unwrap_or_else(|| "/var/tmp".into()))?;
        Ok(Lab { home, nursery, effects, cgroup })
    }

    fn attempt(&self) -> Outcome<Times> {
        let start = Instant::now();
        let mut worker = self.launch(Program::Command { argv: vec!["/bin/true".to_owned()] }, Vec::new())?;
        worker.wait_for_ready()?;
        let ready = start.elapsed();
        let go = Instant::now();
        worker.send(&ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None })?;
        worker.wait_for_end()?;
        let ended = go.elapsed();
        worker.leave()?;
        Ok(Times { ready, ended, whole: start.elapsed() })
    }

    fn launch(&self, program: Program, secrets: Vec<String>) -> Outcome<Worker> {
        let id = fresh_id();
        let attempt = AttemptSpec {
            format: SPEC_FORMAT,
            ticket: Ticket { attempt: id, fence: 1 },
            job: id,
            task: "measure".to_owned(),
            step: "step".to_owned(),
            number: 1,
            program,
            env: BTreeMap::new(),
            workdir: None,
            timeout_ms: None,
            effects: self.effects,
            on_disconnect: OnDisconnect::Keep,
            lease_ms: None,
            stop: StopPlan::default(),
            cleanup: None,
            secrets,
            artifacts: None,
            fetch: Vec::new(),
        };
        let local = Local {
            log_lines_max: u64::MAX,
            log_bytes_max: u64::MAX,
            cgroup_parent: self.cgroup.clone(),
            base_env: BTreeMap::new(),
            rules: RunnerRules::default(),
            caretaker: None,
            ends_with_worker: false,
        };
        let folder = self.home.path().join(id.to_string());
        runner::folder_io::create(&folder, &FolderSpec::new(attempt, local))?;
        let (child, stream) = match self.nursery {
            Some(nursery) => (None, nursery.launch(&folder)?),
            None => {
                let (child, stream) = runner::launch::launch(&std::env::current_exe()?, &["runner"], &folder)?;
                (Some(child), stream)
            }
        };
        Ok(Worker { child, stream: BufReader::new(stream) })
    }
}

struct Worker {
    child: Option<Child>,
    stream: BufReader<UnixStream>,
}

impl Worker {
    fn send(&mut self, message: &ToRunner) -> Outcome<()> {
        let line = serde_json::to_string(message)? + "\n";
        Ok(self.stream.get_mut().write_all(line.as_bytes())?)
    }

    fn next(&mut self) -> Outcome<FromRunner> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    fn wait_for_ready(&mut self) -> Outcome<()> {
        match self.next()? {
            FromRunner::Ready { .. } => Ok(()),
            other => Err(format!("expected `ready`, got {other:?}").into()),
        }
    }

    /// Returns the number of log lines.
    fn wait_for_end(&mut self) -> Outcome<u64> {
        loop {
            if let FromRunner::Ended { end } = self.next()? {
                return Ok(end.log_last_seq);
            }
        }
    }

    fn leave(mut self) -> Outcome<()> {
        self.send(&ToRunner::Bye)?;
        while self.stream.read_line(&mut String::new()).is_ok_and(|length| length > 0) {}
        if let Some(mut child) = self.child {
            child.wait()?;
        }
        Ok(())
    }
}

fn median(times: &[Times], part: impl Fn(&Times) -> Duration) -> Duration {
    let mut parts: Vec<Duration> = times.iter().map(part).collect();
    parts.sort();
    parts[parts.len() / 2]
}

fn fresh_id() -> Uuid {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Uuid::from_u64_pair(u64::from(std::process::id()), number)
}
