//! The network between hosts and servers: connections that keep their order and lose nothing while they stand, as TCP
//! does, over paths that can be cut in one direction or both.
//!
//! ```text
//!  host 3 ──to server──► [ parcel parcel ] ──► server 1
//!         ◄──to host──── [ parcel ]        ◄──
//! ```
//! A cut path holds parcels back until it is mended. A connection that is *lost* (a middle box forgot it) swallows them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::dice::Dice;

/// How long a connection or a handshake on it may take, as a worker has it.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    ToServer,
    ToHost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnId(pub u64);

#[derive(Debug)]
pub(crate) enum Parcel {
    /// The server's kernel has taken the connection, and its process answered the handshake.
    Accepted,
    Text(String),
    Binary(Vec<u8>),
    /// The other side has closed, or its process is gone.
    End,
}

/// Two ends of one connection. The lives say which processes they belong to.
#[derive(Debug)]
pub(crate) struct Conn {
    pub server: usize,
    pub server_life: u64,
    pub host: usize,
    pub worker_life: u64,
    /// The worker has heard that it stands.
    pub established: bool,
    lost: bool,
    to_server: Pipe,
    to_host: Pipe,
}

#[derive(Debug, Default)]
struct Pipe {
    parcels: VecDeque<Parcel>,
    /// Parcels that were due while the path was cut.
    stalled: u32,
    last_due: Duration,
    /// Nothing more is put in.
    closed: bool,
}

#[derive(Debug)]
pub(crate) struct Network {
    conns: BTreeMap<ConnId, Conn>,
    next: u64,
    /// Paths that let nothing through.
    cuts: BTreeMap<(usize, usize, Way), u32>,
    dice: Dice,
    /// The usual time of a parcel on its way, and how much longer it may take.
    pub latency: Duration,
    pub jitter: Duration,
    /// Hosts whose line is worse than that.
    lines: BTreeMap<usize, Line>,
}

/// What is wrong with a host's line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// On top of the usual.
    pub latency: Duration,
    pub bytes_a_second: Option<u32>,
}

/// When a parcel comes to its other end.
pub(crate) struct Due {
    pub conn: ConnId,
    pub way: Way,
    pub at: Duration,
}

impl Network {
    pub(crate) fn new(dice: Dice) -> Network {
        let (latency, jitter) = (Duration::from_micros(300), Duration::from_millis(2));
        Network {
            conns: BTreeMap::new(),
            next: 0,
            cuts: BTreeMap::new(),
            dice,
            latency,
            jitter,
            lines: BTreeMap::new(),
        }
    }

    pub(crate) fn open(&mut self, server: usize, server_life: u64, host: usize, worker_life: u64) -> ConnId {
        self.next += 1;
        let id = ConnId(self.next);
        let (to_server, to_host) = (Pipe::default(), Pipe::default());
        let conn = Conn { server, server_life, host, worker_life, established: false, lost: false, to_server, to_host };
        self.conns.insert(id, conn);
        id
    }

    pub(crate) fn get(&self, id: ConnId) -> Option<&Conn> {
        self.conns.get(&id)
    }

    pub(crate) fn establish(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.established = true;
        }
    }

    pub(crate) fn of_server(&self, server: usize, life: u64) -> Vec<ConnId> {
        self.ids(|conn| (conn.server, conn.server_life) == (server, life))
    }

    pub(crate) fn of_worker(&self, host: usize, life: u64) -> Vec<ConnId> {
        self.ids(|conn| (conn.host, conn.worker_life) == (host, life))
    }

    pub(crate) fn all(&self) -> Vec<ConnId> {
        self.ids(|_| true)
    }

    fn ids(&self, wanted: impl Fn(&Conn) -> bool) -> Vec<ConnId> {
        self.conns.iter().filter(|(_, conn)| wanted(conn)).map(|(id, _)| *id).collect()
    }

    /// Puts a parcel on its way. None if nobody will ever get it.
    pub(crate) fn send(&mut self, id: ConnId, way: Way, parcel: Parcel, now: Duration) -> Option<Due> {
        let delay = self.latency + self.dice.duration(Duration::ZERO, self.jitter);
        let conn = self.conns.get_mut(&id)?;
        let lost = conn.lost;
        let line = self.lines.get(&conn.host).copied().unwrap_or_default();
        let pipe = conn.pipe(way);
        if pipe.closed || lost {
            return None;
        }
        pipe.closed = matches!(parcel, Parcel::End);
        // What is large holds up what comes after it.
        pipe.last_due = pipe.last_due.max(now + delay + line.latency) + line.time_of(&parcel);
        pipe.parcels.push_back(parcel);
        Some(Due { conn: id, way, at: pipe.last_due })
    }

    pub(crate) fn set_line(&mut self, host: usize, line: Line) {
        if line == Line::default() {
            self.lines.remove(&host);
        } else {
            self.lines.insert(host, line);
        }
    }

    /// A parcel is due. None if its path is cut (it comes when that is mended), or its connection is no more.
    pub(crate) fn arrive(&mut self, id: ConnId, way: Way) -> Option<Parcel> {
        let conn = self.conns.get_mut(&id)?;
        if conn.lost {
            return None;
        }
        let path = (conn.server, conn.host, way);
        let pipe = conn.pipe(way);
        if self.cuts.contains_key(&path) {
            pipe.stalled += 1;
            return None;
        }
        pipe.parcels.pop_front()
    }

    /// Both sides know that it is over.
    pub(crate) fn forget(&mut self, id: ConnId) {
        self.conns.remove(&id);
    }

    /// A middle box has forgotten it: whatever is sent vanishes, and nobody is told.
    pub(crate) fn lose(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.lost = true;
        }
    }

    /// What a dying end had sent and the other has not read may be lost with it.
    pub(crate) fn drop_unread(&mut self, id: ConnId, way: Way) {
        if let Some(conn) = self.conns.get_mut(&id) {
            let pipe = conn.pipe(way);
            let kept = self.dice.below(pipe.parcels.len() + 1);
            // Parcels that are due find an empty pipe, which is no harm.
            pipe.parcels.truncate(kept);
            pipe.stalled = pipe.stalled.min(u32::try_from(kept).unwrap_or(u32::MAX));
        }
    }

    pub(crate) fn is_cut(&self, server: usize, host: usize, way: Way) -> bool {
        self.cuts.contains_key(&(server, host, way))
    }

    /// Cuts are counted: a path is mended when every cut of it is.
    pub(crate) fn cut(&mut self, server: usize, host: usize, way: Way) {
        *self.cuts.entry((server, host, way)).or_default() += 1;
    }

    /// What was held back is on its way again.
    pub(crate) fn mend(&mut self, server: usize, host: usize, way: Way, now: Duration) -> Vec<Due> {
        let path = (server, host, way);
        let Some(cuts) = self.cuts.get_mut(&path) else { return Vec::new() };
        *cuts -= 1;
        if *cuts > 0 {
            return Vec::new();
        }
        self.cuts.remove(&path);
        let mut due = Vec::new();
        for (id, conn) in &mut self.conns {
            if (conn.server, conn.host) != (server, host) {
                continue;
            }
            let pipe = conn.pipe(way);
            for _ in 0..std::mem::take(&mut pipe.stalled) {
                pipe.last_due = pipe.last_due.max(now + self.latency);
                due.push(Due { conn: *id, way, at: pipe.last_due });
            }
        }
        due
    }

    pub(crate) fn cut_paths(&self) -> BTreeSet<(usize, usize, Way)> {
        self.cuts.keys().copied().collect()
    }
}

impl Line {
    fn time_of(self, parcel: &Parcel) -> Duration {
        let bytes = match parcel {
            Parcel::Text(text) => text.len(),
            Parcel::Binary(bytes) => bytes.len(),
            Parcel::Accepted | Parcel::End => 0,
        };
        self.bytes_a_second.map_or(Duration::ZERO, |speed| Duration::from_secs_f64(bytes as f64 / f64::from(speed)))
    }
}

impl Conn {
    fn pipe(&mut self, way: Way) -> &mut Pipe {
        match way {
            Way::ToServer => &mut self.to_server,
            Way::ToHost => &mut self.to_host,
        }
    }
}

/// The same frame as a later version would send it: with fields that nobody knows yet, and a message too.
pub(crate) fn newer(parcel: Parcel) -> Parcel {
    let Parcel::Text(frame) = &parcel else { return parcel };
    let Ok(mut messages) = serde_json::from_str::<Vec<serde_json::Value>>(frame) else { return parcel };
    for message in &mut messages {
        message["from_the_future"] = serde_json::json!({ "n": 1 });
    }
    messages.push(serde_json::json!({ "type": "from_the_future", "ticket": "none", "n": [1, 2] }));
    Parcel::Text(serde_json::to_string(&messages).expect("values are plain data"))
}

#[cfg(test)]
mod tests {
    use protocol::link::{WorkerMessage, decode_text, encode_text};

    use super::*;

    #[test]
    fn what_a_newer_peer_says_is_understood_as_far_as_it_is_known() {
        let said = vec![WorkerMessage::Ping { n: 3 }, WorkerMessage::Renew { renewals: Vec::new() }];
        let Parcel::Text(frame) = newer(Parcel::Text(encode_text(&said))) else { panic!("text stays text") };
        let heard: Vec<WorkerMessage> = decode_text(&frame).expect("unknown fields and messages are no error");
        assert_eq!(heard[..2], said);
        assert_eq!(heard[2..], [WorkerMessage::Unknown]);
    }

    #[test]
    fn a_thin_line_holds_up_what_comes_after_a_large_frame() {
        let mut net = Network::new(Dice::new(1, "net"));
        net.set_line(2, Line { latency: Duration::ZERO, bytes_a_second: Some(100) });
        let conn = net.open(0, 1, 2, 1);
        let due = |net: &mut Network, bytes| {
            let parcel = Parcel::Binary(vec![0; bytes]);
            net.send(conn, Way::ToServer, parcel, Duration::ZERO).map(|due| due.at.as_secs())
        };
        assert_eq!(due(&mut net, 1000), Some(10));
        assert_eq!(due(&mut net, 100), Some(11), "the small one waits for the large one");
        net.set_line(2, Line { latency: Duration::from_secs(60), bytes_a_second: None });
        assert_eq!(due(&mut net, 100), Some(60));
    }
}
