//! The views for operators, asked as operators ask.

use std::path::PathBuf;

use rusqlite::{Connection, OpenFlags};
use store::Store;
use store::conformance::Fixture;
use store::conformance::jobs::{every_step_state_comes_back, jobs_share_a_definition};
use store_sqlite::SqliteStore;
use tempfile::TempDir;

/// The database that a case of the suite left behind.
struct Operated {
    folder: TempDir,
}

impl Operated {
    /// One job that has a step in every state.
    fn new() -> Operated {
        Operated::after(every_step_state_comes_back)
    }

    fn after(case: fn(&mut dyn Fixture)) -> Operated {
        let mut operated = Operated { folder: tempfile::tempdir().expect("a folder") };
        case(&mut operated);
        operated
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("bowline.db")
    }

    fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let connection =
            Connection::open_with_flags(self.path(), OpenFlags::SQLITE_OPEN_READ_WRITE).expect("the database");
        let mut statement = connection.prepare(sql).expect("a query");
        let columns = statement.column_count();
        let text = |row: &rusqlite::Row<'_>, index| match row.get::<_, rusqlite::types::Value>(index)? {
            rusqlite::types::Value::Null => Ok("-".to_owned()),
            rusqlite::types::Value::Integer(n) => Ok(n.to_string()),
            rusqlite::types::Value::Text(text) => Ok(text),
            other => panic!("an operator cannot read {other:?}"),
        };
        let rows = statement.query_map([], |row| (0..columns).map(|index| text(row, index)).collect());
        rows.expect("rows").collect::<rusqlite::Result<_>>().expect("values")
    }
}

impl Fixture for Operated {
    fn open(&mut self) -> Box<dyn Store> {
        Box::new(SqliteStore::open(&self.path()).expect("a database"))
    }

    fn crash(&mut self, store: Box<dyn Store>) {
        drop(store);
    }
}

const JOB: &str = "01900000-0001-7000-8000-000000000001";

#[test]
fn the_columns_are_those_of_the_contract() {
    let operated = Operated::new();
    let columns = |view: &str| -> Vec<String> {
        operated.rows(&format!("SELECT name FROM pragma_table_info('{view}') ORDER BY cid")).concat()
    };
    assert_eq!(
        columns("dispatch_queue").join(" "),
        "id run_id job_id step status agent_id dispatch_attempts error_message disconnected_at recovery_deadline \
         created_at updated_at expires_at"
    );
    assert_eq!(columns("heartbeats").join(" "), "id task_id sender_id role sent_at hostname pid");
}

#[test]
fn every_state_has_its_word() {
    let operated = Operated::new();
    let states = operated.rows("SELECT DISTINCT status FROM dispatch_queue ORDER BY status").concat();
    let words = "cancelled cancelling failed held pending queued recovering running skipped success waiting";
    assert_eq!(states.join(" "), words);
}

#[test]
fn what_is_recovering_and_until_when() {
    let operated = Operated::new();
    let rows = operated.rows(
        "SELECT id, run_id, job_id, step, agent_id, disconnected_at, recovery_deadline FROM dispatch_queue
         WHERE status = 'recovering' ORDER BY recovery_deadline",
    );
    let expected = [
        &format!("{JOB}/4"),
        "01900001-0068-7000-8000-000000010068",
        JOB,
        "recovering",
        "01900002-0002-7000-8000-000000020002",
        "2026-05-28T20:26:41.006000Z",
        "2026-05-28T20:28:41.006000Z",
    ];
    assert_eq!(rows, [expected]);
    let overdue = "SELECT step FROM dispatch_queue WHERE datetime(recovery_deadline) < datetime('2026-05-28 20:28:42')";
    assert_eq!(operated.rows(overdue), [["recovering"]]);
}

#[test]
fn a_window_ends_later_by_what_was_deaf() {
    let operated = Operated::new();
    let deaf = rusqlite::Connection::open(operated.path()).expect("the database");
    let hour = "INSERT INTO hearing (id, mark_at, deaf_us, stretch_from, verdicts_from, alarmed)
                VALUES (1, 0, 3600000000, 0, 0, 0)";
    deaf.execute(hour, []).expect("an hour");
    let rows = operated.rows("SELECT recovery_deadline FROM dispatch_queue WHERE status = 'recovering'");
    assert_eq!(rows, [["2026-05-28T21:28:41.006000Z"]]);
}

#[test]
fn who_is_busy_with_what() {
    let operated = Operated::new();
    let rows = operated.rows(
        "SELECT agent_id, group_concat(step, ' ') FROM (SELECT * FROM dispatch_queue ORDER BY id)
         WHERE status IN ('queued', 'running', 'recovering', 'cancelling') AND agent_id IS NOT NULL
         GROUP BY agent_id ORDER BY agent_id",
    );
    let expected = [
        ["01900002-0001-7000-8000-000000020001", "offered running cancelling"],
        ["01900002-0002-7000-8000-000000020002", "recovering"],
    ];
    assert_eq!(rows, expected);
}

#[test]
fn why_a_step_failed_and_where_it_ran_last() {
    let operated = Operated::new();
    let rows = operated.rows(&format!(
        "SELECT run_id, agent_id, error_message FROM dispatch_queue WHERE job_id = '{JOB}' AND status = 'failed'"
    ));
    let expected = [
        "01900001-006d-7000-8000-00000001006d",
        "01900002-0001-7000-8000-000000020001",
        "Step `failed` exited with code 3",
    ];
    assert_eq!(rows, [expected]);
}

#[test]
fn what_never_ran_has_no_run() {
    let operated = Operated::new();
    let rows = operated.rows(
        "SELECT run_id, agent_id, dispatch_attempts, error_message, disconnected_at, recovery_deadline, created_at
         FROM dispatch_queue WHERE step = 'queued'",
    );
    assert_eq!(rows, [["-", "-", "0", "-", "-", "-", "2026-05-28T20:26:41.000000Z"]]);
}

#[test]
fn only_what_has_not_started_expires() {
    let expiring = "SELECT expires_at FROM dispatch_queue WHERE expires_at IS NOT NULL ORDER BY expires_at";
    assert_eq!(Operated::new().rows(expiring), Vec::<Vec<String>>::new(), "that job has started");
    let a_day_later = ["2026-05-29T20:26:41.000000Z", "2026-05-29T20:26:42.000000Z", "2026-05-29T20:26:43.000000Z"];
    assert_eq!(Operated::after(jobs_share_a_definition).rows(expiring).concat(), a_day_later);
}

#[test]
fn heartbeats_can_be_asked_for() {
    let operated = Operated::new();
    assert_eq!(operated.rows("SELECT * FROM heartbeats WHERE role = 'runner'"), Vec::<Vec<String>>::new());
    let connection = Connection::open(operated.path()).expect("the database");
    connection
        .execute_batch(
            "INSERT INTO beats SELECT attempt_id, worker_id, 'claimer', 'host', 42, 1, 1780000000000001, 9, 5
             FROM steps WHERE name = 'running'",
        )
        .expect("a beat");
    let (task, sender) = ("01900001-0067-7000-8000-000000010067", "01900002-0001-7000-8000-000000020001");
    let id = format!("{task}/{sender}/claimer");
    let expected = [&id, task, sender, "claimer", "2026-05-28T20:26:40.000001Z", "host", "42"];
    assert_eq!(operated.rows("SELECT * FROM heartbeats"), [expected]);
    let joined = "SELECT q.step, h.hostname FROM dispatch_queue q JOIN heartbeats h ON h.task_id = q.run_id";
    assert_eq!(operated.rows(joined), [["running", "host"]]);
    // What came before a break is there as well, under an id of its own.
    connection.execute_batch("INSERT INTO beat_history SELECT * FROM beats").expect("a stretch that ended");
    let ids = operated.rows("SELECT id FROM heartbeats ORDER BY id").concat();
    assert_eq!(ids, [id.clone(), format!("{id}/1")]);
}
