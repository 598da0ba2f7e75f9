//! A worker's disk: the state folder with its attempts, as far as decisions read and write it. What was not synced may be
//! gone after a power cut (`unsynced`).

mod unsynced;

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::attempt::{End, Ticket};
use protocol::folder::{Claim, FolderSpec, Ownership, Tally};
use protocol::log::{BlockEncoder, LineEnd, Stream};
use protocol::state::NoCaretaker;
use runner::folder_io::{Claimed, Recorded};
use uuid::Uuid;
use worker::adopt::NotedLoss;
use worker::state::Mark;

pub(crate) use unsynced::Shortened;

#[derive(Debug, Clone)]
pub(crate) struct Disk {
    pub state_id: Uuid,
    /// The machine and the mark of the folder, as it says itself.
    pub machine: String,
    pub mark: Option<Mark>,
    /// What its file system says of it.
    pub lies_at: Mark,
    /// It says whose it is.
    pub named: bool,
    /// It holds a credential.
    pub enrolled: bool,
    /// The boot in which the attempts were last looked at.
    pub boot_id: String,
    pub last_epoch: u64,
    pub attempts: BTreeMap<Ticket, Folder>,
    /// It came from elsewhere: what it does not show may live there.
    pub moved: bool,
    /// Put away a moment ago, and when: the disk itself may still have them.
    pub put_away: Vec<(Duration, Ticket, Folder)>,
    /// What the server has whole.
    pub kept: BTreeMap<Ticket, Folder>,
    pub word: Option<NoCaretaker>,
    pub full: bool,
    /// Every look at it ends with an error.
    pub broken: bool,
}

impl Disk {
    pub(crate) fn new(state_id: Uuid, machine: String, lies_at: Mark) -> Disk {
        Disk {
            state_id,
            machine,
            mark: None,
            lies_at,
            named: true,
            enrolled: true,
            boot_id: String::new(),
            last_epoch: 0,
            attempts: BTreeMap::new(),
            moved: false,
            put_away: Vec::new(),
            kept: BTreeMap::new(),
            word: None,
            full: false,
            broken: false,
        }
    }

    /// A folder has its attempt's name. The worker that cannot read it knows no more than that.
    pub(crate) fn ticket_of(&self, attempt: Uuid) -> Option<Ticket> {
        let all = Ticket { attempt, fence: 0 }..=Ticket { attempt, fence: u64::MAX };
        self.attempts.range(all).next().map(|(ticket, _)| *ticket)
    }

    /// Under which ticket the folder of this attempt lies here, whatever its worker knows of it.
    pub(crate) fn lies_under(&self, ticket: Ticket) -> Ticket {
        self.ticket_of(ticket.attempt).unwrap_or(ticket)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Folder {
    pub spec: FolderSpec,
    pub claim: Option<Claim>,
    /// Who holds the lock: the runner's number.
    pub runner: Option<u32>,
    pub tally: Option<Tally>,
    pub ownership: Option<Ownership>,
    pub end: Option<End>,
    pub loss: Option<NotedLoss>,
    /// The exit record was being written when the power went.
    pub torn: bool,
    /// The power went before its spec was on disk: there is a file, and nothing in it.
    pub hollow: bool,
    /// Its name, its spec and its claim are on disk, and not only in memory.
    synced: bool,
    pub log: LogFile,
    /// Sets of files that were put into it before the step started.
    pub fetched: Vec<String>,
}

/// A log: lines with their numbers. Old ones may have been dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogFile {
    pub lines: Vec<(u64, String)>,
    /// The number of the last line that was printed, written or not.
    pub last_seq: u64,
    /// The server has it up to here.
    pub acked: u64,
    /// Lines up to here were dropped, because too many waited.
    pub dropped_to: u64,
    /// Lines up to here are on disk, and not only in memory: they were there after a power cut.
    on_disk: u64,
}

impl Folder {
    pub(crate) fn new(spec: FolderSpec) -> Folder {
        Folder {
            spec,
            claim: None,
            runner: None,
            tally: None,
            ownership: None,
            end: None,
            loss: None,
            torn: false,
            hollow: false,
            synced: false,
            log: LogFile::default(),
            fetched: Vec::new(),
        }
    }

    /// Whoever comes first decides; everyone learns who that was.
    pub(crate) fn claim(&mut self, wanted: Claim, durable: bool) -> Claim {
        match self.try_claim(wanted, durable) {
            Claimed::Ours => wanted,
            Claimed::Earlier(claim) => claim,
        }
    }

    pub(crate) fn try_claim(&mut self, wanted: Claim, durable: bool) -> Claimed {
        match self.claim {
            Some(earlier) => Claimed::Earlier(earlier),
            None => {
                self.claim = Some(wanted);
                self.synced |= durable;
                Claimed::Ours
            }
        }
    }

    /// Durably, and the names in the folder with it.
    pub(crate) fn note_loss(&mut self, loss: NotedLoss) {
        self.loss = Some(loss);
        self.synced = true;
    }

    pub(crate) fn recorded(&self) -> Recorded {
        Recorded { tally: self.tally, ownership: self.ownership, end: self.end.clone() }
    }
}

impl LogFile {
    /// `lines_max`: so many may wait to be acknowledged, before the oldest half is dropped.
    pub(crate) fn print(&mut self, text: String, written: bool, lines_max: u64) {
        self.last_seq += 1;
        if written {
            self.lines.push((self.last_seq, text));
        }
        if self.last_seq - self.acked > lines_max {
            self.dropped_to = self.last_seq - lines_max / 2;
            self.lines.retain(|(seq, _)| *seq > self.dropped_to);
        }
    }

    pub(crate) fn first(&self) -> u64 {
        self.lines.first().map_or(0, |(seq, _)| *seq)
    }

    pub(crate) fn last(&self) -> u64 {
        self.lines.last().map_or(0, |(seq, _)| *seq)
    }

    /// Lines after `after`, up to so many, as one block per run without a gap.
    pub(crate) fn block_after(&self, after: u64, lines_max: usize) -> Option<(u64, u64, Vec<u8>)> {
        let from = self.lines.partition_point(|(seq, _)| *seq <= after);
        let (first, _) = self.lines.get(from)?;
        let mut encoder = BlockEncoder::new(*first);
        let mut last = first - 1;
        for (seq, text) in self.lines[from..].iter().take(lines_max) {
            if *seq != last + 1 {
                break;
            }
            encoder.push(0, Stream::Stdout, LineEnd::Newline, text.as_bytes());
            last = *seq;
        }
        Some((*first, last, encoder.seal()?.to_vec()))
    }
}
