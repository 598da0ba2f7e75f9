//! The description of the API that the server answers at `/api/openapi.json` and that is checked in as `docs/openapi.json`.

use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, ContentBuilder, Ref, ResponseBuilder};
use utoipa::{Modify, OpenApi};

use crate::error::ErrorAnswer;
use crate::routes;

/// The whole description.
pub fn openapi() -> utoipa::openapi::OpenApi {
    Description::openapi()
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Bowline",
        description = "A job and workflow orchestrator. Errors have one shape, times are RFC 3339 in UTC, lists come in pages.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    paths(
        routes::submit_job,
        routes::list_jobs,
        routes::get_job,
        routes::cancel_job,
        routes::retry_job,
        routes::approve_step,
        routes::reject_step,
        routes::resolve_step,
        routes::why_job,
        routes::get_logs,
        routes::stream_logs,
        routes::job_events,
        routes::list_artifacts,
        routes::get_artifacts,
        routes::get_artifact,
        routes::events,
        routes::list_workers,
        routes::drain_worker,
        routes::remove_worker,
        routes::list_stale,
        routes::recover_requeue,
        routes::recover_fail,
        routes::get_dispatch,
        routes::pause_dispatch,
        routes::resume_dispatch,
        routes::get_retention,
        routes::prune,
        routes::list_groups,
        routes::list_outbox,
        routes::retry_outbox,
        routes::list_tasks,
        routes::get_task,
        routes::put_task,
        routes::list_triggers,
        routes::pause_trigger,
        routes::resume_trigger,
        routes::call_hook,
        routes::list_secrets,
        routes::set_secret,
        routes::remove_secret,
        routes::list_tokens,
        routes::create_token,
        routes::revoke_token,
        routes::enroll_worker,
        routes::worker_link,
        routes::healthz,
        routes::readyz,
        routes::metrics,
        routes::openapi_json,
    ),
    components(schemas(ErrorAnswer)),
    security(("token" = [])),
    modifiers(&BearerToken, &ErrorsEverywhere)
)]
struct Description;

struct BearerToken;

impl Modify for BearerToken {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let components = openapi.components.get_or_insert_with(|| ComponentsBuilder::new().build());
        components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
}

/// Any route may answer with an error, and all errors have the same shape.
struct ErrorsEverywhere;

impl Modify for ErrorsEverywhere {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorAnswer"))).build();
        let response = ResponseBuilder::new().description("Any error").content("application/json", content).build();
        for item in openapi.paths.paths.values_mut() {
            let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.delete];
            for operation in operations.into_iter().flatten() {
                let operation: &mut Operation = operation;
                operation.responses.responses.insert("default".to_owned(), response.clone().into());
            }
        }
    }
}
