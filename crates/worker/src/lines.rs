//! The lines to runners: which connection of an attempt's several is the one that counts, and orders that wait for one.
//! Pure: a connection is whatever the caller has for it.

use std::collections::BTreeMap;

use protocol::attempt::Ticket;
use protocol::folder::{FromRunner, ToRunner};

use crate::agent::Input;

#[derive(Debug)]
pub struct Lines<Connection> {
    /// Of attempts that have a connection, or an order that waits for one.
    lines: BTreeMap<Ticket, Line<Connection>>,
    opened: u64,
}

#[derive(Debug)]
struct Line<Connection> {
    /// With its number.
    open: Option<(u64, Connection)>,
    /// An order that nobody has taken yet.
    stop: Option<ToRunner>,
}

impl<Connection> Default for Lines<Connection> {
    fn default() -> Self {
        Lines { lines: BTreeMap::new(), opened: 0 }
    }
}

impl<Connection> Lines<Connection> {
    /// How many attempts have one.
    pub fn holds(&self) -> usize {
        self.lines.len()
    }

    /// A new connection takes the place of an earlier one. `open` makes it, under the number by which it is known.
    pub fn open(&mut self, ticket: Ticket, open: impl FnOnce(u64) -> Connection) {
        self.opened += 1;
        self.line(ticket).open = Some((self.opened, open(self.opened)));
    }

    /// Where to tell a runner something. Without a connection it is lost; what must not be is said again by the agent.
    pub fn connection(&self, ticket: Ticket) -> Option<&Connection> {
        let (_, connection) = self.lines.get(&ticket)?.open.as_ref()?;
        Some(connection)
    }

    /// What the agent is to know of what came over connection `number`. `said`: `None` if it has ended. What an earlier
    /// connection has left to say is not heard.
    pub fn heard(&mut self, ticket: Ticket, number: u64, said: Option<FromRunner>) -> Option<Input> {
        let line = self.lines.get_mut(&ticket)?;
        if line.open.as_ref().is_none_or(|(open, _)| *open != number) {
            return None;
        }
        let Some(said) = said else {
            line.open = None;
            if line.stop.is_none() {
                self.lines.remove(&ticket);
            }
            return Some(Input::RunnerGone { ticket });
        };
        Some(Input::Runner { ticket, said })
    }

    /// An order that must not be lost: it waits until [`deliver_stop`](Lines::deliver_stop) has found a taker.
    pub fn stop(&mut self, ticket: Ticket, stop: ToRunner) {
        self.line(ticket).stop = Some(stop);
    }

    /// Hands a waiting order over, if there is a connection. `false`: it took nothing and is of no use; look at the folder
    /// and connect anew.
    pub fn deliver_stop(&mut self, ticket: Ticket, send: impl FnOnce(&Connection, &ToRunner) -> bool) -> bool {
        let Some(Line { open: Some((_, connection)), stop }) = self.lines.get_mut(&ticket) else { return true };
        stop.take_if(|stop| send(connection, stop));
        stop.is_none()
    }

    /// The attempt is over. A runner that is still connected is on its way out, and forgotten when its connection ends.
    pub fn put_away(&mut self, ticket: Ticket) {
        if self.connection(ticket).is_none() {
            self.lines.remove(&ticket);
        }
    }

    fn line(&mut self, ticket: Ticket) -> &mut Line<Connection> {
        self.lines.entry(ticket).or_insert(Line { open: None, stop: None })
    }
}

#[cfg(test)]
mod tests {
    use protocol::attempt::{StopMode, StopReason};
    use uuid::Uuid;

    use super::*;

    const TICKET: Ticket = Ticket { attempt: Uuid::nil(), fence: 1 };
    const STOP: ToRunner = ToRunner::Stop { mode: StopMode::Kill, reason: StopReason::Cancelled };
    const BEAT: Option<FromRunner> = Some(FromRunner::Beat { pid: 1 });

    /// Connections know their number.
    fn connected(times: u32) -> Lines<u64> {
        let mut lines = Lines::default();
        (0..times).for_each(|_| lines.open(TICKET, |number| number));
        lines
    }

    #[test]
    fn only_the_newest_connection_is_heard() {
        let mut lines = connected(2);
        assert_eq!(lines.connection(TICKET), Some(&2));
        assert_eq!(lines.heard(TICKET, 1, BEAT), None);
        assert_eq!(lines.heard(TICKET, 1, None), None, "its end says nothing about the runner");
        assert!(matches!(lines.heard(TICKET, 2, BEAT), Some(Input::Runner { .. })));
        assert_eq!(lines.heard(TICKET, 2, None), Some(Input::RunnerGone { ticket: TICKET }));
        assert_eq!(lines.heard(TICKET, 2, None), None, "once");
        assert!(lines.lines.is_empty());
    }

    #[test]
    fn an_order_waits_for_somebody_who_takes_it() {
        let mut lines = connected(0);
        lines.stop(TICKET, STOP);
        assert!(lines.deliver_stop(TICKET, |_, _| unreachable!("there is no connection")));
        lines.open(TICKET, |number| number);
        assert!(!lines.deliver_stop(TICKET, |_, _| false));
        lines.heard(TICKET, 1, None);
        lines.open(TICKET, |number| number);
        let mut delivered = Vec::new();
        for _ in 0..2 {
            let taken = lines.deliver_stop(TICKET, |connection, stop| {
                delivered.push((*connection, stop.clone()));
                true
            });
            assert!(taken);
        }
        assert_eq!(delivered, [(2, STOP)], "once");
    }

    #[test]
    fn what_is_put_away_leaves_no_line() {
        let mut lines = connected(0);
        lines.stop(TICKET, STOP);
        lines.put_away(TICKET);
        assert!(lines.lines.is_empty());
        let mut lines = connected(1);
        lines.put_away(TICKET);
        assert_eq!(lines.connection(TICKET), Some(&1), "it may still say goodbye");
        lines.heard(TICKET, 1, None);
        assert!(lines.lines.is_empty());
    }
}
