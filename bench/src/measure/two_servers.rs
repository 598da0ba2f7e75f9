//! (j) The lives of (i) with two servers on one database, against one server: the second must not cost anything.

use crate::bowline::{Bowline, Server};
use crate::cluster::Cluster;
use crate::figure::{Figure, Target, Unit};
use crate::simulated::Crew;
use crate::stats::{median, rate};
use crate::{Effort, Outcome, cpu, load};

const JOBS: usize = 8_000;

/// How often each is done.
const ROUNDS: usize = 3;

const LIVES: Target = Target::RatioAtLeast(0.95);

/// CPU time is counted in ticks of ten milliseconds, on a machine that is shared with the bench itself.
const SAME: Target = Target::RatioAtMost(1.1);

/// Rows that two servers wanted at once, and one of them decided again.
const NO_STORM: Target = Target::RatioAtMost(1.1);

/// What a round cost.
#[derive(Debug, Default)]
struct Costs {
    lives: Vec<f64>,
    server_ms: Vec<f64>,
    postgres_ms: Vec<f64>,
    attempts: Vec<f64>,
}

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    let cluster = Cluster::start(bowline)?;
    let (alone, shared) = (on(&cluster, "alone")?, on(&cluster, "shared")?);
    let one = bowline.server_with(&alone).await?;
    let (first, second) = (bowline.server_with(&shared).await?, bowline.server_with(&shared).await?);
    let (one, two) = ([&one], [&first, &second]);
    let mut crews = (load::crew(&one).await?, load::crew(&two).await?);
    let mut costs = (Costs::default(), Costs::default());
    // In turn: what else the machine does meets both. The first finds cold caches.
    for n in 0..=ROUNDS {
        costs.0.take(&cluster, &one, &mut crews.0, effort, n > 0).await?;
        costs.1.take(&cluster, &two, &mut crews.1, effort, n > 0).await?;
    }
    crews.0.leave().await;
    crews.1.leave().await;
    let (one, two) = costs;
    let figure = |name: &str, unit, of: fn(&Costs) -> &[f64], target| -> Outcome<Figure> {
        let (value, limit) = median(of(&two)).zip(median(of(&one))).ok_or("nothing was measured")?;
        Ok(Figure::new(name, value, unit).limit("one server", limit).target(target))
    };
    Ok(vec![
        figure("no-op job lives with two servers, median", Unit::PerSecond, |costs| &costs.lives, LIVES)?,
        figure("CPU of two servers per job, median", Unit::Millis, |costs| &costs.server_ms, SAME)?,
        figure("CPU of their PostgreSQL per job, median", Unit::Millis, |costs| &costs.postgres_ms, SAME)?,
        figure("attempts as two servers wrote them, per job, median", Unit::Rows, |costs| &costs.attempts, NO_STORM)?,
    ])
}

impl Costs {
    async fn take(
        &mut self,
        cluster: &Cluster,
        servers: &[&Server<'_>],
        crew: &mut Crew,
        effort: Effort,
        counts: bool,
    ) -> Outcome<()> {
        let before = (spent(servers)?, cluster.cpu_secs()?, written(servers).await?);
        let (ids, time) = load::lives(servers, crew, effort.count(JOBS)).await?;
        let after = (spent(servers)?, cluster.cpu_secs()?, written(servers).await?);
        for server in servers {
            load::check(server, &ids).await?;
        }
        if counts {
            let jobs = ids.len() as f64;
            self.lives.push(rate(ids.len(), time));
            self.server_ms.push((after.0 - before.0) * 1_000.0 / jobs);
            self.postgres_ms.push((after.1 - before.1) * 1_000.0 / jobs);
            self.attempts.push((after.2 - before.2) / jobs);
        }
        Ok(())
    }
}

/// The line of a configuration.
fn on(cluster: &Cluster, name: &str) -> Outcome<String> {
    Ok(format!("database: {}\n", cluster.database(name)?))
}

/// Seconds of CPU time.
fn spent(servers: &[&Server<'_>]) -> Outcome<f64> {
    servers.iter().map(|server| cpu::secs(server.process.pid().as_raw_nonzero().get().cast_unsigned())).sum()
}

/// Rows of attempts in all batches. A batch that another server was faster with is written again.
async fn written(servers: &[&Server<'_>]) -> Outcome<f64> {
    let mut rows = 0.0;
    for server in servers {
        rows += server.metric("bowline_attempt_changes_total").await?;
    }
    Ok(rows)
}
