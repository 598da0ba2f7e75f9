//! Leases: what one server at a time does for all, and the fence against one that slept.

use engine::Heard;

use super::Fixture;
use super::scene::{Life, after, attempt_id, commit, id, plain, worker_id};
use crate::rows::ServerId;
use crate::{Batch, Claim, Lease, LeaseRow, Piece, Store, StoreError, Tenure};

const PIECE: Piece = Piece { rows: 100, log_bytes: 100 };

/// Server `by` wants it for ten seconds from then on.
pub(super) fn claim(lease: Lease, by: u64, at: u64) -> Claim {
    Claim { lease, by: ServerId(id(by)), at: heard(at), until: heard(at + 10) }
}

pub(super) fn claims(claim: Claim) -> Batch {
    Batch { claims: vec![claim], ..Batch::default() }
}

pub(super) fn tenure(lease: Lease, by: u64, epoch: u64) -> Tenure {
    Tenure { lease, holder: ServerId(id(by)), epoch }
}

fn heard(seconds: u64) -> Heard {
    Heard(after(seconds).0)
}

fn row(lease: Lease, by: u64, epoch: u64, until: u64) -> LeaseRow {
    LeaseRow { lease, holder: ServerId(id(by)), epoch, until: heard(until) }
}

fn leases(store: &mut dyn Store) -> Vec<LeaseRow> {
    store.reader().leases().expect("a read")
}

pub fn a_lease_is_taken_and_kept(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    assert_eq!(leases(store), []);
    let taken = row(Lease::Cron, 1, 1, 10);
    assert_eq!(commit(store, &claims(claim(Lease::Cron, 1, 0))).leases, [taken]);
    let both = Batch { claims: vec![claim(Lease::Sweep, 1, 2), claim(Lease::Cron, 1, 2)], ..Batch::default() };
    let kept = row(Lease::Cron, 1, 1, 12);
    assert_eq!(commit(store, &both).leases, [row(Lease::Sweep, 1, 1, 12), kept], "as they were asked for");
    assert_eq!(leases(store), [kept, row(Lease::Sweep, 1, 1, 12)]);
    let late = commit(store, &claims(claim(Lease::Cron, 1, 90))).leases;
    assert_eq!(late, [row(Lease::Cron, 1, 1, 100)], "nobody else had it meanwhile");
}

pub fn a_lease_that_is_held_is_refused_alone(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    commit(store, &claims(claim(Lease::Cron, 1, 0)));
    let meta = vec![("dispatch", "on".to_owned())];
    let wanted = Batch { meta, claims: vec![claim(Lease::Cron, 2, 9), claim(Lease::Sweep, 2, 9)], ..Batch::default() };
    let held = row(Lease::Cron, 1, 1, 10);
    assert_eq!(commit(store, &wanted).leases, [held, row(Lease::Sweep, 2, 1, 19)]);
    assert_eq!(leases(store), [held, row(Lease::Sweep, 2, 1, 19)]);
    assert_eq!(store.reader().meta("dispatch").expect("a read").as_deref(), Some("on"), "all else is there");
}

pub fn a_lease_that_is_over_is_taken_with_the_next_epoch(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    commit(store, &claims(claim(Lease::Retention, 1, 0)));
    let second = row(Lease::Retention, 2, 2, 20);
    assert_eq!(commit(store, &claims(claim(Lease::Retention, 2, 10))).leases, [second]);
    assert_eq!(commit(store, &claims(claim(Lease::Retention, 1, 11))).leases, [second], "it is another one's now");
    let given_back = Claim { until: heard(12), ..claim(Lease::Retention, 2, 12) };
    assert_eq!(commit(store, &claims(given_back)).leases, [row(Lease::Retention, 2, 2, 12)]);
    let third = row(Lease::Retention, 1, 3, 22);
    assert_eq!(commit(store, &claims(claim(Lease::Retention, 1, 12))).leases, [third]);
    let whatever = Claim { at: Claim::WHATEVER, ..claim(Lease::Retention, 2, 13) };
    assert_eq!(commit(store, &claims(whatever)).leases, [row(Lease::Retention, 2, 4, 23)]);
}

pub fn a_batch_under_a_lease_that_was_taken_undoes_itself(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let said = |under| Batch { under, meta: vec![("dispatch", "on".to_owned())], ..Batch::default() };
    let refused = |store: &mut dyn Store, under| {
        let error = store.commit(&said(under)).expect_err("it is not held");
        assert!(matches!(error, StoreError::Moved { .. }), "{error}");
        assert_eq!(store.reader().meta("dispatch").expect("a read"), None, "nothing of it happened");
    };
    let first = tenure(Lease::Cron, 1, 1);
    refused(store, vec![first]);
    commit(store, &claims(claim(Lease::Cron, 1, 0)));
    commit(store, &claims(claim(Lease::Sweep, 1, 0)));
    commit(store, &claims(claim(Lease::Cron, 2, 10)));
    refused(store, vec![first]);
    refused(store, vec![tenure(Lease::Sweep, 1, 1), first]);
    refused(store, vec![tenure(Lease::Cron, 1, 2)]);
    refused(store, vec![tenure(Lease::Cron, 2, 1)]);
    // Whoever sleeps through the end of its lease, and does not know it, wants to keep it as well.
    let asleep = Batch { claims: vec![claim(Lease::Cron, 1, 8)], ..said(vec![first]) };
    assert!(matches!(store.commit(&asleep), Err(StoreError::Moved { .. })));
    commit(store, &said(vec![tenure(Lease::Cron, 2, 2), tenure(Lease::Sweep, 1, 1)]));
    assert_eq!(store.reader().meta("dispatch").expect("a read").as_deref(), Some("on"));
}

pub fn nothing_is_deleted_under_a_lease_that_was_taken(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut life = Life::submit(store, 1, &plain());
    life.apply(store, &engine::Event::Cancel { by: "ann".to_owned(), force: false });
    let old = [(life.job.id, life.job.header.version)];
    commit(store, &claims(claim(Lease::Retention, 1, 0)));
    let first = Some(tenure(Lease::Retention, 1, 1));
    assert_eq!(store.drop_strays(after(1), 1, first).expect("it is held").words, 0);
    commit(store, &claims(claim(Lease::Retention, 2, 10)));
    let now = after(100);
    let outcomes = [
        store.doom(&old, now, first).map(drop),
        store.clear_doomed(PIECE, first).map(drop),
        store.drop_log(attempt_id(1), now, PIECE, first).map(drop),
        store.prune_definitions(None, 10, first).map(drop),
        store.drop_strays(now, 10, first).map(drop),
        store.depart(worker_id(1), now, now, first).map(drop),
        store.prune_beats(now, 10, first).map(drop),
        store.prune_groups(now, 10, first).map(drop),
    ];
    for (number, outcome) in outcomes.into_iter().enumerate() {
        assert!(matches!(outcome, Err(StoreError::Moved { .. })), "deletion {number}: {outcome:?}");
    }
    assert!(store.load_job(life.job.id).expect("a read").is_some());
    let second = Some(tenure(Lease::Retention, 2, 2));
    assert_eq!(store.doom(&old, now, second).expect("it is held"), [life.job.id]);
}

pub fn a_lease_survives_a_crash(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    commit(&mut *store, &claims(claim(Lease::Cron, 1, 0)));
    fixture.crash(store);
    let store = &mut *fixture.open();
    assert_eq!(leases(store), [row(Lease::Cron, 1, 1, 10)]);
    assert_eq!(commit(store, &claims(claim(Lease::Cron, 2, 9))).leases, [row(Lease::Cron, 1, 1, 10)]);
}
