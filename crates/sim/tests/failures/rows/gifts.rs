//! What a step is given besides, and what it leaves: secrets and artifacts, when something fails with them.

use sim::Ambush;
use sim::faults::FaultKind;
use sim::scenario::{Do, Moment, Script};
use sim::secrets::{BRIEF, KEY, UNKNOWN};

use crate::row::{Row, returns, running, secs, when};

pub(crate) fn secrets() -> Vec<Row> {
    vec![
        Row::new(
            "secret-missing",
            "the server has no secret of that name when the worker asks to start",
            with_secret(when(Moment::Accepted), UNKNOWN),
        )
        .rule("looked up when a worker asks to start: what is not there fails the step, and nothing starts")
        .real("a_job_without_its_secret_is_refused_and_a_late_loss_fails_the_step"),
        Row::new(
            "secret-removed",
            "the secret is removed between the commit of the start and its hand-over",
            with_secret(when(Moment::Accepted), BRIEF),
        )
        .rule("a runner starts nothing without all of them; the step is offered anew, and looked up anew"),
        Row::new(
            "secret-server-killed",
            "the server is killed when the start is committed and the secrets are not handed over, back after 5 s",
            with_secret(returns(when(Moment::Accepted).fault(dies_after_the_commit()), secs(5)), KEY),
        )
        .rule("the worker asks again, and is given them as they are then"),
    ]
}

pub(crate) fn artifacts() -> Vec<Row> {
    vec![
        Row::new(
            "artifacts-server-killed",
            "the server is killed while the files of a step that has ended are being stored, back after 5 s",
            leaves_files(returns(
                when(Moment::FilesUnderWay).fault(FaultKind::KillServer { server: 0, down: secs(5) }),
                secs(5),
            )),
        )
        .rule("the end is reported when the files are there; what has come stays, and the rest follows")
        .real("a_server_that_is_killed_while_files_come_goes_on_from_there"),
        Row::new(
            "artifacts-worker-killed",
            "the worker is killed at the same moment, back after 5 s",
            leaves_files(returns(
                when(Moment::FilesUnderWay).fault(FaultKind::KillWorker { host: 0, down: secs(5) }),
                secs(5),
            )),
        )
        .rule("the files lie in the attempt's folder until they are stored")
        .real("a_worker_that_is_killed_while_files_go_is_followed_by_one_that_goes_on"),
        Row::new(
            "artifacts-quota",
            "all that may be stored is stored when the step ends",
            leaves_files(running().does(Do::FillDepot)),
        )
        .rule("`artifacts.max_bytes`; a step that ended well fails for its files, and may be tried again")
        .real("what_cannot_be_kept_fails_the_step_and_keeps_its_exit_code"),
        Row::new(
            "artifacts-always",
            "the step has `when: always` and fails; the server is killed while its files are being stored, back after 5 s",
            leaves_files(returns(
                when(Moment::FilesUnderWay).fault(FaultKind::KillServer { server: 0, down: secs(5) }),
                secs(5),
            ))
            .step(|step| step.always = true)
            .program(|program| program.first_code = 3),
        )
        .rule("`when: always`: the failure is reported when the files are there"),
    ]
}

fn with_secret(script: Script, name: &'static str) -> Script {
    script.step(|step| step.secret = Some(name))
}

fn leaves_files(script: Script) -> Script {
    script.step(|step| step.files = true)
}

fn dies_after_the_commit() -> FaultKind {
    FaultKind::AmbushServer { server: 0, ambush: Ambush::DieAfter, down: secs(5) }
}
