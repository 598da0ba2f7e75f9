//! Folders as runners and crashes leave them. Dead ones are written by hand; the living are in `tests/`.

mod paper;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use protocol::attempt::{AttemptSpec, Effects, End, EndResult, Program, SPEC_FORMAT, StopPlan, Ticket};
use protocol::folder::{
    Claim, EXIT_OFFSET, FOLDER_FORMAT, FolderSpec, Local, RECORD_BYTES, RECORD_FILE, SPEC_FILE, encode_exit,
};
use protocol::link::Loss;
use runner::folder_io;
use uuid::Uuid;

use super::look::hollow;
use super::scan;
use crate::agent::Finding;
use crate::state::Places;

struct Attempts {
    root: tempfile::TempDir,
}

impl Attempts {
    fn new() -> Self {
        Attempts { root: tempfile::tempdir().expect("a temporary folder") }
    }

    fn places(&self) -> Places {
        Places {
            attempts: self.root.path().to_owned(),
            kept: self.root.path().join("kept"),
            aside: self.root.path().join("aside"),
        }
    }

    fn make(&self, claim: Option<Claim>) -> PathBuf {
        let ticket = Ticket { attempt: Uuid::from_u128(7), fence: 9 };
        let folder = self.places().attempt(ticket);
        folder_io::create(&folder, &FolderSpec::new(spec(ticket), local())).expect("writable");
        if let Some(claim) = claim {
            folder_io::claim(&folder, claim, false).expect("writable");
        }
        folder
    }

    /// `None`: nothing was found, or it was removed.
    fn look(&self, rebooted: bool) -> Option<Finding> {
        let found = scan(&self.places(), rebooted).expect("readable").found;
        assert!(found.len() <= 1);
        found.into_iter().next().map(|found| found.finding)
    }
}

fn spec(ticket: Ticket) -> AttemptSpec {
    AttemptSpec {
        format: SPEC_FORMAT,
        ticket,
        job: Uuid::nil(),
        task: "t".to_owned(),
        step: "s".to_owned(),
        number: 1,
        program: Program::Command { argv: vec!["true".to_owned()] },
        env: Default::default(),
        workdir: None,
        timeout_ms: None,
        effects: Effects::Writes,
        on_disconnect: Default::default(),
        lease_ms: None,
        stop: StopPlan::default(),
        cleanup: None,
        secrets: Vec::new(),
        artifacts: None,
        fetch: Vec::new(),
    }
}

fn local() -> Local {
    Local {
        log_lines_max: 10,
        log_bytes_max: 10,
        cgroup_parent: None,
        base_env: Default::default(),
        rules: Default::default(),
        caretaker: None,
        ends_with_worker: false,
    }
}

fn end() -> End {
    End {
        result: EndResult::Exited { code: 3 },
        stopped: None,
        log_last_seq: 0,
        output: Default::default(),
        output_error: None,
        duration_ms: 1,
        cpu_ms: 0,
        memory_bytes_max: 0,
        cleanup: None,
        artifacts: None,
    }
}

/// A record whose exit part begins with `exit`.
fn write_record(folder: &std::path::Path, exit: &[u8]) {
    let file = fs::File::create(folder.join(RECORD_FILE)).expect("writable");
    file.set_len(RECORD_BYTES as u64).expect("writable");
    file.write_all_at(exit, EXIT_OFFSET as u64).expect("writable");
}

fn loss(finding: &Option<Finding>) -> Option<Loss> {
    match finding {
        Some(Finding::Lost { loss, .. }) => Some(*loss),
        _ => None,
    }
}

#[test]
fn an_exit_record_speaks_for_a_dead_runner() {
    let attempts = Attempts::new();
    write_record(&attempts.make(Some(Claim::Intent)), &encode_exit(&end()));
    assert_eq!(attempts.look(false), Some(Finding::Ended(Box::new(end()))));
    assert_eq!(attempts.look(true), Some(Finding::Ended(Box::new(end()))), "a restart changes nothing about it");
}

#[test]
fn no_record_is_a_loss_and_a_torn_one_says_so() {
    let attempts = Attempts::new();
    let folder = attempts.make(Some(Claim::Intent));
    assert_eq!(loss(&attempts.look(false)), Some(Loss::RunnerLost), "not even a record file");
    write_record(&folder, &[]);
    assert_eq!(loss(&attempts.look(false)), Some(Loss::RunnerLost));
    let whole = encode_exit(&end());
    write_record(&folder, &whole[..whole.len() - 5]);
    assert_eq!(loss(&attempts.look(false)), Some(Loss::ResultNotAvailable));
}

#[test]
fn a_reboot_is_remembered_in_the_folder() {
    let attempts = Attempts::new();
    attempts.make(Some(Claim::Intent));
    assert_eq!(loss(&attempts.look(true)), Some(Loss::MachineRebooted));
    assert_eq!(loss(&attempts.look(false)), Some(Loss::MachineRebooted), "seen again in the new boot");
}

#[test]
fn what_never_started_is_made_void() {
    let attempts = Attempts::new();
    let folder = attempts.make(None);
    assert!(matches!(attempts.look(false), Some(Finding::NeverStarted { .. })));
    assert_eq!(folder_io::read_claim(&folder).expect("readable"), Some(Claim::Void));
    assert!(matches!(attempts.look(true), Some(Finding::NeverStarted { .. })), "also after a restart");
}

#[test]
fn half_made_folders_are_removed_and_strange_ones_left_alone() {
    let attempts = Attempts::new();
    let folder = attempts.make(None);
    fs::write(folder.join(SPEC_FILE), "{\"format\":").expect("writable");
    assert_eq!(attempts.look(false), None);
    assert!(!folder.exists());

    fs::create_dir(attempts.root.path().join("notes")).expect("writable");
    assert_eq!(attempts.look(false), None);
    assert!(attempts.root.path().join("notes").exists());
}

#[test]
fn a_folder_that_cannot_be_read_is_named_and_nothing_is_proved_by_its_silence() {
    let attempts = Attempts::new();
    let folder = attempts.make(Some(Claim::Intent));
    assert!(scan(&attempts.places(), false).expect("readable").complete);
    let spec = fs::read_to_string(folder.join(SPEC_FILE)).expect("readable");
    let newer = spec.replace(&format!("\"format\":{FOLDER_FORMAT},\"attempt\""), "\"format\":99,\"attempt\"");
    let looked_at = |content: &str| {
        fs::write(folder.join(SPEC_FILE), content).expect("writable");
        let scan = scan(&attempts.places(), false).expect("readable");
        assert!(folder.exists(), "it may have run");
        let [found] = &scan.found[..] else { panic!("{:?}", scan.found) };
        (scan.complete, found.finding.clone(), found.ticket.attempt, found.ticket.fence, found.step.clone())
    };
    let id = Uuid::from_u128(7);
    assert_eq!(looked_at(&newer), (false, Finding::Unreadable, id, 9, "s".to_owned()));
    // Somebody lives in it: a step that its runner started.
    let mut step = Command::new("sleep").arg("600").current_dir(&folder).spawn().expect("it starts");
    assert_eq!(looked_at("{"), (false, Finding::Unreadable, id, 0, String::new()));
    step.kill().and_then(|()| step.wait()).expect("it ends");
    assert_eq!(looked_at("{"), (true, hollow(), id, 0, String::new()), "nobody does, and nobody ever will");
}
