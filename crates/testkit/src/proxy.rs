//! A TCP proxy that does to a connection what networks do.
//!
//! Two threads per connection, one for each direction, copy what comes. What they do to it is switched at run time:
//!
//! ```text
//!  worker ──► ToServer: pass | hold | swallow | delay ──► server
//!         ◄── ToWorker: pass | hold | swallow | delay ◄──
//! ```

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How soon a switched fault is noticed.
const LOOK: Duration = Duration::from_millis(5);
const BUFFER_BYTES: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToWorker,
}

/// What happens to bytes on their way. Neither end is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    #[default]
    None,
    /// They wait, and arrive when the fault is over: as when packets were lost and are sent again.
    Hold,
    /// They are gone for ever, and so is the connection: half-open, both ends believe in it. It does not get better when
    /// the fault is over; new connections do.
    Swallow,
    /// They arrive so much later, in order. Many may be on their way: a long way is not a narrow one.
    Delay(Duration),
}

/// Stands between workers and a server, until the last handle is dropped.
#[derive(Debug, Clone)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    /// Each new connection goes to the next one that takes it.
    servers: Vec<String>,
    faults: [Fault; 2],
    refuse: bool,
    connections: Vec<Arc<Connection>>,
    accepted: usize,
}

#[derive(Debug)]
struct Connection {
    worker: TcpStream,
    server: TcpStream,
    /// A direction that has lost bytes never carries anything again.
    dead: [AtomicBool; 2],
    /// Its ends are closed without a goodbye.
    reset: AtomicBool,
}

impl Proxy {
    /// `server`: address and port.
    pub fn start(server: &str) -> Proxy {
        Proxy::between(&[server])
    }

    /// A balancer: new connections go to these servers in turn, and past one that is away.
    pub fn between(servers: &[&str]) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Mutex::new(Shared {
            servers: servers.iter().map(|&server| server.to_owned()).collect(),
            faults: [Fault::None; 2],
            refuse: false,
            connections: Vec::new(),
            accepted: 0,
        }));
        let weak = Arc::downgrade(&shared);
        listener.set_nonblocking(true).expect("set");
        std::thread::spawn(move || accept(&listener, &weak));
        Proxy { address, shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn set(&self, direction: Direction, fault: Fault) {
        self.shared().faults[direction as usize] = fault;
    }

    /// Both directions.
    pub fn set_both(&self, fault: Fault) {
        self.shared().faults = [fault; 2];
    }

    /// New connections go to another server, as a balancer would have them.
    pub fn lead_to(&self, server: &str) {
        self.shared().servers = vec![server.to_owned()];
    }

    /// New connections are closed at once.
    pub fn refuse(&self, refuse: bool) {
        self.shared().refuse = refuse;
    }

    /// Closes what is connected, in good order.
    pub fn cut(&self) {
        for connection in self.shared().connections.drain(..) {
            connection.close();
        }
    }

    /// Resets what is connected: what was on its way is lost, and the next read or write fails.
    pub fn reset(&self) {
        for connection in self.shared().connections.drain(..) {
            connection.reset.store(true, Ordering::Relaxed);
            for end in [&connection.worker, &connection.server] {
                // Without waiting for what is unsent, the last `close` is a reset. Until then nobody is told.
                let _ = rustix::net::sockopt::set_socket_linger(end, Some(Duration::ZERO));
                let _ = end.shutdown(Shutdown::Read);
            }
        }
    }

    /// Everything passes again.
    pub fn heal(&self) {
        let mut shared = self.shared();
        shared.faults = [Fault::None; 2];
        shared.refuse = false;
    }

    /// How many connections there ever were.
    pub fn accepted(&self) -> usize {
        self.shared().accepted
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // A thread that panicked has left nothing half done.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Direction {
    fn opposite(self) -> Direction {
        match self {
            Direction::ToServer => Direction::ToWorker,
            Direction::ToWorker => Direction::ToServer,
        }
    }
}

fn accept(listener: &TcpListener, shared: &Weak<Mutex<Shared>>) {
    while let Some(alive) = shared.upgrade() {
        match listener.accept() {
            Ok((worker, _)) => connect(worker, &alive, shared),
            Err(_) => {
                drop(alive);
                std::thread::sleep(LOOK);
            }
        }
    }
}

fn connect(worker: TcpStream, alive: &Mutex<Shared>, shared: &Weak<Mutex<Shared>>) {
    // Held until the connection is known: whoever cuts what is connected cuts this one, too, as soon as the server has it.
    let mut known = lock(alive);
    known.accepted += 1;
    if known.refuse {
        return;
    }
    // A server that is away is away behind the proxy as well: the worker's connection closes.
    let first = known.accepted % known.servers.len();
    let mut in_turn = known.servers[first..].iter().chain(&known.servers[..first]);
    let Some(server) = in_turn.find_map(|server| TcpStream::connect(server).ok()) else { return };
    for end in [&worker, &server] {
        end.set_nonblocking(false).and_then(|()| end.set_nodelay(true)).expect("set");
        end.set_read_timeout(Some(LOOK)).expect("set");
    }
    let connection = Arc::new(Connection { worker, server, dead: Default::default(), reset: AtomicBool::new(false) });
    known.connections.push(connection.clone());
    drop(known);
    for direction in [Direction::ToServer, Direction::ToWorker] {
        let (connection, shared) = (connection.clone(), shared.clone());
        std::thread::spawn(move || connection.carry(direction, &shared));
    }
}

impl Connection {
    /// Until either end closes, or the proxy is gone.
    fn carry(&self, direction: Direction, shared: &Weak<Mutex<Shared>>) {
        // Word of an end travels like anything else, and where nothing gets through it does not either.
        let told_by = match self.copy(direction, shared) {
            Some(told_by) => told_by,
            None => return self.close(),
        };
        let fault = shared.upgrade().map(|shared| lock(&shared).faults[told_by as usize]);
        let lost = fault == Some(Fault::Swallow) || self.is_dead(told_by);
        if !lost && !self.reset.load(Ordering::Relaxed) {
            self.close();
        }
    }

    /// Returns the direction in which the word of its end travels; `None` if the proxy is gone.
    fn copy(&self, direction: Direction, shared: &Weak<Mutex<Shared>>) -> Option<Direction> {
        let (mut from, mut to) = match direction {
            Direction::ToServer => (&self.worker, &self.server),
            Direction::ToWorker => (&self.server, &self.worker),
        };
        let mut buffer = vec![0; BUFFER_BYTES];
        // What is on its way, each with when it arrives; then the end, if it was heard.
        let (mut late, mut ended): (VecDeque<(Instant, Vec<u8>)>, bool) = (VecDeque::new(), false);
        loop {
            let fault = Connection::fault(direction, shared)?;
            if fault == Fault::Hold {
                std::thread::sleep(LOOK);
                continue;
            }
            let is_due = |at: &Instant| !matches!(fault, Fault::Delay(_)) || *at <= Instant::now();
            while let Some((_, bytes)) = late.pop_front_if(|(at, _)| is_due(at)) {
                if !self.is_dead(direction) && to.write_all(&bytes).is_err() {
                    return Some(direction.opposite());
                }
            }
            if ended {
                if late.is_empty() {
                    return Some(direction);
                }
                std::thread::sleep(LOOK);
                continue;
            }
            let length = match from.read(&mut buffer) {
                Ok(length) => length,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
                Err(_) => 0,
            };
            ended = length == 0;
            // Asked again: it may have been switched while nothing came.
            let delay = match Connection::fault(direction, shared)? {
                Fault::None | Fault::Hold => Duration::ZERO,
                Fault::Swallow => {
                    self.dead[direction as usize].store(!ended || self.is_dead(direction), Ordering::Relaxed);
                    Duration::ZERO
                }
                Fault::Delay(delay) => delay,
            };
            late.push_back((Instant::now() + delay, buffer[..length].to_vec()));
        }
    }

    /// `None`: the proxy is gone.
    fn fault(direction: Direction, shared: &Weak<Mutex<Shared>>) -> Option<Fault> {
        Some(lock(&*shared.upgrade()?).faults[direction as usize])
    }

    fn is_dead(&self, direction: Direction) -> bool {
        self.dead[direction as usize].load(Ordering::Relaxed)
    }

    fn close(&self) {
        // Closed already is as good.
        let _ = self.worker.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker's end and the server's end, through a proxy.
    fn connected() -> (Proxy, TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let proxy = Proxy::start(&listener.local_addr().expect("bound").to_string());
        let worker = TcpStream::connect(proxy.address).expect("connected");
        let (server, _) = listener.accept().expect("connected");
        for end in [&worker, &server] {
            end.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
        }
        (proxy, worker, server)
    }

    fn hear(mut stream: &TcpStream, wanted: &[u8]) {
        let mut heard = vec![0; wanted.len()];
        stream.read_exact(&mut heard).expect("heard");
        assert_eq!(heard, wanted);
    }

    /// Nothing comes for a while that is long for a loopback.
    fn silent(stream: &TcpStream) -> bool {
        stream.set_read_timeout(Some(Duration::from_millis(60))).expect("set");
        let heard = (&mut &*stream).read(&mut [0; 8]);
        matches!(heard, Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }

    #[test]
    fn bytes_pass_both_ways_and_so_does_an_end() {
        let (_proxy, mut worker, mut server) = connected();
        worker.write_all(b"to you").expect("said");
        hear(&server, b"to you");
        server.write_all(b"and back").expect("said");
        hear(&worker, b"and back");
        drop(worker);
        assert_eq!(server.read(&mut [0; 8]).expect("the end"), 0);
    }

    #[test]
    fn what_is_held_arrives_later() {
        let (proxy, mut worker, server) = connected();
        proxy.set(Direction::ToServer, Fault::Hold);
        worker.write_all(b"late").expect("said");
        assert!(silent(&server));
        proxy.heal();
        server.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
        hear(&server, b"late");
    }

    #[test]
    fn what_is_slow_arrives_in_order_and_does_not_stand_in_line() {
        let (proxy, mut worker, server) = connected();
        proxy.set(Direction::ToServer, Fault::Delay(Duration::from_millis(150)));
        let begun = Instant::now();
        for _ in 0..8 {
            worker.write_all(b"late").expect("said");
            std::thread::sleep(LOOK * 4);
        }
        hear(&server, &b"late".repeat(8));
        let took = begun.elapsed();
        assert!((Duration::from_millis(290)..Duration::from_secs(1)).contains(&took), "{took:?}");
    }

    #[test]
    fn a_half_open_connection_stays_so_and_nobody_is_told() {
        let (proxy, mut worker, mut server) = connected();
        proxy.set_both(Fault::Swallow);
        worker.write_all(b"lost").expect("said");
        assert!(silent(&server));
        proxy.heal();
        worker.write_all(b"lost as well").expect("said");
        drop(worker);
        assert!(silent(&server), "not even the end is told");
        server.write_all(b"still believes").expect("said");
    }

    #[test]
    fn one_way_is_one_way() {
        let (proxy, mut worker, mut server) = connected();
        proxy.set(Direction::ToServer, Fault::Swallow);
        worker.write_all(b"lost").expect("said");
        server.write_all(b"heard").expect("said");
        hear(&worker, b"heard");
        assert!(silent(&server));
    }

    #[test]
    fn a_reset_is_no_goodbye() {
        let (proxy, mut worker, mut server) = connected();
        worker.write_all(b"hello").expect("said");
        hear(&server, b"hello");
        proxy.reset();
        let kind = |end: &mut TcpStream| end.read(&mut [0; 8]).map_err(|e| e.kind());
        assert_eq!(kind(&mut worker), Err(ErrorKind::ConnectionReset));
        assert_eq!(kind(&mut server), Err(ErrorKind::ConnectionReset));
    }

    #[test]
    fn a_cut_is_a_goodbye_and_a_refusal_lets_nobody_in() {
        let (proxy, mut worker, mut server) = connected();
        proxy.cut();
        assert_eq!(worker.read(&mut [0; 8]).expect("the end"), 0);
        assert_eq!(server.read(&mut [0; 8]).expect("the end"), 0);
        proxy.refuse(true);
        let mut refused = TcpStream::connect(proxy.address).expect("connected");
        refused.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
        assert!(matches!(refused.read(&mut [0; 8]), Ok(0) | Err(_)));
        assert_eq!(proxy.accepted(), 2);
    }
}
