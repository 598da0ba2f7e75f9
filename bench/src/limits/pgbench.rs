//! Job lives as a queue on bare PostgreSQL has them: one row, and one durable transaction for each of its three changes,
//! by `pgbench` with prepared statements.

use std::path::Path;
use std::process::Command;

use crate::cluster::{Cluster, program, said};

use crate::{Effort, Outcome};

/// Long enough for some flushes of the log and a vacuum.
const SECONDS: u64 = 8;

const CLIENTS: &str = "8";
const THREADS: &str = "2";

const SCHEMA: &str = "
    CREATE TABLE jobs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        state text NOT NULL, worker text, task text NOT NULL, exit_code integer
    );
    CREATE INDEX jobs_queued ON jobs (id) WHERE state = 'queued';";

/// A claim finds nothing where others were faster with all that it could see: that life is not counted, and its row is
/// somebody else's.
const LIFE: &str = "\
\\set id 0
INSERT INTO jobs (state, task) VALUES ('queued', 'bench');
UPDATE jobs SET state = 'running', worker = 'worker-1' WHERE id = (
    SELECT id FROM jobs WHERE state = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING id \\aset
UPDATE jobs SET state = 'success', exit_code = 0 WHERE id = :id AND state = 'running';
";

/// Lives per second of eight clients, in a new database of the cluster.
pub(crate) fn lives_per_second(cluster: &Cluster, name: &str, folder: &Path, effort: Effort) -> Outcome<f64> {
    let url = cluster.database(name)?;
    cluster.ask(name, SCHEMA)?;
    let script = folder.join("life.sql");
    std::fs::write(&script, LIFE)?;
    let seconds = if effort.quick { SECONDS / 4 } else { SECONDS };
    let mut pgbench = Command::new(program("pgbench")?);
    pgbench.args(["-n", "-M", "prepared", "-c", CLIENTS, "-j", THREADS, "-T", &seconds.to_string(), "-f"]);
    let text = said(pgbench.arg(&script).arg(&url))?;
    let (transactions, per_second) = summary(&text).ok_or_else(|| format!("pgbench did not say how much: {text}"))?;
    let done = cluster.count(name, "SELECT count(*) FROM jobs WHERE state = 'success'")?;
    if done < 0.99 * transactions || done > transactions {
        return Err(format!("bare PostgreSQL has {done} finished rows after {transactions} lives").into());
    }
    Ok(per_second * done / transactions)
}

/// How many, and how many per second without the time to connect.
fn summary(text: &str) -> Option<(f64, f64)> {
    let after = |words: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(words))?;
        line.split([' ', '/']).next()?.parse().ok()
    };
    Some((after("number of transactions actually processed: ")?, after("tps = ")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pgbench_says_is_read() {
        let text = "number of clients: 8\nnumber of transactions actually processed: 7479\nnumber of failed \
                    transactions: 0 (0.000%)\ntps = 3740.518272 (without initial connection time)\n";
        assert_eq!(summary(text), Some((7479.0, 3740.518272)));
        assert_eq!(summary("pgbench: error"), None);
    }
}
