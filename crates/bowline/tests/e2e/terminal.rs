//! What a person sees who follows a job on a terminal: a real one, with a real keyboard and a real hang-up.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::emulator::Emulator;
use crate::house::{House, PATIENCE, await_that, lives};

/// What moves beside a running step.
const SPINNER: &str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";

/// A terminal with a command of ours on it.
struct Terminal {
    keyboard: File,
    output: mpsc::Receiver<Vec<u8>>,
    screen: Emulator,
    child: Child,
}

impl Terminal {
    fn start(house: &House, columns: u16, rows: u16, arguments: &[&str]) -> Terminal {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&terminal).expect("granted");
        unlockpt(&terminal).expect("unlocked");
        let path = ptsname(&terminal, Vec::new()).expect("a name").into_string().expect("text");
        tcsetwinsize(&terminal, size(columns, rows)).expect("sized");
        let line = File::options().read(true).write(true).open(path).expect("opened");
        let end = || Stdio::from(line.try_clone().expect("cloned"));
        let mut command = house.command(arguments);
        command.env_remove("NO_COLOR").env("TERM", "xterm-256color").stdin(end()).stdout(end()).stderr(end());
        own_terminal(&mut command);
        let child = command.spawn().expect("the binary starts");
        let keyboard = File::from(terminal);
        let output = read_all(keyboard.try_clone().expect("cloned"));
        Terminal { keyboard, output, screen: Emulator::new(columns.into(), rows.into()), child }
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        // What was drawn for the old size belongs to it.
        while let Ok(bytes) = self.output.try_recv() {
            self.screen.feed(&bytes);
        }
        tcsetwinsize(&self.keyboard, size(columns, rows)).expect("sized");
        self.screen.resize(columns.into(), rows.into());
    }

    fn press(&mut self, key: &[u8]) {
        self.keyboard.write_all(key).expect("typed");
    }

    /// Until the screen is as wanted.
    fn await_screen(&mut self, what: &str, is: impl Fn(&[String]) -> bool) -> Vec<String> {
        let started = Instant::now();
        loop {
            let text = self.screen.text();
            if is(&text) {
                return text;
            }
            let left = PATIENCE.checked_sub(started.elapsed()).unwrap_or_default();
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.screen.feed(&bytes),
                Err(error) => panic!("waited in vain for {what} ({error}):\n{}", text.join("\n")),
            }
        }
    }

    /// To the command's end; gives its exit code and all that was ever shown.
    fn finish(mut self) -> (i32, Vec<String>) {
        let status = await_that("the command ends", || {
            while let Ok(bytes) = self.output.try_recv() {
                self.screen.feed(&bytes);
            }
            self.child.try_wait().expect("waited")
        });
        // The terminal reports an error when its last user is gone; then the reader ends, and so does this.
        while let Ok(bytes) = self.output.recv_timeout(PATIENCE) {
            self.screen.feed(&bytes);
        }
        let text = self.screen.text();
        assert!(!self.screen.cursor_hidden, "the cursor is there");
        assert_eq!(self.screen.cursor(), (text.len(), 0), "the prompt comes below:\n{}", text.join("\n"));
        (status.code().unwrap_or(-1), text)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes its stdin the command's controlling terminal: the one whose Ctrl-C and hang-up it hears.
#[expect(clippy::disallowed_methods, reason = "a terminal is taken between fork and exec, and a test may be slow")]
fn own_terminal(command: &mut Command) {
    // SAFETY: both are system calls and nothing else, as is asked between fork and exec.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?)
        });
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn read_all(mut terminal: File) -> mpsc::Receiver<Vec<u8>> {
    let (sender, output) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = terminal.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    output
}

/// A step that says a line and waits for a file of its name; or for the end of the house, should the test fail.
fn gated(house: &House, name: &str, more: &str) -> String {
    let wait = waiting_for(house, name);
    format!("  {name}: {{ run: 'echo {name} began; {wait}; echo {name} done', {more} }}\n")
}

fn waiting_for(house: &House, name: &str) -> String {
    let (gate, folder) = (house.path(name), house.folder.path());
    format!("while [ ! -e {} ] && [ -d {} ]; do sleep 0.02; done", gate.display(), folder.display())
}

fn count(text: &[String], wanted: &str) -> usize {
    text.iter().filter(|line| line.ends_with(wanted)).count()
}

/// The row of a step in the tree, in its parts: branch, name, mark, state, time.
fn row<'a>(text: &'a [String], step: &str) -> Vec<&'a str> {
    let parts = |line: &'a String| line.split_whitespace().collect::<Vec<&str>>();
    let is_row = |parts: &Vec<&str>| matches!(parts[..], ["├─" | "└─", name, ..] if name == step);
    text.iter().map(parts).rfind(is_row).unwrap_or_default()
}

fn is_running(text: &[String], step: &str) -> bool {
    matches!(row(text, step)[..], [_, _, mark, "running", time, ..] if SPINNER.contains(mark) && time.ends_with('s'))
}

#[test]
fn a_tree_moves_while_the_job_runs_and_stays_when_it_is_over() {
    let (house, _up) = House::up();
    let yaml = format!("name: show\nsteps:\n{}{}", gated(&house, "one", ""), gated(&house, "two", "needs: [one]"));
    let file = house.write("show.yaml", &yaml).display().to_string();
    let mut terminal = Terminal::start(&house, 80, 24, &["run", &file]);
    let text = terminal.await_screen("the first step", |t| is_running(t, "one") && count(t, "one | one began") == 1);
    assert_eq!(row(&text, "two")[2..], ["○", "pending"], "{text:#?}");
    let (log, head) = (position(&text, "one | one began"), position(&text, &house.job("last")["id"].to_string()));
    assert!(log < head, "the log is above: {text:#?}");
    assert!(text[head].starts_with("show ") && text[head].contains(" 0/2 "), "{text:#?}");
    let (mark, time) = (row(&text, "one")[2].to_owned(), row(&text, "one")[4].to_owned());
    terminal.await_screen("it moves", |t| row(t, "one")[2] != mark && row(t, "one")[4] != time);
    house.write("one", "");
    terminal.await_screen("the second step", |t| is_running(t, "two") && row(t, "one")[3] == "success");
    house.write("two", "");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0);
    assert_eq!(text.len(), 4 + 3, "four lines and the tree, nothing else: {text:#?}");
    for line in ["one | one began", "one | one done", "two | two began", "two | two done"] {
        assert_eq!(count(&text, line), 1, "{line}: {text:#?}");
    }
    assert!(text[4].starts_with("show success 2/2 "), "{text:#?}");
    assert!(row(&text, "one")[2..4] == ["✓", "success"] && row(&text, "two")[0] == "└─", "{text:#?}");
}

#[test]
fn a_resize_in_the_middle_leaves_the_log_whole_and_one_tree() {
    let (house, _up) = House::up();
    let yaml = format!("name: show\nsteps:\n{}{}", gated(&house, "one", ""), gated(&house, "two", "needs: [one]"));
    let file = house.write("show.yaml", &yaml).display().to_string();
    let mut terminal = Terminal::start(&house, 100, 24, &["run", &file]);
    terminal.await_screen("the first step", |t| is_running(t, "one") && count(t, "one | one began") == 1);
    for (columns, rows) in [(30, 24), (28, 5), (120, 10), (50, 30)] {
        terminal.resize(columns, rows);
        let before = row(&terminal.screen.text(), "one").join(" ");
        terminal.await_screen("the tree moves", |t| is_running(t, "one") && row(t, "one").join(" ") != before);
    }
    house.write("one", "");
    house.write("two", "");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0);
    for line in ["one | one began", "one | one done", "two | two began", "two | two done"] {
        assert_eq!(count(&text, line), 1, "{line}: {text:#?}");
    }
    assert_eq!(text.iter().filter(|line| line.starts_with("show ")).count(), 1, "{text:#?}");
    assert_eq!(text.len(), 4 + 3, "{text:#?}");
}

#[test]
fn many_steps_with_long_names_fit_a_narrow_terminal() {
    let (house, _up) = House::up();
    let wait = waiting_for(&house, "gate");
    let mut yaml = "name: many\nsteps:\n".to_owned();
    for n in 0..60 {
        yaml += &format!(
            "  a-step-with-quite-a-long-name-{n:02}: {{ run: '{wait}; echo line {n:02}: {}' }}\n",
            "long ".repeat(20)
        );
    }
    let file = house.write("many.yaml", &yaml).display().to_string();
    let mut terminal = Terminal::start(&house, 40, 12, &["run", &file]);
    let text = terminal.await_screen("the tree", |t| t.iter().any(|line| line.contains("more: ")));
    let head = position(&text, "many ");
    assert!(text.len() - head <= 6, "half of the screen at most: {text:#?}");
    terminal.await_screen("a running step", |t| t.iter().any(|line| line.contains("running")));
    house.write("gate", "");
    let (code, text) = terminal.finish();
    assert_eq!(code, 0);
    // Long lines go over several lines of the screen, and nothing of them is lost.
    let log: String = text[..position(&text, "many success 60/60")].iter().map(|line| format!("{line:40}")).collect();
    for n in 0..60 {
        let line = format!("line {n:02}: {}", "long ".repeat(20));
        assert!(log.contains(line.trim_end()), "{line}: {text:#?}");
    }
    assert_eq!(text.iter().filter(|line| line.contains("✓ success")).count(), 60, "{text:#?}");
}

#[test]
fn ctrl_c_asks_for_the_end() {
    let (house, _up) = House::up();
    let file = house.write("s.yaml", &format!("name: s\nsteps:\n{}", gated(&house, "one", ""))).display().to_string();
    let mut terminal = Terminal::start(&house, 80, 24, &["run", &file]);
    terminal.await_screen("the step", |t| is_running(t, "one") && count(t, "one began") == 1);
    terminal.press(b"\x03");
    let (code, text) = terminal.finish();
    assert_eq!(code, 3, "{text:#?}");
    assert!(text.iter().any(|line| line.starts_with("bowline: cancelling job ")), "{text:#?}");
    assert_eq!(row(&text, "one")[2..4], ["■", "cancelled"], "{text:#?}");
    assert!(!text.iter().any(|line| line.contains("^C")), "{text:#?}");
    assert_eq!(house.job("last")["state"], "cancelled");
}

#[test]
fn a_closed_terminal_detaches_and_never_cancels() {
    let (house, _up) = House::up();
    let file = house.write("s.yaml", &format!("name: s\nsteps:\n{}", gated(&house, "one", ""))).display().to_string();
    let mut terminal = Terminal::start(&house, 80, 24, &["run", &file]);
    terminal.await_screen("the step", |t| is_running(t, "one"));
    let id = house.job("last")["id"].as_str().expect("an id").to_owned();
    let Terminal { keyboard, output, child, .. } = &mut terminal;
    // The reader holds the terminal too; it ends when nobody wants what it reads.
    drop(std::mem::replace(output, mpsc::channel().1));
    drop(std::mem::replace(keyboard, File::open("/dev/null").expect("opened")));
    let pid = child.id().to_string();
    let status = await_that("the follower ends", || child.try_wait().expect("waited"));
    assert!(!lives(&pid) && !status.success(), "{status:?}");
    assert_eq!(house.job(&id)["state"], "running");
    house.write("one", "");
    assert_eq!(house.end(&id)["state"], "success");
}

#[test]
fn one_command_is_followed_without_prefixes_and_its_result_is_ours() {
    let (house, _up) = House::up();
    let terminal = Terminal::start(&house, 60, 10, &["exec", "--", "sh", "-c", "echo hi; printf 'no newline'; exit 4"]);
    let (code, text) = terminal.finish();
    assert_eq!(code, 1);
    assert_eq!(text[..2], ["hi", "no newline"], "{text:#?}");
    assert!(text[2].starts_with("exec failed 1/1 "), "{text:#?}");
    assert!(text[3].starts_with("└─ run ✗ failed"), "{text:#?}");
    assert!(text[4].starts_with("error: step run: "), "{text:#?}");
}

const WANTS: &str = "
name: wants
input:
  title: { required: true, pattern: '^[A-Z]', description: the heading }
  days: { type: integer, required: true }
  mode: { type: enum, options: [fast, slow], default: fast }
steps:
  show: { run: 'echo \"{{ input.title }} {{ input.days + 1 }} {{ input.mode }}\"' }
";

#[test]
fn required_inputs_that_are_missing_are_asked_for() {
    let (house, _up) = House::up();
    let file = house.write("wants.yaml", WANTS).display().to_string();
    house.bowline(&["tasks", "push", &file]).ok();
    // A name and a file are asked about alike.
    for target in [file.as_str(), "wants"] {
        let mut terminal = Terminal::start(&house, 80, 30, &["run", target]);
        terminal.await_screen("a question", |t| shows(t, "title (string): the heading"));
        terminal.press(b"disks\n");
        terminal.await_screen("it again", |t| shows(t, "must match"));
        terminal.press(b"Disks\n");
        terminal.await_screen("the next", |t| shows(t, "days (integer)"));
        terminal.press(b"3\n");
        let (code, text) = terminal.finish();
        assert_eq!(code, 0, "{text:#?}");
        assert!(text.iter().any(|line| line == "Disks 4 fast"), "{text:#?}");
        assert!(!text.iter().any(|line| line.contains("mode")), "a default is not asked for: {text:#?}");
    }
}

#[test]
fn whoever_does_not_answer_starts_nothing() {
    let (house, _up) = House::up();
    let file = house.write("wants.yaml", WANTS).display().to_string();
    let mut terminal = Terminal::start(&house, 80, 30, &["run", &file, "-i", "days=3"]);
    terminal.await_screen("a question", |t| shows(t, "title (string)"));
    terminal.press(b"\x04");
    let (code, text) = terminal.finish();
    assert_eq!(code, 2, "{text:#?}");
    assert!(text.iter().any(|line| line == "error: required input not given: `title`"), "{text:#?}");
    // What is wrong with what is given comes before any question.
    let (code, text) = Terminal::start(&house, 80, 30, &["run", &file, "-i", "days=soon"]).finish();
    assert_eq!(code, 2);
    assert_eq!(text[0], "error: 2 inputs are not good", "{text:#?}");
    assert_eq!(text[1], "- the input `title` is required", "{text:#?}");
    assert!(text.iter().any(|line| line.starts_with("- `days` must be a whole number")), "{text:#?}");
    assert!(house.bowline(&["jobs", "--json"]).ok().json()["items"].as_array().expect("a list").is_empty());
}

#[test]
fn whoever_watches_sees_until_when_a_step_waits() {
    let (house, _up) = House::up();
    let text = "name: slow\nsteps:\n  a: { run: exit 1, retry: { attempts: 2, delay: 4m } }\n";
    let file = house.write("slow.yaml", text).display().to_string();
    let mut terminal = Terminal::start(&house, 80, 30, &["run", &file, "--watch"]);
    terminal.await_screen("until when it waits", |t| shows(t, "waiting ("));
    let told = house.bowline(&["job", "last"]).ok().out;
    assert!(told.contains("waiting ("), "{told}");
    let waiting = &house.job("last")["steps"][0]["waiting"];
    assert_eq!((waiting["reason"].as_str(), waiting["until"].is_string()), (Some("retry"), true), "{waiting}");
    house.bowline(&["cancel", "last"]).ok();
    assert_eq!(terminal.finish().0, 3);
}

#[test]
fn whoever_watches_sees_the_steps_alone() {
    let (house, _up) = House::up();
    let steps: String = (0..20).map(|n| format!("  s{n}: {{ run: echo line-{n} }}\n")).collect();
    let file = house.write("many.yaml", &format!("name: many\nsteps:\n{steps}")).display().to_string();
    let (code, mut text) = Terminal::start(&house, 80, 24, &["run", &file, "--watch"]).finish();
    assert_eq!(code, 0, "{text:#?}");
    // On a busy machine it is said why a step waits, before all else.
    text.drain(..position(&text, "many success"));
    assert!(!shows(&text, "line-"), "{text:#?}");
    assert!(text[0].starts_with("many success 20/20 "), "{text:#?}");
    assert_eq!(text.len(), 21, "{text:#?}");
    assert!(text[1..].iter().all(|line| line.contains("✓ success") && line.ends_with('s')), "{text:#?}");
}

fn shows(text: &[String], wanted: &str) -> bool {
    text.iter().any(|line| line.contains(wanted))
}

fn position(text: &[String], wanted: &str) -> usize {
    let wanted = wanted.trim_matches('"');
    text.iter().position(|line| line.contains(wanted)).unwrap_or_else(|| panic!("no {wanted}: {text:#?}"))
}
