//! (c) Whole lives of jobs that do nothing, with simulated workers, against a queue on bare SQLite.

use crate::bowline::Bowline;
use crate::figure::{Figure, Target, Unit};
use crate::limits::sqlite;
use crate::stats::rate;
use crate::{Effort, Outcome, load};

const JOBS: usize = 20_000;

/// Group commit should win by far.
const TARGET: Target = Target::RatioAtLeast(3.0);

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    let before = sqlite::lives_per_second(bowline.folder()?.path(), effort)?;
    let server = bowline.server().await?;
    let mut crew = load::crew(&[&server]).await?;
    let (ids, time) = load::lives(&[&server], &mut crew, effort.count(JOBS)).await?;
    crew.leave().await;
    load::check(&server, &ids).await?;
    server.stop().await?;
    let limit = before.max(sqlite::lives_per_second(bowline.folder()?.path(), effort)?);
    let figure = Figure::new("no-op job lives", rate(ids.len(), time), Unit::PerSecond);
    Ok(vec![figure.limit("bare SQLite, one by one", limit).target(TARGET)])
}
