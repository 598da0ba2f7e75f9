//! Every route in words, for `openapi`. The functions carry descriptions only: the server has the handlers.

#![expect(dead_code, reason = "the attribute macro describes a route on a function; nobody calls these")]

use crate::artifact::{Artifact, ArtifactsQuery};
use crate::error::ErrorAnswer;
use crate::event::Event;
use crate::group::{Group, GroupsQuery};
use crate::health::{Health, Readiness};
use crate::job::{
    ApproveRequest, CancelRequest, Job, JobSummary, RejectRequest, ResolveRequest, RetryRequest, SubmitRequest,
};
use crate::log::LogPage;
use crate::outbox::Delivery;
use crate::page::Page;
use crate::query::{EventsQuery, JobQuery, JobsQuery, LogsQuery};
use crate::recovery::{RecoverRequest, Stale, StaleQuery};
use crate::retention::{PruneRequest, Pruned};
use crate::secret::{Secret, SetSecretRequest};
use crate::task::{PutTaskRequest, Task, TaskSummary};
use crate::token::{CreateTokenRequest, CreatedToken, Token};
use crate::trigger::{HookAnswer, Trigger};
use crate::why::Why;
use crate::worker::{Dispatch, DrainRequest, Removal, Worker};

/// Submit a job
///
/// Of a task that the server knows, or of the text of a task file.
#[utoipa::path(post, path = "/api/jobs", tag = "jobs",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to repeat the request: the same key gives the same job")),
    request_body = SubmitRequest,
    responses(
        (status = 201, description = "The job", body = Job),
        (status = 200, description = "The job that this key made before", body = Job),
        (status = 422, description = "The task or its input is not good; nothing was made", body = ErrorAnswer),
    ))]
pub(crate) fn submit_job() {}

/// List jobs, in the order of their ids, the last first
#[utoipa::path(get, path = "/api/jobs", tag = "jobs", params(JobsQuery),
    responses((status = 200, description = "Some jobs", body = Page<JobSummary>)))]
pub(crate) fn list_jobs() {}

/// One job with its steps and attempts
#[utoipa::path(get, path = "/api/jobs/{id}", tag = "jobs",
    params(("id" = String, Path, description = "An id, a unique prefix of one, or `last`"), JobQuery),
    responses((status = 200, description = "The job", body = Job)))]
pub(crate) fn get_job() {}

/// Ask a job to end
///
/// Again with `force` it is killed. The answer does not wait for the end.
#[utoipa::path(post, path = "/api/jobs/{id}/cancel", tag = "jobs",
    params(("id" = String, Path, description = "An id, a unique prefix of one, or `last`")),
    request_body(content = CancelRequest, description = "May be left out"),
    responses(
        (status = 202, description = "The job as it now is", body = Job),
        (status = 409, description = "It is already over", body = ErrorAnswer),
    ))]
pub(crate) fn cancel_job() {}

/// Run a job again that is over
///
/// With the same definition and input; `from_failed` takes over what ended well.
#[utoipa::path(post, path = "/api/jobs/{id}/retry", tag = "jobs",
    params(("id" = String, Path, description = "An id, a unique prefix of one, or `last`")),
    request_body(content = RetryRequest, description = "May be left out"),
    responses(
        (status = 200, description = "The job that already goes on, because the same was asked before", body = Job),
        (status = 201, description = "The new job", body = Job),
        (status = 409, description = "It is not over, something of it may still run, or another job goes on for it", body = ErrorAnswer),
    ))]
pub(crate) fn retry_job() {}

/// List the files that the steps of a job left
///
/// Steps in their order, and the files of each by name.
#[utoipa::path(get, path = "/api/jobs/{id}/artifacts", tag = "artifacts",
    params(("id" = String, Path, description = "An id, a unique prefix of one, or `last`"), ArtifactsQuery),
    responses((status = 200, description = "Some files", body = Page<Artifact>)))]
pub(crate) fn list_artifacts() {}

/// All that a step left, as one stream
///
/// The bytes of its files, one after the other in the order of the list, which says where each ends. Takes `Range` and
/// `If-None-Match`; the `ETag` names the set.
#[utoipa::path(get, path = "/api/jobs/{id}/steps/{step}/artifacts", tag = "artifacts",
    params(
        ("id" = String, Path, description = "An id, a unique prefix of one, or `last`"),
        ("step" = String, Path, description = "A step's name; an item's for a step with `for_each`"),
    ),
    responses(
        (status = 200, description = "The files", content_type = "application/octet-stream"),
        (status = 206, description = "The part of them that was asked for", content_type = "application/octet-stream"),
        (status = 304, description = "They are those that the caller has"),
        (status = 404, description = "The step left none", body = ErrorAnswer),
    ))]
pub(crate) fn get_artifacts() {}

/// One file that a step left
///
/// Takes `Range` and `If-None-Match`; the `ETag` is the SHA-256 of the file.
#[utoipa::path(get, path = "/api/jobs/{id}/steps/{step}/artifacts/{path}", tag = "artifacts",
    params(
        ("id" = String, Path, description = "An id, a unique prefix of one, or `last`"),
        ("step" = String, Path, description = "A step's name"),
        ("path" = String, Path, description = "The file's path, slashes and all"),
    ),
    responses(
        (status = 200, description = "The file", content_type = "application/octet-stream"),
        (status = 206, description = "The part of it that was asked for", content_type = "application/octet-stream"),
        (status = 304, description = "It is the one that the caller has"),
        (status = 404, description = "There is no such file", body = ErrorAnswer),
    ))]
pub(crate) fn get_artifact() {}

/// Say yes to a step that waits for a person
///
/// Each identity counts once: a token's name, or the token itself where it has none.
#[utoipa::path(post, path = "/api/jobs/{id}/steps/{step}/approve", tag = "jobs",
    params(
        ("id" = String, Path, description = "An id, a unique prefix of one, or `last`"),
        ("step" = String, Path, description = "A step's name"),
    ),
    request_body(content = ApproveRequest, description = "May be left out"),
    responses(
        (status = 200, description = "The job as it now is", body = Job),
        (status = 403, description = "Somebody else than the submitter must", body = ErrorAnswer),
        (status = 409, description = "The step does not wait for a person, or has this one's yes", body = ErrorAnswer),
    ))]
pub(crate) fn approve_step() {}

/// Say no to a step that waits for a person
///
/// It is cancelled, as `rejected`.
#[utoipa::path(post, path = "/api/jobs/{id}/steps/{step}/reject", tag = "jobs",
    params(
        ("id" = String, Path, description = "An id, a unique prefix of one, or `last`"),
        ("step" = String, Path, description = "A step's name"),
    ),
    request_body(content = RejectRequest, description = "May be left out"),
    responses(
        (status = 200, description = "The job as it now is", body = Job),
        (status = 409, description = "The step does not wait for a person", body = ErrorAnswer),
    ))]
pub(crate) fn reject_step() {}

/// Settle a step by hand
///
/// The answer is the job, or the new one that goes on where the job had ended.
#[utoipa::path(post, path = "/api/jobs/{id}/steps/{step}/resolve", tag = "jobs",
    params(
        ("id" = String, Path, description = "An id, a unique prefix of one, or `last`"),
        ("step" = String, Path, description = "A step's name"),
    ),
    request_body = ResolveRequest,
    responses(
        (status = 200, description = "The job as it now is", body = Job),
        (status = 201, description = "The job that goes on", body = Job),
        (status = 409, description = "There is something newer than what was seen, or the step cannot be settled now", body = ErrorAnswer),
    ))]
pub(crate) fn resolve_step() {}

/// Why the job is where it is, and what happens next
#[utoipa::path(get, path = "/api/jobs/{id}/why", tag = "jobs",
    params(("id" = String, Path, description = "An id, a unique prefix of one, or `last`")),
    responses((status = 200, description = "The reasons", body = Why)))]
pub(crate) fn why_job() {}

/// A step's log, in pages
#[utoipa::path(get, path = "/api/jobs/{id}/steps/{step}/logs", tag = "logs",
    params(
        ("id" = String, Path, description = "An id, a unique prefix of one, or `last`"),
        ("step" = String, Path, description = "A step's name, or `_server` for the job's server events"),
        LogsQuery,
    ),
    responses((status = 200, description = "Lines", body = LogPage)))]
pub(crate) fn get_logs() {}

/// A step's log, live
///
/// Each message's data is a page of lines, its id `ATTEMPT.SEQ.SUB` of the last of them. The first message comes at once,
/// lines or not. After the page with `complete` the stream ends. Comments keep it alive.
#[utoipa::path(get, path = "/api/jobs/{id}/steps/{step}/logs/stream", tag = "logs",
    params(
        ("id" = String, Path, description = "An id, a unique prefix of one, or `last`"),
        ("step" = String, Path, description = "A step's name, or `_server` for the job's server events"),
        ("Last-Event-ID" = Option<String>, Header, description = "Goes on after this line"),
        LogsQuery,
    ),
    responses((status = 200, description = "Messages with pages of lines", body = LogPage, content_type = "text/event-stream")))]
pub(crate) fn stream_logs() {}

/// A job's changes, live
///
/// From its first event, or after the given one. After the job's last change comes a message named `end`.
#[utoipa::path(get, path = "/api/jobs/{id}/events", tag = "events",
    params(
        ("id" = String, Path, description = "An id, a unique prefix of one, or `last`"),
        ("Last-Event-ID" = Option<u64>, Header, description = "Goes on after this event"),
        EventsQuery,
    ),
    responses((status = 200, description = "Messages with one event each", body = Event, content_type = "text/event-stream")))]
pub(crate) fn job_events() {}

/// All changes, live
///
/// From now on, or after the given event.
#[utoipa::path(get, path = "/api/events", tag = "events",
    params(("Last-Event-ID" = Option<u64>, Header, description = "Goes on after this event"), EventsQuery),
    responses((status = 200, description = "Messages with one event each", body = Event, content_type = "text/event-stream")))]
pub(crate) fn events() {}

/// The fleet
#[utoipa::path(get, path = "/api/workers", tag = "workers",
    responses((status = 200, description = "All workers", body = Page<Worker>)))]
pub(crate) fn list_workers() {}

/// Give a worker no new work
///
/// What it has goes on. With `draining: false` it gets work again.
#[utoipa::path(post, path = "/api/workers/{id}/drain", tag = "workers",
    params(("id" = String, Path, description = "A worker's id, or its name where only one has it")),
    request_body(content = DrainRequest, description = "May be left out"),
    responses((status = 200, description = "The worker as it now is", body = Worker)))]
pub(crate) fn drain_worker() {}

/// Take a worker out of the fleet
///
/// Offers go elsewhere; what it runs is decided as lost, by policy and effects, and the worker is told to stop it.
#[utoipa::path(delete, path = "/api/workers/{id}", tag = "workers",
    params(("id" = String, Path, description = "A worker's id, or its name where only one has it")),
    responses((status = 200, description = "What it came to", body = Removal)))]
pub(crate) fn remove_worker() {}

/// What has been silent for long
#[utoipa::path(get, path = "/api/recovery/stale", tag = "workers", params(StaleQuery),
    responses((status = 200, description = "The longest silent first", body = Page<Stale>)))]
pub(crate) fn list_stale() {}

/// Take back what was offered to workers that are silent
///
/// Nothing of it has started; it goes to another worker.
#[utoipa::path(post, path = "/api/recovery/requeue", tag = "workers",
    request_body(content = RecoverRequest, description = "May be left out"),
    responses((status = 200, description = "What was taken back", body = Page<Stale>)))]
pub(crate) fn recover_requeue() {}

/// Give up running attempts whose runner is silent
///
/// Each is told to stop; then its retry policy and its effects decide.
#[utoipa::path(post, path = "/api/recovery/fail", tag = "workers",
    request_body(content = RecoverRequest, description = "May be left out"),
    responses((status = 200, description = "What was given up", body = Page<Stale>)))]
pub(crate) fn recover_fail() {}

/// Is anything new handed out?
#[utoipa::path(get, path = "/api/dispatch", tag = "workers",
    responses((status = 200, description = "Whether it is", body = Dispatch)))]
pub(crate) fn get_dispatch() {}

/// Hand nothing new out
///
/// What runs goes on; what is queued stays, and does not fail for want of a worker.
#[utoipa::path(post, path = "/api/dispatch/pause", tag = "workers",
    responses((status = 200, description = "Since when, and by whom", body = Dispatch)))]
pub(crate) fn pause_dispatch() {}

/// Hand out again
#[utoipa::path(post, path = "/api/dispatch/resume", tag = "workers",
    responses((status = 200, description = "It goes on", body = Dispatch)))]
pub(crate) fn resume_dispatch() {}

/// How far deleting what is old has got
#[utoipa::path(get, path = "/api/retention", tag = "server",
    responses((status = 200, description = "The run that goes on, or the last one, of this server", body = Pruned)))]
pub(crate) fn get_retention() {}

/// Delete what is old, now
///
/// Only for admins. Jobs that are over, with all that is theirs, logs, and workers that were not seen for long.
#[utoipa::path(post, path = "/api/retention/prune", tag = "server",
    request_body(content = PruneRequest, description = "May be left out"),
    responses(
        (status = 200, description = "What would go, for a dry run", body = Pruned),
        (status = 202, description = "It has begun; `GET /api/retention` says how far it is", body = Pruned),
    ))]
pub(crate) fn prune() {}

/// Concurrency groups
///
/// Those that have open jobs, or whose slots are held by what may still run, by name.
#[utoipa::path(get, path = "/api/groups", tag = "jobs", params(GroupsQuery),
    responses((status = 200, description = "Groups with who has their slots and who waits", body = Page<Group>)))]
pub(crate) fn list_groups() {}

/// Webhooks that nobody took
///
/// They are not tried any more. The newest first.
#[utoipa::path(get, path = "/api/outbox", tag = "jobs",
    responses((status = 200, description = "What was given up", body = Page<Delivery>)))]
pub(crate) fn list_outbox() {}

/// Try a webhook again that nobody took
///
/// One that is still tried, or arrived, stays as it is.
#[utoipa::path(post, path = "/api/outbox/{id}/retry", tag = "jobs",
    params(("id" = String, Path, description = "The delivery's id")),
    responses((status = 200, description = "The delivery as it now is", body = Delivery)))]
pub(crate) fn retry_outbox() {}

/// Tasks that can be run by name, and those whose files have errors
#[utoipa::path(get, path = "/api/tasks", tag = "tasks",
    responses((status = 200, description = "All tasks", body = Page<TaskSummary>)))]
pub(crate) fn list_tasks() {}

/// One task with its text
#[utoipa::path(get, path = "/api/tasks/{name}", tag = "tasks",
    params(("name" = String, Path, description = "The task's name")),
    responses((status = 200, description = "The task", body = Task)))]
pub(crate) fn get_task() {}

/// Give the server a task, or a new version of one
#[utoipa::path(put, path = "/api/tasks/{name}", tag = "tasks",
    params(("name" = String, Path, description = "The task's name, the same as in its text")),
    request_body = PutTaskRequest,
    responses(
        (status = 200, description = "The task", body = Task),
        (status = 422, description = "The text has errors; nothing was changed", body = ErrorAnswer),
    ))]
pub(crate) fn put_task() {}

/// What starts jobs by itself, and what it does next
#[utoipa::path(get, path = "/api/triggers", tag = "tasks",
    responses((status = 200, description = "All triggers", body = Page<Trigger>)))]
pub(crate) fn list_triggers() {}

/// Let a trigger rest
///
/// It stays so until it is resumed, whatever is restarted, and also if its expression changes.
#[utoipa::path(post, path = "/api/triggers/{id}/pause", tag = "tasks",
    params(("id" = String, Path, description = "The trigger's id")),
    responses((status = 200, description = "The trigger as it now is", body = Trigger)))]
pub(crate) fn pause_trigger() {}

/// Let a trigger go on
///
/// Times that passed meanwhile were missed: with `missed: once` there is one run for all of them.
#[utoipa::path(post, path = "/api/triggers/{id}/resume", tag = "tasks",
    params(("id" = String, Path, description = "The trigger's id")),
    responses((status = 200, description = "The trigger as it now is", body = Trigger)))]
pub(crate) fn resume_trigger() {}

/// Start a task by its webhook
///
/// No token: the call is signed with the trigger's secret. One that comes twice makes one job: by the name of its delivery,
/// or, without one, by its body within ten minutes.
#[utoipa::path(post, path = "/hooks/{name}", tag = "tasks", security(()),
    params(
        ("name" = String, Path, description = "The webhook's name in the task file"),
        ("X-Bowline-Signature" = Option<String>, Header, description = "`sha256=` and the HMAC-SHA256 of the body in hexadecimal digits; or `X-Hub-Signature-256`"),
        ("X-Bowline-Delivery" = Option<String>, Header, description = "Names this call; or `X-GitHub-Delivery`"),
    ),
    request_body(content = Value, description = "Given to the task's input `body`, where it has one"),
    responses(
        (status = 202, description = "The job", body = HookAnswer),
        (status = 401, description = "The signature is not good", body = ErrorAnswer),
        (status = 409, description = "The trigger is paused", body = ErrorAnswer),
        (status = 503, description = "The secret is not set on the server", body = ErrorAnswer),
    ))]
pub(crate) fn call_hook() {}

/// Secrets that the server has, without their values
#[utoipa::path(get, path = "/api/secrets", tag = "access",
    responses((status = 200, description = "By name, each with where it is taken from", body = Page<Secret>)))]
pub(crate) fn list_secrets() {}

/// Put a secret into the store, sealed
///
/// Only for an admin's token. It takes the place of one that is there. No answer ever shows a value.
#[utoipa::path(put, path = "/api/secrets/{name}", tag = "access", request_body = SetSecretRequest,
    params(("name" = String, Path, description = "Letters, digits and `_`")),
    responses((status = 200, description = "From where it is taken now: a variable or a file of the server comes before the store", body = Secret)))]
pub(crate) fn set_secret() {}

/// Remove a secret from the store
#[utoipa::path(delete, path = "/api/secrets/{name}", tag = "access",
    params(("name" = String, Path, description = "Its name")),
    responses((status = 204, description = "It is gone")))]
pub(crate) fn remove_secret() {}

/// Tokens, without their secrets
#[utoipa::path(get, path = "/api/tokens", tag = "access",
    responses((status = 200, description = "All tokens", body = Page<Token>)))]
pub(crate) fn list_tokens() {}

/// Make a token; its text is shown only here
#[utoipa::path(post, path = "/api/tokens", tag = "access", request_body = CreateTokenRequest,
    responses((status = 201, description = "The token", body = CreatedToken)))]
pub(crate) fn create_token() {}

/// Revoke a token
#[utoipa::path(delete, path = "/api/tokens/{id}", tag = "access",
    params(("id" = String, Path, description = "The token's id, not its text")),
    responses((status = 204, description = "It is no longer valid")))]
pub(crate) fn revoke_token() {}

/// Enrol a worker
///
/// The bearer token is an enroll token. The messages are described in the protocol's own document.
#[utoipa::path(post, path = "/api/worker/enroll", tag = "worker",
    request_body(content = Value, description = "`EnrollRequest` of the worker protocol"),
    responses((status = 200, description = "`EnrollResponse` of the worker protocol", body = Value)))]
pub(crate) fn enroll_worker() {}

/// A worker's link
///
/// A WebSocket; the bearer token is the worker's credential. The messages are described in the protocol's own document.
#[utoipa::path(get, path = "/api/worker/link", tag = "worker",
    responses((status = 101, description = "The connection becomes a WebSocket")))]
pub(crate) fn worker_link() {}

/// Does the process answer?
#[utoipa::path(get, path = "/healthz", tag = "health", security(()),
    responses((status = 200, description = "It does", body = Health)))]
pub(crate) fn healthz() {}

/// Can it work?
#[utoipa::path(get, path = "/readyz", tag = "health", security(()),
    responses(
        (status = 200, description = "It can", body = Readiness),
        (status = 503, description = "Not now", body = Readiness),
    ))]
pub(crate) fn readyz() {}

/// Numbers for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, description = "OpenMetrics text", body = String, content_type = "application/openmetrics-text")))]
pub(crate) fn metrics() {}

/// This description
#[utoipa::path(get, path = "/api/openapi.json", tag = "health",
    responses((status = 200, description = "OpenAPI", body = Value)))]
pub(crate) fn openapi_json() {}
