//! How a database is used, beyond its address.

/// More would not read faster on the machines that this runs on, and each is a process of the database.
const CONNECTIONS_DEFAULT: usize = 4;

#[derive(Clone, PartialEq, Eq)]
pub struct Options {
    /// The address leads to a connection pooler that hands out sessions for a transaction at a time.
    pub pooled: bool,
    /// Where to listen for other servers, if not at the address itself: never through such a pooler. None with one: nowhere.
    pub listen: Option<String>,
    /// Connections that look, at most; one that writes and one that listens come on top.
    pub connections: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { pooled: false, listen: None, connections: CONNECTIONS_DEFAULT }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Options { pooled, listen, connections } = self;
        // An address may hold a password.
        let (listen, mut shown) = (listen.is_some(), f.debug_struct("Options"));
        shown.field("pooled", pooled).field("listen", &listen).field("connections", connections).finish()
    }
}
