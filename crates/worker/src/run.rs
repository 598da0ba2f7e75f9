//! A worker's life: open the state folder, enrol if need be, look what lives there, then serve until told to stop.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use protocol::features;
use protocol::link::{EnrollRequest, Hello, Kept, PROTOCOL_VERSION};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::adopt::{self, Scan};
use crate::agent::{Agent, StopLevel};
use crate::enroll::{EnrollError, enroll};
use crate::error::WorkerError;
use crate::link::address::Address;
use crate::link::{Backoff, Reach};
use crate::machine;
use crate::options::WorkerOptions;
use crate::shell::{Shell, ShellParts};
use crate::state::{Role, State, listen_for_handover};

/// Runs a worker until `stop` says otherwise, or it cannot go on.
///
/// Needs a tokio runtime with I/O and time; one thread is enough, and keeps it small. Dropping the future is like
/// killing the worker: its runners live on, and the next worker on the same state folder adopts them.
pub async fn run(options: WorkerOptions, mut stop: watch::Receiver<StopLevel>) -> Result<(), WorkerError> {
    let servers = parse_servers(&options.servers)?;
    if options.caretaker {
        // Out of the session of the step whose runner started us. Fails only for one who leads a session already.
        let _ = rustix::process::setsid();
    }
    let role = if options.caretaker { Role::Caretaker } else { Role::Worker };
    let mut state = match State::open(&options.state, role) {
        // Somebody looks after it already.
        Err(WorkerError::StateInUse { .. }) if options.caretaker => return Ok(()),
        opened => opened?,
    };
    let credential = match state.credential()? {
        Some(credential) => credential,
        None => match enrol(&options, &servers, &mut state, &mut stop).await? {
            Some(credential) => credential,
            None => return Ok(()),
        },
    };
    let rebooted = state.rebooted();
    // Before it looks at what it has: that may take seconds, and who comes meanwhile is to know that there is somebody to wait for.
    let handover = if options.caretaker { Some(listen(state.root())?) } else { None };
    let Scan { found, orphans, complete } = scan(&state, rebooted).await?;
    // Whatever an earlier boot left has its verdict now, or is known to be of that boot until it can be read.
    state.set_boot()?;
    let reach =
        Reach { servers, credential, credential_path: state.credential_path(), no_reconnect: options.no_reconnect };
    let mut hello = hello(&options, &state);
    hello.scan_complete = complete && !state.may_have_original();
    let adopted = found.iter().map(|found| found.ticket).chain(orphans).collect();
    let agent = Agent::new(hello, options.once, found);
    let shell = Shell::start(ShellParts { agent, state, reach, options, adopted, rebooted, handover })?;
    shell.serve(stop).await
}

fn parse_servers(servers: &[String]) -> Result<Vec<Address>, WorkerError> {
    let servers: Vec<Address> = servers.iter().map(|server| Address::parse(server)).collect::<Result<_, _>>()?;
    if servers.is_empty() { Err(WorkerError::NoServer) } else { Ok(servers) }
}

fn listen(root: &Path) -> Result<UnixListener, WorkerError> {
    let failed = |source| WorkerError::State { path: root.to_owned(), what: "listen for a hand-over", source };
    listen_for_handover(root).map_err(failed)
}

async fn scan(state: &State, rebooted: bool) -> Result<Scan, WorkerError> {
    let places = state.places();
    let path = places.attempts.clone();
    let failed = |source| WorkerError::State { path, what: "look at its attempts", source };
    let scan = tokio::task::spawn_blocking(move || adopt::scan(&places, rebooted));
    match scan.await {
        Ok(scan) => scan.map_err(failed),
        Err(join) => Err(failed(std::io::Error::other(join))),
    }
}

/// Tries until a server has answered. `None`: told to stop before that.
async fn enrol(
    options: &WorkerOptions,
    servers: &[Address],
    state: &mut State,
    stop: &mut watch::Receiver<StopLevel>,
) -> Result<Option<String>, WorkerError> {
    let token = options.enroll_token.as_deref().ok_or(WorkerError::NotEnrolled)?;
    let request = EnrollRequest { name: options.name.clone(), state_id: state.state_id(), labels: BTreeMap::new() };
    let mut backoff = Backoff::default();
    for address in servers.iter().cycle() {
        match enroll(address, token, &request).await {
            Ok(answer) => {
                state.set_credential(answer.worker, &answer.credential)?;
                tracing::info!(server = %address, worker = %answer.worker, "enrolled");
                return Ok(Some(answer.credential));
            }
            Err(EnrollError::Refused { message }) => return Err(WorkerError::EnrollRefused { message }),
            Err(error) if options.no_reconnect => return Err(WorkerError::Unreachable { why: error.to_string() }),
            Err(error) => tracing::warn!(%error, "cannot enrol yet; trying again"),
        }
        let delay = backoff.next(machine::random_fraction());
        tokio::select! {
            () = sleep(delay) => {}
            _ = stop.wait_for(|level| *level > StopLevel::Run) => return Ok(None),
        }
    }
    Err(WorkerError::NoServer)
}

fn hello(options: &WorkerOptions, state: &State) -> Hello {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Hello {
        protocol: PROTOCOL_VERSION,
        version: options.version.clone(),
        platform: machine::platform(),
        hostname: machine::hostname(),
        pid: std::process::id(),
        name: options.name.clone(),
        tags: options.tags.clone(),
        // Two steps at once are one too many for `--once`.
        slots: if options.once { 1 } else { options.slots },
        session: machine::random_id(),
        boot_id: machine::boot_id(),
        state_id: state.state_id(),
        machine: state.machine().to_owned(),
        started_at_ms: i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX),
        last_epoch: state.last_epoch(),
        ephemeral: options.ephemeral || options.once,
        no_reconnect: options.no_reconnect,
        caretaker: options.caretaker,
        processed: 0,
        scan_complete: true,
        offline_ms: 0,
        held: Vec::new(),
        // One that leaves when it is refused cannot come again with it.
        kept: (!options.spool.keep_after_ack.is_zero() && !options.no_reconnect).then_some(Kept::Apart),
        features: features::all(),
    }
}
