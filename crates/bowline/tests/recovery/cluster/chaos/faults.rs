//! What is done to servers, workers, runners and the database, and how all of it is made good again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use testkit::postgres::Postgres;
use testkit::process::{self, Frozen};
use testkit::{House, Role};

use super::super::town::Town;
use super::outside::Outside;
use super::{SERVERS, WORKERS};
use crate::dice::Dice;
use crate::story::pass;

/// Between two faults: between these, in milliseconds.
const GAP_MS: (u64, u64) = (150, 1_200);

/// How often each was done. One that found nobody to do it to is not counted.
pub(super) type Counts = BTreeMap<&'static str, usize>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    KillServer,
    FreezeServer,
    KillWorker,
    FreezeWorker,
    KillRunner,
    KillDatabase,
}

impl Fault {
    /// Each with how often it comes, of all together.
    const ALL: [(Fault, usize); 6] = [
        (Fault::KillServer, 4),
        (Fault::FreezeServer, 2),
        (Fault::KillWorker, 6),
        (Fault::FreezeWorker, 1),
        (Fault::KillRunner, 6),
        (Fault::KillDatabase, 1),
    ];

    fn words(self) -> &'static str {
        match self {
            Fault::KillServer => "kill a server",
            Fault::FreezeServer => "freeze a server",
            Fault::KillWorker => "kill a worker",
            Fault::FreezeWorker => "freeze a worker",
            Fault::KillRunner => "kill a runner",
            Fault::KillDatabase => "kill the database",
        }
    }

    /// How long it lasts at most. Some last longer than the window, than a server is missed by nobody, and than a runner waits for its worker.
    fn lasts_max_ms(self) -> u64 {
        match self {
            Fault::KillServer | Fault::FreezeServer | Fault::FreezeWorker => 15_000,
            Fault::KillWorker => 25_000,
            Fault::KillRunner => 1,
            Fault::KillDatabase => 5_000,
        }
    }
}

/// As the seed has it.
#[derive(Debug, PartialEq, Eq)]
struct Planned {
    at: Duration,
    fault: Fault,
    whom: usize,
    lasts: Duration,
}

fn plan(seed: u64, length: Duration) -> Vec<Planned> {
    let mut dice = Dice::new(seed.rotate_left(32));
    let faults: Vec<Fault> = Fault::ALL.iter().flat_map(|(fault, share)| std::iter::repeat_n(*fault, *share)).collect();
    let (mut planned, mut at) = (Vec::new(), Duration::ZERO);
    loop {
        at += Duration::from_millis(GAP_MS.0 + dice.roll(GAP_MS.1 - GAP_MS.0));
        if at > length {
            return planned;
        }
        let fault = dice.of(&faults);
        let whom = usize::try_from(dice.roll(1 << 16)).expect("small");
        // Most are short.
        let at_most = 1 + dice.roll(fault.lasts_max_ms());
        planned.push(Planned { at, fault, whom, lasts: Duration::from_millis(dice.roll(at_most)) });
    }
}

struct Member {
    name: &'static str,
    role: Option<Role>,
    frozen: Option<Frozen>,
    /// When it is well again, if it is not.
    well_at: Option<Duration>,
}

impl Member {
    fn new(name: &'static str, role: Role) -> Member {
        Member { name, role: Some(role), frozen: None, well_at: None }
    }
}

/// Everything that faults are done to.
pub(super) struct Stage<'a> {
    town: &'a Town,
    postgres: &'a mut Postgres,
    database_well_at: Option<Duration>,
    servers: Vec<Member>,
    workers: Vec<Member>,
    done: Counts,
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        town: &'a Town,
        postgres: &'a mut Postgres,
        servers: [Role; SERVERS.len()],
        workers: [Role; WORKERS.len()],
    ) -> Stage<'a> {
        let servers = SERVERS.into_iter().zip(servers).map(|(name, role)| Member::new(name, role)).collect();
        let workers = WORKERS.into_iter().zip(workers).map(|(name, role)| Member::new(name, role)).collect();
        Stage { town, postgres, database_well_at: None, servers, workers, done: Counts::new() }
    }

    /// Everything that the seed has for so long. All are well afterwards.
    pub(super) fn play(&mut self, seed: u64, length: Duration) {
        let begun = Instant::now();
        let mut plan = plan(seed, length).into_iter().peekable();
        loop {
            let next_fault = plan.peek().map(|planned| planned.at);
            let times = self.times_to_heal().chain(next_fault);
            let Some(at) = times.min().filter(|at| *at <= length) else { break };
            pass(at.saturating_sub(begun.elapsed()));
            self.check_nobody_gave_up();
            self.heal(at);
            if let Some(planned) = plan.next_if(|planned| planned.at <= at) {
                self.disturb(&planned);
            }
        }
        pass(length.saturating_sub(begun.elapsed()));
        self.heal(Duration::MAX);
        println!("{:.1?} faults stop: all are well", begun.elapsed());
    }

    /// Stops all but the database in good order.
    pub(super) fn end(mut self) -> Counts {
        self.check_nobody_gave_up();
        for member in self.workers.iter_mut().chain(&mut self.servers) {
            let status = member.role.take().expect("all are well").stop();
            assert!(status.success(), "{} ended with {status}", member.name);
        }
        self.done
    }

    fn times_to_heal(&self) -> impl Iterator<Item = Duration> {
        let members = self.servers.iter().chain(&self.workers).filter_map(|member| member.well_at);
        members.chain(self.database_well_at)
    }

    /// Only we end any of them: whatever happens to the others, nobody leaves.
    fn check_nobody_gave_up(&mut self) {
        for member in self.servers.iter_mut().chain(&mut self.workers) {
            let ended = member.role.as_mut().and_then(|role| role.child.try_wait().expect("waited"));
            assert!(ended.is_none(), "{} ended by itself: {ended:?}", member.name);
        }
    }

    fn heal(&mut self, now: Duration) {
        if self.database_well_at.is_some_and(|at| at <= now) {
            self.database_well_at = None;
            self.postgres.start_again();
        }
        let town = self.town;
        for server in self.servers.iter_mut().filter(|server| server.well_at.is_some_and(|at| at <= now)) {
            heal(server, |name| town.launch(name));
        }
        for worker in self.workers.iter_mut().filter(|worker| worker.well_at.is_some_and(|at| at <= now)) {
            heal(worker, |name| town.worker(name, &SERVERS));
        }
    }

    fn disturb(&mut self, planned: &Planned) {
        let Planned { at, fault, whom, lasts } = *planned;
        // By the plan, however late the machine is with it: who is well when the next one comes is up to the seed.
        let well_at = at + lasts;
        let whom = match fault {
            Fault::KillServer => kill(&mut self.servers, whom, well_at),
            Fault::KillWorker => kill(&mut self.workers, whom, well_at),
            Fault::FreezeServer => freeze(&mut self.servers, whom, well_at),
            Fault::FreezeWorker => freeze(&mut self.workers, whom, well_at),
            Fault::KillRunner => self.kill_runner(whom),
            Fault::KillDatabase => self.kill_database(well_at),
        };
        let Some(whom) = whom else { return };
        println!("{:.1} s: {}: {whom}, for {:.1} s", at.as_secs_f64(), fault.words(), lasts.as_secs_f64());
        *self.done.entry(fault.words()).or_default() += 1;
    }

    /// Of some step that runs now.
    fn kill_runner(&self, whom: usize) -> Option<String> {
        let running = runners(&self.town.house, &self.roles());
        let runner = *running.get(whom % running.len().max(1))?;
        process::end(runner);
        Some(format!("process {runner}"))
    }

    fn roles(&self) -> Vec<u32> {
        self.servers.iter().chain(&self.workers).filter_map(|member| Some(member.role.as_ref()?.pid())).collect()
    }

    fn kill_database(&mut self, well_at: Duration) -> Option<String> {
        if self.database_well_at.is_some() {
            return None;
        }
        self.postgres.kill();
        self.database_well_at = Some(well_at);
        Some("with all its processes".to_owned())
    }
}

/// The parents of steps. A step whose runner has just died has another one, which is not ours to kill.
fn runners(house: &House, roles: &[u32]) -> Vec<u32> {
    let ours = house.living();
    let steps = Outside::new(house).recent().into_iter().filter(|pid| ours.contains(pid));
    let parents = steps.filter_map(process::parent_if_any);
    parents.filter(|pid| ours.contains(pid) && !roles.contains(pid)).collect()
}

/// Of those that are well.
fn pick(members: &mut [Member], whom: usize) -> Option<&mut Member> {
    let mut well: Vec<&mut Member> = members.iter_mut().filter(|member| member.well_at.is_none()).collect();
    let count = well.len().max(1);
    (!well.is_empty()).then(|| well.swap_remove(whom % count))
}

fn kill(members: &mut [Member], whom: usize, well_at: Duration) -> Option<String> {
    let member = pick(members, whom)?;
    member.role.take().expect("it runs").kill();
    member.well_at = Some(well_at);
    Some(member.name.to_owned())
}

fn freeze(members: &mut [Member], whom: usize, well_at: Duration) -> Option<String> {
    let member = pick(members, whom)?;
    member.frozen = Some(Frozen::new(member.role.as_ref().expect("it runs").pid()));
    member.well_at = Some(well_at);
    Some(member.name.to_owned())
}

fn heal(member: &mut Member, start: impl FnOnce(&'static str) -> Role) {
    member.well_at = None;
    match member.frozen.take() {
        Some(frozen) => frozen.thaw(),
        None => member.role = Some(start(member.name)),
    }
}

#[test]
fn a_seed_repeats_its_plan_and_every_fault_has_its_turn() {
    let hour = Duration::from_secs(3600);
    let planned = plan(7, hour);
    assert_eq!(planned, plan(7, hour));
    assert_ne!(planned, plan(8, hour));
    assert!(Fault::ALL.iter().all(|(fault, _)| planned.iter().any(|planned| planned.fault == *fault)));
    let shorter = plan(7, hour / 60);
    assert_eq!(shorter[..], planned[..shorter.len()], "a shorter run is the beginning of a longer one");
}
