//! Lists of jobs, as people ask for them.

use engine::JobState;

use super::Fixture;
use super::jobs::job_in;
use super::scene::{Life, after, job_id, plain, step, task};
use crate::JobFilter;
use crate::read::JobSummary;

pub fn the_newest_come_first_page_by_page(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    for n in 1..=5 {
        Life::submit(store, n, &plain());
    }
    let reader = store.reader();
    assert_eq!(reader.last_job().expect("a read"), Some(job_id(5)));
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = reader.jobs(&JobFilter { limit: 2, before, ..JobFilter::default() }).expect("a read");
        seen.extend(page.items.iter().map(|job| job.id));
        before = seen.last().copied();
        if !page.more {
            break;
        }
        assert_eq!(page.items.len(), 2);
    }
    assert_eq!(seen, [5, 4, 3, 2, 1].map(job_id));
    let exactly = reader.jobs(&JobFilter { limit: 5, ..JobFilter::default() }).expect("a read");
    assert!(!exactly.more);
    let nothing = reader.jobs(&JobFilter { limit: 0, ..JobFilter::default() }).expect("a read");
    assert!(nothing.items.is_empty() && nothing.more);
}

pub fn filters_narrow_it(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    job_in(store, 1, JobState::Failed);
    job_in(store, 2, JobState::Success);
    Life::submit(store, 3, &task("other", vec![step("only")])).run_to_end(store, 3, 1);
    let last = job_in(store, 4, JobState::Failed);
    let reader = store.reader();
    let list = |state: Option<&str>, task: Option<&str>, before| {
        let (state, task) = (state.map(str::to_owned), task.map(str::to_owned));
        let page = reader.jobs(&JobFilter { state, task, limit: 10, before }).expect("a read");
        page.items.iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(list(Some("failed"), None, None), [4, 3, 1].map(job_id));
    assert_eq!(list(None, Some("plain"), None), [4, 2, 1].map(job_id));
    assert_eq!(list(Some("failed"), Some("plain"), None), [4, 1].map(job_id));
    assert_eq!(list(Some("failed"), Some("plain"), Some(job_id(4))), [1].map(job_id));
    assert_eq!(list(Some("failed"), None, Some(job_id(3))), [1].map(job_id));
    assert_eq!(list(None, Some("plain"), Some(job_id(2))), [1].map(job_id));
    assert_eq!(list(Some("no such state"), None, None), []);

    let page = reader.jobs(&JobFilter { limit: 1, ..JobFilter::default() }).expect("a read");
    let error = last.job.header.error.as_ref().expect("a failed job has an error");
    let expected = JobSummary {
        id: job_id(4),
        task: "plain".to_owned(),
        state: "failed".to_owned(),
        created_at: after(4),
        started_at: last.job.header.started_at,
        ended_at: last.job.header.ended_at,
        error_code: Some("exit_code".to_owned()),
        error_message: Some(error.failure.message.clone()),
        error_step: Some("only".to_owned()),
        submitted_by: "ada".to_owned(),
        parent: None,
        hook_of: None,
        group: None,
        in_line: false,
    };
    assert_eq!(page.items, [expected]);
}

pub fn a_prefix_finds_its_jobs(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    for n in [1, 2, 0x100, 0x101, 0x1_0000_0000] {
        Life::submit(store, n, &plain());
    }
    let reader = store.reader();
    let find = |prefix: &str, limit| reader.jobs_by_prefix(prefix, limit).expect("a read");
    let ids = [1, 2, 0x100, 0x101, 0x1_0000_0000].map(job_id);
    for id in ids {
        assert_eq!(find(&id.to_string(), 10), [id]);
        let text = id.to_string();
        for end in 0..text.len() {
            let expected: Vec<_> = ids.into_iter().filter(|i| i.to_string().starts_with(&text[..end])).collect();
            assert_eq!(find(&text[..end], 10), expected, "{}", &text[..end]);
        }
    }
    assert_eq!(find("", 3).len(), 3);
    for nonsense in ["zz", "last", "01900000-0", "'; --", "0190_", "%"] {
        let expected = ids.iter().filter(|i| i.to_string().starts_with(nonsense)).count();
        assert_eq!(find(nonsense, 10).len(), expected, "{nonsense}");
    }
}

pub fn counts_follow_the_states(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    for (n, state) in
        [JobState::Success, JobState::Failed, JobState::Success, JobState::Running].into_iter().enumerate()
    {
        job_in(store, n as u64 + 1, state);
    }
    let mut counts = store.reader().job_counts().expect("a read");
    counts.sort();
    let expected = [("failed", 1), ("running", 1), ("success", 2)].map(|(state, n)| (state.to_owned(), n));
    assert_eq!(counts, expected);
}
