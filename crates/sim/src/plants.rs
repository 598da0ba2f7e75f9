//! Whether planted bugs are found: by which checker, after how many seeds. Called by `sim --planted` and by the test that
//! keeps the simulator honest.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use planted::Bug;

use crate::case::Case;
use crate::check::Finding;
use crate::faults;
use crate::setup::{RetentionPlan, Scale, Setup};
use crate::story::Story;
use crate::workload::{Behaviour, CallPlan, CleanPlan, Kind, SchedulePlan, StepPlan, WhenFull};

/// For each bug the world and the seed that showed it first, and the checker that saw it, one line each; written by `sim --planted
/// all --write`.
const KEPT: &str = include_str!("../planted.txt");

/// The normal budget: so many ordinary worlds, one seed after the other, with faults as they are always rolled; a run of `make sim` has
/// done as many in its first seconds.
pub const ORDINARY_SEEDS: u64 = 12;

/// And, for what hides from those, so many worlds of its own: with the faults that it is about and no others, and work that gives it
/// occasion. What hides from all of these is not found.
pub const SEEDS_MAX: u64 = 60;

/// As many faults as an ordinary world has.
const FAULTS: usize = 40;

/// Of those that last: with more of them nobody would be left to go on with what others have lost.
const LONG_FAULTS: usize = 12;

/// Cases that every simulator of a job system should find.
pub const CASES: [u32; 29] =
    [1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24, 28, 29, 30, 31, 36, 43, 44, 51, 55];

/// How a planted bug was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caught {
    pub world: Worlds,
    pub seed: u64,
    /// Seeds that it took in such worlds, this one included.
    pub after: u64,
    pub by: Finding,
}

/// Where a bug is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worlds {
    /// As a campaign has them.
    Ordinary,
    /// With what the bug is about, and nothing else.
    Own,
}

impl Worlds {
    const ALL: [Worlds; 2] = [Worlds::Ordinary, Worlds::Own];

    fn word(self) -> &'static str {
        match self {
            Worlds::Ordinary => "ordinary",
            Worlds::Own => "own",
        }
    }

    pub fn case(self, bug: Bug, seed: u64) -> Case {
        match self {
            Worlds::Ordinary => Case::of(seed),
            Worlds::Own => provoking(bug, seed),
        }
    }

    /// Whether no checker finds anything in it without the bug.
    fn is_well(self, bug: Bug, seed: u64) -> bool {
        /// Ordinary worlds are the same for every bug.
        static KNOWN: Mutex<BTreeMap<u64, bool>> = Mutex::new(BTreeMap::new());
        let look = || first_finding(&self.case(bug, seed), None).is_none();
        match self {
            Worlds::Ordinary => *KNOWN.lock().expect("nothing panics with it").entry(seed).or_insert_with(look),
            Worlds::Own => look(),
        }
    }

    /// Plants this bug, and nothing else, in one of these worlds after the other, until a checker finds something wrong.
    fn hunt(self, bug: Bug, seeds: Range<u64>) -> Option<Caught> {
        let first = seeds.start;
        seeds.into_iter().find_map(|seed| {
            let case = self.case(bug, seed);
            let by = first_finding(&case, Some(bug))?;
            // A world in which something is wrong anyway shows nothing.
            self.is_well(bug, seed).then(|| Caught { world: self, seed, after: seed - first + 1, by })
        })
    }
}

/// The bugs of these names, or all of them; none if one is not there, or this build has none.
pub fn named(names: &str) -> Option<Vec<Bug>> {
    let by_name = || names.split(',').map(Bug::by_name).collect();
    let bugs = if names == "all" { Some(Bug::ALL.to_vec()) } else { by_name() };
    bugs.filter(|_| planted::POSSIBLE)
}

pub fn names() -> String {
    Bug::ALL.iter().map(|bug| bug.name()).collect::<Vec<&str>>().join(", ")
}

/// Looks for this bug within the normal budget, and in at most `own` worlds of its own. The bug is in the whole process while this
/// runs: nobody else may run a world in it.
pub fn hunt(bug: Bug, first: u64, own: u64) -> Option<Caught> {
    let ordinary = || Worlds::Ordinary.hunt(bug, first..first.saturating_add(ORDINARY_SEEDS));
    ordinary().or_else(|| Worlds::Own.hunt(bug, first..first.saturating_add(own)))
}

fn first_finding(case: &Case, bug: Option<Bug>) -> Option<Finding> {
    planted::choose(bug);
    let verdict = case.run(&Story::untold(), None);
    planted::choose(None);
    verdict.findings.into_iter().next()
}

/// This seed's world, with what the bug is about and no other faults: what one fault shows is found sooner without the rest.
pub fn provoking(bug: Bug, seed: u64) -> Case {
    let Provocation { faults, count, servers, work, schedules, retention, groups } = provocation(bug);
    let scale = Scale { servers: Some(servers), ..Scale::default() };
    let faults = faults::roll_only(seed, &Setup::scaled(seed, scale), faults, count);
    let schedules = if schedules { SchedulePlan::roll_some(seed) } else { Vec::new() };
    let retention = retention.then(|| RetentionPlan::roll_some(seed));
    let mut case = Case { faults, schedules, retention, ..Case::scaled(seed, scale) };
    if bug == Bug::CalledAtRest {
        case.calls = CallPlan::roll_some(seed, &Setup::scaled(seed, scale));
    }
    case.tells |= bug == Bug::ServerTellsNobody;
    for (number, job) in case.jobs.iter_mut().enumerate() {
        job.leave_groups();
        if let Some((limit, when_full)) = groups.filter(|_| number.is_multiple_of(3) || bug == Bug::DeadlockStands) {
            job.join("ga", limit, when_full);
        }
        let children = job.steps.iter_mut().filter_map(|step| step.child.as_mut());
        for child in children.filter(|_| bug == Bug::DeadlockStands) {
            child.job.join("ga", 1, WhenFull::Queue);
        }
    }
    match work {
        Work::AsRolled => {}
        Work::LongAndCleaned => {
            case.jobs.iter_mut().filter_map(|job| job.steps.first_mut()).for_each(is_cleaned_up_after);
        }
        Work::Long => case.jobs.iter_mut().filter_map(|job| job.steps.first_mut()).for_each(outlasts_a_window),
        Work::JustSubmitted => {
            for (fault, job) in case.faults.iter_mut().zip(case.jobs.iter().cycle()) {
                fault.at = job.at.saturating_sub(BEFORE_SUBMIT);
            }
        }
    }
    case
}

/// A world in which a bug has occasion to show.
struct Provocation {
    /// The names of kinds of faults, and how many there are of all of them.
    faults: &'static [&'static str],
    count: usize,
    servers: usize,
    work: Work,
    /// Something starts by itself.
    schedules: bool,
    /// What is old goes.
    retention: bool,
    /// Jobs share a concurrency group, with this limit.
    groups: Option<(u32, WhenFull)>,
}

enum Work {
    AsRolled,
    /// Every job begins with a step that outlasts a window: what becomes of those that are cut off is to be seen.
    Long,
    /// The same, and it ends with its lease, and has a cleanup.
    LongAndCleaned,
    /// Faults come right when something is submitted.
    JustSubmitted,
}

const ONE_AT_A_TIME: Option<(u32, WhenFull)> = Some((1, WhenFull::Queue));

/// Two windows.
const LONG: Duration = Duration::from_secs(240);

/// A fault that lies in wait is there when the submit comes, and meets no commit before it.
const BEFORE_SUBMIT: Duration = Duration::from_millis(1);

fn outlasts_a_window(step: &mut StepPlan) {
    if let Kind::Work(behaviour) = &mut step.kind {
        behaviour.takes += LONG;
        step.timeout = None;
    }
}

fn is_cleaned_up_after(step: &mut StepPlan) {
    outlasts_a_window(step);
    if let Kind::Work(behaviour) = step.kind {
        let does = Behaviour { takes: LONG, ..behaviour };
        step.stop = true;
        step.clean = step.child.is_none().then_some(CleanPlan { does, budget: LONG });
    }
}

const fn plain(faults: &'static [&'static str]) -> Provocation {
    Provocation {
        faults,
        count: FAULTS,
        servers: 1,
        work: Work::AsRolled,
        schedules: false,
        retention: false,
        groups: None,
    }
}

const fn long(faults: &'static [&'static str]) -> Provocation {
    Provocation { count: LONG_FAULTS, work: Work::Long, ..plain(faults) }
}

fn provocation(bug: Bug) -> Provocation {
    match bug {
        Bug::MissedRunNeverHappens => Provocation { schedules: true, ..plain(&["kill-server"]) },
        Bug::PriorityIgnored => Provocation { work: Work::Long, ..plain(&["kill-worker"]) },
        Bug::CalledAtRest => plain(&["kill-server"]),
        Bug::TriggerFiresTwice => Provocation { schedules: true, servers: 3, ..plain(&["kill-server"]) },
        Bug::LeaseFenceIgnored => {
            let faults = &["slow-commit", "slow-commit", "database-away", "freeze-server"];
            Provocation { schedules: true, retention: true, servers: 3, ..plain(faults) }
        }
        Bug::LeaseOutlivesHolder => Provocation { servers: 3, ..plain(&["kill-server"]) },
        Bug::FamilyTornApart => Provocation { retention: true, ..plain(&["kill-worker"]) },
        Bug::PrunedInDoubt => Provocation { retention: true, ..long(&["long-cut", "sleep", "pull-plug"]) },
        Bug::WorkerDeletedTooSoon => Provocation { retention: true, ..plain(&["cut", "kill-worker"]) },
        Bug::SlotFreedAtVerdict => {
            let faults = &["cut-holder", "long-cut", "long-cut"];
            Provocation { groups: ONE_AT_A_TIME, ..long(faults) }
        }
        Bug::DeadlockStands => Provocation { groups: ONE_AT_A_TIME, ..plain(&["kill-worker"]) },
        Bug::GroupSlotLeaks => Provocation { groups: ONE_AT_A_TIME, ..plain(&["kill-worker"]) },
        Bug::NewestCancelled => Provocation { groups: Some((2, WhenFull::CancelOldest)), ..long(&["kill-worker"]) },
        Bug::ReportedBeforeStored | Bug::FetchSkipped | Bug::FailuresLeaveNothing => {
            plain(&["kill-server", "kill-worker"])
        }
        Bug::DeafTimeCounts => plain(&["freeze-server", "cut", "kill-server"]),
        Bug::NoTimeToCallIn => long(&["long-cut", "short-kill-server"]),
        Bug::StartFlipsSiblings => Provocation { servers: 3, ..long(&["kill-server", "restart-server"]) },
        Bug::ReturnNotBelieved => plain(&["cut", "mass-cut"]),
        Bug::NobodyAwaited => plain(&["mass-cut"]),
        Bug::OldCloseEndsNewLink => plain(&["half-open", "cut"]),
        Bug::DeadLinkStays => plain(&["kill-worker", "worker-at-moment"]),
        Bug::IdentityNotAsked => plain(&["roll-back", "mass-reset"]),
        Bug::StrangerNotAdopted | Bug::KeptNotAskedFor => plain(&["lose-commits-at-message"]),
        Bug::UnsafeStartInAmnesia => {
            let faults = &["lose-commits-at-message", "lose-commits-at-message", "cut"];
            Provocation { count: FAULTS, ..long(faults) }
        }
        Bug::DoubtForgotten => Provocation { count: LONG_FAULTS, ..plain(&["restore-and-say-so"]) },
        Bug::HeldChildNotTold => plain(&["kill-worker"]),
        Bug::WaitingForgotten => plain(&["freeze-at-go", "long-cut"]),
        Bug::SilentRunnerBeats => long(&["long-freeze-runner"]),
        Bug::RetryRevivesCancelled | Bug::StopNotSent | Bug::EndedByEach | Bug::HooksByEach => plain(&["cancel"]),
        Bug::ChildNotCalledOff | Bug::CleanupBesideTheStep | Bug::CleanupNotAwaited => plain(&["cancel"]),
        Bug::CleanupAfterTheLease => Provocation { work: Work::LongAndCleaned, ..long(&["long-cut"]) },
        Bug::WindowRevivesCancelled | Bug::CancelRefreshesWindow => long(&["cut-and-act"]),
        Bug::CancelAwaitsTheLost => long(&["cancel", "cut-at-stop"]),
        Bug::StrayRunsOn => long(&["long-cut"]),
        Bug::RerunWithoutGround => Provocation { count: FAULTS, ..long(&["cut", "long-cut", "resolve", "resolve"]) },
        Bug::RemainsLeftAlive
        | Bug::LossesWithoutEnd
        | Bug::LossSpendsRetry
        | Bug::WritesRepeated
        | Bug::IntentCountsAsVoid => plain(&["kill-runner"]),
        Bug::CopyAtHome => long(&["copy-folder"]),
        Bug::DeletedIsGone => plain(&["empty-folder", "kill-worker"]),
        Bug::PowerCutVoids => plain(&["pull-plug"]),
        Bug::OfferWithoutDeadline => plain(&["freeze-worker"]),
        Bug::RefusalsCount => plain(&["disk-full"]),
        Bug::ErrorDropsJob => plain(&["refusals"]),
        Bug::ConflictIgnored | Bug::TiesIgnored => plain(&["conflicts"]),
        Bug::SentBeforeItArrives => plain(&["kill-server"]),
        Bug::ReportedOnce | Bug::ForgottenOnReport => plain(&["kill-server", "cut", "kill-worker"]),
        Bug::GoBeforeCommit => plain(&["die-before-grant"]),
        Bug::GivenUpAfterThreeTries => plain(&["database-away"]),
        Bug::ForgetBeforeCommit => plain(&["die-before-end"]),
        Bug::SubmittedTwice => Provocation { work: Work::JustSubmitted, ..plain(&["die-after-commit"]) },
        Bug::VerdictTurns | Bug::StaleEndCounts => long(&["sleep", "freeze-worker", "long-cut"]),
        Bug::LateGoUsed => plain(&["freeze-at-go"]),
        Bug::LeaseIgnored | Bug::LeaseOutlastsWindow | Bug::LeaseFromLastQuestion | Bug::WorkerRenews => {
            long(&["long-cut"])
        }
        Bug::LinesTwice | Bug::ReplayDropped | Bug::EndLostInBurst | Bug::LogCompleteTooEarly => {
            plain(&["cut", "kill-worker"])
        }
        Bug::OfferedToTwo
        | Bug::OfferTimerOutlivesGrant
        | Bug::SlotLeaks
        | Bug::OneExecutionTooMany
        | Bug::FailureReleases
        | Bug::ItemKeepsTurn
        | Bug::TurnsNotCounted
        | Bug::RetryAtOnce
        | Bug::WaitCutShort
        | Bug::ReviewerCountsTwice
        | Bug::SubmitterReviews
        | Bug::HoldForgotten
        | Bug::FailFastForgets
        | Bug::ChildEndNotTold
        | Bug::HooksForgotten
        | Bug::RecoveredHookAlways
        | Bug::WhyNamesAnother
        | Bug::SecretMissingIgnored
        | Bug::SecretInSpec
        | Bug::ExpectedAndForgotten
        | Bug::ServerTellsNobody
        | Bug::NoticeWithEachAttempt
        | Bug::FenceRepeats => plain(&["kill-worker"]),
    }
}

/// Whether the world that showed this bug when the list was written still does, and to the same checker, and is well without it.
pub fn shows_again(bug: Bug) -> bool {
    let Some((world, seed, checker)) = kept_of(bug) else { return false };
    let case = world.case(bug, seed);
    first_finding(&case, Some(bug)).is_some_and(|by| by.checker == checker) && world.is_well(bug, seed)
}

/// Where this bug was found when the list was written, and by whom.
fn kept_of(bug: Bug) -> Option<(Worlds, u64, &'static str)> {
    KEPT.lines().find_map(|line| match line.split(' ').collect::<Vec<&str>>()[..] {
        [name, world, seed, checker] if name == bug.name() => {
            let world = Worlds::ALL.into_iter().find(|worlds| worlds.word() == world)?;
            Some((world, seed.parse().ok()?, checker))
        }
        _ => None,
    })
}

/// Writes docs/planted.md and the seeds that are tried first.
pub fn write(found: &[(Bug, Option<Caught>)], first_seed: u64) -> std::io::Result<()> {
    let crate_folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::write(crate_folder.join("planted.txt"), kept(found))?;
    std::fs::write(crate_folder.join("../../docs/planted.md"), page(found, first_seed))
}

/// What `planted.txt` is to hold.
fn kept(found: &[(Bug, Option<Caught>)]) -> String {
    let line = |bug: Bug, caught: &Caught| {
        format!("{} {} {} {}\n", bug.name(), caught.world.word(), caught.seed, caught.by.checker)
    };
    found.iter().filter_map(|(bug, caught)| Some(line(*bug, caught.as_ref()?))).collect()
}

/// docs/planted.md.
fn page(found: &[(Bug, Option<Caught>)], first_seed: u64) -> String {
    let mut page = PAGE.to_owned();
    let how = |bug: Bug| found.iter().find(|(of, _)| *of == bug).and_then(|(_, caught)| caught.as_ref());
    for bug in Bug::ALL {
        let start = row_start(*bug);
        let _ = match how(*bug) {
            Some(Caught { world, after, by, .. }) => {
                writeln!(page, "{start} {} | {} | {after} |", by.checker, world.word())
            }
            None => writeln!(page, "{start} not yet | | |"),
        };
    }
    let count = Bug::ALL.iter().filter(|bug| how(**bug).is_some()).count();
    let _ = writeln!(page, "\n{}{first_seed} on.", last_line(count));
    page
}

/// What the page ends with, but for the seed.
fn last_line(count: usize) -> String {
    format!("{count} of {} were found, each from seed ", Bug::ALL.len())
}

/// What docs/planted.md says otherwise than the code and the list of what was found: the page comes from one run, and is as old as that.
pub fn wrong_on(page: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if !page.starts_with(PAGE) {
        wrong.push("its first words".to_owned());
    }
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    for (bug, row) in Bug::ALL.iter().zip(&rows) {
        let wanted = match kept_of(*bug) {
            Some((world, _, checker)) => format!("{} {checker} | {} | ", row_start(*bug), world.word()),
            None => row_start(*bug),
        };
        wrong.extend((!row.starts_with(&wanted)).then(|| format!("`{row}` is not `{wanted}`")));
    }
    if rows.len() != Bug::ALL.len() {
        wrong.push(format!("it has {} bugs, and there are {}", rows.len(), Bug::ALL.len()));
    }
    let found = Bug::ALL.iter().filter(|bug| kept_of(**bug).is_some()).count();
    if !page.lines().last().is_some_and(|line| line.starts_with(&last_line(found))) {
        wrong.push("its last line".to_owned());
    }
    wrong
}

/// What does not change with the simulator: the bug, its case and its words.
fn row_start(bug: Bug) -> String {
    let case = if bug.case() == 0 { String::new() } else { bug.case().to_string() };
    format!("| `{}` | {} | {case} |", bug.name(), bug.imitates())
}

const PAGE: &str = "\
# Planted bugs

Written by `make sim-planted`; do not edit.

Whether a simulator finds anything is shown by what it finds. So the product's sources hold wrong decisions on purpose, one
short branch each at the place of the true one (`crates/planted`). They are constants in the product, and are not even compiled
into it; a build for the simulator chooses one of them at a time. Each imitates what went wrong in some job system; the case is its
number in [testing.md](testing.md).

The normal budget is twelve ordinary worlds, with faults as they are always rolled; and, for what is too rare for those, sixty worlds of
the bug's own, with the faults that it is about and no others. A bug counts as found if the same world without it is well.
`cargo test -p sim` looks for each of them in the world that showed it here, or else in the whole budget, and fails if one hides.

| bug | what goes wrong | case | found by | in worlds | after seeds |
|---|---|---|---|---|---|
";

impl fmt::Display for Caught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Caught { world, seed, after, by } = self;
        write!(f, "found in seed {seed} ({} worlds, number {after}) by {by}", world.word())
    }
}
