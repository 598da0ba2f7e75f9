//! Fences, workers, tokens, tasks and settings.

use std::sync::{Arc, Barrier, Mutex};

use engine::{Epoch, Heard, Time};

use super::Fixture;
use super::scene::{FIRST, Life, T0, after, commit, id, job_id, plain, worker_id};
use crate::rows::{
    BreakerRow, FleetChange, HearingRow, NewWorker, SecretRow, ServerId, TaskRow, TokenRow, WorkerHello, WorkerRow,
};
use crate::{Batch, Enrolled, Mark, Store, StoreError};

pub fn fences_only_grow(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let first = store.reserve_fences(10, 0).expect("fences");
    assert!(first > 0, "zero is no fence");
    let second = store.reserve_fences(1, 0).expect("fences");
    assert_eq!(second, first + 10);
    assert_eq!(store.reserve_fences(5, 1_000_000).expect("fences"), 1_000_000);
    assert_eq!(store.reserve_fences(1, 7).expect("fences"), 1_000_005, "never below what was given");
    let error = store.reserve_fences(u64::MAX, 0).expect_err("more than there are");
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    assert_eq!(store.reserve_fences(1, 0).expect("fences"), 1_000_006);
}

pub fn fences_survive_a_crash(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    let first = store.reserve_fences(100, 5_000).expect("fences");
    fixture.crash(store);
    assert!(fixture.open().reserve_fences(1, 0).expect("fences") >= first + 100);
}

pub fn every_hello_has_an_epoch_of_its_own(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    enrolled(store, 1);
    let reader = store.reader();
    let fresh = reader.worker_by_credential(&[1; 32]).expect("a read").expect("the worker");
    assert_eq!((fresh.id, fresh.epoch, fresh.session, fresh.last_seen_at), (worker_id(1), Epoch(0), None, None));
    assert_eq!((fresh.created_at, fresh.state_id, fresh.name.as_str()), (after(1), id(501), "w1"));

    let hello = hello(1);
    say_hello(store, &hello, after(50));
    let row = store.worker(worker_id(1)).expect("a read").expect("the worker");
    let expected = WorkerRow {
        id: worker_id(1),
        name: "build-1".to_owned(),
        epoch: Epoch(1),
        used_epoch: Epoch(0),
        draining: false,
        kind: "ephemeral".to_owned(),
        tags: hello.tags.clone(),
        slots: 4,
        session: Some(hello.session),
        boot_id: "boot".to_owned(),
        state_id: hello.state_id,
        machine: "fingerprint".to_owned(),
        version: "1.2.3".to_owned(),
        platform: "linux-x86_64".to_owned(),
        hostname: "host".to_owned(),
        pid: 4321,
        created_at: after(1),
        started_at: Some(T0),
        last_seen_at: Some(after(50)),
        left_heard: None,
        removed_at: None,
        allowed_tags: fresh.allowed_tags,
        server: Some(hello.server),
        unwilling: false,
        features: hello.features.clone(),
        unread: hello.unread,
        after_loss: hello.after_loss,
    };
    assert_eq!(row, expected);
    let again = Batch { hellos: vec![hello.clone()], ..Batch::default() };
    let error = store.commit(&again).expect_err("an epoch that was given before");
    assert!(matches!(error, StoreError::Moved { .. }), "{error}");
    say_hello(store, &WorkerHello { epoch: Epoch(2), ..hello }, after(51));
    let stored = WorkerRow { epoch: Epoch(2), last_seen_at: Some(after(51)), ..expected };
    assert_eq!(reader.workers().expect("a read"), [Arc::new(stored.clone())]);
    assert_eq!(reader.worker_by_credential(&[1; 32]).expect("a read"), Some(stored));

    let mut life = Life::submit(store, 1, &plain());
    life.start(store, FIRST, 1, 1);
    let attempts = reader.attempts(job_id(1)).expect("a read");
    assert_eq!(attempts[0].worker_name.as_deref(), Some("build-1"));
}

pub fn an_unknown_worker_cannot_say_hello(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    assert_eq!(store.worker(worker_id(1)).expect("a read"), None);
    let error = store.commit(&Batch { hellos: vec![hello(1)], ..Batch::default() }).expect_err("nobody by that id");
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    assert_eq!(store.reader().workers().expect("a read"), []);
}

pub fn being_seen_touches_nothing_else(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    enrolled(store, 1);
    say_hello(store, &hello(1), after(10));
    let row = store.worker(worker_id(1)).expect("a read").expect("the worker");
    let seen = |at: Time| Batch { seen: vec![(worker_id(1), at), (worker_id(9), at)], ..Batch::default() };
    commit(store, &seen(after(20)));
    commit(store, &seen(after(15)));
    let expected = WorkerRow { last_seen_at: Some(after(20)), ..row };
    assert_eq!(store.reader().workers().expect("a read"), [Arc::new(expected)], "and it never goes back");
}

pub fn an_operators_word_on_a_worker_stays(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    enrolled(&mut *store, 1);
    enrolled(&mut *store, 2);
    let drain = |on: bool| FleetChange::Drain { worker: worker_id(1), on };
    let remove = |seconds: u64| FleetChange::Remove { worker: worker_id(2), at: after(seconds) };
    commit(&mut *store, &Batch { fleet: vec![drain(true), remove(10)], ..Batch::default() });
    commit(
        &mut *store,
        &Batch { fleet: vec![remove(20)], meta: vec![("dispatch", "off".to_owned())], ..Batch::default() },
    );
    say_hello(&mut *store, &hello(1), after(30));
    let row = store.worker(worker_id(1)).expect("a read").expect("the worker");
    assert!(row.draining, "a hello does not wipe it");
    fixture.crash(store);
    let mut store = fixture.open();
    let reader = store.reader();
    let rows = reader.workers().expect("a read");
    let told: Vec<(bool, Option<Time>)> = rows.iter().map(|row| (row.draining, row.removed_at)).collect();
    assert_eq!(told, [(true, None), (false, Some(after(10)))], "the first removal stays");
    assert_eq!(reader.meta("dispatch").expect("a read").as_deref(), Some("off"));
    commit(&mut *store, &Batch { fleet: vec![drain(false)], ..Batch::default() });
    assert!(!reader.workers().expect("a read")[0].draining);
}

pub fn who_left_is_marked_until_the_next_hello(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    enrolled(store, 1);
    say_hello(store, &hello(1), after(10));
    commit(store, &Batch { left: vec![(worker_id(1), Epoch(1), Heard(77))], ..Batch::default() });
    let left = |store: &mut dyn Store| store.worker(worker_id(1)).expect("a read").expect("the worker").left_heard;
    assert_eq!(left(store), Some(Heard(77)));
    say_hello(store, &WorkerHello { epoch: Epoch(2), ..hello(1) }, after(20));
    assert_eq!(left(store), None);
}

pub fn a_used_epoch_only_grows(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    enrolled(store, 1);
    say_hello(store, &WorkerHello { epoch: Epoch(5), ..hello(1) }, after(10));
    for epoch in [4, 5, 3] {
        commit(store, &Batch { used_epochs: vec![(worker_id(1), Epoch(epoch))], ..Batch::default() });
    }
    let row = store.worker(worker_id(1)).expect("a read").expect("the worker");
    assert_eq!((row.epoch, row.used_epoch), (Epoch(5), Epoch(5)));
}

pub fn the_newest_mass_loss_is_kept(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let reader = store.reader();
    assert_eq!(reader.breaker().expect("a read"), None);
    let row = |seconds| BreakerRow { tripped_at: after(seconds), lost: 6, connected: 9, ended_at: None };
    commit(store, &Batch { breaker: Some(row(1)), ..Batch::default() });
    commit(store, &Batch { breaker_ended: Some(after(2)), ..Batch::default() });
    commit(store, &Batch { breaker_ended: Some(after(3)), ..Batch::default() });
    assert_eq!(reader.breaker().expect("a read"), Some(BreakerRow { ended_at: Some(after(2)), ..row(1) }));
    commit(store, &Batch { breaker: Some(row(4)), ..Batch::default() });
    assert_eq!(reader.breaker().expect("a read"), Some(row(4)));
}

pub fn the_last_mark_is_what_counts(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    assert_eq!(store.reader().hearing().expect("a read"), None);
    let first = HearingRow {
        mark_at: after(1),
        deaf_us: 0,
        stretch_from: Heard(1),
        unsettled_since: None,
        verdicts_from: Heard::MIN,
        alarmed: false,
    };
    let second = HearingRow {
        mark_at: after(9),
        deaf_us: 5_000_000,
        stretch_from: Heard(2),
        unsettled_since: Some(Heard(3)),
        verdicts_from: Heard(4),
        alarmed: true,
    };
    for (row, expected) in [(first, None), (second, Some(first))] {
        commit(&mut *store, &Batch { hearing: Some(Mark { row, expected }), ..Batch::default() });
        assert_eq!(store.reader().hearing().expect("a read"), Some(row));
    }
    fixture.crash(store);
    assert_eq!(fixture.open().reader().hearing().expect("a read"), Some(second));
}

pub fn tokens_come_back_and_are_revoked_once(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let (api, enroll) = (TokenRow { tags: Vec::new(), uses_left: None, ..token(1, "api") }, token(2, "enroll"));
    store.put_token(&enroll).expect("a token");
    store.put_token(&api).expect("a token");
    let reader = store.reader();
    assert_eq!(reader.tokens().expect("a read"), [api.clone(), enroll.clone()]);
    assert_eq!(reader.token_by_hash(&enroll.hash).expect("a read"), Some(enroll.clone()));
    let renamed = TokenRow { name: "new name".to_owned(), ..api.clone() };
    store.put_token(&renamed).expect("the same token again");
    assert_eq!(reader.token_by_hash(&api.hash).expect("a read"), Some(renamed));

    let twin = TokenRow { hash: api.hash, ..token(3, "api") };
    let error = store.put_token(&twin).expect_err("two tokens with one secret");
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");

    assert!(store.revoke_token(api.id, after(30)).expect("a write"));
    assert!(!store.revoke_token(api.id, after(31)).expect("a write"), "it was revoked already");
    assert!(!store.revoke_token(id(77), after(31)).expect("a write"), "there is no such token");
    let stored = reader.token_by_hash(&api.hash).expect("a read").expect("the token");
    assert_eq!(stored.revoked_at, Some(after(30)));
}

pub fn an_enroll_token_is_spent(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let single = token(1, "enroll");
    store.put_token(&single).expect("a token");
    assert_eq!(store.enroll(&single.hash, &new_worker(1), after(1)).expect("a write"), Enrolled::Yes);
    assert_eq!(store.enroll(&single.hash, &new_worker(2), after(1)).expect("a write"), Enrolled::Refused);
    let reader = store.reader();
    assert_eq!(reader.token_by_hash(&single.hash).expect("a read").expect("the token").uses_left, Some(0));

    let endless = TokenRow { uses_left: None, ..token(2, "enroll") };
    store.put_token(&endless).expect("a token");
    for n in 3..6 {
        assert_eq!(store.enroll(&endless.hash, &new_worker(n), after(1)).expect("a write"), Enrolled::Yes);
    }
    assert_eq!(reader.token_by_hash(&endless.hash).expect("a read").expect("the token").uses_left, None);
    let workers = reader.workers().expect("a read");
    assert!(workers.iter().all(|w| w.allowed_tags == single.tags), "the token's tags stay with its workers");
    let workers: Vec<_> = workers.iter().map(|w| w.id).collect();
    assert_eq!(workers, [1, 3, 4, 5].map(worker_id));
}

pub fn only_a_good_enroll_token_enrolls(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let expired = TokenRow { expires_at: Some(after(10)), ..token(2, "enroll") };
    for bad in [token(1, "api"), expired.clone(), token(3, "enroll")] {
        store.put_token(&bad).expect("a token");
    }
    store.revoke_token(token(3, "enroll").id, after(1)).expect("a write");
    for n in 1..=4 {
        let answer = store.enroll(&hash(n), &new_worker(n), after(10)).expect("a write");
        assert_eq!(answer, Enrolled::Refused, "token {n}");
    }
    assert_eq!(store.reader().workers().expect("a read"), []);
    let just_in_time = Time(after(10).0 - 1);
    assert_eq!(store.enroll(&expired.hash, &new_worker(2), just_in_time).expect("a write"), Enrolled::Yes);
}

pub fn a_worker_that_cannot_be_made_spends_nothing(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let twice = TokenRow { uses_left: Some(2), ..token(1, "enroll") };
    store.put_token(&twice).expect("a token");
    assert_eq!(store.enroll(&twice.hash, &new_worker(1), after(1)).expect("a write"), Enrolled::Yes);
    let error = store.enroll(&twice.hash, &new_worker(1), after(1)).expect_err("the same worker again");
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    let left = store.reader().token_by_hash(&twice.hash).expect("a read").expect("the token").uses_left;
    assert_eq!(left, Some(1));
}

pub fn one_use_makes_one_worker_in_a_race(fixture: &mut dyn Fixture) {
    const RACERS: usize = 8;
    let mut store = fixture.open();
    store.put_token(&token(1, "enroll")).expect("a token");
    let (store, start) = (Arc::new(Mutex::new(store)), Arc::new(Barrier::new(RACERS)));
    let racers: Vec<_> = (1..=RACERS as u64)
        .map(|n| {
            let (store, start) = (store.clone(), start.clone());
            std::thread::spawn(move || {
                start.wait();
                let mut store = store.lock().expect("nobody panics with it");
                store.enroll(&hash(1), &new_worker(n), after(1)).expect("a write")
            })
        })
        .collect();
    let won = racers.into_iter().filter_map(|r| r.join().ok()).filter(|answer| *answer == Enrolled::Yes).count();
    assert_eq!(won, 1);
    let store = store.lock().expect("nobody panics with it");
    assert_eq!(store.reader().workers().expect("a read").len(), 1);
}

pub fn secrets_are_replaced_by_name_and_removed(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    let row = |name: &str, sealed: &[u8]| SecretRow {
        name: name.to_owned(),
        sealed: sealed.to_vec(),
        set_at: after(1),
        set_by: "ada".to_owned(),
    };
    for secret in [row("B", b"old"), row("A", &[0, 0xff, b'\'']), row("B", b"new")] {
        store.put_secret(&secret).expect("a write");
    }
    assert_eq!(store.reader().secrets().expect("a read"), [row("A", &[0, 0xff, b'\'']), row("B", b"new")]);
    assert_eq!(store.reader().secret("B").expect("a read"), Some(row("B", b"new")));
    assert!(store.remove_secret("A").expect("a write"));
    assert!(!store.remove_secret("A").expect("a write"), "it is gone already");
    fixture.crash(store);
    let store = fixture.open();
    assert_eq!(store.reader().secret("A").expect("a read"), None);
    assert_eq!(store.reader().secrets().expect("a read"), [row("B", b"new")]);
}

pub fn tasks_are_replaced_by_name(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let row = |name: &str, source: &str| TaskRow {
        name: name.to_owned(),
        source: source.to_owned(),
        pushed_at: after(1),
        pushed_by: "ada".to_owned(),
    };
    for task in [row("b", "old"), row("a", "1"), row("b", "new")] {
        store.put_task(&task).expect("a write");
    }
    assert_eq!(store.reader().tasks().expect("a read"), [row("a", "1"), row("b", "new")]);
    let stamps = ["a", "b"].map(|name| (name.to_owned(), row(name, "").pushed_at));
    assert_eq!(store.reader().task_stamps().expect("a read"), stamps);
}

pub fn meta_keeps_the_last_word(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    store.set_meta("cluster", "one").expect("a write");
    store.set_meta("cluster", "two").expect("a write");
    fixture.crash(store);
    let store = fixture.open();
    assert_eq!(store.reader().meta("cluster").expect("a read").as_deref(), Some("two"));
    assert_eq!(store.reader().meta("other").expect("a read"), None);
}

pub(super) fn enrolled(store: &mut dyn Store, n: u64) {
    store.put_token(&token(n, "enroll")).expect("a token");
    assert_eq!(store.enroll(&hash(n), &new_worker(n), after(n)).expect("a write"), Enrolled::Yes);
}

pub(super) fn new_worker(n: u64) -> NewWorker {
    NewWorker { id: worker_id(n), name: format!("w{n}"), credential_hash: hash(n), state_id: id(500 + n) }
}

pub(super) fn token(n: u64, kind: &str) -> TokenRow {
    TokenRow {
        id: id(n),
        kind: kind.to_owned(),
        role: "operator".to_owned(),
        name: format!("token {n}"),
        hash: hash(n),
        tags: vec!["linux".to_owned(), "a \"quoted\" one".to_owned()],
        uses_left: Some(1),
        created_at: after(n),
        expires_at: Some(after(100)),
        revoked_at: None,
    }
}

fn hash(n: u64) -> [u8; 32] {
    [n.to_le_bytes()[0]; 32]
}

pub(super) fn say_hello(store: &mut dyn Store, hello: &WorkerHello, now: Time) {
    commit(store, &Batch { now, hellos: vec![hello.clone()], ..Batch::default() });
}

pub(super) fn hello(n: u64) -> WorkerHello {
    WorkerHello {
        id: worker_id(n),
        epoch: Epoch(1),
        name: format!("build-{n}"),
        tags: vec!["script".to_owned(), "linux".to_owned()],
        slots: 4,
        kind: "ephemeral",
        session: id(700 + n),
        boot_id: "boot".to_owned(),
        state_id: id(600 + n),
        machine: "fingerprint".to_owned(),
        version: "1.2.3".to_owned(),
        platform: "linux-x86_64".to_owned(),
        hostname: "host".to_owned(),
        pid: 4321,
        started_at: T0,
        no_reconnect: false,
        server: ServerId(id(800)),
        unwilling: false,
        features: vec!["secrets".to_owned()],
        unread: true,
        after_loss: Some(u64::MAX - n),
    }
}
