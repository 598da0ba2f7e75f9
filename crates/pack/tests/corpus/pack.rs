//! One input of the `pack` fuzz target: the text of a manifest, a byte 0xFF, and the bytes of its files. A file whose hash is
//! given as `?` gets the right one, which nobody guesses.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use pack::{FILES_MAX, Layout, Manifest, SetId, unpack, verify};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// What inputs may have written at most: theirs are small.
const WRITTEN_BYTES_MAX: u64 = 1 << 20;

pub(crate) fn drive(data: &[u8]) {
    let mut parts = data.splitn(2, |&byte| byte == 0xff);
    let (text, bytes) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let text = with_hashes(text, bytes);
    let id = SetId::of(&text);
    if let Ok(manifest) = Manifest::decode(&text, id) {
        assert!(manifest.files.len() <= FILES_MAX);
        assert!(manifest.files.iter().all(|file| manifest.find(&file.path).is_some_and(|(found, _)| found == file)));
        let (again, same) = manifest.encode();
        assert_eq!(Manifest::decode(&again, same).expect("what was understood can be said again"), manifest);
    }
    let mut pack = Layout::head(&text);
    pack.extend_from_slice(bytes);
    put(&pack, id);
    // As a whole it may be anything, too.
    let _ = Layout::read(&mut &*data, SetId::of(data));
}

/// Files go below the folder that is meant, and nothing else changes.
fn put(pack: &[u8], id: SetId) {
    let yard = Yard::new();
    let mut bytes = pack;
    let good = Layout::read(&mut bytes, id).ok().filter(|layout| verify(&layout.manifest, &mut bytes).is_ok());
    let count = unpack(&mut &*pack, id, &yard.inside);
    if let Ok(count) = count {
        let layout = good.expect("only what its hashes say is put anywhere");
        assert_eq!(count, layout.manifest.files.len());
        for file in &layout.manifest.files {
            let metadata = fs::symlink_metadata(yard.inside.join(&file.path)).expect("it was put there");
            assert!(metadata.is_file() && metadata.len() == file.size, "{}", file.path);
        }
    }
    assert_eq!(fs::read_to_string(yard.outside.join("victim")).expect("there"), "kept");
    assert_eq!(fs::read_dir(&yard.outside).expect("there").count(), 1, "nothing goes through links");
    assert_eq!(fs::read_dir(&yard.root).expect("there").count(), 2, "nothing leaves the folder");
    assert!(bytes_below(&yard.inside) <= WRITTEN_BYTES_MAX);
}

/// A folder to put files into, with links that lead out of it.
struct Yard {
    root: PathBuf,
    inside: PathBuf,
    outside: PathBuf,
}

impl Yard {
    fn new() -> Yard {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("bowline-pack-{}-{number}", std::process::id()));
        let (inside, outside) = (root.join("inside"), root.join("outside"));
        fs::create_dir_all(&inside).and_then(|()| fs::create_dir_all(&outside)).expect("writable");
        fs::write(outside.join("victim"), "kept").expect("writable");
        std::os::unix::fs::symlink(&outside, inside.join("link")).expect("writable");
        std::os::unix::fs::symlink(outside.join("victim"), inside.join("file")).expect("writable");
        Yard { root, inside, outside }
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("there");
    let size = |entry: fs::DirEntry| match entry.file_type().expect("known") {
        kind if kind.is_dir() => bytes_below(&entry.path()),
        kind if kind.is_file() => entry.metadata().expect("known").len(),
        _ => 0,
    };
    entries.map(|entry| size(entry.expect("readable"))).sum()
}

/// The text with the hashes that are left open.
fn with_hashes(text: &[u8], bytes: &[u8]) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(text) else { return text.to_vec() };
    let mut at = 0usize;
    for file in value.get_mut("files").and_then(Value::as_array_mut).into_iter().flatten() {
        let size = file["size"].as_u64().and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
        let end = at.saturating_add(size).min(bytes.len());
        if file["sha256"] == "?" {
            let digits = Sha256::digest(&bytes[at..end]).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            file["sha256"] = digits.into();
        }
        at = end;
    }
    serde_json::to_vec(&value).unwrap_or_default()
}
