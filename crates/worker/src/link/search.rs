//! Where and when a worker looks for a server. Pure: what happened is told, chance comes from outside.

use std::time::Duration;

use protocol::link::ServerMessage;

use super::backoff::Backoff;

/// One search, for as long as the worker lives: it goes on whenever there is no link.
#[derive(Debug)]
pub struct Search {
    servers: usize,
    turn: usize,
    no_reconnect: bool,
    backoff: Backoff,
}

/// Why there is no link, or none any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setback {
    /// Nobody answers at the server's address.
    Unreachable,
    /// Somebody answers for it, and says that it will be there.
    NotReady,
    /// It answers, but not with a link.
    Refused,
    /// It does not know the worker's credential.
    Unauthorized,
    /// The link stood.
    Lost,
}

/// What follows from a setback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Try the next server after this time. `probe`: or as soon as any of them can be reached, which is looked at every
    /// [`probe_interval`](super::probe_interval). Whoever answers but does not let us in is not asked more often.
    TryAfter { delay: Duration, probe: bool },
    /// It makes no sense to go on.
    GiveUp,
}

impl Search {
    /// `no_reconnect`: one try, one link.
    pub fn new(servers: usize, no_reconnect: bool) -> Self {
        assert!(servers > 0, "a worker has at least one server");
        Search { servers, turn: 0, no_reconnect, backoff: Backoff::default() }
    }

    /// Which one to try now: each in its turn.
    pub fn next_server(&mut self) -> usize {
        let server = self.turn % self.servers;
        self.turn += 1;
        server
    }

    /// What a server says on a link may change how soon it is asked again after that.
    pub fn heard(&mut self, message: &ServerMessage) {
        self.backoff.heard(message);
    }

    /// `jitter` is between 0 and 1.
    pub fn after(&mut self, setback: Setback, jitter: f64) -> Then {
        if self.no_reconnect || setback == Setback::Unauthorized {
            return Then::GiveUp;
        }
        if setback == Setback::NotReady {
            self.backoff.asked_back();
        }
        Then::TryAfter { delay: self.backoff.next(jitter), probe: setback == Setback::Unreachable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_take_turns() {
        let mut search = Search::new(3, false);
        let turns: Vec<usize> = (0..7).map(|_| search.next_server()).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn only_who_is_not_there_at_all_is_probed_for() {
        let after = |ms| Duration::from_millis(ms);
        let mut search = Search::new(1, false);
        for (setback, delay, probe) in [
            (Setback::Unreachable, 1000, true),
            (Setback::Refused, 1500, false),
            (Setback::NotReady, 1500, false),
            (Setback::Lost, 2250, false),
        ] {
            assert_eq!(search.after(setback, 0.0), Then::TryAfter { delay: after(delay), probe }, "{setback:?}");
        }
    }

    #[test]
    fn a_credential_that_is_not_known_and_a_worker_that_does_not_reconnect_end_it() {
        assert_eq!(Search::new(1, false).after(Setback::Unauthorized, 0.0), Then::GiveUp);
        for setback in [Setback::Unreachable, Setback::NotReady, Setback::Refused, Setback::Lost] {
            assert_eq!(Search::new(1, true).after(setback, 0.0), Then::GiveUp);
        }
    }
}
