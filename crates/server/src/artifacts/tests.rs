use std::fs;
use std::time::{Duration, SystemTime};

use pack::{Contents, Glob, Limits, Manifest, Rule, collect};
use std::io::{Read as _, Seek as _};

use super::*;

const LIMITS: DepotLimits = DepotLimits { bytes_max: 10_000, set_bytes_max: 5_000 };
const DAY: Duration = Duration::from_secs(24 * 3600);

struct Site {
    folder: tempfile::TempDir,
    depot: Depot,
}

impl Site {
    fn new() -> Site {
        let folder = tempfile::tempdir().expect("a folder");
        let depot = Depot::open(&folder.path().join("artifacts"), LIMITS).expect("writable");
        Site { folder, depot }
    }

    fn restart(self) -> Site {
        let depot = Depot::open(&self.folder.path().join("artifacts"), LIMITS).expect("writable");
        Site { depot, ..self }
    }

    /// One file of so many bytes.
    fn set(&self, name: &str, bytes: usize) -> Set {
        let work = self.folder.path().join(format!("work-{name}"));
        fs::create_dir_all(&work).expect("writable");
        fs::write(work.join(name), name.repeat(bytes / name.len() + 1).get(..bytes).expect("enough"))
            .expect("writable");
        let rule = Rule { globs: vec![Glob::parse("*").expect("good")], optional: true };
        let manifest = collect(&work, &rule, Limits { files_max: 10, bytes_max: 1 << 30 }).expect("good");
        let (text, id) = manifest.encode();
        let mut content = Vec::new();
        Contents::new(&work, &manifest, 0).and_then(|mut c| c.read_to_end(&mut content)).expect("readable");
        Set { manifest, text, id, content }
    }
}

struct Set {
    manifest: Manifest,
    text: Vec<u8>,
    id: SetId,
    content: Vec<u8>,
}

fn send(depot: &Depot, set: &Set, from: usize, to: usize) -> Result<Have, DepotError> {
    let mut upload = depot.upload(set.id, from as u64)?;
    upload.write(&set.content[from..to])?;
    upload.finish()
}

#[test]
fn a_set_comes_in_pieces_and_is_stored_with_the_last() {
    let site = Site::new();
    let set = site.set("a", 1000);
    assert!(matches!(site.depot.have(set.id), Err(DepotError::Unknown)));
    assert_eq!(site.depot.announce(set.id, &set.text).expect("room"), Have { bytes: 0, stored: false });
    assert_eq!(send(&site.depot, &set, 0, 400).expect("taken"), Have { bytes: 400, stored: false });
    assert!(matches!(send(&site.depot, &set, 500, 600), Err(DepotError::Gap { from: 500, have: 400 })));
    assert!(matches!(site.depot.read(set.id), Err(DepotError::Unknown)), "half of it is nothing");

    // The server is started anew in between.
    let site = site.restart();
    assert_eq!(site.depot.announce(set.id, &set.text).expect("known"), Have { bytes: 400, stored: false });
    // A piece that comes twice changes nothing.
    assert_eq!(send(&site.depot, &set, 300, 1000).expect("taken"), Have { bytes: 1000, stored: true });
    assert_eq!(site.depot.announce(set.id, &set.text).expect("known"), Have { bytes: 1000, stored: true });
    let (mut file, layout) = site.depot.read(set.id).expect("there");
    let mut content = Vec::new();
    file.seek(std::io::SeekFrom::Start(layout.offset)).expect("there");
    file.read_to_end(&mut content).expect("readable");
    assert_eq!((&layout.manifest, content), (&set.manifest, set.content));
    assert_eq!(site.depot.used(), site.restart().depot.used(), "counted as it is found");
}

#[test]
fn what_is_not_what_it_says_is_thrown_away() {
    let site = Site::new();
    let set = site.set("a", 100);
    site.depot.announce(set.id, &set.text).expect("room");
    let wrong = Set { content: vec![b'x'; 100], ..site.set("a", 100) };
    assert!(matches!(send(&site.depot, &wrong, 0, 100), Err(DepotError::Differs(path)) if path == "a"));
    assert!(matches!(site.depot.have(set.id), Err(DepotError::Unknown)), "from the beginning again");
    assert_eq!(site.depot.used(), 0);
    site.depot.announce(set.id, &set.text).expect("room");
    assert!(send(&site.depot, &set, 0, 100).expect("taken").stored);
    let other = site.set("b", 10);
    assert!(matches!(site.depot.announce(other.id, &set.text), Err(DepotError::Manifest(_))));
    site.depot.announce(other.id, &other.text).expect("room");
    let longer = Set { content: vec![b'b'; 11], ..site.set("b", 10) };
    assert!(matches!(send(&site.depot, &longer, 0, 11), Err(DepotError::TooMuch)));
}

#[test]
fn quotas_hold_before_a_byte_is_sent() {
    let site = Site::new();
    let large = site.set("a", 5_001);
    let error = site.depot.announce(large.id, &large.text).expect_err("too large");
    assert_eq!(
        error.to_string(),
        "the artifacts have 5001 bytes, and a step may leave 5000 (`artifacts.max_step_bytes`)"
    );
    let sets: Vec<Set> = ["a", "b", "c"].map(|name| site.set(name, 4_000)).into();
    site.depot.announce(sets[0].id, &sets[0].text).expect("room");
    site.depot.announce(sets[1].id, &sets[1].text).expect("room");
    // Those two are only on their way: they may never come.
    let error = site.depot.announce(sets[2].id, &sets[2].text).expect_err("full");
    assert!(matches!(error, DepotError::Crowded { bytes: 4_000, max: 10_000 }), "{error}");
    // What is here already takes no more room, and a server that starts counts the same.
    let site = site.restart();
    site.depot.announce(sets[1].id, &sets[1].text).expect("known");
    assert!(matches!(site.depot.announce(sets[2].id, &sets[2].text), Err(DepotError::Crowded { .. })));
    for set in &sets[..2] {
        assert!(send(&site.depot, set, 0, 4_000).expect("taken").stored);
    }
    assert!(matches!(site.depot.announce(sets[2].id, &sets[2].text), Err(DepotError::Full { bytes: 4_000, .. })));
}

fn grow_old(path: &Path, age: Duration) {
    let file = File::options().write(true).open(path).expect("there");
    file.set_times(FileTimes::new().set_modified(SystemTime::now() - age)).expect("mine");
}

#[test]
fn what_nobody_adds_to_makes_way_for_others() {
    let site = Site::new();
    let [idle, busy, new] = ["a", "b", "c"].map(|name| site.set(name, 4_000));
    for set in [&idle, &busy] {
        site.depot.announce(set.id, &set.text).expect("room");
        grow_old(&site.depot.path(set.id, PART), Duration::from_secs(1000));
    }
    let upload = site.depot.upload(busy.id, 0).expect("free");
    site.depot.announce(new.id, &new.text).expect("room again");
    assert!(matches!(site.depot.have(idle.id), Err(DepotError::Unknown)));
    site.depot.have(busy.id).expect("somebody is at it");
    drop(upload);
    assert_eq!(site.depot.used(), site.restart().depot.used(), "counted as it is found");
}

/// Two servers on one folder, or a worker that says it twice.
#[test]
fn a_set_that_is_announced_twice_is_not_begun_anew() {
    let site = Site::new();
    let set = site.set("a", 1000);
    let other = Depot::open(&site.folder.path().join("artifacts"), LIMITS).expect("writable");
    site.depot.announce(set.id, &set.text).expect("room");
    send(&site.depot, &set, 0, 400).expect("taken");
    assert!(matches!(other.write_part(set.id, &set.text), Err(error) if error.kind() == ErrorKind::AlreadyExists));
    assert_eq!(other.announce(set.id, &set.text).expect("known"), Have { bytes: 400, stored: false });
    // Nobody is told to go on while another begins.
    let hold = site.depot.hold(set.id).expect("free");
    assert!(matches!(site.depot.upload(set.id, 0), Err(DepotError::Busy)));
    drop(hold);

    // One whose beginning the power took is in nobody's way for long.
    let lost = site.set("b", 10);
    site.depot.announce(lost.id, &lost.text).expect("room");
    let part = site.depot.path(lost.id, PART);
    fs::write(&part, "").expect("mine");
    assert!(matches!(site.depot.announce(lost.id, &lost.text), Err(DepotError::Busy)));
    grow_old(&part, Duration::from_secs(100));
    assert!(matches!(site.depot.announce(lost.id, &lost.text), Err(DepotError::Busy)), "the next one finds it gone");
    assert_eq!(site.depot.announce(lost.id, &lost.text).expect("room"), Have { bytes: 0, stored: false });
}

/// What was verified gets the name, and nothing else.
#[test]
fn a_part_that_was_replaced_does_not_become_a_pack() {
    let site = Site::new();
    let set = site.set("a", 100);
    site.depot.announce(set.id, &set.text).expect("room");
    let mut upload = site.depot.upload(set.id, 0).expect("free");
    upload.write(&set.content).expect("room");
    let part = site.depot.path(set.id, PART);
    fs::remove_file(&part).expect("mine");
    fs::write(&part, Layout::head(&set.text)).expect("writable");
    assert!(matches!(upload.finish(), Err(DepotError::Busy)));
    assert!(matches!(site.depot.read(set.id), Err(DepotError::Unknown)));
    assert!(send(&site.depot, &set, 0, 100).expect("taken").stored);
}

#[test]
fn a_pack_that_is_too_short_is_none() {
    let site = Site::new();
    let set = site.set("a", 100);
    for cut in [1, 120] {
        site.depot.announce(set.id, &set.text).expect("room");
        assert!(send(&site.depot, &set, 0, 100).expect("taken").stored);
        let pack = site.depot.path(set.id, PACK);
        let length = fs::metadata(&pack).expect("there").len();
        File::options().write(true).open(&pack).expect("mine").set_len(length - cut).expect("mine");
        assert!(matches!(site.depot.have(set.id), Err(DepotError::Unknown)), "{cut} bytes less");
        assert!(!pack.exists() && site.depot.used() < length, "and it can be brought again");
    }
    let pack = site.depot.path(set.id, PACK);
    site.depot.announce(set.id, &set.text).expect("room");
    send(&site.depot, &set, 0, 100).expect("taken");
    // Whoever starts anew has never seen what it should hold.
    let site = site.restart();
    File::options().write(true).open(&pack).expect("mine").set_len(3).expect("mine");
    assert!(matches!(site.depot.read(set.id), Err(DepotError::Unknown)));
}

#[test]
fn what_was_half_removed_is_put_back_or_goes() {
    let site = Site::new();
    let [young, old] = ["a", "b"].map(|name| site.set(name, 10));
    for set in [&young, &old] {
        site.depot.announce(set.id, &set.text).expect("room");
        assert!(send(&site.depot, set, 0, 10).expect("taken").stored);
    }
    let gone = |set: &Set| site.depot.path(set.id, PACK).with_extension("pack.gone");
    for set in [&young, &old] {
        fs::rename(site.depot.path(set.id, PACK), gone(set)).expect("mine");
    }
    grow_old(&gone(&old), 2 * DAY);
    let swept = site.depot.sweep(SystemTime::now(), sweep::UNNAMED_FOR, &|_| Ok(Vec::new())).expect("readable");
    assert_eq!(swept.sets, 1);
    site.depot.read(young.id).expect("in its place again");
    assert!(!gone(&old).exists() && !gone(&young).exists());
}

#[test]
fn a_folder_belongs_to_the_database_that_came_first() {
    let site = Site::new();
    assert!(site.depot.belongs_to("one").expect("writable"));
    assert!(site.depot.belongs_to("one").expect("readable"));
    let site = site.restart();
    assert!(!site.depot.belongs_to("another").expect("readable"));
}

#[test]
fn two_cannot_send_at_once_and_an_empty_set_is_stored_at_once() {
    let site = Site::new();
    let set = site.set("a", 10);
    site.depot.announce(set.id, &set.text).expect("room");
    let first = site.depot.upload(set.id, 0).expect("free");
    assert!(matches!(site.depot.upload(set.id, 0), Err(DepotError::Busy)));
    drop(first);
    site.depot.upload(set.id, 0).expect("free again");
    let (text, id) = Manifest::new(Vec::new()).encode();
    assert_eq!(site.depot.announce(id, &text).expect("room"), Have { bytes: 0, stored: true });
}

#[test]
fn the_sweep_takes_what_is_old_and_nobody_names() {
    let site = Site::new();
    let (named, unnamed, half) = (site.set("a", 10), site.set("b", 10), site.set("c", 10));
    for set in [&named, &unnamed] {
        site.depot.announce(set.id, &set.text).expect("room");
        assert!(send(&site.depot, set, 0, 10).expect("taken").stored);
    }
    site.depot.announce(half.id, &half.text).expect("room");
    let wanted = |sets: &[String]| Ok(sets.iter().filter(|set| **set == named.id.to_string()).cloned().collect());
    let now = SystemTime::now();
    let sweep = |now, unnamed_for| site.depot.sweep(now, unnamed_for, &wanted).expect("readable").sets;
    assert_eq!(sweep(now, sweep::UNNAMED_FOR), 0, "all are young");
    assert_eq!(sweep(now + DAY / 8, sweep::UNNAMED_FOR), 1, "what has stopped coming");
    assert_eq!(sweep(now + DAY / 24, sweep::UNNAMED_FOR_AT_LEAST), 0);
    assert_eq!(sweep(now + DAY / 8, sweep::UNNAMED_FOR_AT_LEAST), 1, "where room is wanted");
    assert_eq!(sweep(now + 2 * DAY, sweep::UNNAMED_FOR), 0);
    site.depot.read(named.id).expect("somebody names it");
    for gone in [&unnamed, &half] {
        assert!(matches!(site.depot.have(gone.id), Err(DepotError::Unknown)));
    }
    let left = fs::metadata(site.depot.path(named.id, PACK)).expect("there").len();
    assert_eq!(site.depot.used(), left, "and the room is free again");
}
