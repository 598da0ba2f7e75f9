//! The ledger without a thread, a clock or a socket: commands in, one transaction, then answers and effects out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use engine::deadline::Rules;
use engine::definition::HookWork;
use engine::{AttemptId, Clocks, Ctx, Epoch, Event, Heard, JobId, Time, WorkerId};
use planted::Bug;
use protocol::link::LinkSettings;
use spec::eval::Templates;
use store::rows::{QuarantineRow, ServerId, ServerRow};
use store::{Batch, Due, Store, StoreError};
use uuid::Uuid;

use crate::access::{NoSecrets, SecretSource};
use crate::bus::Bus;
use crate::clock::Tick;
use crate::dispatch::{LinkId, Queue, Roster};
use crate::metrics::Metrics;
use crate::random::Random;
use crate::retention::RetentionRules;
use crate::scaler::{NoScaler, Scaler};

use super::ahead::Ahead;
use super::amnesia::{Amnesia, Evidence, Loss};
use super::beats::Beats;
use super::begun::Begun;
use super::breaker::{Breaker, MassLoss};
use super::cache::{Cache, Definitions};
use super::command::{Command, EventError, LinkEvent, LogFrame};
use super::groups::Groups;
use super::hearing::{Hearing, HearingRules, Listened};
use super::knock::Knock;
use super::leases::{self, Leases};
use super::links::Link;
use super::losses::CutOff;
use super::notice::Noticed;
use super::outbox::{Outbox, Post};
use super::restored::Restore;
use super::retain::Keeper;
use super::round::Round;
use super::schedules::{self, Schedules};
use super::siblings::{self, Siblings};
use super::sweep::SweepRules;
use super::unsure::Fate;

/// Fences are taken from the store in blocks, so that an offer costs no statement of its own.
const FENCE_BLOCK: u64 = 10_000;

/// Where others take some as well, a block is good for one round: with one from before, a step's next attempt could get a
/// lower number than the one before it had from another server.
const FENCE_BLOCK_SHARED: u64 = 200;

/// How long a job that cannot be handled is left alone before it is tried again.
const ASIDE_FOR: Duration = Duration::from_secs(60);

/// What is due and could not be seen to is looked at again after this.
pub(super) const LOOK_AGAIN_SOON: Duration = Duration::from_secs(1);

/// Due checks handled in one round; the rest follow in the next.
const CHECKS_PER_ROUND: usize = 500;

pub struct Core<S> {
    pub(super) store: S,
    pub(super) cache: Cache,
    /// What was read for the round that is being decided.
    pub(super) ahead: Ahead,
    pub(super) definitions: Arc<Definitions>,
    pub(super) queue: Queue,
    pub(super) roster: Roster,
    pub(super) links: BTreeMap<LinkId, Link>,
    /// Hellos that wait for word from another process of the same worker.
    pub(super) knocks: BTreeMap<WorkerId, Knock>,
    /// Those of them whose time has come in this round.
    pub(super) let_in: Vec<Command>,
    /// Pings that were sent for their sake.
    pub(super) pings: u64,
    /// Attempts that workers have and nobody here knows.
    pub(super) strangers: BTreeSet<AttemptId>,
    pub(super) scaler: Box<dyn Scaler>,
    pub(super) secrets: Arc<dyn SecretSource>,
    pub(super) breaker: Breaker,
    /// Identities in use twice of which it was said.
    pub(super) duplicates: BTreeSet<(WorkerId, Uuid)>,
    pub(super) config: CoreConfig,
    pub(super) evaluator: Templates,
    pub(super) random: Random,
    pub(super) bus: Bus,
    pub(super) metrics: Arc<Metrics>,
    pub(super) beats: Beats,
    pub(super) begun: Begun,
    pub(super) next_sweep: Time,
    /// As of the last committed mark.
    pub(super) hearing: Hearing,
    pub(super) hearing_rules: HearingRules,
    pub(super) siblings: Siblings,
    pub(super) leases: Leases,
    /// Workers' rows may say something new.
    pub(super) must_look_around: bool,
    pub(super) noticed: Noticed,
    /// Something was committed that others do not know of yet.
    has_news: bool,
    pub(super) schedules: Schedules,
    pub(super) outbox: Outbox,
    pub(super) keeper: Keeper,
    pub(super) groups: Groups,
    /// Commits were lost, not long ago.
    pub(super) amnesia: Option<Amnesia>,
    /// The last loss that this server has seen to.
    pub(super) known_loss: Option<Loss>,
    /// The same, as long as it is not on record.
    pub(super) unsaid_loss: Option<Loss>,
    /// Workers that had a link here and are not on record any more, for a window. Their enrolment may be what is lost.
    pub(super) strangers_gone: BTreeMap<WorkerId, (Epoch, Heard)>,
    /// The rows do not say what this server remembers, or another one does.
    pub(super) forgotten: Option<Evidence>,
    /// An operator's word that the database was restored, and what became of it.
    pub(super) restore: Restore,
    fences: std::ops::Range<u64>,
    next_check: Time,
    pub(super) prepared: Option<Prepared>,
    /// What is left of a batch that failed and was split.
    pub(super) split: VecDeque<Vec<Command>>,
    pub(super) in_piece: bool,
    /// Memory was dropped; nothing is decided before it is read again.
    pub(super) must_rebuild: bool,
    /// Commands that came while it could not be, and why it could not.
    pub(super) waiting: Option<(Vec<Command>, StoreError)>,
    /// Jobs that could not be handled, and until when they are left alone.
    pub(super) aside: BTreeMap<JobId, Time>,
    pub(super) tick: Tick,
}

#[derive(Debug, Clone)]
pub struct CoreConfig {
    /// Where this server is reached; for people.
    pub address: String,
    pub rules: Rules,
    pub link: LinkSettings,
    /// A connected worker without a heartbeat for so long is not there.
    pub heartbeat_timeout: Duration,
    /// How long a new attempt may be missing from a report.
    pub dispatch_grace: Duration,
    /// So many workers lost at once, and we suspect ourselves.
    pub mass_loss: MassLoss,
    /// What one attempt may leave behind.
    pub artifact_bytes_max: u64,
    pub sweep: SweepRules,
    pub retention: RetentionRules,
    /// What was given up without proof holds a concurrency slot for so long at most.
    pub doubt_max: Duration,
    /// What follows on every notice, whatever its task says.
    pub notices: Arc<Vec<HookWork>>,
}

/// A round that is decided and waits for its commit.
pub(super) struct Prepared {
    pub(super) commands: Vec<Command>,
    pub(super) round: Box<Round>,
    pub(super) batch: Batch,
    /// It was tried, and nobody knows what became of it.
    unsure: bool,
}

/// What became of a commit.
#[derive(Debug)]
pub enum Commit {
    Done,
    /// The database is away; the same batch is tried again.
    Retry(StoreError),
    /// The batch was refused and is now smaller pieces; call [`Core::take_split`].
    Split,
}

impl<S: Store> Core<S> {
    pub fn new(
        mut store: S,
        config: CoreConfig,
        definitions: Arc<Definitions>,
        bus: Bus,
        metrics: Arc<Metrics>,
        mut random: Random,
        tick: Tick,
    ) -> Result<Core<S>, StoreError> {
        let max_reconnect_delay = Duration::from_millis(config.link.max_reconnect_delay_ms);
        let hearing_rules = HearingRules::new(max_reconnect_delay, config.rules.recovery_window);
        let breaker = Breaker::new(config.mass_loss);
        let reader = store.reader();
        let strangers = !reader.workers()?.is_empty();
        let shared = store.is_shared();
        let last_mark = reader.hearing()?;
        let there =
            |row: &ServerRow| last_mark.is_some_and(|mark| siblings::marked_to_the_end(row, &mark, &hearing_rules));
        let servers = reader.servers()?;
        let alone = !shared || !servers.iter().any(there);
        let beside = if alone { None } else { hearing_rules.last_well(&servers) };
        let started = Hearing::start(last_mark, strangers, beside, tick, &hearing_rules);
        told(&started, &metrics);
        let id = ServerId(random.uuid(tick.now));
        let me = siblings::register(&mut store, id, &config.address, started.hearing.clocks(tick.now))?;
        let mut core = Core {
            store,
            cache: Cache::default(),
            ahead: Ahead::default(),
            definitions,
            queue: Queue::default(),
            roster: Roster::default(),
            links: BTreeMap::new(),
            knocks: BTreeMap::new(),
            let_in: Vec::new(),
            pings: 0,
            duplicates: BTreeSet::new(),
            strangers: BTreeSet::new(),
            scaler: Box::new(NoScaler),
            secrets: Arc::new(NoSecrets),
            breaker,
            config,
            evaluator: Templates,
            random,
            bus,
            metrics,
            beats: Beats::default(),
            begun: Begun::default(),
            next_sweep: tick.now,
            hearing: started.hearing,
            hearing_rules,
            siblings: Siblings::new(me, shared, &hearing_rules),
            leases: Leases::default(),
            must_look_around: false,
            noticed: Noticed::default(),
            has_news: false,
            schedules: Schedules::default(),
            outbox: Outbox::default(),
            keeper: Keeper::new(tick.now),
            groups: Groups::default(),
            amnesia: None,
            known_loss: None,
            unsaid_loss: None,
            strangers_gone: BTreeMap::new(),
            forgotten: None,
            restore: Restore::default(),
            fences: 0..0,
            next_check: tick.now,
            prepared: None,
            split: VecDeque::new(),
            in_piece: false,
            must_rebuild: true,
            waiting: None,
            aside: BTreeMap::new(),
            tick,
        };
        core.noticed.start(core.store.reader().last_event()?);
        core.first_mark(started)?;
        core.find_siblings()?;
        core.inherit_amnesia()?;
        core.rebuild()?;
        core.is_there_now()?;
        Ok(core)
    }

    /// Whom to ask about the machines of ephemeral workers.
    #[must_use]
    pub fn with_scaler(mut self, scaler: impl Scaler + 'static) -> Core<S> {
        self.scaler = Box::new(scaler);
        self
    }

    /// Where steps' secrets come from.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Arc<dyn SecretSource>) -> Core<S> {
        self.secrets = secrets;
        self
    }

    /// Who carries what is to be delivered outside. Without one it waits.
    #[must_use]
    pub fn with_post(mut self, post: Post) -> Core<S> {
        self.outbox.employ(post);
        self
    }

    /// Decides a round. It is not real before [`Core::commit`] says so.
    pub fn begin(&mut self, commands: Vec<Command>, tick: Tick) {
        self.tick = tick;
        if self.must_rebuild
            && let Err(error) = self.rebuild()
        {
            return self.wait_for_rows(commands, error);
        }
        if let Err(error) = self.tell_of_restore() {
            return self.wait_for_rows(commands, error);
        }
        if self.siblings.is_shared() {
            self.fences = 0..0;
        }
        let mut round = match self.listen() {
            Ok(round) => round,
            Err(error) => return self.wait_for_rows(commands, error),
        };
        let now = round.now;
        // Also of those that nobody asks for any more: they may be over. Whether the others' workers are there is to be seen.
        let left_alone = self.aside.len();
        self.aside.retain(|_, until| *until > now);
        self.must_look_around |= self.aside.len() < left_alone;
        let forgotten = self.forgotten.take();
        if let Some(evidence) = forgotten {
            self.rows_fell_behind(evidence, &mut round);
        }
        // First of all: it reads jobs again, and what this round decides must not be read over. Not with a piece of a refused
        // batch, which holds nothing but its own commands: whatever fails there is to blame.
        if !self.in_piece {
            self.doubt_the_old(&round);
            self.notice(&mut round);
        }
        if std::mem::take(&mut self.must_look_around)
            && let Err(error) = self.look_around(&mut round)
        {
            tracing::warn!(%error, "the workers' rows could not be read; they are tried again");
            self.must_look_around = true;
            // One that its siblings may take for dead does not know whether its links are still its own.
            if !self.hearing.is_fresh(now, &self.hearing_rules) {
                return self.decide_anew(commands, round, forgotten, error);
            }
        }
        // Not before all is decided again that a conflict left out: what is unsure is adopted only while it lasts.
        if !self.in_piece {
            self.settle_amnesia(&mut round);
        }
        // Also what is in a later piece of the same batch.
        round.hung_up = commands.iter().chain(self.split.iter().flatten()).filter_map(hung_up).collect();
        self.look_ahead(&commands);
        let mut kept = Vec::with_capacity(commands.len());
        for command in commands {
            if let Some(command) = self.run_at_once(command, now) {
                self.decide(&command, &mut round);
                kept.push(command);
            }
        }
        round.piece = std::mem::take(&mut self.in_piece);
        if !round.piece {
            self.settle_knocks(&mut round);
            self.drop_silent_links(&mut round);
        }
        // Who waited at the door until a link was gone says hello like anybody.
        for hello in std::mem::take(&mut self.let_in) {
            self.decide(&hello, &mut round);
            kept.push(hello);
        }
        self.ahead = Ahead::default();
        if let Some(error) = round.unread.take() {
            return self.decide_anew(kept, round, forgotten, error);
        }
        if !round.piece {
            self.ask_the_scaler(&mut round);
            self.settle_breaker(&mut round);
            self.flush_beats(&mut round);
            self.flush_begun(&mut round);
            self.sweep_if_due(&mut kept, &mut round);
            self.judge_silent_runners(&mut kept, &mut round);
            self.settle_schedules(&mut round);
            self.look_for_checks(&round);
            if now >= self.next_check {
                self.check_due(&mut kept, &mut round);
            }
            self.settle_groups(&mut round);
            self.dispatch(&mut round);
            self.post_due(&mut round);
        }
        self.prepare(kept, round);
    }

    /// Writes what was decided, then answers and sends.
    pub fn commit(&mut self) -> Commit {
        if self.must_rebuild {
            if let Err(error) = self.rebuild() {
                return Commit::Retry(error);
            }
            if let Some((commands, error)) = self.waiting.take() {
                self.begin(commands, self.tick);
                if self.waiting.is_some() {
                    return Commit::Retry(error);
                }
            }
        }
        let Some(prepared) = self.prepared.take() else { return Commit::Done };
        if prepared.batch.is_empty() {
            self.finish(prepared, &store::Committed::default());
            return Commit::Done;
        }
        let fate = if prepared.unsure { self.fate_of(&prepared.batch) } else { Ok(Fate::Absent) };
        let outcome = match fate {
            Ok(Fate::Committed(committed)) => Ok(committed),
            Ok(Fate::Absent) => {
                leases::about_to_write(&prepared.batch);
                self.store.commit(&prepared.batch)
            }
            Ok(Fate::Untold) => {
                self.leave_untold(prepared);
                return Commit::Split;
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(mut committed) => {
                if planted::is(Bug::ConflictIgnored) {
                    committed.conflicts.clear();
                }
                self.finish(prepared, &committed);
                Commit::Done
            }
            Err(error @ StoreError::Unavailable { .. }) => {
                self.metrics.commit_retries.inc();
                self.prepared = Some(Prepared { unsure: true, ..prepared });
                Commit::Retry(error)
            }
            Err(error @ StoreError::Moved { .. }) => {
                let mut prepared = prepared;
                tracing::info!(%error, "a round is decided anew");
                self.doubt_leases(&prepared.batch);
                self.take_back(&mut prepared.round);
                self.forget_everything();
                self.split.push_front(prepared.commands);
                Commit::Split
            }
            Err(error) => {
                self.split(prepared, &error);
                Commit::Split
            }
        }
    }

    /// The next piece of a batch that was split, to be begun and committed by itself.
    pub fn take_split(&mut self) -> Option<Vec<Command>> {
        let piece = self.split.pop_front()?;
        self.in_piece = true;
        Some(piece)
    }

    /// Whether something was committed since this was last asked that other servers should look at.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news) && !self.siblings.alone()
    }

    /// The clock that all servers have in common.
    pub(super) fn common_clock(&mut self) -> Result<Option<Time>, StoreError> {
        self.store.clock()
    }

    /// When the core wants to be called even if nothing comes.
    pub fn wake_at(&self) -> Time {
        let clocks = self.hearing.clocks(self.tick.now);
        let mark = self.hearing.next_mark(&self.hearing_rules);
        let next = self
            .next_check
            .min(mark)
            .min(self.next_notice())
            .min(self.next_knock(&clocks))
            .min(self.sweep_wake_at())
            .min(self.next_group_look())
            .min(self.outbox.wake_at())
            .min(self.retention_wake_at());
        self.beats.flush_at().into_iter().chain(self.begun.flush_at()).fold(next, Time::min)
    }

    /// A round at this tick, by the clocks as they stand.
    pub(super) fn listen(&mut self) -> Result<Box<Round>, StoreError> {
        self.look_up()?;
        let listened = self.hearing.listen(self.tick, self.siblings.alone(), &self.hearing_rules);
        // In a box: a round is large, and goes through many hands.
        let mut round = Box::new(Round::new(listened.hearing.clocks(self.tick.now)));
        self.put_mark(listened, &mut round);
        Ok(round)
    }

    fn put_mark(&self, listened: Listened, round: &mut Round) {
        if listened.mark {
            let (beat_at, beat_heard) = (round.now, round.clocks.heard);
            round.listened = Some(listened);
            round.server = Some(ServerRow { beat_at, beat_heard, ..self.siblings.me.clone() });
        }
    }

    /// What the start itself found out.
    fn first_mark(&mut self, started: Listened) -> Result<(), StoreError> {
        let mut round = Round::new(started.hearing.clocks(self.tick.now));
        self.put_mark(started, &mut round);
        self.commit_alone(&mut round)?;
        // It remembers nothing yet: where another server was faster with the mark, that one is older by a moment, and none was lost.
        self.forgotten = None;
        Ok(())
    }

    /// A change that concerns no job, or a look: done at once, outside the batch.
    fn run_at_once(&mut self, command: Command, now: Time) -> Option<Command> {
        match command {
            Command::WithStore(call) => {
                self.ahead = Ahead::default();
                call(&mut self.store, now);
                self.look_for_post();
            }
            Command::Changed => self.noticed.hurry(),
            Command::Prune(order, reply) => {
                self.ahead = Ahead::default();
                let _ = reply.send(self.prune(order));
            }
            Command::Inspect(look) => look(&self.roster),
            other => return Some(other),
        }
        None
    }

    pub(super) fn decide_by_rows(&mut self, command: &Command, round: &mut Round) {
        match command {
            Command::Submit(submit, _) => {
                let answer = self.submit(submit, round);
                round.submitted.push_back(answer);
            }
            Command::Event { job, event, .. } => {
                let answer = self.apply(*job, event, round);
                round.answered.push_back((*job, answer));
            }
            Command::Recover(order, _) => {
                let answer = self.recover(order, round);
                round.recovered.push_back(answer);
            }
            Command::Again(order, _) => {
                let answer = self.again(order, round);
                round.settled.push_back(answer);
            }
            Command::Fleet(order, _) => {
                let answer = self.fleet(order, round);
                round.ordered.push_back(answer);
            }
            Command::Triggers(book, _) => self.take_book(book),
            Command::Trigger(order, _) => {
                let answer = self.order_trigger(order, round);
                round.triggered.push_back(answer);
            }
            Command::Fire(id) => self.fire_again(id, round),
            Command::Link(LinkEvent::Hello { link, worker, hello, sender }) => {
                self.hello(*link, *worker, hello, sender.clone(), round);
            }
            Command::Link(LinkEvent::Messages { link, messages }) => self.link_messages(*link, messages, round),
            Command::Link(LinkEvent::Log(LogFrame { link, header, blocks })) => {
                self.log(*link, header, blocks, round);
            }
            Command::Link(LinkEvent::LogDropped { link, ticket }) => self.log_dropped(*link, *ticket, round),
            Command::Link(LinkEvent::Closed { link }) => self.link_closed(*link, round),
            Command::Delivered(delivered) => self.delivered(delivered, round),
            Command::Check(due) => self.check(*due, round),
            Command::Swept(swept) => self.swept(*swept, round),
            Command::WithStore(_) | Command::Changed | Command::Inspect(_) | Command::Prune(..) => {}
        }
    }

    /// Due checks are commands like any other, so that one which cannot be written is found like any other.
    fn check_due(&mut self, commands: &mut Vec<Command>, round: &mut Round) {
        let due = match self.store.due(round.now, CHECKS_PER_ROUND) {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "due checks could not be read; they are tried again");
                self.next_check = round.now + LOOK_AGAIN_SOON;
                return;
            }
        };
        if let Err(error) = self.close_due_logs(round) {
            tracing::warn!(%error, "logs to close could not be read; they are tried again");
        }
        if let Err(error) = self.fire_due(commands, round) {
            tracing::warn!(%error, "due triggers could not be read; they are tried again");
            round.look_again(round.now + LOOK_AGAIN_SOON);
        }
        round.checked = true;
        for due in due {
            if !self.is_set_aside(due.job) && self.sees_to(due, round) {
                self.check(due, round);
                commands.push(Command::Check(due));
            }
        }
    }

    pub(super) fn check(&mut self, due: Due, round: &mut Round) {
        let event = match due.step {
            None => {
                self.look_at_group_of(due.job);
                Event::CheckJob
            }
            Some(step) => self.check_event(due.job, step, round),
        };
        match self.apply(due.job, &event, round) {
            // Rejected: the round itself has moved it on since the row was read.
            Ok(()) | Err(EventError::Rejected(_) | EventError::NoSuchJob) => {}
            Err(EventError::Away(message)) => {
                tracing::warn!(job = %due.job, step = ?due.step, message, "what is due could not be read; it is tried again");
                round.look_again(round.now + LOOK_AGAIN_SOON);
            }
            Err(EventError::Internal(message)) => {
                tracing::error!(job = %due.job, step = ?due.step, message, "a check could not be carried out");
                self.set_aside(due.job, round.now);
                let event = format!("{due:?}");
                round.quarantine.push(QuarantineRow { job: Some(due.job), at: round.now, event, error: message });
            }
        }
    }

    /// A job that cannot be handled is left alone for a while, so that it holds up nobody else.
    pub(super) fn set_aside(&mut self, job: JobId, now: Time) {
        let until = if planted::is(Bug::ErrorDropsJob) { Time::MAX } else { now + ASIDE_FOR };
        self.aside.insert(job, until);
    }

    pub(super) fn is_set_aside(&self, job: JobId) -> bool {
        self.aside.contains_key(&job)
    }

    pub(super) fn prepare(&mut self, commands: Vec<Command>, mut round: Box<Round>) {
        self.set_log_deadlines(&mut round);
        self.say_loss(&mut round);
        self.say_restored(&mut round);
        self.claim_leases(&mut round);
        let batch = round.batch(&self.cache);
        self.metrics.queued.set(i64::try_from(self.queue.len()).unwrap_or(i64::MAX));
        self.prepared = Some(Prepared { commands, round, batch, unsure: false });
    }

    fn finish(&mut self, prepared: Prepared, committed: &store::Committed) {
        let Prepared { commands, round, batch, .. } = prepared;
        self.overtaken(&batch, committed);
        self.take_back_ends(&round, committed);
        self.has_said(&batch);
        self.begun.written(&batch.begun);
        let checks = batch.jobs.iter().filter_map(|j| j.row.check_at);
        let checks = checks.chain(batch.steps.iter().filter_map(|s| s.check_at));
        let checks = checks.chain(schedules::next_times(&batch));
        for time in checks.chain(batch.log_deadlines.iter().map(|l| l.close_at)) {
            self.next_check = self.next_check.min(time);
        }
        if round.checked {
            let soon = round.now + LOOK_AGAIN_SOON;
            let next = match self.store.next_check() {
                // What was set aside stays due, and must not be looked at without a pause.
                // So does what another server is to do first.
                Ok(Some(next)) if !self.aside.is_empty() || !self.siblings.alone() || round.leaves_due => {
                    next.max(soon)
                }
                Ok(next) => next.unwrap_or(Time::MAX),
                Err(_) => soon,
            };
            self.next_check = round.look_again_at().into_iter().fold(next, Time::min);
        }
        self.heard(&round, committed);
        self.have_reported(&round);
        self.post(&round, &batch, committed);
        self.metrics.committed(&batch, finished(&batch).count());
        self.publish(&batch, committed);
        self.has_news |= !batch.events.is_empty() || !batch.logs.is_empty() || !batch.fleet.is_empty();
        let again = self.answer(commands, round, committed);
        self.cache.trim(finished(&batch));
        if !again.is_empty() {
            self.split.push_back(again);
        }
    }

    /// Fills the dispatcher's queue and the roster from rows, and treats as lost every link that no server has.
    pub(super) fn rebuild(&mut self) -> Result<(), StoreError> {
        // A rebuild that failed half-way has read some of them, and others have moved them since.
        self.cache.clear();
        // What made this necessary may be that commits were lost: then nothing is believed before workers are asked.
        self.compare_memory()?;
        self.hear_of_losses()?;
        self.rebuild_index()?;
        self.doubt_schedules();
        let mut round = self.listen()?;
        self.look_around(&mut round)?;
        let left = round.left.clone();
        match self.commit_alone(&mut round) {
            Ok(()) => {}
            Err(error @ StoreError::Unavailable { .. }) => return Err(error),
            Err(_) => self.links_gone_one_by_one(&left)?,
        }
        self.next_check = self.tick.now;
        self.must_rebuild = false;
        Ok(())
    }

    /// One of them cannot be written: the others must not suffer for it, nor the ledger wait for it for ever. With each goes
    /// the word that its worker `left`: a server that is back would keep the link, and nobody would bring the attempt again.
    fn links_gone_one_by_one(&mut self, left: &BTreeMap<WorkerId, (Epoch, Heard)>) -> Result<(), StoreError> {
        self.cache.clear();
        self.rebuild_index()?;
        for CutOff { worker, attempt, place, seen } in self.cut_off(self.hearing.clocks(self.tick.now).heard) {
            let mut round = self.listen()?;
            self.link_gone(attempt, place, seen, &mut round);
            // What was said before is not to blame for anything; a mark is made with the next round.
            if round.jobs().next().is_none() {
                continue;
            }
            round.left.extend(left.get_key_value(&worker));
            match self.commit_alone(&mut round) {
                Ok(()) => {}
                Err(error @ StoreError::Unavailable { .. }) => return Err(error),
                Err(error) => {
                    tracing::error!(job = %place.job, %error, "a lost link could not be written; its job is set aside");
                    self.set_aside(place.job, self.tick.now);
                    self.cache.drop_job(place.job);
                }
            }
        }
        // Others left as well, and had nothing, or nothing that can be written.
        self.must_look_around = true;
        Ok(())
    }

    /// Writes a round that nobody waits for.
    pub(super) fn commit_alone(&mut self, round: &mut Round) -> Result<(), StoreError> {
        self.set_log_deadlines(round);
        self.claim_leases(round);
        let batch = round.batch(&self.cache);
        if !batch.is_empty() {
            let committed = self.store.commit(&batch)?;
            self.overtaken(&batch, &committed);
            self.heard(round, &committed);
            self.publish(&batch, &committed);
            self.has_news |= !batch.events.is_empty();
            // What follows for links here is said with the next round, which looks at what the rows demand of them.
            self.noticed.read_again(round.jobs().collect());
            self.cache.trim(finished(&batch));
        }
        Ok(())
    }

    /// The round's mark is in the database.
    fn heard(&mut self, round: &Round, committed: &store::Committed) {
        let Some(listened) = &round.listened else { return };
        self.siblings.me.beat_at = round.now;
        if committed.mark_moved {
            // Another server was faster with the same; this one's own row says that it is there all the same.
            self.hearing.marked(round.now);
            match self.store.reader().hearing() {
                Ok(Some(row)) => self.take_over_mark(row),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "the last mark could not be read"),
            }
        } else {
            self.hearing = listened.hearing;
            told(listened, &self.metrics);
        }
    }

    /// Another server moved these jobs, or won the same idempotency key: they are read again before anything is decided.
    fn overtaken(&mut self, batch: &Batch, committed: &store::Committed) {
        self.note_committed(batch, committed);
        self.learn_leases(committed, batch.now);
        self.triggers_overtaken(committed, batch.now);
        self.groups_overtaken(committed);
        for job in &committed.conflicts {
            self.cache.drop_job(*job);
        }
        if committed.conflicts.is_empty() {
            return;
        }
        // What was decided on them may have been about links; and it may be the rows that have gone back.
        self.must_look_around = true;
        if let Err(error) = self.compare_memory() {
            tracing::warn!(%error, "the last event could not be read");
        }
    }

    /// When something is due is remembered, and what is remembered may have been lost with a commit: the rows are asked
    /// with each mark.
    fn look_for_checks(&mut self, round: &Round) {
        if round.listened.is_some()
            && let Ok(Some(next)) = self.store.next_check()
        {
            self.check_soon(next);
        }
        if round.listened.is_some() {
            self.look_for_post();
        }
    }

    /// Something may be due that is not known here.
    pub(super) fn check_soon(&mut self, now: Time) {
        self.next_check = self.next_check.min(now);
    }

    pub(super) fn ctx(&mut self, clocks: Clocks) -> (Ctx<'_>, &mut Cache) {
        let random = self.random.bits();
        let Clocks { now, heard, verdicts_from } = clocks;
        let rules = &self.config.rules;
        let ctx = Ctx { now, heard, verdicts_from, random, rules, workers: &self.roster, evaluator: &self.evaluator };
        (ctx, &mut self.cache)
    }

    pub(super) fn next_fence(&mut self, now: Time) -> Result<engine::Fence, StoreError> {
        if self.fences.is_empty() {
            // Never below the clock in microseconds, so that fences grow across restored backups too.
            let floor = u64::try_from(now.0).unwrap_or(0);
            let count = if self.siblings.is_shared() { FENCE_BLOCK_SHARED } else { FENCE_BLOCK };
            let first = self.store.reserve_fences(count, floor)?;
            self.fences = first..first + count;
        }
        if planted::is(Bug::FenceRepeats) {
            return Ok(engine::Fence(self.fences.start));
        }
        Ok(engine::Fence(self.fences.next().expect("the block was just filled")))
    }

    /// The installation's time, as of the last round: other servers may have got further than this one's clock.
    pub fn now(&self) -> Time {
        self.tick.now
    }

    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }
}

/// What a mark brought that people should know.
fn told(listened: &Listened, metrics: &Metrics) {
    if !listened.deaf.is_zero() {
        metrics.deaf_ms.inc_by(u64::try_from(listened.deaf.as_millis()).unwrap_or(u64::MAX));
        tracing::warn!(
            deaf_secs = listened.deaf.as_secs_f64(),
            "nobody could be heard for a while; no silence is judged before workers had time to call in"
        );
    }
    if listened.alarm {
        metrics.unsettled.inc();
        tracing::error!(
            "the server never listens for long enough at a time; silence is judged from now on all the same. Is it \
             restarted again and again?"
        );
    }
}

/// The link that ends with this command.
fn hung_up(command: &Command) -> Option<LinkId> {
    match command {
        Command::Link(LinkEvent::Closed { link }) => Some(*link),
        _ => None,
    }
}

/// Jobs that end with this batch.
fn finished(batch: &Batch) -> impl Iterator<Item = JobId> {
    batch.jobs.iter().filter(|job| job.row.check_at.is_none()).map(|job| job.row.id)
}
