//! The one way in. Everything that can change a job comes here as a [`Command`], is grouped with what arrives at the
//! same time, decided by `engine::apply`, and written in one transaction. Answers and effects follow the commit.
//!
//! ```text
//!  http ──┐                       ┌─► engine::apply (per event)
//!  links ─┼─► Command ─► Core::begin ─► dispatch plan ─► Batch ─► Core::commit ─► Store
//!  timers ┘                                                           │ only then
//!                                             answers · offers, goes, stops · live events
//! ```
//!
//! [`Core`] is synchronous and takes its time and chance as arguments; [`thread`] drives it with the real ones.

mod absence;
mod again;
mod ahead;
mod amnesia;
mod attempt_spec;
mod beats;
mod begun;
mod breaker;
mod cache;
mod census;
mod children;
mod command;
mod core;
mod deadlock;
mod doubt;
mod effects;
mod family;
mod fleet;
mod groups;
mod hearing;
mod hello;
mod hooks;
mod identity;
mod knock;
mod leases;
mod letters;
mod links;
mod logs;
mod losses;
mod made;
mod marks;
mod notice;
mod notices;
mod outbox;
mod publish;
mod reconcile;
mod recover;
mod refused;
mod restored;
mod retain;
mod round;
mod schedules;
mod secrets;
mod siblings;
mod sweep;
mod thread;
mod told;
mod unborn;
mod unlisted;
mod unread;
mod unsure;

pub use again::{Again, AgainError, How, ResolveOrder, RetryOrder, Settled};
pub use breaker::MassLoss;
pub use cache::Definitions;
pub use census::Census;
pub use command::{
    Command, EventError, IdempotencyKey, LinkEvent, LinkOut, LinkSender, LogFrame, Made, Submit, SubmitError, Submitted,
};
pub use core::{Commit, Core, CoreConfig};
pub use doubt::slot_held_until;
pub use fleet::{FleetAnswer, FleetError, FleetOrder, stored_pause};
pub use groups::{DOUBT_MAX, GroupFull};
pub use letters::{Envelope, Letter};
pub use outbox::{AT_ONCE, Delivered, Parcel, Post, TRY_WITHIN};
pub use recover::{Forsake, RecoverOrder};
pub use restored::{Restored, say_restored};
pub use retain::PruneOrder;
pub use schedules::{TriggerError, TriggerOrder, submitted_by};
pub use sweep::SweepRules;
pub use thread::{AGREE_EVERY, Ledger, LedgerDown, SLEEP_MAX, next_try, start};
