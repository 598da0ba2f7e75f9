//! `bowline artifacts`: the files that the steps of a job left, and getting them.

use std::collections::BTreeSet;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use api::{Artifact, ArtifactsQuery, Page};
use clap::Args;
use client::Client;
use pack::{FileEntry, Glob, UnpackError, place_file};

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{is_lively, put, put_json, say};
use crate::table::put_table;

/// The files that the steps of a job left, and getting them
///
/// Without `--get` or `--all` they are listed. Each file is written under its own name once its SHA-256 is right, below the
/// output folder and never elsewhere. Of several steps, each gets a folder of its own there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline artifacts last
  bowline artifacts last build --get target/release/app -o ./bin
  bowline artifacts 0190163d --all -o ./out")]
pub struct ArtifactsArgs {
    /// The job's id, a unique prefix of it, or `last`
    #[arg(value_name = "ID")]
    pub id: String,
    /// Only what this step left
    pub step: Option<String>,
    /// Get the files that this glob means; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub get: Vec<String>,
    /// Get all of them
    #[arg(long, conflicts_with = "get")]
    pub all: bool,
    /// The folder to write to [default: the current one]
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Pieces that wait for the disk.
const WAITING_PIECES: usize = 8;

pub(crate) async fn run(client: &Client, args: &ArtifactsArgs) -> Result<Exit, CliError> {
    let globs = args.get.iter().map(|text| glob(text)).collect::<Result<Vec<Glob>, CliError>>()?;
    let wanted = args.all || !globs.is_empty();
    if args.output.is_some() && !wanted {
        return Err(CliError::usage_hint("`--output` means nothing by itself", "add `--all`, or `--get GLOB`"));
    }
    let listed = list(client, args).await?;
    if !wanted {
        return show(args, listed);
    }
    let several = listed.iter().map(|file| &file.step).collect::<BTreeSet<_>>().len() > 1;
    let chosen: Vec<&Artifact> =
        listed.iter().filter(|file| args.all || globs.iter().any(|glob| glob.takes(&file.path))).collect();
    if chosen.is_empty() {
        let hint = format!("`bowline artifacts {}` lists what there is", args.id);
        return Err(CliError::usage_hint("no file is meant by that", hint));
    }
    let is_folder = |step: &str| pack::manifest::is_inner_path(step) && !step.contains(['/', '\\']);
    if several && let Some(file) = chosen.iter().find(|file| !is_folder(&file.step)) {
        // No step of ours has such a name: a server that gives one wants a file where it does not belong.
        let message = format!("step `{}` cannot be the name of a folder", file.step.escape_debug());
        return Err(CliError::usage_hint(message, "name one step to fetch its files alone"));
    }
    let root = args.output.clone().unwrap_or_else(|| PathBuf::from("."));
    let mut progress = Progress::new(&chosen);
    // All that a step left comes as one stream, in the order of the list; else each file is asked for.
    let together = |a: &&Artifact, b: &&Artifact| args.all && a.step == b.step;
    for files in chosen.chunk_by(together) {
        let step = &files[0].step;
        let folder = if several { root.join(step) } else { root.clone() };
        let download = match files {
            [file] => client.artifact(&args.id, step, &file.path, file.size),
            files => client.artifacts_of_step(&args.id, step, files.iter().map(|file| file.size).sum()),
        };
        let written = get(download, files, folder, &mut progress).await?;
        progress.files_done(files.len());
        for path in written.iter().filter(|_| !args.json) {
            put(&path.display().to_string())?;
        }
    }
    if args.json {
        put_json(&chosen)?;
    }
    Ok(Exit::Success)
}

fn glob(text: &str) -> Result<Glob, CliError> {
    Glob::parse(text).map_err(|error| CliError::usage(format!("`{text}` cannot be searched for: {error}")))
}

async fn list(client: &Client, args: &ArtifactsArgs) -> Result<Vec<Artifact>, CliError> {
    let mut listed = Vec::new();
    let mut query = ArtifactsQuery { step: args.step.clone(), limit: Some(10_000), cursor: None };
    loop {
        let page = client.artifacts(&args.id, &query).await?;
        listed.extend(page.items);
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return Ok(listed),
        }
    }
}

fn show(args: &ArtifactsArgs, listed: Vec<Artifact>) -> Result<Exit, CliError> {
    if args.json {
        put_json(&Page::whole(listed))?;
        return Ok(Exit::Success);
    }
    let row = |file: Artifact| {
        let mode = if file.executable { "x" } else { "" };
        vec![file.step, file.path, file.size.to_string(), mode.to_owned(), file.sha256]
    };
    put_table(
        &["step", "path", "bytes", "", "sha256"],
        listed.into_iter().map(row).collect(),
        "no step left any file",
    )?;
    Ok(Exit::Success)
}

/// Puts the files that come, one after the other, in their places.
async fn get(
    mut download: client::Download,
    files: &[&Artifact],
    folder: PathBuf,
    progress: &mut Progress,
) -> Result<Vec<PathBuf>, CliError> {
    let entry = |file: &&Artifact| FileEntry {
        path: file.path.clone(),
        size: file.size,
        sha256: file.sha256.clone(),
        executable: file.executable,
    };
    let entries: Vec<FileEntry> = files.iter().map(entry).collect();
    let (pieces, queue) = sync_channel(WAITING_PIECES);
    let writing = tokio::task::spawn_blocking(move || write(&folder, &entries, queue));
    let fed = feed(&mut download, pieces, progress).await;
    let written = writing.await.map_err(io::Error::other)?;
    // Where nothing came, that nothing could be written is no news.
    fed?;
    written.map_err(|error| CliError::Output(io::Error::other(error)))
}

async fn feed(
    download: &mut client::Download,
    pieces: SyncSender<Vec<u8>>,
    progress: &mut Progress,
) -> Result<(), CliError> {
    while let Some(piece) = download.next().await? {
        progress.bytes(piece.len() as u64);
        let pieces = pieces.clone();
        let sent = tokio::task::spawn_blocking(move || pieces.send(piece.to_vec())).await;
        // The writer has ended early, and says why.
        if !matches!(sent, Ok(Ok(()))) {
            return Ok(());
        }
    }
    Ok(())
}

fn write(folder: &Path, entries: &[FileEntry], queue: Receiver<Vec<u8>>) -> Result<Vec<PathBuf>, UnpackError> {
    std::fs::create_dir_all(folder).map_err(|source| UnpackError::Io { path: folder.to_owned(), source })?;
    let mut pieces = Pieces { queue, piece: Vec::new(), at: 0 };
    entries.iter().map(|entry| place_file(folder, entry, &mut pieces.by_ref().take(entry.size))).collect()
}

/// What comes out of the queue, as a reader.
struct Pieces {
    queue: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            match self.queue.recv() {
                Ok(piece) => (self.piece, self.at) = (piece, 0),
                Err(_) => return Ok(0),
            }
        }
        let most = buffer.len().min(self.piece.len() - self.at);
        buffer[..most].copy_from_slice(&self.piece[self.at..self.at + most]);
        self.at += most;
        Ok(most)
    }
}

/// How far it is, on a terminal.
struct Progress {
    lively: bool,
    files: usize,
    files_done: usize,
    bytes: u64,
    bytes_done: u64,
    /// In hundredths, as it was last shown.
    shown: Option<u64>,
}

impl Progress {
    fn new(files: &[&Artifact]) -> Progress {
        let bytes = files.iter().map(|file| file.size).sum();
        Progress { lively: is_lively(), files: files.len(), files_done: 0, bytes, bytes_done: 0, shown: None }
    }

    fn bytes(&mut self, bytes: u64) {
        self.bytes_done += bytes;
        let hundredths = self.bytes_done.saturating_mul(100) / self.bytes.max(1);
        if self.lively && self.shown != Some(hundredths) {
            self.shown = Some(hundredths);
            // A line that is drawn over; if nobody can read it, nobody misses it.
            let line = format!("\r\u{1b}[K{hundredths:3} %  {} of {} files", self.files_done, self.files);
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }

    fn files_done(&mut self, count: usize) {
        self.files_done += count;
        if self.lively {
            let _ = io::stderr().write_all(b"\r\x1b[K");
            self.shown = None;
            if self.files_done == self.files {
                say(&format!("{} files, {} bytes", self.files, self.bytes));
            }
        }
    }
}
