//! (i) The lives of (c) with PostgreSQL below the server, against a queue on the same cluster.

use crate::bowline::Bowline;
use crate::cluster::Cluster;
use crate::figure::{Figure, Target, Unit};
use crate::limits::pgbench;
use crate::stats::rate;
use crate::{Effort, Outcome, load};

const JOBS: usize = 20_000;

/// Batches save commits, and a life has more rows here: its events, its attempt, its log.
const TARGET: Target = Target::RatioAtLeast(1.5);

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    let (cluster, folder) = (Cluster::start(bowline)?, bowline.folder()?);
    let before = pgbench::lives_per_second(&cluster, "before", folder.path(), effort)?;
    let server = bowline.server_with(&format!("database: {}\n", cluster.database("bowline")?)).await?;
    let mut crew = load::crew(&[&server]).await?;
    let (ids, time) = load::lives(&[&server], &mut crew, effort.count(JOBS)).await?;
    crew.leave().await;
    load::check(&server, &ids).await?;
    server.stop().await?;
    let limit = before.max(pgbench::lives_per_second(&cluster, "after", folder.path(), effort)?);
    let figure = Figure::new("no-op job lives on PostgreSQL", rate(ids.len(), time), Unit::PerSecond);
    Ok(vec![figure.limit("pgbench, 8 clients", limit).target(TARGET)])
}
