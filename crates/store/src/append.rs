//! What an append does to a log: the same rule for every store.

use engine::AttemptId;

use crate::read::LogState;
use crate::{LogAppend, StoreError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is all there already.
    Nothing,
    /// No new lines, but the log stands elsewhere now, or is whole.
    Flag(LogState),
    Chunk(LogState),
}

/// What an append does to a log that stands at `stored`.
///
/// Its worker's word that a log is whole is the last one. Lines may come after it all the same, from a server that had them for
/// long before it could write them, while the worker lost them with its disk. What was only closed is open again.
pub fn judge(stored: LogState, append: &LogAppend) -> Result<Verdict, StoreError> {
    let LogAppend { attempt, first_seq, last_seq, blocks, missing, complete } = append;
    let before = first_seq.checked_sub(1);
    if before.is_none_or(|before| before > *last_seq || (before == *last_seq) != blocks.is_empty()) {
        let bytes = blocks.len();
        return Err(refused(
            *attempt,
            &format!("lines {first_seq} to {last_seq} in {bytes} bytes are no piece of a log"),
        ));
    }
    if *last_seq > stored.last_seq && *first_seq != (stored.last_seq + 1).saturating_add(*missing) {
        let stands = stored.last_seq;
        return Err(refused(*attempt, &format!("lines {first_seq} to {last_seq} do not follow line {stands}")));
    }
    let complete = *complete || (stored.complete && !stored.closed);
    let grown = LogState { last_seq: *last_seq, complete, ..LogState::default() };
    Ok(if *last_seq > stored.last_seq && blocks.is_empty() {
        Verdict::Flag(grown)
    } else if *last_seq > stored.last_seq {
        Verdict::Chunk(grown)
    } else if complete && (!stored.complete || stored.closed) && *last_seq == stored.last_seq {
        Verdict::Flag(grown)
    } else {
        Verdict::Nothing
    })
}

fn refused(attempt: AttemptId, what: &str) -> StoreError {
    StoreError::Refused { message: format!("log of attempt {attempt}: {what}") }
}
