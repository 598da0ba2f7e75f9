//! Decisions, numbered for those who resume where they stopped.

use super::Fixture;
use super::scene::{FIRST, Life, commit, job_id, plain, worker_id};

pub fn numbers_grow_and_pages_follow(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let reader = store.reader();
    assert_eq!(reader.last_event().expect("a read"), 0);
    assert_eq!(reader.events(None, 0, 10).expect("a read"), Vec::new());
    for n in 1..=3 {
        Life::submit(store, n, &plain()).run_to_end(store, n, 0);
    }
    let all = reader.events(None, 0, 1000).expect("a read");
    assert!(all.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert_eq!(reader.last_event().expect("a read"), all.last().expect("some events").id);

    let (mut paged, mut after) = (Vec::new(), 0);
    loop {
        let page = reader.events(None, after, 4).expect("a read");
        assert!(page.len() <= 4);
        let Some(last) = page.last() else { break };
        after = last.id;
        paged.extend(page);
    }
    assert_eq!(paged, all);
    assert_eq!(reader.events(None, u64::MAX, 10).expect("a read"), Vec::new());
}

pub fn events_of_one_job_are_its_own(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut first = Life::submit(store, 1, &plain());
    let mut second = Life::submit(store, 2, &plain());
    first.run_to_end(store, 1, 1);
    second.run_to_end(store, 2, 0);
    let reader = store.reader();
    let events = reader.events(Some(job_id(1)), 0, 100).expect("a read");
    let told: Vec<(&str, Option<&str>, Option<&str>)> =
        events.iter().map(|e| (e.kind.as_str(), e.verb.as_deref(), e.to.as_deref())).collect();
    assert_eq!(
        told,
        [
            ("step", Some("enqueue"), Some("queued")),
            ("offer", Some("made"), None),
            ("step", Some("start"), Some("running")),
            ("job", None, Some("running")),
            ("step", Some("fail"), Some("failed")),
            ("job", None, Some("failed")),
        ]
    );
    assert!(events.iter().all(|e| e.job == job_id(1)));
    let offer = &events[1];
    assert_eq!((offer.ix, offer.step.as_deref(), offer.worker), (Some(FIRST), Some("only"), Some(worker_id(1))));
    let end = &events[4];
    assert_eq!((end.from.as_deref(), end.at), (Some("running"), first.now));
    assert!(!end.reason.is_empty());
    assert_eq!((events[5].ix, events[5].step.as_deref()), (None, None));
    assert_eq!(reader.events(Some(job_id(1)), offer.id, 2).expect("a read"), events[2..4]);
    assert_eq!(reader.events(Some(job_id(3)), 0, 10).expect("a read"), Vec::new());
}

pub fn numbers_never_return(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    Life::submit(&mut *store, 1, &plain());
    let last = store.reader().last_event().expect("a read");
    fixture.crash(store);
    let store = &mut *fixture.open();
    let (_, batch) = Life::draft(2, &plain(), super::scene::after(2));
    let first = commit(store, &batch).event_ids[0].expect("a number");
    assert!(first > last);
}
