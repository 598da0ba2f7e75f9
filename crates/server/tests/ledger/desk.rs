//! A ledger on a desk: time moves when the test says so, workers are mailboxes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::deadline::Rules;
use engine::{Event, JobId, Time, WorkerId};
use protocol::attempt::{AttemptSpec, End, EndResult, Ticket};
use protocol::link::{
    Heartbeat, HeldAttempt, Hello, LinkSettings, LogHeader, PROTOCOL_VERSION, RefusedCode, ServerMessage, Welcome,
    WorkerMessage,
};
use server::access::SecretSource;
use server::bus::Bus;
use server::clock::Tick;
use server::dispatch::LinkId;
use server::ledger::{
    Again, AgainError, Command, Commit, Core, CoreConfig, Definitions, EventError, FleetAnswer, FleetError, FleetOrder,
    Forsake, IdempotencyKey, LinkEvent, LinkOut, LinkSender, LogFrame, Post, PruneOrder, RecoverOrder, Settled, Submit,
    SubmitError, Submitted, SweepRules, TriggerError, TriggerOrder,
};
use server::metrics::Metrics;
use server::random::Random;
use server::retention::{RetentionRules, Tally};
use server::schedule::Book;
use server::settings::DefinitionSettings;
use server::tasks::TaskRegistry;
use store::read::{AttemptView, EventView, LogState, StaleAttempt};
use store::rows::{DefinitionRow, NewWorker, StoredJob, TaskRow, TriggerRow};
use store::{Reader, Store};
use store_sqlite::SqliteStore;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

pub(crate) struct Desk<S: Store = SqliteStore> {
    pub(crate) core: Option<Core<S>>,
    pub(crate) now: Time,
    /// When the server was started last.
    started: Time,
    config: CoreConfig,
    pub(crate) reader: Arc<dyn Reader>,
    path: PathBuf,
    links: u64,
    /// Counts the starts of worker processes: raise it, and the next one that connects is another.
    pub(crate) session: u128,
    _folder: tempfile::TempDir,
}

/// A connected worker: what it was sent is in its mailbox.
pub(crate) struct Mailbox {
    pub(crate) link: LinkId,
    pub(crate) worker: WorkerId,
    pub(crate) welcome: Welcome,
    /// The server closed the link, as far as the mail was taken.
    pub(crate) closed: bool,
    queue: mpsc::Receiver<LinkOut>,
}

/// What a job looks like in the database.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) job: String,
    pub(crate) steps: Vec<String>,
}

pub(crate) fn rules() -> Rules {
    Rules { recovery_window: Duration::from_secs(120), ..Rules::default() }
}

impl Desk {
    pub(crate) fn new() -> Desk {
        Desk::with(|store| store)
    }

    /// One with other rules than most.
    pub(crate) fn configured(change: impl FnOnce(&mut CoreConfig)) -> Desk {
        Desk::with_config(|store| store, change)
    }

    /// The server dies and starts again on the same database.
    pub(crate) fn restart(&mut self) {
        drop(self.core.take());
        let store = SqliteStore::open(&self.path).expect("the database opens again");
        self.reader = store.reader();
        self.started = self.now;
        self.core = Some(core(store, &self.config, self.tick()));
    }

    /// The server is down for so long.
    pub(crate) fn down(&mut self, time: Duration) {
        self.now = self.now + time;
        self.restart();
    }
}

impl<S: Store> Desk<S> {
    /// One of several servers on one database, which starts now.
    pub(crate) fn beside(store: S, now: Time, seed: u8) -> Desk<S> {
        let (folder, config) = (tempfile::tempdir().expect("a temporary folder"), config());
        let reader = store.reader();
        let tick = Tick { now, mono: Duration::ZERO };
        let core = Some(seeded(store, &config, tick, [seed; 32]));
        let (path, links) = (PathBuf::new(), u64::from(seed) * 1_000_000);
        Desk { core, now, started: now, config, reader, path, links, session: 7, _folder: folder }
    }

    pub(crate) fn with(wrap: impl FnOnce(SqliteStore) -> S) -> Desk<S> {
        Desk::with_config(wrap, |_| {})
    }

    pub(crate) fn with_config(wrap: impl FnOnce(SqliteStore) -> S, change: impl FnOnce(&mut CoreConfig)) -> Desk<S> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("bowline.db");
        let store = wrap(SqliteStore::open(&path).expect("a new database"));
        let now = Time(1_700_000_000_000_000);
        let reader = store.reader();
        let mut config = config();
        change(&mut config);
        let core = Some(core(store, &config, Tick { now, mono: Duration::ZERO }));
        Desk { core, now, started: now, config, reader, path, links: 0, session: 7, _folder: folder }
    }

    /// Somebody delivers what is to be delivered.
    pub(crate) fn employ(&mut self, post: Post) {
        self.core = self.core.take().map(|core| core.with_post(post));
    }

    /// Where steps' secrets come from.
    pub(crate) fn entrust(&mut self, secrets: Arc<dyn SecretSource>) {
        self.core = self.core.take().map(|core| core.with_secrets(secrets));
    }

    /// The folder of the database.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self._folder.path()
    }

    /// What the server's two clocks say.
    pub(crate) fn tick(&self) -> Tick {
        Tick { now: self.now, mono: self.now.since(self.started) }
    }

    pub(crate) fn core(&mut self) -> &mut Core<S> {
        self.core.as_mut().expect("the server runs")
    }

    /// One round and its commit, with all pieces of a split.
    pub(crate) fn round(&mut self, commands: Vec<Command>) {
        self.carry_out(commands);
        let mut pieces = false;
        while let Some(piece) = self.core().take_split() {
            self.carry_out(piece);
            pieces = true;
        }
        if pieces {
            self.carry_out(Vec::new());
        }
        self.core().tidy(false);
    }

    fn carry_out(&mut self, commands: Vec<Command>) {
        let tick = self.tick();
        self.core().begin(commands, tick);
        let mut retries = 0;
        loop {
            match self.core().commit() {
                Commit::Done => return,
                Commit::Split => {}
                Commit::Retry(_) if retries < RETRIES_MAX => retries += 1,
                Commit::Retry(error) => panic!("the database is there, but: {error}"),
            }
        }
    }

    /// Time goes by, and the server is awake whenever it wants to be.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let wake = self.core().wake_at();
            self.now = wake.max(self.now).min(end);
            self.round(Vec::new());
            // What is due again at once was due before as well.
            if self.now >= end {
                return;
            }
            if self.core().wake_at() <= self.now {
                self.now = (self.now + Duration::from_millis(100)).min(end);
            }
        }
    }

    /// Time goes by, and the server does nothing: it is stopped, or its machine asleep.
    pub(crate) fn freeze(&mut self, time: Duration) {
        self.now = self.now + time;
        self.round(Vec::new());
    }

    pub(crate) fn configure(&mut self, change: impl FnOnce(&mut CoreConfig)) {
        change(&mut self.config);
    }

    pub(crate) fn submit(&mut self, yaml: &str) -> JobId {
        self.try_submit(yaml, None).expect("a good job").job
    }

    /// A job whose steps begin these tasks, by name.
    pub(crate) fn submit_with(&mut self, yaml: &str, tasks: &[(&str, &str)]) -> JobId {
        let (command, mut answer) = submit_with(yaml, tasks, None);
        self.round(vec![command]);
        answer.try_recv().expect("an answer").expect("a job").job
    }

    /// The jobs that this one began.
    pub(crate) fn children(&self, job: JobId) -> Vec<JobId> {
        self.reader.children(job, 100).expect("readable")
    }

    pub(crate) fn try_submit(&mut self, yaml: &str, key: Option<IdempotencyKey>) -> Result<Submitted, SubmitError> {
        let (command, mut answer) = submit(yaml, key);
        self.round(vec![command]);
        answer.try_recv().expect("an answer after the commit")
    }

    pub(crate) fn event(&mut self, job: JobId, event: Event) -> Result<(), EventError> {
        let (reply, mut answer) = oneshot::channel();
        self.round(vec![Command::Event { job, event, reply }]);
        answer.try_recv().expect("an answer after the commit")
    }

    pub(crate) fn again(&mut self, order: Again) -> Result<Settled, AgainError> {
        let (reply, mut answer) = oneshot::channel();
        self.round(vec![Command::Again(Box::new(order), reply)]);
        answer.try_recv().expect("an answer after the commit")
    }

    /// An operator gives up what has been silent for longer than this.
    pub(crate) fn recover(&mut self, what: Forsake, older_than: Duration) -> Vec<StaleAttempt> {
        self.recover_or_list(Some(what), older_than)
    }

    /// The same, only looked at.
    pub(crate) fn silent_for(&mut self, older_than: Duration) -> Vec<StaleAttempt> {
        self.recover_or_list(None, older_than)
    }

    fn recover_or_list(&mut self, what: Option<Forsake>, older_than: Duration) -> Vec<StaleAttempt> {
        let (reply, mut answer) = oneshot::channel();
        let order = RecoverOrder { what, older_than, by: "ann".to_owned() };
        self.round(vec![Command::Recover(order, reply)]);
        answer.try_recv().expect("an answer after the commit").expect("rows can be read")
    }

    pub(crate) fn order(&mut self, order: FleetOrder) -> Result<FleetAnswer, FleetError> {
        let (reply, mut answer) = oneshot::channel();
        self.round(vec![Command::Fleet(order, reply)]);
        answer.try_recv().expect("an answer after the commit")
    }

    /// What ended so long ago goes now, all of it.
    pub(crate) fn prune(&mut self, age: Duration) -> Tally {
        let (reply, mut answer) = oneshot::channel();
        self.round(vec![Command::Prune(PruneOrder { older_than: Some(age) }, reply)]);
        answer.try_recv().expect("an answer at once");
        for _ in 0..10_000 {
            if self.core().retention().ended_at.is_some() {
                return self.core().retention().tally;
            }
            self.pass(Duration::from_millis(10));
        }
        panic!("it never ends");
    }

    /// The server's tasks are these, and what they start by themselves is known.
    pub(crate) fn tasks(&mut self, texts: &[&str]) {
        self.take_book(book(texts));
    }

    pub(crate) fn take_book(&mut self, book: Arc<Book>) {
        let (reply, mut answer) = oneshot::channel();
        self.round(vec![Command::Triggers(book, reply)]);
        answer.try_recv().expect("an answer after the commit");
    }

    pub(crate) fn order_trigger(&mut self, order: TriggerOrder) -> Result<TriggerRow, TriggerError> {
        let (reply, mut answer) = oneshot::channel();
        self.round(vec![Command::Trigger(order, reply)]);
        answer.try_recv().expect("an answer after the commit")
    }

    pub(crate) fn trigger(&self, id: &str) -> TriggerRow {
        self.reader.trigger(id).expect("readable").expect("there")
    }

    pub(crate) fn enrol(&mut self, name: &str) -> WorkerId {
        let id = WorkerId(Uuid::from_u128(u128::from(self.next_link())));
        let worker =
            NewWorker { id, name: name.to_owned(), credential_hash: blake3(name), state_id: Uuid::from_u128(1) };
        let token = store::rows::TokenRow {
            id: id.0,
            kind: "enroll".to_owned(),
            role: String::new(),
            name: String::new(),
            hash: blake3(&format!("token of {name}")),
            tags: Vec::new(),
            uses_left: Some(1),
            created_at: self.now,
            expires_at: None,
            revoked_at: None,
        };
        let now = self.now;
        let store = self.core().store_mut();
        store.put_token(&token).expect("stored");
        assert_eq!(store.enroll(&token.hash, &worker, now).expect("enrolled"), store::Enrolled::Yes);
        id
    }

    /// A new worker with these tags, connected.
    pub(crate) fn worker(&mut self, name: &str, tags: &str, slots: u32) -> Mailbox {
        let id = self.enrol(name);
        self.connect(id, name, tags, slots, Vec::new())
    }

    pub(crate) fn connect(
        &mut self,
        id: WorkerId,
        name: &str,
        tags: &str,
        slots: u32,
        held: Vec<HeldAttempt>,
    ) -> Mailbox {
        let session = Uuid::from_u128(self.session);
        let last_epoch = self.core().store_mut().worker(id).expect("readable").expect("enrolled").epoch.0;
        self.knock(id, Hello { session, last_epoch, ..hello(name, tags, slots, held) }).welcomed()
    }

    /// Says hello; whether the door opens is another matter.
    pub(crate) fn knock(&mut self, worker: WorkerId, hello: Hello) -> Visitor {
        let link = LinkId(self.next_link());
        let (sender, queue) = LinkSender::channel();
        self.round(vec![Command::Link(LinkEvent::Hello { link, worker, hello: Box::new(hello), sender })]);
        Visitor { link, worker, queue }
    }

    pub(crate) fn hang_up_link(&mut self, link: LinkId) {
        self.round(vec![Command::Link(LinkEvent::Closed { link })]);
    }

    pub(crate) fn says(&mut self, mailbox: &Mailbox, messages: Vec<WorkerMessage>) {
        self.round(vec![Command::Link(LinkEvent::Messages { link: mailbox.link, messages })]);
    }

    pub(crate) fn heartbeat(&mut self, mailbox: &Mailbox) {
        let beat =
            Heartbeat { processed: 0, held: Vec::new(), free: 1, ahead: 0, draining: false, runners: Vec::new() };
        self.says(mailbox, vec![WorkerMessage::Heartbeat(beat)]);
    }

    pub(crate) fn hang_up(&mut self, mailbox: &Mailbox) {
        self.round(vec![Command::Link(LinkEvent::Closed { link: mailbox.link })]);
    }

    pub(crate) fn log(&mut self, mailbox: &Mailbox, header: LogHeader, blocks: Vec<u8>) {
        self.round(vec![Command::Link(LinkEvent::Log(LogFrame { link: mailbox.link, header, blocks }))]);
    }

    /// Takes an offer through accept and go.
    pub(crate) fn start(&mut self, mailbox: &mut Mailbox) -> AttemptSpec {
        let spec = mailbox.offer();
        self.says(mailbox, vec![WorkerMessage::Accept { ticket: spec.ticket }]);
        assert_eq!(mailbox.go(), spec.ticket);
        spec
    }

    pub(crate) fn ends(&mut self, mailbox: &Mailbox, ticket: Ticket, code: i32) {
        self.says(mailbox, vec![WorkerMessage::Ended { ticket, end: exited(code) }]);
    }

    pub(crate) fn stored(&self, job: JobId) -> StoredJob {
        self.reader.job(job).expect("readable").expect("there")
    }

    pub(crate) fn seen(&self, job: JobId) -> Seen {
        let stored = self.stored(job);
        Seen { job: stored.job.state, steps: stored.steps.into_iter().map(|s| s.state).collect() }
    }

    pub(crate) fn check(&self, job: JobId, expected: &str) {
        let seen = self.seen(job);
        assert_eq!(format!("{}: {}", seen.job, seen.steps.join(" ")), expected);
    }

    pub(crate) fn attempts(&self, job: JobId) -> Vec<AttemptView> {
        self.reader.attempts(job).expect("readable")
    }

    pub(crate) fn events(&self, job: JobId) -> Vec<EventView> {
        self.reader.events(Some(job), 0, 1_000).expect("readable")
    }

    pub(crate) fn log_state(&self, ticket: Ticket) -> LogState {
        self.reader.log_state(engine::AttemptId(ticket.attempt)).expect("readable")
    }

    fn next_link(&mut self) -> u64 {
        self.links += 1;
        self.links
    }
}

/// Who said hello.
pub(crate) struct Visitor {
    pub(crate) link: LinkId,
    worker: WorkerId,
    queue: mpsc::Receiver<LinkOut>,
}

impl Visitor {
    pub(crate) fn welcomed(mut self) -> Mailbox {
        let Ok(LinkOut::Message(ServerMessage::Welcome(welcome))) = self.queue.try_recv() else {
            panic!("a welcome comes first");
        };
        Mailbox { link: self.link, worker: self.worker, welcome, closed: false, queue: self.queue }
    }

    /// Why it was refused; none if it has heard nothing yet.
    pub(crate) fn refused(&mut self) -> Option<(RefusedCode, String)> {
        match self.queue.try_recv() {
            Ok(LinkOut::Message(ServerMessage::Refused { code, message })) => Some((code, message)),
            Err(_) => None,
            Ok(other) => panic!("a refusal, not {other:?}"),
        }
    }
}

impl Mailbox {
    pub(crate) fn take(&mut self) -> Vec<ServerMessage> {
        let mut messages = Vec::new();
        while let Ok(out) = self.queue.try_recv() {
            match out {
                LinkOut::Message(message) => messages.push(message),
                LinkOut::Close => self.closed = true,
            }
        }
        messages
    }

    pub(crate) fn one(&mut self) -> ServerMessage {
        let mut messages = self.take();
        assert_eq!(messages.len(), 1, "one message, not {messages:?}");
        messages.remove(0)
    }

    pub(crate) fn none(&mut self) {
        let messages = self.take();
        assert!(messages.is_empty(), "no message, not {messages:?}");
    }

    pub(crate) fn offer(&mut self) -> AttemptSpec {
        match self.one() {
            ServerMessage::Offer { spec, .. } => *spec,
            other => panic!("an offer, not {other:?}"),
        }
    }

    pub(crate) fn go(&mut self) -> Ticket {
        match self.one() {
            ServerMessage::Go { ticket, .. } => ticket,
            other => panic!("a go, not {other:?}"),
        }
    }

    /// The numbers of the questions that were answered with yes, if any; the rest of the mail is thrown away.
    pub(crate) fn renewed(&mut self) -> Option<Vec<u64>> {
        std::iter::from_fn(|| self.queue.try_recv().ok()).find_map(|out| match out {
            LinkOut::Message(ServerMessage::Renewed { renewals }) => Some(renewals.iter().map(|r| r.n).collect()),
            _ => None,
        })
    }
}

fn config() -> CoreConfig {
    let link = LinkSettings {
        heartbeat_ms: 30_000,
        ping_ms: 10_000,
        max_reconnect_delay_ms: 60_000,
        dispatch_ack_ms: 10_000,
        runner_heartbeat_ms: 30_000,
        caretaker_after_ms: None,
    };
    // Most tests do not care for heartbeats.
    CoreConfig {
        address: "here".to_owned(),
        rules: rules(),
        link,
        heartbeat_timeout: Duration::from_secs(86_400),
        dispatch_grace: Duration::from_secs(10),
        mass_loss: server::ledger::MassLoss { min_workers: 5, fraction: 0.5, within: Duration::from_secs(10) },
        doubt_max: server::ledger::DOUBT_MAX,
        artifact_bytes_max: 1 << 20,
        sweep: SweepRules::default(),
        retention: RetentionRules::default(),
        notices: Arc::default(),
    }
}

fn core<S: Store>(store: S, config: &CoreConfig, tick: Tick) -> Core<S> {
    seeded(store, config, tick, [u8::try_from(tick.now.0.rem_euclid(251)).expect("small"); 32])
}

fn seeded<S: Store>(store: S, config: &CoreConfig, tick: Tick, seed: [u8; 32]) -> Core<S> {
    let random = Random::from_seed(seed);
    let (definitions, metrics) = (Arc::new(Definitions::default()), Arc::new(Metrics::default()));
    Core::new(store, config.clone(), definitions, Bus::default(), metrics, random, tick).expect("the ledger starts")
}

/// What these tasks start by themselves.
pub(crate) fn book(texts: &[&str]) -> Arc<Book> {
    book_with_notices(texts, &[])
}

/// The same where these tasks follow on notices.
pub(crate) fn book_with_notices(texts: &[&str], named: &[&str]) -> Arc<Book> {
    let row = |(n, text): (usize, &&str)| TaskRow {
        name: text.lines().next().and_then(|line| line.strip_prefix("name: ")).map_or(n.to_string(), str::to_owned),
        source: (*text).to_owned(),
        pushed_at: Time(0),
        pushed_by: String::new(),
    };
    let rows: Vec<TaskRow> = texts.iter().enumerate().map(row).collect();
    let named = named.iter().map(|name| (*name).to_owned()).collect();
    let tasks = TaskRegistry::with_notices(DefinitionSettings::default(), None, &rows, Time(0), named);
    for listing in tasks.all() {
        assert!(listing.good.is_some(), "a good task: {:?}", listing.diagnostics);
    }
    tasks.book()
}

/// What a server knows that has only this version of a task.
pub(crate) fn broken_book(name: &str, text: &str) -> Arc<Book> {
    let (name, source) = (name.to_owned(), text.to_owned());
    let row = TaskRow { name, source, pushed_at: Time(0), pushed_by: String::new() };
    let tasks = TaskRegistry::new(DefinitionSettings::default(), None, &[row], Time(0));
    assert!(tasks.all().iter().all(|listing| listing.good.is_none()), "a task with errors");
    tasks.book()
}

pub(crate) fn submit(
    yaml: &str,
    key: Option<IdempotencyKey>,
) -> (Command, oneshot::Receiver<Result<Submitted, SubmitError>>) {
    submit_with(yaml, &[], key)
}

/// The same with the tasks that its steps begin, by name.
pub(crate) fn submit_with(
    yaml: &str,
    tasks: &[(&str, &str)],
    key: Option<IdempotencyKey>,
) -> (Command, oneshot::Receiver<Result<Submitted, SubmitError>>) {
    let mut settings = DefinitionSettings::default();
    settings.tasks = tasks.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let (task, problems) = spec::task::parse(yaml, "test.yaml", &settings.options());
    let task = task.unwrap_or_else(|| panic!("a good task: {problems:?}"));
    let bound = server::tasks::bind(&task.definition, &settings).expect("good tasks");
    let row = DefinitionRow { hash: blake3(yaml), source: yaml.to_owned(), settings: settings.to_json() };
    let submit = Submit {
        definition: bound.definition,
        row,
        children: bound.children.into_iter().map(|(row, _)| row).collect(),
        input: serde_json::json!({}),
        submitted_by: "the test".to_owned(),
        idempotency: key,
        trigger: None,
    };
    let (reply, answer) = oneshot::channel();
    (Command::Submit(Box::new(submit), reply), answer)
}

pub(crate) fn hello(name: &str, tags: &str, slots: u32, held: Vec<HeldAttempt>) -> Hello {
    Hello {
        protocol: PROTOCOL_VERSION,
        version: "test".to_owned(),
        platform: "linux".to_owned(),
        hostname: "here".to_owned(),
        pid: 1,
        name: name.to_owned(),
        tags: tags.split_whitespace().map(str::to_owned).collect(),
        slots,
        session: Uuid::from_u128(7),
        boot_id: "boot".to_owned(),
        state_id: Uuid::from_u128(1),
        machine: "machine".to_owned(),
        started_at_ms: 0,
        last_epoch: 0,
        ephemeral: false,
        no_reconnect: false,
        caretaker: false,
        processed: 0,
        scan_complete: true,
        offline_ms: 0,
        held,
        kept: None,
        features: protocol::features::all(),
    }
}

pub(crate) fn exited(code: i32) -> End {
    End {
        result: EndResult::Exited { code },
        stopped: None,
        log_last_seq: 0,
        output: std::collections::BTreeMap::default(),
        output_error: None,
        duration_ms: 1,
        cpu_ms: 1,
        memory_bytes_max: 1,
        cleanup: None,
        artifacts: None,
    }
}

pub(crate) fn blake3(text: &str) -> [u8; 32] {
    *blake3::hash(text.as_bytes()).as_bytes()
}

/// A database that is away for a moment is there again after so many tries.
const RETRIES_MAX: u32 = 10;

pub(crate) const ONE: &str = "name: one\nsteps:\n  a: { run: 'true' }\n";
