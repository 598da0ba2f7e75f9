//! The list. A case number is that of the table in docs/testing.md.

/// Makes the enum and what is said of each, from one list.
macro_rules! bugs {
    ($($bug:ident $name:literal $case:literal $imitates:literal)*) => {
        /// A wrong decision that can be planted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Bug {
            $(#[doc = $imitates] $bug,)*
        }

        impl Bug {
            pub const ALL: &[Bug] = &[$(Bug::$bug),*];

            /// As it is chosen by.
            pub fn name(self) -> &'static str {
                match self {
                    $(Bug::$bug => $name,)*
                }
            }

            /// The case that it imitates, by its number; 0 where it breaks a rule of our own.
            pub fn case(self) -> u32 {
                match self {
                    $(Bug::$bug => $case,)*
                }
            }

            /// What goes wrong.
            pub fn imitates(self) -> &'static str {
                match self {
                    $(Bug::$bug => $imitates,)*
                }
            }
        }
    };
}

bugs! {
    DeafTimeCounts "deaf-time-counts" 1 "the time in which the server was down or deaf counts as the workers' silence"
    StartFlipsSiblings "start-flips-siblings" 2 "a server that starts takes what its siblings' workers hold for cut off"
    ReturnNotBelieved "return-not-believed" 3 "a worker that comes back cannot take up its own step again"
    OldCloseEndsNewLink "old-close-ends-new-link" 4 "the end of an old connection tears down the new one of the same worker"
    DeadLinkStays "dead-link-stays" 5 "a connection that closes before anything was handed out on it stays registered"
    IdentityNotAsked "identity-not-asked" 6 "whoever says hello with a worker's credential is that worker"
    StrangerNotAdopted "stranger-not-adopted" 7 "an attempt that the server does not know is not taken up, and its step is handed out again"
    OfferedToTwo "offered-to-two" 11 "one step is offered to two workers, and whoever accepts may start it"
    OfferTimerOutlivesGrant "offer-timer-outlives-grant" 12 "the timer of an answered offer puts the running step back into the queue"
    StaleEndCounts "stale-end-counts" 13 "the end of an attempt that was given up is taken for the current one's"
    SilentRunnerBeats "silent-runner-beats" 14 "a worker's own sign of life counts as its silent runner's"
    RetryRevivesCancelled "retry-revives-cancelled" 15 "a cancel forgets steps that wait for their retry, and they run"
    WindowRevivesCancelled "window-revives-cancelled" 15 "a cancel forgets steps that are cut off, and the end of their window repeats them"
    ForgottenOnReport "forgotten-on-report" 16 "a worker throws an attempt away with its report, heard or not, and the step runs again"
    StopNotSent "stop-not-sent" 17 "a step is marked as stopped, and nobody tells its runner"
    StrayRunsOn "stray-runs-on" 17 "a worker that comes back with a cancelled or replaced attempt is told to finish it"
    RemainsLeftAlive "remains-left-alive" 17 "a dead runner's step is reported gone while its processes live"
    ConflictIgnored "conflict-ignored" 18 "a server that lost the race for a job goes on as if it had won"
    LossesWithoutEnd "losses-without-end" 19 "a step that costs worker after worker is handed to the next one for ever"
    LossSpendsRetry "loss-spends-retry" 19 "a lost worker spends an execution of the retry policy"
    WritesRepeated "writes-repeated" 20 "what may have written is repeated after a loss as if it had only read"
    IntentCountsAsVoid "intent-counts-as-void" 20 "a step whose runner died without a record counts as never started"
    OfferWithoutDeadline "offer-without-deadline" 21 "an offer that nobody answers stands for ever"
    CancelAwaitsTheLost "cancel-awaits-the-lost" 22 "a cancelled step waits for the answer of a worker that is gone"
    CancelRefreshesWindow "cancel-refreshes-window" 23 "a cancel gives the worker that is gone its whole window again"
    ErrorDropsJob "error-drops-job" 24 "a job that could not be written once is never looked at again"
    PriorityIgnored "priority-ignored" 0 "of steps that want the same of a worker the one with the lowest priority is served first"
    SlotLeaks "slot-leaks" 25 "a failed step keeps its worker's slot"
    RefusalsCount "refusals-count" 27 "a busy worker's refusals use up the step's offers"
    ReportedOnce "reported-once" 28 "the final report is sent once, on one link, and never again"
    ReplayDropped "replay-dropped" 29 "log lines that come in a burst are thrown away without a word"
    EndLostInBurst "end-lost-in-burst" 29 "an end that comes in one go with the lines before it is thrown away with them, and counts as heard"
    ForgetBeforeCommit "forget-before-commit" 30 "a worker may forget an attempt before its end is committed"
    LinesTwice "lines-twice" 31 "what is sent again after an outage is stored again"
    EndedByEach "ended-by-each" 44 "each of several steps that end in the same moment ends the job"
    HooksByEach "hooks-by-each" 44 "what follows on a job is made once by each of the steps that end in its last moment"
    WhyNamesAnother "why-names-another" 43 "`why` blames another worker than the one that has the step"
    OneExecutionTooMany "one-execution-too-many" 49 "`attempts: 3` runs four times"
    VerdictTurns "verdict-turns" 51 "a worker that wakes after the verdict turns the failed job into a success"
    MissedRunNeverHappens "missed-run-never-happens" 52 "a run that was due while no server was there never happens"
    NoTimeToCallIn "no-time-to-call-in" 55 "after an outage silence is judged before anybody could call in"
    GivenUpAfterThreeTries "given-up-after-three-tries" 55 "a result that could not be stored three times, as the database is away, is dropped"
    SubmittedTwice "submitted-twice" 60 "a submit whose answer was lost makes a second job when it is repeated"
    FailureReleases "failure-releases" 0 "what needs a step starts although that step failed"
    ItemKeepsTurn "item-keeps-turn" 0 "an item that failed keeps its turn, and with `max_parallel` the next never gets one"
    TurnsNotCounted "turns-not-counted" 0 "more items of a step run at once than its `max_parallel` says"
    RetryAtOnce "retry-at-once" 0 "a step that is to be tried again after a delay is tried again at once"
    WaitCutShort "wait-cut-short" 0 "a step runs when half of its environment's wait is over"
    FailFastForgets "fail-fast-forgets" 0 "`fail_fast` ends the items that run, and forgets those that wait for their turn"
    ReviewerCountsTwice "reviewer-counts-twice" 0 "one person's two approvals stand for those of two"
    SubmitterReviews "submitter-reviews" 0 "who submitted a job approves it, where somebody else must"
    HoldForgotten "hold-forgotten" 0 "after the wait of its environment a step runs, and no reviewer is asked"
    NobodyAwaited "nobody-awaited" 0 "a step fails for want of a worker while the one that fits is only cut off"
    RerunWithoutGround "rerun-without-ground" 0 "a person's rerun is taken while the attempt may still run"
    LeaseIgnored "lease-ignored" 0 "a step that asked to end with its lease runs on"
    LeaseOutlastsWindow "lease-outlasts-window" 0 "a runner may go on for longer than the server waits for it"
    LeaseFromLastQuestion "lease-from-last-question" 0 "a lease is counted from the last question, answered or not"
    WorkerRenews "worker-renews" 0 "a worker that is cut off renews its steps' leases itself"
    CleanupBesideTheStep "cleanup-beside-the-step" 36 "a cancelled step is cleaned up after while it still runs"
    CleanupNotAwaited "cleanup-not-awaited" 36 "a cancelled step is given up when its grace is over, in the middle of its cleanup"
    CleanupAfterTheLease "cleanup-after-the-lease" 0 "a step that ended with its lease is cleaned up after, beside its successor"
    LateGoUsed "late-go-used" 0 "leave to start is used however late it comes"
    GoBeforeCommit "go-before-commit" 0 "leave to start is sent before the start is committed"
    FenceRepeats "fence-repeats" 0 "a block of fences is never used up: attempts share one"
    CopyAtHome "copy-at-home" 0 "a copied state folder speaks for what lives under its original"
    DeletedIsGone "deleted-is-gone" 0 "what lives in folders that were deleted is reported as not there"
    PowerCutVoids "power-cut-voids" 0 "a start whose claim went with the power counts as never made"
    LogCompleteTooEarly "log-complete-too-early" 0 "a log counts as whole as soon as its end is known, whatever is still to be sent"
    KeptNotAskedFor "kept-not-asked-for" 0 "after commits were lost, workers are not asked for what they have put away"
    HooksForgotten "hooks-forgotten" 42 "a job ends, and what follows on that is left to memory, which is gone"
    RecoveredHookAlways "recovered-hook-always" 0 "what follows on a job that recovered follows on every one that succeeds"
    ExpectedAndForgotten "expected-and-forgotten" 0 "a job or a step takes longer than expected, and nobody looks at it then"
    NoticeWithEachAttempt "notice-with-each-attempt" 0 "a step that takes too long again gives notice again"
    ServerTellsNobody "server-tells-nobody" 0 "what a server's own configuration lets follow on a notice does not follow"
    SentBeforeItArrives "sent-before-it-arrives" 42 "a word counts as delivered when it is sent, and is never sent again"
    ChildEndNotTold "child-end-not-told" 0 "a child job ends, and the step that waits for it does not hear of it"
    ChildNotCalledOff "child-not-called-off" 0 "a job that is cancelled leaves the jobs that it began running"
    TiesIgnored "ties-ignored" 0 "a job and its child are written apart: where one has moved, the other is written all the same"
    CalledAtRest "called-at-rest" 0 "a trigger that was told to rest makes a job when it is called"
    TriggerFiresTwice "trigger-fires-twice" 0 "each of several servers makes a job for the same time of a trigger"
    FamilyTornApart "family-torn-apart" 16 "a child job that is old goes while its parent waits, and its step runs again"
    PrunedInDoubt "pruned-in-doubt" 0 "a job is deleted while an attempt of it may still run"
    SecretMissingIgnored "secret-missing-ignored" 0 "a runner starts its step although a secret of it was not handed over"
    SecretInSpec "secret-in-spec" 0 "a secret travels in the offer, and is written down with it"
    SlotFreedAtVerdict "slot-freed-at-verdict" 25 "a concurrency slot is free as soon as its job is over, though an attempt of it may still run"
    GroupSlotLeaks "group-slot-leaks" 25 "concurrency slots are counted, and a job that fails does not give its own back"
    DeadlockStands "deadlock-stands" 0 "a child job waits for the concurrency slot of the job that waits for it, and nobody sees that"
    NewestCancelled "newest-cancelled" 0 "a job that is to take the place of the oldest of its concurrency group has the newest cancelled"
    ReportedBeforeStored "reported-before-stored" 0 "a step's end is reported before the files that it leaves are stored"
    FetchSkipped "fetch-skipped" 0 "a step starts before the files of the steps before it are in its folder"
    LeaseFenceIgnored "lease-fence-ignored" 0 "a server that slept past the end of its lease writes as if it still had it"
    LeaseOutlivesHolder "lease-outlives-holder" 0 "a server dies, and nobody ever takes over what it alone was to do"
    UnsafeStartInAmnesia "unsafe-start-in-amnesia" 0 "after commits were lost, steps start before all workers have said what they have"
    FailuresLeaveNothing "failures-leave-nothing" 0 "a step that is to leave its files however it ends leaves none when it fails"
    WorkerDeletedTooSoon "worker-deleted-too-soon" 0 "a worker is deleted as soon as it is away, and not when it has been for long"
    DoubtForgotten "doubt-forgotten" 0 "the database was restored: what was waiting for a worker is held, and what comes after it starts by itself"
    WaitingForgotten "waiting-forgotten" 0 "a worker comes back with an attempt that was given up before its leave came; it lets go of it, and nobody hears that it is over"
    HeldChildNotTold "held-child-not-told" 0 "a child job waits for a person, and the clock of the job that began it goes on"
}

impl Bug {
    pub fn by_name(name: &str) -> Option<Bug> {
        Bug::ALL.iter().copied().find(|bug| bug.name() == name)
    }
}
