//! What servers are told, what is in the database, and what the witness saw: three things that trouble sets apart.

use store::JobWrite;
use store::rows::JobRow;

use super::trouble::{Falter, Poison};
use super::*;

#[derive(Default)]
struct Heap(Vec<usize>);

impl Witness for Heap {
    fn committed(&mut self, server: usize, _: &Batch, _: &Committed) {
        self.0.push(server);
    }

    fn refused(&mut self, _: usize, _: &Batch) {}

    fn forgotten(&mut self, batches: usize) {
        self.0.truncate(self.0.len() - batches);
    }
}

struct Scene {
    database: Database,
    witness: Arc<Mutex<Heap>>,
}

impl Scene {
    fn new(backing: Backing) -> Scene {
        let witness = Arc::new(Mutex::new(Heap::default()));
        Scene { database: Database::new(backing, 2, witness.clone(), Story::untold()), witness }
    }

    fn order(&self, trouble: Trouble) {
        self.database.trouble(0, |now| *now = trouble);
    }

    fn stored(&self) -> Option<String> {
        self.database.reader().meta("mark").expect("checkers can always look")
    }

    fn seen(&self) -> usize {
        lock(&self.witness).0.len()
    }
}

#[test]
fn who_is_cut_off_can_neither_write_nor_look_and_others_can() {
    let scene = Scene::new(Backing::Memory);
    let (mut cut, mut other) = (scene.database.open(0), scene.database.open(1));
    let reader = cut.reader();
    scene.order(Trouble { away: true, ..Trouble::default() });
    assert!(is_away(&cut.commit(&mark(1))));
    assert!(is_away(&cut.next_check()));
    assert!(is_away(&reader.meta("mark")));
    other.commit(&mark(2)).expect("nothing is wrong with its own line");
    scene.order(Trouble::default());
    assert_eq!(reader.meta("mark").expect("back").as_deref(), Some("2"));
    assert_eq!(lock(&scene.witness).0, [1]);
}

#[test]
fn an_error_before_and_a_lost_answer_after_sound_alike() {
    for backing in [Backing::Memory, Backing::Sqlite] {
        let scene = Scene::new(backing);
        let mut store = scene.database.open(0);
        scene.order(Trouble { errors: 1, answers_lost: 1, ..Trouble::default() });
        assert!(is_away(&store.commit(&mark(1))));
        assert_eq!((scene.stored(), scene.seen()), (None, 0));
        assert!(is_away(&store.commit(&mark(2))));
        assert_eq!((scene.stored(), scene.seen()), (Some("2".to_owned()), 1));
        store.commit(&mark(3)).expect("all is well again");
        let (commits, struck) = scene.database.trouble(0, |trouble| (trouble.commits, trouble.struck));
        assert_eq!((commits, struck.errors, struck.answers_lost), (2, 1, 1));
    }
}

#[test]
fn a_round_can_be_hit_in_its_middle() {
    let scene = Scene::new(Backing::Memory);
    let mut store = scene.database.open(0);
    let reader = store.reader();
    scene.order(Trouble { falter: Some(Falter { after: 1, calls: 2 }), ..Trouble::default() });
    store.next_check().expect("still there");
    assert!(is_away(&reader.meta("mark")));
    assert!(is_away(&store.commit(&mark(1))));
    store.commit(&mark(1)).expect("back");
}

#[test]
fn what_is_refused_leaves_nothing() {
    let scene = Scene::new(Backing::Memory);
    let mut store = scene.database.open(0);
    scene.order(Trouble { refusals: 1, poison: Poison::Next, ..Trouble::default() });
    let refused = store.commit(&mark(1));
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    assert_eq!((scene.stored(), scene.seen()), (None, 0));
    store.commit(&mark(1)).expect("once was enough, and there is no event to poison");
}

#[test]
fn who_is_outrun_finds_another_version() {
    let scene = Scene::new(Backing::Memory);
    let mut store = scene.database.open(0);
    scene.order(Trouble { conflicts: 1, ..Trouble::default() });
    let job = JobId(Uuid::from_u128(1));
    store.commit(&write(job, None, 1)).expect("a new job has no rival");
    let outrun = store.commit(&write(job, Some(1), 2)).expect("the rest of the batch is written");
    assert!(outrun.conflicts.contains(&job));
    let decided_again = store.commit(&write(job, Some(2), 3)).expect("a commit");
    assert!(decided_again.conflicts.is_empty());
    assert_eq!(scene.database.trouble(0, |trouble| trouble.struck.conflicts), 1);
}

fn is_away<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Unavailable { .. }))
}

fn mark(n: u32) -> Batch {
    Batch { meta: vec![("mark", n.to_string())], ..Batch::default() }
}

fn write(id: JobId, expected: Option<u64>, version: u64) -> Batch {
    let row = JobRow {
        hook_of: None,
        group: None,
        admitted_at: None,
        strays: false,
        parent: None,
        id,
        version,
        state: "pending",
        task: "t".to_owned(),
        definition: [0; 32],
        input: "{}".to_owned(),
        priority: 0,
        submitted_by: "ada".to_owned(),
        created_at: Time(1),
        started_at: None,
        ended_at: None,
        expires_at: None,
        error_code: None,
        error_message: None,
        error_step: None,
        owner: None,
        check_at: None,
        action: None,
        data: "{}".to_owned(),
    };
    Batch { jobs: vec![JobWrite { row, expected }], ..Batch::default() }
}

#[test]
fn what_is_forgotten_is_forgotten_by_the_witness_too_and_never_more_than_there_was_to_begin_with() {
    let scene = Scene::new(Backing::Memory);
    let mut server = scene.database.open(0);
    server.commit(&mark(1)).expect("nothing is wrong");
    scene.database.begin();
    for number in 2..=4 {
        server.commit(&mark(number)).expect("nothing is wrong");
    }
    assert_eq!(scene.database.forget_last(2), 2);
    assert_eq!((scene.stored().as_deref(), scene.seen()), (Some("2"), 2));
    assert_eq!(scene.database.forget_last(9), 1);
    assert_eq!((scene.stored().as_deref(), scene.seen()), (Some("1"), 1));
}
