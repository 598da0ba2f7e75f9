//! The views for operators, asked as operators ask.

use store::Store;
use store::conformance::Fixture;
use store::conformance::jobs::{every_step_state_comes_back, jobs_share_a_definition};
use store_postgres::PostgresStore;
use testkit::postgres::Database;

/// The database that a case of the suite left behind.
struct Operated {
    database: Database,
}

impl Operated {
    /// One job that has a step in every state.
    fn new() -> Operated {
        Operated::after(every_step_state_comes_back)
    }

    fn after(case: fn(&mut dyn Fixture)) -> Operated {
        let mut operated = Operated { database: Database::new() };
        case(&mut operated);
        operated
    }

    /// With times in UTC, and `-` for what is none.
    fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let answer = self.database.psql(&format!("SET timezone = 'UTC'; {sql}"));
        let cell = |cell: &str| if cell.is_empty() { "-".to_owned() } else { cell.to_owned() };
        answer.lines().map(|line| line.split('|').map(cell).collect()).collect()
    }
}

impl Fixture for Operated {
    fn open(&mut self) -> Box<dyn Store> {
        Box::new(PostgresStore::open(&self.database.url()).expect("a database"))
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
        let sql = format!(
            "SELECT column_name FROM information_schema.columns WHERE table_name = '{view}' ORDER BY ordinal_position"
        );
        operated.rows(&sql).concat()
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
        "2026-05-28 20:26:41.006+00",
        "2026-05-28 20:28:41.006+00",
    ];
    assert_eq!(rows, [expected]);
    let overdue = "SELECT step FROM dispatch_queue WHERE recovery_deadline < '2026-05-28 20:28:42Z'";
    assert_eq!(operated.rows(overdue), [["recovering"]]);
}

#[test]
fn a_window_ends_later_by_what_was_deaf() {
    let operated = Operated::new();
    let hour = "INSERT INTO hearing (id, mark_at, deaf_us, stretch_from, verdicts_from, alarmed)
                VALUES (1, 0, 3600000000, 0, 0, false)";
    operated.database.psql(hour);
    let rows = operated.rows("SELECT recovery_deadline FROM dispatch_queue WHERE status = 'recovering'");
    assert_eq!(rows, [["2026-05-28 21:28:41.006+00"]]);
}

#[test]
fn who_is_busy_with_what() {
    let operated = Operated::new();
    let rows = operated.rows(
        "SELECT agent_id, string_agg(step, ' ' ORDER BY id) FROM dispatch_queue
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
    assert_eq!(rows, [["-", "-", "0", "-", "-", "-", "2026-05-28 20:26:41+00"]]);
}

#[test]
fn only_what_has_not_started_expires() {
    let expiring = "SELECT expires_at FROM dispatch_queue WHERE expires_at IS NOT NULL ORDER BY expires_at";
    assert_eq!(Operated::new().rows(expiring), Vec::<Vec<String>>::new(), "that job has started");
    let a_day_later = ["2026-05-29 20:26:41+00", "2026-05-29 20:26:42+00", "2026-05-29 20:26:43+00"];
    assert_eq!(Operated::after(jobs_share_a_definition).rows(expiring).concat(), a_day_later);
}

#[test]
fn heartbeats_can_be_asked_for() {
    let operated = Operated::new();
    assert_eq!(operated.rows("SELECT * FROM heartbeats WHERE role = 'runner'"), Vec::<Vec<String>>::new());
    operated.database.psql(
        "INSERT INTO beats SELECT attempt_id, worker_id, 'claimer', 'host', 42, 1, 1780000000000001, 9, 5
             FROM steps WHERE name = 'running'",
    );
    let (task, sender) = ("01900001-0067-7000-8000-000000010067", "01900002-0001-7000-8000-000000020001");
    let id = format!("{task}/{sender}/claimer");
    let expected = [&id, task, sender, "claimer", "2026-05-28 20:26:40.000001+00", "host", "42"];
    assert_eq!(operated.rows("SELECT * FROM heartbeats"), [expected]);
    let joined = "SELECT q.step, h.hostname FROM dispatch_queue q JOIN heartbeats h ON h.task_id = q.run_id";
    assert_eq!(operated.rows(joined), [["running", "host"]]);
    // What came before a break is there as well, under an id of its own.
    operated.database.psql("INSERT INTO beat_history SELECT * FROM beats");
    let ids = operated.rows("SELECT id FROM heartbeats ORDER BY id").concat();
    assert_eq!(ids, [id.clone(), format!("{id}/1")]);
}
