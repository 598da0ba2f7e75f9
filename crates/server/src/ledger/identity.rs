//! Who may use a worker's identity: one state folder, on one machine, with one link at a time.
//!
//! Pure; [`super::knock`] asks with every hello and carries the answer out.

use std::fmt;

use engine::Epoch;
use planted::Bug;
use protocol::link::Hello;
use store::rows::WorkerRow;
use uuid::Uuid;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    Admit,
    /// Another process of this worker has a link: it is asked whether it is still there.
    AskTheOther,
    /// The same process has said another hello since, and its link was used: this one waited here for long.
    Past,
    Duplicate(Difference),
}

/// What says that two use one identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Difference {
    Machine,
    StateFolder,
    /// The folder is an older copy: the worker has been further than that.
    OlderEpoch,
    /// The first link answers while a second one knocks.
    BothAnswer,
}

/// `linked`: the session of the process that has a link now.
pub(super) fn judge(row: &WorkerRow, linked: Option<Uuid>, hello: &Hello) -> Judgement {
    if planted::is(Bug::IdentityNotAsked) {
        return Judgement::Admit;
    }
    let known_here = row.epoch > Epoch::default();
    if known_here && row.state_id != hello.state_id {
        return Judgement::Duplicate(Difference::StateFolder);
    }
    if known_here && !row.machine.is_empty() && row.machine != hello.machine {
        return Judgement::Duplicate(Difference::Machine);
    }
    let last_was_its_own = row.session == Some(hello.session) && row.used_epoch == row.epoch;
    if last_was_its_own && hello.last_epoch < row.epoch.0 {
        return Judgement::Past;
    }
    // A welcome may be lost on its way, so only an epoch that the worker has used is one that it must know.
    // Zero says that it keeps none.
    if hello.last_epoch > 0 && hello.last_epoch < row.used_epoch.0 {
        return Judgement::Duplicate(Difference::OlderEpoch);
    }
    match linked {
        // One process has one link at a time: when it connects again, it knows that the old one is gone.
        Some(session) if session != hello.session => Judgement::AskTheOther,
        Some(_) | None => Judgement::Admit,
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Difference::Machine => "its state folder was made on another machine",
            Difference::StateFolder => "it has the credential of another state folder",
            Difference::OlderEpoch => "its state folder is an older copy",
            Difference::BothAnswer => "another process with the same state folder is connected and answers",
        })
    }
}

#[cfg(test)]
mod tests {
    use engine::{Time, WorkerId};
    use protocol::link::PROTOCOL_VERSION;

    use super::*;

    fn row() -> WorkerRow {
        WorkerRow {
            id: WorkerId(Uuid::from_u128(1)),
            name: "w".to_owned(),
            epoch: Epoch(9),
            used_epoch: Epoch(7),
            draining: false,
            kind: "static".to_owned(),
            tags: Vec::new(),
            slots: 1,
            session: Some(Uuid::from_u128(2)),
            boot_id: "boot".to_owned(),
            state_id: Uuid::from_u128(3),
            machine: "here".to_owned(),
            version: String::new(),
            platform: String::new(),
            hostname: "host".to_owned(),
            pid: 1,
            created_at: Time(0),
            started_at: None,
            last_seen_at: None,
            left_heard: None,
            removed_at: None,
            allowed_tags: Vec::new(),
            server: None,
            unwilling: false,
            unread: false,
            after_loss: None,
            features: Vec::new(),
        }
    }

    fn hello() -> Hello {
        Hello {
            protocol: PROTOCOL_VERSION,
            name: "w".to_owned(),
            session: Uuid::from_u128(2),
            boot_id: "boot".to_owned(),
            state_id: Uuid::from_u128(3),
            machine: "here".to_owned(),
            last_epoch: 9,
            version: String::new(),
            platform: String::new(),
            hostname: "host".to_owned(),
            pid: 1,
            tags: Vec::new(),
            slots: 1,
            started_at_ms: 0,
            ephemeral: false,
            no_reconnect: false,
            caretaker: false,
            processed: 0,
            scan_complete: true,
            offline_ms: 0,
            held: Vec::new(),
            kept: None,
            features: Vec::new(),
        }
    }

    #[test]
    fn the_judgements() {
        let other = Some(Uuid::from_u128(99));
        let own = Some(Uuid::from_u128(2));
        let elsewhere = || Hello { machine: "there".to_owned(), ..hello() };
        let copied = || Hello { state_id: Uuid::from_u128(4), ..hello() };
        let at = |last_epoch| Hello { last_epoch, ..hello() };
        let duplicate = Judgement::Duplicate;
        for (linked, hello, expected) in [
            (None, hello(), Judgement::Admit),
            (own, hello(), Judgement::Admit),
            (other, hello(), Judgement::AskTheOther),
            (None, elsewhere(), duplicate(Difference::Machine)),
            (other, elsewhere(), duplicate(Difference::Machine)),
            (None, copied(), duplicate(Difference::StateFolder)),
            (None, at(6), duplicate(Difference::OlderEpoch)),
            // Its last welcomes may never have come.
            (None, at(7), Judgement::Admit),
            (None, at(0), Judgement::Admit),
            // The database was restored; see what it holds.
            (None, at(12), Judgement::Admit),
        ] {
            assert_eq!(judge(&row(), linked, &hello), expected, "{linked:?} {hello:?}");
        }
        let used = WorkerRow { used_epoch: Epoch(9), ..row() };
        let other_process = |last_epoch| Hello { session: Uuid::from_u128(99), ..at(last_epoch) };
        for (hello, expected) in [
            (at(9), Judgement::Admit),
            // It has used the link after these.
            (at(8), Judgement::Past),
            (at(0), Judgement::Past),
            // A new process may have lost what the one before it kept.
            (other_process(0), Judgement::Admit),
            (other_process(8), duplicate(Difference::OlderEpoch)),
        ] {
            assert_eq!(judge(&used, None, &hello), expected, "{hello:?}");
        }
        let new = WorkerRow { epoch: Epoch(0), used_epoch: Epoch(0), machine: String::new(), ..row() };
        assert_eq!(judge(&new, None, &copied()), Judgement::Admit, "the first hello says who it is");
    }
}
