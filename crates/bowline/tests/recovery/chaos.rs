//! Kills, cuts and pauses at random times, many in a row: what no list of cases thought of.

use testkit::process::Frozen;
use testkit::{Fault, House, Proxy, Role, await_that};

use crate::dice::Dice;

const STEPS: usize = 6;
const ROUNDS: usize = 20;

/// Another one with every run, unless `BOWLINE_CHAOS_SEED` names it.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("BOWLINE_CHAOS_SEED").ok().and_then(|seed| seed.parse().ok());
    let clock = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos();
    given.unwrap_or_else(|| clock() as u64)
}

struct Stage {
    house: House,
    proxy: Proxy,
    server: Option<Role>,
    worker: Option<Role>,
}

impl Stage {
    fn kill_server(&mut self) {
        self.server.take().expect("it runs").kill();
    }

    fn kill_worker(&mut self) {
        self.worker.take().expect("it runs").kill();
    }

    fn start(&mut self) {
        if self.server.is_none() {
            self.server = Some(self.house.start_server());
        }
        if self.worker.is_none() {
            self.worker = Some(self.house.start_worker("w", &["--slots", "8"]));
        }
        self.proxy.heal();
    }

    fn disturb(&mut self, dice: &mut Dice) -> &'static str {
        match dice.roll(8) {
            0 | 1 => {
                self.kill_server();
                "kill the server"
            }
            2 | 3 => {
                self.kill_worker();
                "kill the worker"
            }
            4 => {
                self.kill_server();
                self.kill_worker();
                "kill both"
            }
            5 => {
                self.proxy.reset();
                "reset the link"
            }
            6 => {
                self.proxy.set_both(Fault::Swallow);
                "half-open"
            }
            _ => {
                let role = if dice.roll(2) == 0 { &self.server } else { &self.worker };
                let frozen = Frozen::new(role.as_ref().expect("it runs").pid());
                dice.wait(1500);
                frozen.thaw();
                "freeze one"
            }
        }
    }
}

#[test]
fn whatever_happens_every_step_runs_once_and_no_line_is_lost() {
    let seed = seed();
    println!("BOWLINE_CHAOS_SEED={seed}");
    let mut dice = Dice::new(seed);
    let mut house = House::new();
    house.recovery(&[("MAX_RECONNECT_DELAY_SECS", "30")]);
    let server = house.start_server();
    let proxy = house.add_proxy();
    let worker = house.start_worker("w", &["--slots", "8"]);
    let id = house.submit(&task(&house));
    let mut stage = Stage { house, proxy, server: Some(server), worker: Some(worker) };
    for _ in 0..ROUNDS {
        dice.wait(300);
        println!("{}", stage.disturb(&mut dice));
        dice.wait(300);
        stage.start();
    }
    let house = &stage.house;
    house.write("gate", "");
    let job = house.end(&id);
    assert_eq!(job["state"], "success", "{job:#}");
    assert_eq!(house.outside().executions(), STEPS, "each step ran once");
    for n in 0..STEPS {
        check_log(house, &id, &format!("s{n}"));
    }
}

/// Steps that count beside each other.
fn task(house: &House) -> String {
    let (begin, gate) = (house.outside().begin(), house.path("gate").display().to_string());
    let step = |n| {
        format!(
            "  s{n}:\n    run: |\n      {begin}\n      n=0; until [ -e {gate} ]; do n=$((n+1)); echo $n; sleep 0.03; done\n      echo end\n"
        )
    };
    format!("name: chaos\nsteps:\n{}", (0..STEPS).map(step).collect::<String>())
}

fn check_log(house: &House, id: &str, step: &str) {
    let lines = await_that(&format!("the log of {step} is whole"), || {
        let log = house.log(id, step);
        let lines: Vec<String> = log.lines().filter(|line| !line.starts_with("--- ")).map(str::to_owned).collect();
        (lines.last()? == "end").then_some(lines)
    });
    for (index, line) in lines[..lines.len() - 1].iter().enumerate() {
        assert_eq!(*line, (index + 1).to_string(), "line {index} of {step}: {lines:?}");
    }
}
