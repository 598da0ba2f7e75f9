//! The loop around the agent: hands it what happens, does what it says. The only place where the parts meet.
//!
//! ```text
//!            ┌── frames ─── link task ◄──── messages ──┐
//!            ├── done ───── workshop  ◄──── jobs ──────┤
//!  agent ◄── shell                                     shell ◄── actions ── agent
//!            ├── heard ──── connections ◄── orders ────┤
//!            └── stop, time             shipping, broom┘
//! ```
//!
//! Everything that comes in passes a bounded channel, so that a busy agent slows its sources down.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use pause::Point;
use protocol::attempt::{StopMode, StopReason, Ticket};
use protocol::folder::ToRunner;
use protocol::link::RefusedCode;
use protocol::state::Caretaker;
use runner::clock;
use runner::folder_io::FolderError;
use runner::remains::Remains;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::adopt::{Look, Next, RETRY_PAUSE};
use crate::agent::{Action, Agent, ExitReason, Finding, Input, StopLevel, Word};
use crate::depot::Depot;
use crate::error::WorkerError;
use crate::executors::process::{
    Broom, Connection, Done, Heard, Job, Prepare, PrepareError, Sweep, Workshop, reconnect,
};
use crate::lines::Lines;
use crate::link::{self, LinkEvent, LinkSender, Reach};
use crate::options::WorkerOptions;
use crate::shelf::calls_for_room;
use crate::ship::{Order, Shipping};
use crate::state::{Places, State};

/// Events that wait for the agent, per source: enough for a burst, little enough to push back soon.
const QUEUE: usize = 256;
/// The longest sleep between two looks at the clock.
const SLEEP_MAX: Duration = Duration::from_secs(5);
/// How long the last messages may take when the worker leaves.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(3);
/// The same for a caretaker that somebody waits for.
const HANDOVER_PATIENCE: Duration = Duration::from_secs(1);

/// What a shell is made of.
pub(crate) struct ShellParts {
    pub(crate) agent: Agent,
    pub(crate) state: State,
    pub(crate) reach: Reach,
    pub(crate) options: WorkerOptions,
    /// Attempts that the agent knows from an earlier worker; those that live are connected to.
    pub(crate) adopted: Vec<Ticket>,
    /// The machine was restarted since those were made: nothing of them lives.
    pub(crate) rebooted: bool,
    /// Where a caretaker hears that its worker is back.
    pub(crate) handover: Option<UnixListener>,
}

pub(crate) struct Shell {
    agent: Agent,
    state: State,
    places: Places,
    stop_steps: bool,
    stop_grace: Duration,
    /// Of a caretaker: where the worker asks for its folder.
    handover: Option<UnixListener>,
    link: Option<LinkSender>,
    shipping: Shipping,
    depot: Depot,
    workshop: Workshop,
    broom: Broom,
    threads: Vec<JoinHandle<()>>,
    lines: Lines<Connection>,
    heard: mpsc::Sender<Heard>,
    inbox: Inbox,
    /// Jobs that are tried again after a pause.
    later: JoinSet<Job>,
    /// Only holds the link's task: it ends with the shell.
    _link_task: JoinSet<()>,
    goodbye_patience: Duration,
    exit: Option<Result<(), WorkerError>>,
}

struct Inbox {
    link: mpsc::Receiver<LinkEvent>,
    done: mpsc::Receiver<Done>,
    heard: mpsc::Receiver<Heard>,
    files: mpsc::Receiver<Input>,
}

impl Shell {
    pub(crate) fn start(parts: ShellParts) -> Result<Self, WorkerError> {
        let ShellParts { agent, state, reach, options, adopted, rebooted, handover } = parts;
        let places = state.places();
        let (link_events, link_inbox) = mpsc::channel(QUEUE);
        let (done, done_inbox) = mpsc::channel(QUEUE);
        let (heard, heard_inbox) = mpsc::channel(QUEUE);
        let prepare = Prepare::new(&options, caretaker_seat(&options, state.root()));
        let of_earlier_boot = adopted.iter().filter(|_| rebooted).map(|ticket| ticket.attempt).collect();
        let (workshop, mut threads) =
            Workshop::start(&places, prepare, of_earlier_boot, &done).map_err(WorkerError::Thread)?;
        let (shipping, ship_thread) = Shipping::start(places.clone()).map_err(WorkerError::Thread)?;
        let (broom, broom_thread) = Broom::start(places.clone(), options.spool, done).map_err(WorkerError::Thread)?;
        threads.extend([ship_thread, broom_thread]);
        for ticket in adopted {
            workshop.order(Job::Examine { ticket });
        }
        let (files, files_inbox) = mpsc::channel(QUEUE);
        let depot = Depot::new(places.clone(), reach.clone(), files);
        let mut link_task = JoinSet::new();
        link_task.spawn(link::keep(reach, link_events));
        Ok(Shell {
            agent,
            state,
            places,
            stop_steps: options.stop_steps,
            stop_grace: options.stop_grace,
            handover,
            link: None,
            shipping,
            depot,
            workshop,
            broom,
            threads,
            lines: Lines::default(),
            heard,
            inbox: Inbox { link: link_inbox, done: done_inbox, heard: heard_inbox, files: files_inbox },
            later: JoinSet::new(),
            _link_task: link_task,
            goodbye_patience: GOODBYE_PATIENCE,
            exit: None,
        })
    }

    pub(crate) async fn serve(mut self, mut stop: watch::Receiver<StopLevel>) -> Result<(), WorkerError> {
        let first = *stop.borrow_and_update();
        self.asked_to_stop(first);
        let mut may_be_stopped = true;
        loop {
            if let Some(result) = self.exit.take() {
                self.say_goodbye().await;
                return result;
            }
            let deadline = self.agent.deadline();
            tokio::select! {
                Some(event) = self.inbox.link.recv() => self.link_event(event),
                Some(done) = self.inbox.done.recv() => self.job_done(done),
                Some(heard) = self.inbox.heard.recv() => self.runner_heard(heard),
                Some(input) = self.inbox.files.recv() => self.feed(input),
                Some(Ok(job)) = self.later.join_next() => self.workshop.order(job),
                changed = stop.changed(), if may_be_stopped => match changed {
                    Ok(()) => {
                        let level = *stop.borrow_and_update();
                        self.asked_to_stop(level);
                    }
                    Err(_) => may_be_stopped = false,
                },
                () = asked_to_hand_over(self.handover.as_ref()), if self.handover.is_some() => self.hand_over(),
                () = sleep(SLEEP_MAX), if self.handover.is_some() => self.leave_if_folder_is_gone(),
                () = until(deadline), if deadline.is_some() => self.feed(Input::Tick),
            }
        }
    }

    fn asked_to_stop(&mut self, level: StopLevel) {
        let level = if self.stop_steps && level == StopLevel::Leave { StopLevel::EndSteps } else { level };
        if level > StopLevel::Run {
            self.feed(Input::Stop(level));
        }
    }

    fn hand_over(&mut self) {
        tracing::info!("the worker is back; the state folder is handed over");
        self.handover = None;
        self.feed(Input::HandOver);
    }

    /// A caretaker has nobody else to tell it that its work is void.
    fn leave_if_folder_is_gone(&mut self) {
        if !self.state.root().exists() {
            self.exit = Some(Ok(()));
        }
    }

    fn link_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up(sender) => {
                self.shipping.order(Order::LinkUp(sender.logs.clone()));
                self.link = Some(sender);
                self.feed(Input::LinkUp);
            }
            LinkEvent::Frame(messages) => self.feed(Input::Frame(messages)),
            LinkEvent::Down { why } => {
                tracing::warn!(%why, "the link to the server is down");
                self.link = None;
                self.shipping.order(Order::LinkDown);
                self.feed(Input::LinkDown);
            }
            LinkEvent::Failed(error) => {
                if matches!(error, WorkerError::CredentialRefused { .. }) {
                    self.state.leave_word(Word::NoneUntilAWorkerComes);
                }
                self.exit = Some(Err(error));
            }
        }
    }

    fn job_done(&mut self, done: Done) {
        match done {
            Done::Prepared { ticket, launched } => self.prepared(ticket, launched),
            Done::Claimed { ticket, claim: Ok(claim), .. } => self.feed(Input::Claimed { ticket, claim }),
            Done::Claimed { ticket, told, claim: Err(error) } => {
                tracing::warn!(attempt = %ticket.attempt, %error, "an attempt cannot be made void yet");
                self.try_again(Job::Void { ticket, told });
            }
            Done::Looked { ticket, look } => self.looked(ticket, look),
            Done::Recalled { found, complete } => {
                tracing::warn!(attempts = found.len(), "attempts that were put away are told to the server once more");
                self.feed(Input::Recalled { found, complete });
            }
            Done::LeaseEnded { ticket, remains } => self.lease_ended(ticket, remains),
        }
    }

    fn prepared(&mut self, ticket: Ticket, launched: Result<std::os::unix::net::UnixStream, PrepareError>) {
        let opened = launched.and_then(|stream| {
            let program = self.places.attempt(ticket);
            let stream = stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream));
            stream.map_err(|source| PrepareError::Launch { program, source })
        });
        match opened {
            Ok(stream) => self.open(ticket, stream),
            Err(error) => {
                tracing::warn!(attempt = %ticket.attempt, %error, "a step cannot be prepared");
                self.feed(Input::PrepareFailed { ticket, reason: error.reason(), detail: error.to_string() });
            }
        }
    }

    fn looked(&mut self, ticket: Ticket, look: Result<Look, FolderError>) {
        if let Err(error) = &look {
            tracing::warn!(attempt = %ticket.attempt, %error, "an attempt's folder cannot be read yet");
        }
        if let Ok(Look::Clear { spec, .. }) = &look {
            self.feed(Input::Recognised { ticket, spec: Box::new(spec.attempt.clone()) });
        }
        match Next::after(look) {
            Next::Connect(finding) => self.adopt(ticket, finding),
            Next::Tell(finding) => self.feed(Input::Examined { ticket, finding }),
            Next::LookAgain { after } => self.try_after(after, Job::Examine { ticket }),
        }
    }

    fn lease_ended(&mut self, ticket: Ticket, remains: Result<Remains, FolderError>) {
        match remains {
            // Whoever is connected to the runner hears that it is gone, and looks.
            Ok(Remains::None) => {}
            Ok(Remains::Dying) => self.try_again(Job::EndLease { ticket }),
            Err(error) => {
                tracing::warn!(attempt = %ticket.attempt, %error, "a step whose lease is over cannot be ended yet");
                self.try_again(Job::EndLease { ticket });
            }
        }
    }

    fn adopt(&mut self, ticket: Ticket, finding: Finding) {
        match reconnect(&self.places.attempt(ticket)) {
            Ok(stream) => {
                tracing::info!(attempt = %ticket.attempt, "connected to a living runner");
                self.open(ticket, stream);
                self.deliver_stop(ticket);
                self.feed(Input::Examined { ticket, finding });
            }
            // About to listen, or about to leave: the lock will tell.
            Err(_) => self.try_again(Job::Examine { ticket }),
        }
    }

    fn open(&mut self, ticket: Ticket, stream: UnixStream) {
        self.lines.open(ticket, |number| Connection::open(stream, ticket, number, self.heard.clone()));
    }

    fn try_again(&mut self, job: Job) {
        self.try_after(RETRY_PAUSE, job);
    }

    fn try_after(&mut self, pause: Duration, job: Job) {
        self.later.spawn(async move {
            sleep(pause).await;
            job
        });
    }

    fn runner_heard(&mut self, Heard { ticket, number, said }: Heard) {
        if let Some(input) = self.lines.heard(ticket, number, said) {
            self.feed(input);
        }
    }

    fn feed(&mut self, input: Input) {
        for action in self.agent.handle(input, clock::boot_now()) {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Send(message) => {
                if calls_for_room(&message) {
                    self.broom.order(Sweep::MakeRoom);
                }
                if self.link.as_ref().is_some_and(|link| !link.send(message)) {
                    tracing::warn!("too many messages wait for the server; the link is given up");
                    self.link = None;
                }
            }
            Action::DropLink { why } => {
                tracing::warn!(%why, "the link is given up");
                self.link = None;
            }
            Action::Welcomed { worker, epoch, .. } => self.welcomed(worker, epoch),
            Action::Prepare { spec, rules } => {
                pause::at(Point::Offered);
                self.workshop.order(Job::Prepare { spec, rules });
            }
            Action::GiveSecrets { ticket, values } => self.tell(ticket, &ToRunner::Secrets { values }),
            Action::Go { ticket, asked_at, until, cannot } => {
                let (asked_at_ms, until_ms) = (Some(clock::to_ms(asked_at)), until.map(clock::to_ms));
                self.tell(ticket, &ToRunner::Go { asked_at_ms, until_ms, cannot });
            }
            Action::Fetch { ticket } => self.depot.fetch(ticket),
            Action::Store { ticket } => self.depot.store(ticket),
            Action::StopFiles { ticket } => self.depot.stop(ticket),
            Action::Renewed { ticket, n } => self.tell(ticket, &ToRunner::Renewed { n }),
            Action::Rules { ticket, rules } => self.tell(ticket, &ToRunner::Rules { rules }),
            Action::EndLease { ticket } => {
                tracing::warn!(attempt = %ticket.attempt, "the lease is over and the runner did not act; its step is ended");
                self.workshop.order(Job::EndLease { ticket });
            }
            Action::Void { ticket, told } => self.workshop.order(Job::Void { ticket, told }),
            Action::SendAway { ticket } => {
                self.tell(ticket, &ToRunner::Stop { mode: StopMode::Kill, reason: StopReason::WorkerStopped });
            }
            Action::StopRunner { ticket, mode, reason } => self.stop_runner(ticket, ToRunner::Stop { mode, reason }),
            Action::Bye { ticket } => self.tell(ticket, &ToRunner::Bye),
            Action::Examine { ticket } => self.workshop.order(Job::Examine { ticket }),
            Action::Ship { ticket, after_seq } => self.shipping.order(Order::Start { ticket, after_seq }),
            Action::LogGrew { ticket } => self.shipping.order(Order::Grew { ticket }),
            Action::LogAcked { ticket, seq, dropped } => {
                self.shipping.order(Order::Acknowledged { ticket, seq, dropped });
                self.tell(ticket, &ToRunner::Acked { seq });
            }
            Action::LogEnded { ticket, last_seq } => self.shipping.order(Order::Ended { ticket, last_seq }),
            Action::StopShipping { ticket } => self.shipping.order(Order::Stop { ticket }),
            Action::Forget { ticket } => self.put_away(ticket, Sweep::Keep { ticket }),
            Action::Recall => self.broom.order(Sweep::Recall),
            Action::Discard { ticket } => self.put_away(ticket, Sweep::Discard { ticket }),
            Action::Exit(reason) => self.leave(reason),
        }
    }

    fn leave(&mut self, reason: ExitReason) {
        self.state.leave_word(Word::of(&reason, self.stop_grace));
        if reason == ExitReason::HandedOver {
            self.goodbye_patience = HANDOVER_PATIENCE;
        }
        self.exit = Some(result_of(reason));
    }

    fn welcomed(&mut self, worker: uuid::Uuid, epoch: u64) {
        tracing::info!(%worker, epoch, "connected to the server");
        if let Err(error) = self.state.set_welcome(worker, epoch) {
            tracing::warn!(%error, "the welcome cannot be remembered");
        }
    }

    /// Without a connection it is lost; what must not be lost is said again when there is one.
    fn tell(&mut self, ticket: Ticket, message: &ToRunner) {
        if let Some(connection) = self.lines.connection(ticket)
            && let Err(error) = connection.send(message)
        {
            tracing::debug!(attempt = %ticket.attempt, %error, "a runner could not be told");
        }
    }

    fn stop_runner(&mut self, ticket: Ticket, stop: ToRunner) {
        self.lines.stop(ticket, stop);
        self.deliver_stop(ticket);
    }

    fn deliver_stop(&mut self, ticket: Ticket) {
        if !self.lines.deliver_stop(ticket, |connection, stop| connection.send(stop).is_ok()) {
            self.try_again(Job::Examine { ticket });
        }
    }

    fn put_away(&mut self, ticket: Ticket, sweep: Sweep) {
        self.shipping.order(Order::Stop { ticket });
        self.depot.stop(ticket);
        self.broom.order(sweep);
        self.lines.put_away(ticket);
    }

    async fn say_goodbye(mut self) {
        if self.link.take().is_some() {
            let closed = async {
                while let Some(event) = self.inbox.link.recv().await {
                    if matches!(event, LinkEvent::Down { .. } | LinkEvent::Failed(_)) {
                        return;
                    }
                }
            };
            let _ = timeout(self.goodbye_patience, closed).await;
        }
        let Shell { state, shipping, depot, workshop, broom, threads, inbox, .. } = self;
        drop((shipping, depot, workshop, broom, inbox));
        let _ = tokio::task::spawn_blocking(move || {
            for thread in threads {
                let _ = thread.join();
            }
        })
        .await;
        // The lock goes last: the next worker must not find anybody at work in the folder.
        drop(state);
    }
}

async fn asked_to_hand_over(listener: Option<&UnixListener>) {
    if let Some(listener) = listener
        && let Err(error) = listener.accept().await
    {
        tracing::warn!(%error, "somebody who wants the state folder could not be heard");
    }
}

/// Runners get word of how a caretaker is started. A worker that ends with its link has none.
fn caretaker_seat(options: &WorkerOptions, root: &Path) -> Option<Caretaker> {
    let command = options.caretaker_command.as_ref().filter(|_| !options.no_reconnect)?;
    // It travels as JSON, which has no words for other paths.
    let speakable = root.to_str().is_some() && command.program.to_str().is_some();
    speakable.then(|| Caretaker {
        state: root.to_owned(),
        program: command.program.clone(),
        arguments: command.arguments.clone(),
    })
}

/// Timers stand still while the machine sleeps, the agent's clock does not: it looks again after a while.
async fn until(deadline: Option<Duration>) {
    let Some(deadline) = deadline else { return };
    sleep(deadline.saturating_sub(clock::boot_now()).min(SLEEP_MAX)).await;
}

fn result_of(reason: ExitReason) -> Result<(), WorkerError> {
    match reason {
        ExitReason::Stopped | ExitReason::OnceDone | ExitReason::CaretakerDone | ExitReason::HandedOver => Ok(()),
        ExitReason::LinkLost => Err(WorkerError::LinkLost),
        ExitReason::Refused { code: RefusedCode::Removed, message } => Err(WorkerError::Removed { message }),
        ExitReason::Refused { code, message } => Err(WorkerError::Refused { code, message }),
    }
}
