//! Brings the files that an attempt leaves to a server.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use pack::{CollectError, Contents, Glob, Limits, Manifest, Rule, collect};
use protocol::attempt::{ArtifactRule, ArtifactSet, EndResult};
use protocol::folder::ARTIFACTS_FILE;
use runner::folder_io;
use tokio::sync::mpsc;

use super::http::{Answer, announce, put};
use super::{Carrier, Setback, blocking, may_pass, unreadable};

/// Bytes of one request: what is lost at most where the server forgets what it has not synced.
const REQUEST_BYTES: u64 = 64 * 1024 * 1024;
/// One piece on its way to the socket, and how many of them wait.
const PIECE_BYTES: usize = 256 * 1024;
const WAITING_PIECES: usize = 4;

/// What is to be sent.
struct Parcel {
    root: PathBuf,
    manifest: Manifest,
    text: Vec<u8>,
    set: ArtifactSet,
}

/// One try: from what the server has on. `offered`: the set that the tries before have found.
pub(super) async fn store(carrier: &Carrier, offered: &mut Option<String>) -> Result<ArtifactSet, Setback> {
    // What was stored before the worker was restarted, or before the database forgot, is only asked for.
    let folder = carrier.folder.clone();
    if let Some(set) = blocking(move || Ok(read_note(&folder))).await?
        && let Answer::Have(have) = announce(&carrier.reach, &set.id, Vec::new()).await?
        && have.stored
    {
        return Ok(set);
    }
    let folder = carrier.folder.clone();
    let parcel = blocking(move || find(&folder)).await?;
    if let Some(before) = offered.replace(parcel.set.id.clone())
        && before != parcel.set.id
    {
        return Err(Setback::Anew("the files change while they are being stored".to_owned()));
    }
    // To find and hash them is a beginning, once.
    carrier.news.reached(1);
    let mut answer = announce(&carrier.reach, &parcel.set.id, parcel.text.clone()).await?;
    loop {
        let have = match answer {
            Answer::Have(have) if have.stored => break,
            Answer::Have(have) => have.bytes,
            Answer::NotThere => {
                return Err(Setback::Anew(
                    "the server did not keep what it was sent, or it was not what was found".to_owned(),
                ));
            }
        };
        carrier.news.reached(1 + have);
        let length = REQUEST_BYTES.min(parcel.set.bytes.saturating_sub(have));
        answer = send(carrier, &parcel, have, length).await?;
    }
    let (folder, set) = (carrier.folder.clone(), parcel.set.clone());
    blocking(move || write_note(&folder, &set)).await?;
    Ok(parcel.set)
}

/// The files that the attempt leaves, as they are now.
fn find(folder: &Path) -> Result<Parcel, Setback> {
    let spec = folder_io::read_spec(folder).map_err(unreadable)?;
    let recorded = folder_io::read_record(folder).map_err(unreadable)?;
    let Some(rule) = &spec.attempt.artifacts else {
        return Err(Setback::ForGood("nothing is to be stored".to_owned()));
    };
    // One that failed half-way need not have come to all of it.
    let well = matches!(&recorded.end, Some(end) if end.result == EndResult::Exited { code: 0 });
    let root = spec.attempt.working_folder(folder);
    let rule_found = search_rule(rule, !well)?;
    let limits = Limits { files_max: pack::FILES_MAX, bytes_max: rule.bytes_max };
    let manifest = collect(&root, &rule_found, limits).map_err(not_found)?;
    let (text, id) = manifest.encode();
    let files = u32::try_from(manifest.files.len()).unwrap_or(u32::MAX);
    let set = ArtifactSet { id: id.to_string(), files, bytes: manifest.bytes() };
    Ok(Parcel { root, manifest, text, set })
}

fn not_found(error: CollectError) -> Setback {
    match error {
        // A file that was there a moment ago: it is looked for again.
        CollectError::Io { ref source, .. } if source.kind() == ErrorKind::NotFound || may_pass(source) => {
            Setback::Passing(error.to_string())
        }
        CollectError::NoFolder { ref source, .. } if may_pass(source) => Setback::Passing(error.to_string()),
        error => Setback::ForGood(error.to_string()),
    }
}

fn search_rule(rule: &ArtifactRule, optional: bool) -> Result<Rule, Setback> {
    let parse = |path: &String| {
        Glob::parse(path).map_err(|error| Setback::ForGood(format!("`{path}` cannot be searched for: {error}")))
    };
    let globs = rule.paths.iter().map(parse).collect::<Result<Vec<Glob>, Setback>>()?;
    Ok(Rule { globs, optional: rule.optional || optional })
}

async fn send(carrier: &Carrier, parcel: &Parcel, from: u64, length: u64) -> Result<Answer, Setback> {
    let contents = Contents::new(&parcel.root, &parcel.manifest, from);
    // It was there a moment ago: it is looked for again.
    let contents = contents.map_err(|error| Setback::Passing(error.to_string()))?;
    let (pieces, queue) = mpsc::channel(WAITING_PIECES);
    let news = carrier.news.clone();
    let reading =
        tokio::task::spawn_blocking(move || read(contents.take(length), &pieces, |sent| news.reached(1 + from + sent)));
    let answer = put(&carrier.reach, &parcel.set.id, from, length, queue).await;
    // It ends with its queue. Where it could not read, that is the reason, whatever became of the request.
    match reading.await {
        Ok(Err(error)) if error.kind() == ErrorKind::UnexpectedEof => Err(Setback::Anew(error.to_string())),
        Ok(Err(error)) => Err(Setback::Passing(error.to_string())),
        Ok(Ok(())) | Err(_) => answer,
    }
}

/// Tells how many bytes have found a place in the queue.
fn read(
    mut contents: impl Read,
    pieces: &mpsc::Sender<std::io::Result<Bytes>>,
    reached: impl Fn(u64),
) -> std::io::Result<()> {
    let mut sent = 0;
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let read = match contents.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) => {
                let _ = pieces.blocking_send(Err(std::io::Error::from(error.kind())));
                return Err(error);
            }
        };
        piece.truncate(read);
        if pieces.blocking_send(Ok(piece.into())).is_err() {
            return Ok(());
        }
        sent += read as u64;
        reached(sent);
    }
}

fn read_note(folder: &Path) -> Option<ArtifactSet> {
    let text = fs::read(folder.join(ARTIFACTS_FILE)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Durably: when the work folder is gone it is all that is known.
fn write_note(folder: &Path, set: &ArtifactSet) -> Result<(), Setback> {
    let write = || {
        let temporary = folder.join(format!("{ARTIFACTS_FILE}.new"));
        fs::write(&temporary, serde_json::to_vec(set)?)?;
        File::open(&temporary)?.sync_all()?;
        fs::rename(temporary, folder.join(ARTIFACTS_FILE))?;
        File::open(folder)?.sync_all()
    };
    if let Err(error) = write() {
        // A full disk: the set is stored all the same, and the end is what counts.
        tracing::warn!(folder = %folder.display(), %error, "it cannot be noted that artifacts were stored");
    }
    Ok(())
}
