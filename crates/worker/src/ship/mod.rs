//! Sending logs: from the files that runners write, in frames, as fast as the server acknowledges them.
//!
//! The shell gives orders through `Shipping`; a thread of its own reads the files, so that neither a slow disk nor a
//! flood of lines ever holds up a decision.
//!
//! ```text
//!  shell ──orders──► thread: Shipper ─► Cursor ─► log/000001.seg …
//!                       └──frames──► link
//! ```
//!
//! What is sent when is [`Shipper`]'s decision, which knows no files: [`Logs`] are where lines come from.

mod cursor;
mod shipper;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use protocol::attempt::Ticket;

use cursor::Cursor;
pub(crate) use cursor::bounds;
pub use shipper::{Logs, Piece, Shipper};

use crate::state::Places;

/// A log whose runner gives no hints is looked at this often.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Where frames go: the link's channel for logs.
pub(crate) type FrameSender = tokio::sync::mpsc::Sender<Vec<u8>>;

#[derive(Debug)]
pub(crate) enum Order {
    LinkUp(FrameSender),
    LinkDown,
    Start { ticket: Ticket, after_seq: u64 },
    Grew { ticket: Ticket },
    Ended { ticket: Ticket, last_seq: Option<u64> },
    Acknowledged { ticket: Ticket, seq: u64, dropped: bool },
    Stop { ticket: Ticket },
}

/// The handle of the shipping thread, which ends when this is dropped.
pub(crate) struct Shipping {
    orders: Sender<Order>,
}

impl Shipping {
    pub(crate) fn start(places: Places) -> io::Result<(Self, JoinHandle<()>)> {
        let (orders, inbox) = mpsc::channel();
        let thread = std::thread::Builder::new().name("bowline-ship".to_owned());
        let handle = thread.spawn(move || ship(places, &inbox))?;
        Ok((Shipping { orders }, handle))
    }

    pub(crate) fn order(&self, order: Order) {
        // The thread only ends when this handle is dropped.
        let _ = self.orders.send(order);
    }
}

fn ship(mut places: Places, inbox: &Receiver<Order>) {
    let mut shipper = Shipper::default();
    let mut link: Option<FrameSender> = None;
    let mut look_at = Instant::now() + LOOK_INTERVAL;
    loop {
        // However much else there is to do: what waits for a look is not to wait for a quiet second.
        if Instant::now() >= look_at {
            shipper.look_at_all();
            look_at = Instant::now() + LOOK_INTERVAL;
        }
        let frame = if link.is_some() { shipper.next_frame(&mut places) } else { None };
        let order = match frame {
            Some(frame) => {
                if let Some(sender) = &link
                    && sender.blocking_send(frame).is_err()
                {
                    link = None;
                    shipper.stop_all();
                }
                match inbox.try_recv() {
                    Ok(order) => order,
                    Err(TryRecvError::Empty) => continue,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            None => match next_order(inbox, look_at, link.is_some() && shipper.is_watching()) {
                Ok(order) => order,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            },
        };
        carry_out(order, &mut shipper, &mut link);
        // Acknowledgements and hints come in bursts.
        while let Ok(order) = inbox.try_recv() {
            carry_out(order, &mut shipper, &mut link);
        }
    }
}

fn next_order(inbox: &Receiver<Order>, look_at: Instant, watching: bool) -> Result<Order, RecvTimeoutError> {
    let pause = look_at.saturating_duration_since(Instant::now());
    if watching { inbox.recv_timeout(pause) } else { inbox.recv().map_err(|_| RecvTimeoutError::Disconnected) }
}

fn carry_out(order: Order, shipper: &mut Shipper<Cursor>, link: &mut Option<FrameSender>) {
    match order {
        Order::LinkUp(sender) => {
            shipper.stop_all();
            *link = Some(sender);
        }
        Order::LinkDown => {
            shipper.stop_all();
            *link = None;
        }
        Order::Start { ticket, after_seq } => shipper.start(ticket, after_seq),
        Order::Grew { ticket } => shipper.grew(ticket),
        Order::Ended { ticket, last_seq } => shipper.ended(ticket, last_seq),
        Order::Acknowledged { ticket, seq, dropped } => shipper.acknowledged(ticket, seq, dropped),
        Order::Stop { ticket } => shipper.stop(ticket),
    }
}
