//! Runners that are forked instead of started.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use protocol::attempt::{End, EndResult};
use protocol::folder::{FromRunner, ToRunner};
use runner::nursery::Nursery;
use tempfile::TempDir;

use crate::harness::{Link, PATIENCE, Plan, Process, connect, runner_program};

const THREADS: usize = 5;
const ROUNDS: i32 = 12;

/// An attempt whose runner came from a nursery.
struct Nursling {
    link: Link,
    runner: Process,
    _home: TempDir,
}

impl Nursling {
    /// Returns when it is ready.
    fn launch(nursery: &Nursery, plan: Plan) -> Self {
        let folder = make(&plan);
        let mut link = Link::new(nursery.launch(&folder).expect("a runner"));
        let FromRunner::Ready { pid, .. } = link.next() else { panic!("expected `ready`") };
        Nursling { link, runner: Process::open(pid), _home: plan.home }
    }

    fn start(nursery: &Nursery, plan: Plan) -> Self {
        let mut nursling = Nursling::launch(nursery, plan);
        nursling.link.send(&ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None });
        loop {
            if let FromRunner::Started { .. } = nursling.link.next() {
                return nursling;
            }
        }
    }

    fn nursery(&self) -> Process {
        Process::open(parent_of(self.runner.pid).expect("the runner lives"))
    }

    fn ended(&mut self) -> End {
        ended(&mut self.link)
    }

    fn finish(&mut self) -> End {
        let end = self.ended();
        self.link.send(&ToRunner::Bye);
        self.runner.wait_for_death();
        end
    }
}

impl Drop for Nursling {
    /// A failed test leaves nothing behind: the step dies with its runner.
    fn drop(&mut self) {
        self.runner.kill();
    }
}

fn nursery() -> Nursery {
    Nursery::new::<&str>(&runner_program(), &[])
}

fn make(plan: &Plan) -> PathBuf {
    let folder = plan.folder();
    runner::folder_io::create(&folder, &plan.spec).expect("attempt folder");
    folder
}

fn ended(link: &mut Link) -> End {
    loop {
        if let FromRunner::Ended { end } = link.next() {
            return end;
        }
    }
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// What a runner that was started by itself gives its step, and nothing of the nursery's.
#[test]
fn a_forked_runner_is_like_a_started_one() {
    let text = "env | sort > $seen; readlink /proc/self/fd/0 >> $seen
        grep -E '^Sig(Blk|Ign)' /proc/self/status >> $seen; umask >> $seen
        cut -d' ' -f6 /proc/$PPID/stat | grep -qx $PPID; cat /proc/$PPID/comm >> $seen; exit 3";
    let look = |launch: &dyn Fn(&Path) -> Link| {
        let mut plan = Plan::script(text);
        let seen = plan.file("seen");
        let mut link = launch(&make(&plan));
        link.send(&ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None });
        assert_eq!(ended(&mut link).result, EndResult::Exited { code: 3 });
        link.send(&ToRunner::Bye);
        let seen = fs::read_to_string(&seen).expect("written by the step");
        let (ids, rest): (Vec<_>, Vec<_>) = seen
            .replace(plan.home.path().to_str().expect("text"), "HOME")
            .lines()
            .map(str::to_owned)
            .partition(|line| line.starts_with("BOWLINE_ATTEMPT_ID="));
        assert_eq!(ids.len(), 1);
        rest
    };
    let nursery = nursery();
    let forked = look(&|folder| Link::new(nursery.launch(folder).expect("a runner")));
    let mut started = look(&|folder| {
        let (mut child, stream) = runner::launch::launch::<&str>(&runner_program(), &[], folder).expect("a runner");
        std::thread::spawn(move || child.wait());
        Link::new(stream)
    });
    assert_eq!(started.pop().as_deref(), Some("runner"));
    started.push("bowline-runner".to_owned());
    assert_eq!(forked, started);
}

#[test]
fn a_step_inherits_no_descriptors() {
    // As one that a careless parent of the worker has left open.
    let _open = rustix::io::dup(rustix::stdio::stdin()).expect("a descriptor");
    let nursery = nursery();
    let mut plan = Plan::command(&["sh", "-c", "ls /proc/self/fd > $seen"]);
    let seen = plan.file("seen");
    let mut nursling = Nursling::start(&nursery, plan);
    nursling.finish();
    // The last one is the folder that `ls` itself reads.
    assert_eq!(fs::read_to_string(seen).expect("written by the step"), "0\n1\n2\n3\n");
}

#[test]
fn a_folder_that_cannot_be_entered_is_refused() {
    let nursery = nursery();
    let mut link = Link::new(nursery.launch(Path::new("/no/such/folder")).expect("a runner"));
    let FromRunner::Refused { why } = link.next() else { panic!("expected a refusal") };
    assert!(why.starts_with("cannot enter the attempt folder: No such file"), "{why}");
}

#[test]
fn a_killed_nursery_harms_nobody_and_is_replaced() {
    let nursery = nursery();
    let mut plan = Plan::script("read -r x < $gate; exit 4");
    let gate = plan.fifo("gate");
    let mut first = Nursling::start(&nursery, plan);
    let old = first.nursery();
    old.kill();
    old.wait_for_death();
    let mut second = Nursling::start(&nursery, Plan::script("exit 5"));
    let new = second.nursery();
    assert!(new.pid != old.pid && new.pid != std::process::id(), "a new nursery, not a runner started by ourselves");
    assert_eq!(second.finish().result, EndResult::Exited { code: 5 });
    fs::write(gate, "\n").expect("gate");
    assert_eq!(first.finish().result, EndResult::Exited { code: 4 });
}

#[test]
fn a_program_that_is_no_nursery_still_runs_steps() {
    let mut plan = Plan::script("read -r x < $gate; exit 6");
    let gate = plan.fifo("gate");
    let script = plan.file("program");
    let text = format!("#!/bin/sh\n[ \"$1\" = --nursery ] && exit 2\nexec {} \"$1\"\n", runner_program().display());
    fs::write(&script, text).expect("writable");
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
    let nursery = Nursery::new::<&str>(&script, &[]);
    let mut nursling = Nursling::start(&nursery, plan);
    assert_eq!(nursling.nursery().pid, std::process::id(), "it is our own child");
    fs::write(gate, "\n").expect("gate");
    assert_eq!(nursling.finish().result, EndResult::Exited { code: 6 });
}

#[test]
fn a_killed_worker_takes_the_nursery_along_but_no_runner() {
    let mut plan = Plan::script("echo $PPID > $runner; read -r x < $gate; exit 7");
    let (gate, pid) = (plan.fifo("gate"), plan.file("runner"));
    let folder = make(&plan);
    let mut worker = Command::new(runner_program())
        .args(["--worker".as_ref(), folder.as_os_str()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a worker");
    let mut word = String::new();
    BufReader::new(worker.stdout.take().expect("piped")).read_line(&mut word).expect("a line");
    assert!(word.contains("ready"), "{word}");
    let [nursery] = children_of(worker.id())[..] else { panic!("a worker has one nursery") };
    let nursery = Process::open(nursery);
    worker.kill().expect("killed");
    worker.wait().expect("reaped");
    nursery.wait_for_death();
    let mut link = Link::new(connect(&folder));
    link.send(&ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None });
    let runner = Process::from_file(&pid);
    fs::write(gate, "\n").expect("gate");
    assert_eq!(ended(&mut link).result, EndResult::Exited { code: 7 });
    link.send(&ToRunner::Bye);
    runner.wait_for_death();
}

#[test]
fn many_at_once_leave_no_zombies() {
    let nursery = nursery();
    let keeper = Nursling::launch(&nursery, Plan::script("true"));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for code in 0..ROUNDS {
                    let plan = Plan::script(&format!("exit {code}"));
                    assert_eq!(Nursling::start(&nursery, plan).finish().result, EndResult::Exited { code });
                }
            });
        }
    });
    let parent = keeper.nursery();
    eventually("only the first is left", || children_of(parent.pid) == [keeper.runner.pid]);
}

#[test]
fn a_dropped_nursery_is_gone_and_its_runners_are_not() {
    let nursery = nursery();
    let mut nursling = Nursling::launch(&nursery, Plan::script("exit 8"));
    let process = nursling.nursery();
    drop(nursery);
    assert!(!process.is_alive());
    nursling.link.send(&ToRunner::Go { asked_at_ms: None, until_ms: None, cannot: None });
    assert_eq!(nursling.finish().result, EndResult::Exited { code: 8 });
}

/// Zombies too.
fn children_of(pid: u32) -> Vec<u32> {
    let numbers =
        fs::read_dir("/proc").expect("proc").filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|child| parent_of(*child) == Some(pid)).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}
