//! Files that steps left: their list, and each of them.

use std::sync::Arc;

use api::{Artifact, ArtifactsQuery, ErrorCode, Page};
use axum::extract::State;
use axum::response::Response;
use engine::attempt::ArtifactSet;
use engine::{Job, StepIx};
use http::{HeaderMap, StatusCode};
use pack::{Layout, SetId};

use crate::app::App;
use crate::artifacts::DepotError;

use super::error::ApiError;
use super::extract::{Path, Query};
use super::{answer, ids, pieces};

/// Files of one page, unless said, and whatever is said.
const PAGE_DEFAULT: u32 = 1_000;
const PAGE_MAX: u32 = 10_000;

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(query): Query<ArtifactsQuery>,
) -> Result<Response, ApiError> {
    let page = app.read(move |app| page(app, &id, &query)).await?;
    Ok(answer(StatusCode::OK, &page))
}

pub(super) async fn file(
    State(app): State<Arc<App>>,
    Path((id, step, path)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (file, piece) = app
        .read(move |app| {
            let (file, layout, _) = of_step(app, &id, &step)?;
            let Some((entry, before)) = layout.manifest.find(&path) else {
                let message = format!("the step `{step}` has left no file `{path}`");
                return Err(ApiError::not_found(message).hint("`bowline artifacts JOB` lists what there is"));
            };
            let piece = pieces::Piece { from: layout.offset + before, bytes: entry.size, etag: entry.sha256.clone() };
            Ok((file, piece))
        })
        .await?;
    pieces::send(file, &piece, &headers)
}

/// The bytes of all files of a step, one after the other as the list has them.
pub(super) async fn all(
    State(app): State<Arc<App>>,
    Path((id, step)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (file, piece) = app
        .read(move |app| {
            let (file, layout, set) = of_step(app, &id, &step)?;
            let piece = pieces::Piece { from: layout.offset, bytes: layout.manifest.bytes(), etag: set.to_string() };
            Ok((file, piece))
        })
        .await?;
    pieces::send(file, &piece, &headers)
}

fn of_step(app: &App, id: &str, step: &str) -> Result<(std::fs::File, Arc<Layout>, SetId), ApiError> {
    let job = load(app, id)?;
    let ix = job.find(step).ok_or_else(|| no_such_step(&job, step))?;
    let Some(set) = job.step(ix).artifacts else {
        return Err(ApiError::not_found(format!("the step `{step}` has left no artifacts")));
    };
    let (file, layout) = open(app, &job, ix, set)?;
    Ok((file, layout, SetId(set.id)))
}

/// Steps in their order, and the files of each by name. The cursor counts files.
fn page(app: &App, id: &str, query: &ArtifactsQuery) -> Result<Page<Artifact>, ApiError> {
    let job = load(app, id)?;
    let only = match &query.step {
        Some(step) => Some(job.find(step).ok_or_else(|| no_such_step(&job, step))?),
        None => None,
    };
    let mut skip = match &query.cursor {
        Some(cursor) => cursor.parse::<usize>().map_err(|_| ApiError::bad_request("this is no cursor of this list"))?,
        None => 0,
    };
    let given = skip;
    let limit = query.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX) as usize;
    let mut items = Vec::new();
    let mut more = false;
    for (ix, set) in sets(&job).filter(|(ix, _)| only.is_none_or(|only| belongs(&job, *ix, only))) {
        if skip >= set.files as usize {
            skip -= set.files as usize;
            continue;
        }
        if items.len() >= limit {
            more = true;
            break;
        }
        let (_, layout) = open(app, &job, ix, set)?;
        let files = layout.manifest.files.iter().skip(std::mem::take(&mut skip));
        for file in files {
            if items.len() >= limit {
                more = true;
                break;
            }
            items.push(Artifact {
                step: job.name(ix).into_owned(),
                attempt: job.step(ix).attempts,
                path: file.path.clone(),
                size: file.size,
                sha256: file.sha256.clone(),
                executable: file.executable,
            });
        }
    }
    let next = more.then(|| (given + items.len()).to_string());
    Ok(Page { items, next })
}

fn sets(job: &Job) -> impl Iterator<Item = (StepIx, ArtifactSet)> {
    let set = |(index, step): (usize, &engine::Step)| Some((StepIx::of(index), step.artifacts?));
    job.steps.iter().enumerate().filter_map(set)
}

/// Who asks for a step with `for_each` means all that it became.
fn belongs(job: &Job, ix: StepIx, wanted: StepIx) -> bool {
    ix == wanted || job.step(ix).item.as_ref().is_some_and(|item| item.of == wanted)
}

fn load(app: &App, id: &str) -> Result<Job, ApiError> {
    let id = ids::resolve(app, id)?;
    let stored = app.reader.job(id)?.ok_or_else(|| ids::no_such_job(&id.to_string()))?;
    let (job, _) = app.definitions.load(&stored)?;
    Ok(job)
}

fn open(app: &App, job: &Job, ix: StepIx, set: ArtifactSet) -> Result<(std::fs::File, Arc<Layout>), ApiError> {
    app.artifacts.read(SetId(set.id)).map_err(|error| match error {
        DepotError::Unknown => {
            let message =
                format!("the artifacts of step `{}` are not in this server's folder of artifacts", job.name(ix));
            let hint = "several servers must share that folder (`artifacts.path`), and a backup must hold it";
            ApiError::new(ErrorCode::Unavailable, message).hint(hint)
        }
        error => {
            tracing::warn!(%error, job = %job.id, "artifacts cannot be read");
            ApiError::new(ErrorCode::Unavailable, error.to_string())
        }
    })
}

fn no_such_step(job: &Job, step: &str) -> ApiError {
    ApiError::not_found(format!("the job {} has no step `{step}`", job.id))
}
