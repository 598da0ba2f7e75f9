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
    OfferedToTwo "offered-to-two" 11 "a step stays in the queue while it is offered, and whoever accepts may start it"
    OfferTimerOutlivesGrant "offer-timer-outlives-grant" 12 "the timer of an answered offer puts the running step back into the queue"
    StaleEndCounts "stale-end-counts" 13 "the end of an attempt that was given up is taken for the current one's"
    RetryRevivesCancelled "retry-revives-cancelled" 15 "a cancel forgets steps that wait for their retry, and they run"
    WindowRevivesCancelled "window-revives-cancelled" 15 "a cancel forgets steps that are cut off, and the end of their window repeats them"
    WritesRepeated "writes-repeated" 20 "what may have written is repeated after a loss as if it had only read"
    OneExecutionTooMany "one-execution-too-many" 49 "`attempts: 3` runs four times"
    FailureReleases "failure-releases" 0 "what needs a step starts although that step failed"
    VerdictTurns "verdict-turns" 51 "a worker that wakes after the verdict turns the failed job into a success"
    LeaseOutlastsWindow "lease-outlasts-window" 0 "a runner may go on for longer than the server waits for it"
    IntentCountsAsVoid "intent-counts-as-void" 20 "a step whose runner died without a record counts as never started"
    RemainsLeftAlive "remains-left-alive" 17 "a dead runner's step is reported gone while its processes live"
    ReportedOnce "reported-once" 28 "the final report is sent once, on one link, and never again"
    LogCompleteTooEarly "log-complete-too-early" 0 "a log counts as whole as soon as its end is known, whatever is still to be sent"
    GoBeforeCommit "go-before-commit" 0 "leave to start is sent before the start is committed"
    FenceRepeats "fence-repeats" 0 "a block of fences is never used up: attempts share one"
}

impl Bug {
    pub fn by_name(name: &str) -> Option<Bug> {
        Bug::ALL.iter().copied().find(|bug| bug.name() == name)
    }
}
