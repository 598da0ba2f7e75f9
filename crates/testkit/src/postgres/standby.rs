//! A second cluster that follows the first, and takes its place when that dies.

use crate::process::{self, Frozen};
use crate::wait::await_that;

use super::{Address, Postgres, as_postgres, bin, free_port, hand_over, run};

impl Postgres {
    /// A copy that is told of every commit a moment later: nobody waits for it.
    pub fn standby(&self) -> Postgres {
        let folder = tempfile::tempdir().expect("a folder");
        hand_over(folder.path());
        let address = Address { port: free_port(), password: self.address.password.clone() };
        let mut copy = as_postgres(&bin().join("pg_basebackup").display().to_string());
        copy.env("PGPASSWORD", &address.password).arg("-D").arg(folder.path().join("data"));
        copy.args(["-R", "-N", "-c", "fast", "-h", "127.0.0.1", "-U", "postgres"]);
        copy.args(["-p", &self.address.port.to_string()]);
        run(&mut copy, "a copy for a standby");
        let settings = self.settings.clone();
        let mut standby = Postgres { folder, address, settings, variables: Vec::new(), child: None };
        standby.start_again();
        standby
    }

    /// From now on no commit is answered before the standby has it on its disk. Only here: whoever takes this one's place waits for nobody.
    pub fn wait_for_standby(&self) {
        self.psql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.psql("SELECT pg_reload_conf()");
        let manner = "SELECT sync_state FROM pg_stat_replication";
        await_that("commits wait for the standby", || (self.psql(manner) == "sync").then_some(()));
    }

    /// An address with both: whichever takes writes is meant.
    pub fn url_with(&self, other: &Postgres) -> String {
        let (password, ports) = (&self.address.password, [self.address.port, other.address.port]);
        format!("postgres://postgres:{password}@127.0.0.1:{},127.0.0.1:{}/postgres", ports[0], ports[1])
    }

    /// Until the standby has all that is committed here.
    pub fn await_standby(&self, standby: &Postgres) {
        let position = self.psql("SELECT pg_current_wal_lsn()");
        let has = format!("SELECT pg_last_wal_replay_lsn() >= '{position}'");
        await_that("the standby has it all", || (standby.psql(&has) == "t").then_some(()));
    }

    /// Tells the standby nothing any more. It is none the wiser.
    pub fn stop_sending(&self) -> Frozen {
        let sender = self.psql("SELECT pid FROM pg_stat_replication");
        Frozen::new(sender.parse().expect("one standby"))
    }

    /// As when its machine dies: none of its processes does anything any more.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        // While it stands still it makes no other: one that nobody saw would keep the next start from its memory.
        let frozen = Frozen::new(child.id());
        let servants = process::children(child.id());
        child.kill().expect("killed");
        drop(frozen);
        child.wait().expect("reaped");
        servants.iter().for_each(|&pid| process::end(pid));
        for pid in servants {
            await_that("all of it is gone", || (!process::lives(pid)).then_some(()));
        }
    }

    /// The standby takes writes from now on.
    pub fn promote(&self) {
        assert_eq!(self.psql("SELECT pg_promote()"), "t", "promoted");
    }
}
