//! For each check, what breaks a sound database in just that way; the same SQL for every store.

use std::collections::BTreeSet;

use store::Store;
use store::check::{CHECKS, Finding, Offender, Readers};
use store::conformance::healthy;

pub(crate) struct Damage {
    pub check: &'static str,
    pub sql: &'static [&'static str],
}

const fn by(check: &'static str, sql: &'static [&'static str]) -> Damage {
    Damage { check, sql }
}

/// An id that is no job's, and from after what was deleted for its age.
macro_rules! no_job {
    () => {
        "(SELECT id FROM attempts ORDER BY id DESC LIMIT 1)"
    };
}

pub(crate) const DAMAGES: &[Damage] = &[
    by("schema", &["UPDATE meta SET value = '9999' WHERE key = 'min_reader'"]),
    by("schema", &["DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)"]),
    by("schema", &["UPDATE schema_migrations SET checksum = (SELECT hash FROM tokens LIMIT 1)"]),
    by("job-words", &["UPDATE jobs SET action = 'dance' WHERE state = 'held'"]),
    by("job-words", &["UPDATE jobs SET owner = 'nobody' WHERE state = 'held'"]),
    by("step-words", &["UPDATE steps SET action = 'dance' WHERE state = 'held'"]),
    by("attempt-words", &["UPDATE attempts SET state = 'odd' WHERE state = 'ended'"]),
    by("job-owner", &["UPDATE jobs SET owner = NULL WHERE state = 'held'"]),
    by("job-owner", &["UPDATE jobs SET owner = 'steps' WHERE state = 'failed'"]),
    by("step-owner", &["UPDATE steps SET owner = NULL WHERE state = 'held'"]),
    by("step-owner", &["UPDATE steps SET action = NULL WHERE state = 'waiting'"]),
    by(
        "job-check-far",
        &["UPDATE jobs SET check_at = 9000000000000000, data = replace(data, '\"at\":' || check_at, '\"at\":9000000000000000')
           WHERE state = 'held'"],
    ),
    by(
        "step-check-far",
        &["UPDATE steps SET check_at = 9000000000000000, data = replace(data, '\"at\":' || check_at, '\"at\":9000000000000000')
           WHERE state = 'held'"],
    ),
    by(
        "job-overdue",
        &["UPDATE jobs SET check_at = 7, data = replace(data, '\"at\":' || check_at, '\"at\":7') WHERE state = 'held'"],
    ),
    by(
        "step-overdue",
        &["UPDATE steps SET check_at = 7, data = replace(data, '\"at\":' || check_at, '\"at\":7') WHERE state = 'held'"],
    ),
    by("job-end", &["UPDATE jobs SET error_code = NULL WHERE state = 'failed'"]),
    by(
        "job-end",
        &["UPDATE jobs SET ended_at = NULL, data = replace(data, ',\"ended_at\":' || ended_at, '') WHERE state = 'success'"],
    ),
    by(
        "job-steps",
        &[
            "UPDATE jobs SET data = replace(data, '[0,0,0,0,0,1,0,0', '[0,0,0,0,0,0,0,1') WHERE state = 'held'",
            "UPDATE events SET \"to\" = 'success' WHERE kind = 'step' AND \"to\" = 'held'
                AND job_id IN (SELECT job_id FROM steps WHERE state = 'held' AND attempt_id IS NULL)",
            "UPDATE steps SET state = 'success', owner = NULL, check_at = NULL, action = NULL,
                              data = '{\"state\":{\"name\":\"success\"}}' WHERE state = 'held' AND attempt_id IS NULL",
        ],
    ),
    by("job-counts", &["UPDATE jobs SET data = replace(data, '[0,0,0,0,0,1,0', '[0,0,0,0,0,2,0') WHERE state = 'held'"]),
    by("job-data", &["UPDATE jobs SET started_at = 5 WHERE state = 'held'"]),
    by(
        "job-data",
        &[
            "UPDATE events SET \"to\" = 'running' WHERE kind = 'job' AND \"to\" = 'held'",
            "UPDATE jobs SET state = 'running' WHERE state = 'held'",
        ],
    ),
    by("job-input", &["UPDATE jobs SET input = '{nonsense' WHERE state = 'failed'"]),
    by("definition-text", &["UPDATE definitions SET source = 'nonsense' WHERE source LIKE '%plain%'"]),
    by("job-definition", &["DELETE FROM definitions WHERE source LIKE '%plain%'"]),
    by(
        "job-parent",
        &["UPDATE jobs SET parent_job = (SELECT id FROM jobs ORDER BY id DESC LIMIT 1), parent_step = 7 WHERE state = 'held'"],
    ),
    by("job-parent", &["UPDATE jobs SET parent_step = 0 WHERE state = 'held'"]),
    by(
        "step-job",
        &["INSERT INTO steps (job_id, ix, name, state, dispatch_attempts, updated_at, data)
           SELECT id, 0, 'stray', 'success', 0, 0, '{\"state\":{\"name\":\"success\"}}' FROM attempts ORDER BY id DESC LIMIT 1"],
    ),
    by("step-places", &["UPDATE steps SET ix = 5 WHERE state = 'held' AND attempt_id IS NULL"]),
    by("step-data", &["UPDATE steps SET data = replace(data, '\"name\":\"held\"', '\"name\":\"waiting\"') WHERE state = 'held'"]),
    by(
        "step-data",
        &["UPDATE steps SET data = replace(data, '\"called_off\":null', '\"called_off\":\"cancel\"') WHERE owner = 'child'"],
    ),
    by("step-child", &["UPDATE jobs SET parent_job = NULL, parent_step = NULL WHERE parent_job IS NOT NULL"]),
    by("step-attempt", &["UPDATE steps SET worker_id = NULL WHERE state = 'queued'"]),
    by("step-attempt", &["UPDATE steps SET attempt_id = (SELECT id FROM jobs ORDER BY id DESC LIMIT 1) WHERE state = 'waiting'"]),
    by("step-current", &["UPDATE steps SET fence = fence + 50 WHERE state = 'held' AND attempt_id IS NOT NULL"]),
    by("step-current", &["UPDATE attempts SET worker_id = (SELECT id FROM workers WHERE name = 'build-1') WHERE state = 'recovering'"]),
    by("step-current", &["UPDATE steps SET fence = fence + 50 WHERE state = 'recovering'"]),
    by("attempt-step", &["UPDATE attempts SET ix = 9 WHERE job_id IN (SELECT id FROM jobs WHERE state = 'failed')"]),
    by(
        "attempt-open",
        &["UPDATE attempts SET state = 'running', ended_at = NULL, confirmed = (1 = 0)
           WHERE job_id IN (SELECT id FROM jobs WHERE state = 'failed')"],
    ),
    by("attempt-end", &["UPDATE attempts SET confirmed = (1 = 0) WHERE state = 'ended'"]),
    by("attempt-end", &["UPDATE attempts SET ended_at = 5 WHERE state = 'recovering'"]),
    by("attempt-number", &["UPDATE attempts SET number = 7 WHERE job_id IN (SELECT id FROM jobs WHERE state = 'failed')"]),
    by("attempt-worker", &["UPDATE attempts SET worker_id = id WHERE state = 'lost'"]),
    by(
        "fence-once",
        &["UPDATE attempts SET fence = (SELECT fence FROM attempts WHERE job_id IN (SELECT id FROM jobs WHERE state = 'failed'))
           WHERE job_id IN (SELECT id FROM jobs WHERE state = 'success')"],
    ),
    by("fence-order", &["UPDATE attempts SET fence = 90 WHERE state = 'lost'"]),
    by("fence-ahead", &["UPDATE attempts SET fence = 9000000000000000 WHERE job_id IN (SELECT id FROM jobs WHERE state = 'failed')"]),
    by("fence-ahead", &["UPDATE steps SET fence = 9000000000000000 WHERE state = 'queued' AND fence IS NOT NULL"]),
    by("worker-epoch", &["UPDATE workers SET used_epoch = 99 WHERE name = 'build-2'"]),
    by("worker-epoch", &["UPDATE attempts SET epoch = 99 WHERE state = 'lost'"]),
    by(
        "worker-departed",
        &["INSERT INTO departed (worker_id, credential_hash, at) SELECT id, credential_hash, 5 FROM workers WHERE name = 'build-2'"],
    ),
    by("server-generation", &["UPDATE servers SET generation = 99"]),
    by("log-overlap", &["UPDATE log_chunks SET first_seq = 3 WHERE first_seq = 4"]),
    by("log-lines", &["DELETE FROM log_chunks WHERE first_seq = 4"]),
    by("log-lines", &["DELETE FROM log_marks WHERE missing = 4"]),
    by("log-lines", &["UPDATE logs SET last_seq = 15 WHERE last_seq = 9"]),
    by("log-blocks", &["UPDATE log_chunks SET blocks = (SELECT hash FROM tokens LIMIT 1) WHERE first_seq = 4"]),
    by("log-state", &["UPDATE logs SET last_seq = 1 WHERE last_seq = 5"]),
    by("log-state", &["DELETE FROM logs WHERE last_seq = 5"]),
    by("log-end", &["UPDATE logs SET close_at = 5 WHERE complete"]),
    by("log-end", &["UPDATE logs SET end_seq = 77 WHERE last_seq = 5"]),
    by("log-waits", &["UPDATE logs SET close_at = NULL WHERE NOT complete"]),
    by("event-job", &[concat!("UPDATE events SET job_id = ", no_job!(), " WHERE kind = 'job'")]),
    by("event-state", &["UPDATE events SET \"to\" = 'failed' WHERE kind = 'job' AND \"to\" = 'success'"]),
    by("event-state", &["DELETE FROM events WHERE kind = 'step' AND \"to\" = 'recovering'"]),
    by("outbox-due", &["UPDATE outbox SET next_at = 5 WHERE delivered_at IS NOT NULL"]),
    by("outbox-due", &["UPDATE outbox SET next_at = NULL WHERE tries = 0"]),
    by("idempotency-job", &[concat!("UPDATE idempotency SET job_id = ", no_job!())]),
    by("lineage-job", &[concat!("UPDATE lineage SET job_id = ", no_job!(), " WHERE job_id = (SELECT job_id FROM lineage ORDER BY job_id DESC LIMIT 1)")]),
    by("lineage-job", &[concat!("UPDATE lineage SET continues = ", no_job!(), ", root = ", no_job!(), " WHERE job_id = (SELECT job_id FROM lineage ORDER BY job_id DESC LIMIT 1)")]),
    by("lineage-line", &["UPDATE lineage SET number = 0 WHERE job_id = (SELECT job_id FROM lineage ORDER BY job_id DESC LIMIT 1)"]),
    by(
        "slot-admission",
        &["UPDATE jobs SET started_at = 5, data = replace(data, '\"counts\"', '\"started_at\":5,\"counts\"')
           WHERE slot_group IS NOT NULL AND admitted_at IS NULL"],
    ),
    by("slot-group", &["DELETE FROM slot_groups"]),
    by("slot-group", &[concat!("UPDATE slot_groups SET last_admitted = ", no_job!())]),
    by("trigger-next", &["UPDATE triggers SET next_at = NULL WHERE id = 'due'"]),
    by("trigger-next", &["UPDATE triggers SET next_at = 5 WHERE id = 'paused'"]),
    by("trigger-job", &[concat!("UPDATE triggers SET last_job = ", no_job!(), " WHERE id = 'due'")]),
    by("deleted-job", &["INSERT INTO doomed (job_id, at) SELECT id, 0 FROM jobs WHERE state = 'failed'"]),
    by("quarantine", &["INSERT INTO quarantine (at, event, error) VALUES (5, '{}', 'poison')"]),
    by("mark-ahead", &["UPDATE hearing SET mark_at = mark_at + 120000000"]),
];

/// For the values that conformance scenes have in the place of true ones.
pub(crate) const READERS: Readers = Readers {
    definition: |source, _| (source == "nonsense").then(|| "it is no task".to_owned()),
    blocks: |blocks, first, last| (blocks != [9]).then(|| format!("lines {first} to {last} are odd")),
};

/// A database of one of the stores, which is made anew for each damage.
pub(crate) trait Patient {
    fn new() -> Self;
    fn open(&mut self) -> Box<dyn Store>;
    fn execute(&mut self, sql: &str);
    fn check(&mut self) -> Vec<Finding>;
}

/// The names of the checks that found something.
pub(crate) fn names(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().filter(|finding| finding.count > 0).map(|finding| finding.check.name).collect()
}

fn filled<P: Patient>() -> P {
    let mut patient = P::new();
    healthy::fill(&mut *patient.open());
    patient
}

/// `only`: checks of this store alone, with what breaks them.
pub(crate) fn each_damage_is_named<P: Patient>(only: &[Damage]) {
    let mut patient: P = filled();
    let sound = patient.check();
    let wrong: Vec<&Finding> = sound.iter().filter(|finding| finding.count > 0).collect();
    assert!(wrong.is_empty(), "nothing is wrong yet: {wrong:#?}");
    let mut otherwise = Vec::new();
    for damage in DAMAGES.iter().chain(only) {
        let mut patient: P = filled();
        damage.sql.iter().for_each(|sql| patient.execute(sql));
        let findings: Vec<Finding> = patient.check().into_iter().filter(|finding| finding.count > 0).collect();
        let named = findings.iter().all(|found| found.first.iter().all(|offender| !offender.what.is_empty()));
        if names(&findings) != [damage.check] || findings[0].first.is_empty() || !named {
            otherwise.push((damage.check, damage.sql, findings));
        }
    }
    assert!(otherwise.is_empty(), "these are not named, or others are as well: {otherwise:#?}");
    let broken: BTreeSet<&str> = DAMAGES.iter().chain(only).map(|damage| damage.check).collect();
    let asked: BTreeSet<&str> = sound.iter().map(|finding| finding.check.name).filter(|name| *name != "file").collect();
    assert_eq!(broken, asked, "each check that is asked has something that breaks it");
    assert!(asked.iter().all(|name| CHECKS.iter().any(|check| check.name == *name)));
}

/// A value that cannot be read is a finding with a name, and hides neither what else that check finds nor the rest.
pub(crate) fn what_cannot_be_read_is_found_too<P: Patient>() {
    let mut patient: P = filled();
    patient.execute("UPDATE jobs SET data = '{nonsense' WHERE state = 'held'");
    patient.execute("UPDATE jobs SET started_at = 5 WHERE state = 'failed'");
    patient.execute("DELETE FROM slot_groups");
    let findings = patient.check();
    assert_eq!(names(&findings), ["job-counts", "job-data", "slot-group"], "{findings:#?}");
    let of = |name: &str| findings.iter().find(|finding| finding.check.name == name).expect("it is asked");
    let is_named =
        |offender: &Offender| offender.job.is_some() && offender.what.starts_with("its data cannot be read: ");
    for name in ["job-counts", "job-data"] {
        assert!(is_named(&of(name).first[0]), "{findings:#?}");
    }
    let others = |name: &str| of(name).first.iter().filter(|offender| !is_named(offender)).count();
    assert!(others("job-data") > 0 && others("job-counts") == 0, "{findings:#?}");
    assert!((others("job-data") as u64) < of("job-data").count, "{findings:#?}");

    let mut patient: P = filled();
    patient.execute("UPDATE steps SET data = '' WHERE state = 'held'");
    let findings = patient.check();
    assert_eq!(names(&findings), ["step-data"], "{findings:#?}");
    let found = &findings.iter().find(|finding| finding.count > 0).expect("it was found").first;
    assert!(found.iter().all(|offender| is_named(offender) && offender.step.is_some()), "{found:#?}");
}

/// However many there are, all are counted and few are named.
pub(crate) fn many_are_counted_and_few_are_named<P: Patient>() {
    let mut patient: P = filled();
    patient.execute("DELETE FROM definitions");
    let findings = patient.check();
    assert_eq!(names(&findings), ["job-definition"]);
    let found = findings.iter().find(|finding| finding.count > 0).expect("it was found");
    assert!(found.count > LIMIT as u64, "{}", found.count);
    assert_eq!(found.first.len(), LIMIT);
}

pub(crate) const LIMIT: usize = 5;
