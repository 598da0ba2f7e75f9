//! Promise: a step that names secrets never starts without them, and no value is ever written down: in no row, and on no
//! worker's disk.

use protocol::attempt::Ticket;
use store::Batch;

use super::Findings;
use crate::secrets::shows;

const CHECKER: &str = "secrets";

/// A step's process starts; `given`: with all that it is to be given.
pub(crate) fn started(ticket: Ticket, given: bool, found: &mut Findings) {
    if !given {
        found.add(CHECKER, format!("attempt {} starts without its secrets", ticket.attempt));
    }
}

/// A folder was made for an attempt; `told`: it holds a secret's value.
pub(crate) fn prepared(ticket: Ticket, told: bool, found: &mut Findings) {
    if told {
        found.add(CHECKER, format!("a secret of attempt {} lies on its worker's disk", ticket.attempt));
    }
}

/// Rows are written.
pub(crate) fn written(batch: &Batch, found: &mut Findings) {
    let of_jobs = batch.steps.iter().any(shows) || batch.attempts.iter().any(shows) || batch.events.iter().any(shows);
    if of_jobs || batch.outbox.iter().any(shows) || batch.late_outcomes.iter().any(shows) {
        found.add(CHECKER, "a secret's value is written to the database".to_owned());
    }
}
