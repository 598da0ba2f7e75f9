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
    let error = site.depot.announce(sets[2].id, &sets[2].text).expect_err("full");
    assert!(matches!(error, DepotError::Full { bytes: 4_000, max: 10_000, .. }), "{error}");
    // What is here already takes no more room, and a server that starts counts the same.
    let site = site.restart();
    site.depot.announce(sets[1].id, &sets[1].text).expect("known");
    assert!(matches!(site.depot.announce(sets[2].id, &sets[2].text), Err(DepotError::Full { .. })));
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
    assert_eq!(site.depot.sweep(now, &wanted).expect("readable"), Swept::default(), "all are young");
    let swept = site.depot.sweep(now + 2 * DAY, &wanted).expect("readable");
    assert_eq!(swept.sets, 2);
    site.depot.read(named.id).expect("somebody names it");
    for gone in [&unnamed, &half] {
        assert!(matches!(site.depot.have(gone.id), Err(DepotError::Unknown)));
    }
    let left = fs::metadata(site.depot.path(named.id, PACK)).expect("there").len();
    assert_eq!(site.depot.used(), left, "and the room is free again");
}
