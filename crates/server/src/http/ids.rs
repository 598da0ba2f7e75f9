//! What may stand for a job in a path: its id, the beginning of it, or `last`.

use api::ErrorCode;
use engine::JobId;

use crate::app::App;

use super::error::ApiError;

/// Shorter beginnings fit by accident: ids begin with the time.
const PREFIX_CHARS_MIN: usize = 4;

/// Ids that are named in the answer to an ambiguous one.
const NAMED_MAX: usize = 3;

/// Reads the store unless the id is whole; a whole one may still lead nowhere.
pub(super) fn resolve(app: &App, text: &str) -> Result<JobId, ApiError> {
    if let Ok(id) = text.parse::<JobId>() {
        return Ok(id);
    }
    if text == "last" {
        return app.reader.last_job()?.ok_or_else(|| ApiError::not_found("there is no job yet"));
    }
    if text.len() < PREFIX_CHARS_MIN {
        let message = format!("`{text}` is too short for a job; give at least {PREFIX_CHARS_MIN} characters of its id");
        return Err(ApiError::bad_request(message)
            .hint("`bowline jobs` lists them; `last` is the newest that neither a step nor a hook began"));
    }
    let prefix = text.to_ascii_lowercase();
    let is_prefix = prefix.len() <= 36 && prefix.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    let found = if is_prefix { app.reader.jobs_by_prefix(&prefix, NAMED_MAX + 1)? } else { Vec::new() };
    match found.as_slice() {
        [] => Err(no_such_job(text)),
        [id] => Ok(*id),
        // The jobs that one begins begin as it does.
        [id, next, ..] if next.may_be_kin(*id) && is_begun(app, *next)? => Ok(*id),
        several => Err(ambiguous(text, several)),
    }
}

/// Nobody submitted it.
fn is_begun(app: &App, id: JobId) -> Result<bool, ApiError> {
    Ok(app.reader.job(id)?.is_some_and(|stored| stored.job.parent.is_some() || stored.job.hook_of.is_some()))
}

pub(super) fn no_such_job(text: &str) -> ApiError {
    ApiError::not_found(format!("there is no job `{text}`"))
        .hint("`bowline jobs` lists them; `last` is the newest that neither a step nor a hook began")
}

fn ambiguous(text: &str, found: &[JobId]) -> ApiError {
    let named: Vec<String> = found.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = if found.len() > NAMED_MAX { ", …" } else { "" };
    ApiError::new(ErrorCode::AmbiguousId, format!("`{text}` fits several jobs: {}{more}", named.join(", ")))
}
