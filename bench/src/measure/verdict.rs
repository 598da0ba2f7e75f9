//! (l) A step whose server and worker die together: how long until another server decides that it is lost.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::bowline::Bowline;
use crate::cluster::Cluster;
use crate::figure::{Figure, Target, Unit};
use crate::herd::{self, Herd};
use crate::steady::News;
use crate::{Effort, Outcome, jobs};

const ROUNDS: usize = 3;

/// The recovery window is twice this.
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(3);
const WINDOW: Duration = Duration::from_secs(6);

/// Beyond the window.
const SLACK: Duration = Duration::from_secs(1);

/// A server that has just started judges nobody before workers had time to call in.
const LISTEN: Duration = Duration::from_secs(6);

pub(crate) async fn measure(bowline: &Bowline, effort: Effort) -> Outcome<Vec<Figure>> {
    let cluster = Cluster::start(bowline)?;
    let mut worst = Duration::ZERO;
    for n in 0..effort.count(ROUNDS) {
        worst = worst.max(time(bowline, &cluster.database(&format!("round_{n}"))?).await?);
    }
    let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
    let figure = Figure::new("server and worker killed to `worker_lost`, worst", millis(worst), Unit::Millis);
    Ok(vec![figure.limit("the recovery window", millis(WINDOW)).target(Target::Below(millis(WINDOW + SLACK)))])
}

async fn time(bowline: &Bowline, database: &str) -> Outcome<Duration> {
    let delay = MAX_RECONNECT_DELAY.as_secs();
    let lines = format!("database: {database}\nrecovery: {{ max_reconnect_delay_secs: {delay} }}\n");
    let (mut first, second) = (bowline.server_with(&lines).await?, bowline.server_with(&lines).await?);
    let mut herd = Herd::gather(&[&first], 1, 1).await?;
    let ids = herd::submit(&first, 1, 1).await?;
    herd.await_news(News::Running, 1).await?;
    sleep(LISTEN).await;
    let begin = Instant::now();
    first.kill().await?;
    herd.die().await;
    let client = second.client();
    for id in ids {
        let job = jobs::finished(&client, &id.to_string()).await?;
        let code = job.error.as_ref().map(|error| error.code.as_str());
        if code != Some("worker_lost") {
            return Err(format!("job {id} is {} with {code:?} and not `worker_lost`", job.state).into());
        }
    }
    let time = begin.elapsed();
    if time < WINDOW {
        return Err(format!("the verdict came after {time:?}, before the window was over").into());
    }
    second.stop().await?;
    Ok(time)
}
