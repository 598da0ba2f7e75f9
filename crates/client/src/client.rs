//! One method per route.

use std::sync::Arc;
use std::time::Duration;

use api::query::WAIT_MAX;
use api::{
    ApproveRequest, Artifact, ArtifactsQuery, CancelRequest, CreateTokenRequest, CreatedToken, Delivery, Dispatch,
    DrainRequest, ErrorAnswer, ErrorBody, Group, Health, Job, JobSummary, JobsQuery, LogPage, LogsQuery, Page,
    PruneRequest, Pruned, PutTaskRequest, RecoverRequest, RejectRequest, Removal, ResolveRequest, RetryRequest, Secret,
    SetSecretRequest, Stale, SubmitRequest, Task, TaskSummary, Token, Trigger, Wait, Why, Worker,
};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, RANGE, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::connection::{Answer, Connection, Connections};
use crate::download::Download;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::stream::{EventStream, LogStream};

/// A server under load answers later than it should, not never.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A dry run looks at everything that is old.
const PRUNE_TIMEOUT: Duration = Duration::from_secs(600);

/// A body that comes at all comes in this time.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// A job of 20,000 steps with their attempts is about 20 MB.
const BODY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How often a submit is sent when its connection breaks; its key makes that safe.
const SUBMIT_TRIES: u32 = 4;

/// Between two tries of a submit: enough for a server that restarts.
const SUBMIT_PAUSE: Duration = Duration::from_millis(300);

/// Everything that means something in a path or a query is coded.
const CODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Talks to one server. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    connections: Connections,
    authorization: Option<HeaderValue>,
}

impl Client {
    /// A token that no header can carry is no token of ours and counts as none.
    pub fn new(endpoint: Endpoint, token: Option<&str>) -> Client {
        let authorization =
            token.and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok()).map(|mut value| {
                value.set_sensitive(true);
                value
            });
        Client { inner: Arc::new(Inner { connections: Connections::new(endpoint), authorization }) }
    }

    pub fn endpoint(&self) -> &Endpoint {
        self.inner.connections.endpoint()
    }

    /// Submits once, however often the connection breaks meanwhile: `key` names this submit.
    pub async fn submit(&self, request: &SubmitRequest, key: &str) -> Result<Job, Error> {
        let body = to_json(request);
        let mut tries = 0;
        loop {
            tries += 1;
            let mut post = self.request(Method::POST, "/api/jobs", Some(&body));
            if let Ok(value) = HeaderValue::try_from(key) {
                post.headers_mut().insert("idempotency-key", value);
            }
            match self.exchange(post, ANSWER_TIMEOUT).await {
                Err(Error::Broken { .. }) if tries < SUBMIT_TRIES => tokio::time::sleep(SUBMIT_PAUSE).await,
                other => return other,
            }
        }
    }

    pub async fn jobs(&self, query: &JobsQuery) -> Result<Page<JobSummary>, Error> {
        let limit = query.limit.map(|limit| limit.to_string());
        let pairs = [
            ("state", query.state.as_deref()),
            ("task", query.task.as_deref()),
            ("limit", limit.as_deref()),
            ("cursor", query.cursor.as_deref()),
        ];
        self.get(&with_query("/api/jobs", &pairs)).await
    }

    /// `id` may be a unique prefix or `last`; the server resolves it.
    pub async fn job(&self, id: &str) -> Result<Job, Error> {
        self.get(&format!("/api/jobs/{}", coded(id))).await
    }

    /// The job once it is final, or as it is after `wait`.
    pub async fn job_wait(&self, id: &str, wait: Duration) -> Result<Job, Error> {
        let wait = Wait(wait.min(WAIT_MAX));
        let path = with_query(&format!("/api/jobs/{}", coded(id)), &[("wait", Some(&wait.to_string()))]);
        self.exchange(self.request(Method::GET, &path, None), ANSWER_TIMEOUT + wait.0).await
    }

    pub async fn cancel(&self, id: &str, force: bool) -> Result<Job, Error> {
        let body = to_json(&CancelRequest { force });
        let path = format!("/api/jobs/{}/cancel", coded(id));
        self.exchange(self.request(Method::POST, &path, Some(&body)), ANSWER_TIMEOUT).await
    }

    /// The new job.
    pub async fn retry(&self, id: &str, request: &RetryRequest) -> Result<Job, Error> {
        let path = format!("/api/jobs/{}/retry", coded(id));
        self.exchange(self.request(Method::POST, &path, Some(&to_json(request))), ANSWER_TIMEOUT).await
    }

    pub async fn approve(&self, id: &str, step: &str, request: &ApproveRequest) -> Result<Job, Error> {
        let path = format!("/api/jobs/{}/steps/{}/approve", coded(id), coded(step));
        self.exchange(self.request(Method::POST, &path, Some(&to_json(request))), ANSWER_TIMEOUT).await
    }

    pub async fn reject(&self, id: &str, step: &str, request: &RejectRequest) -> Result<Job, Error> {
        let path = format!("/api/jobs/{}/steps/{}/reject", coded(id), coded(step));
        self.exchange(self.request(Method::POST, &path, Some(&to_json(request))), ANSWER_TIMEOUT).await
    }

    /// The job, or the one that goes on where it had ended.
    pub async fn resolve(&self, id: &str, step: &str, request: &ResolveRequest) -> Result<Job, Error> {
        let path = format!("/api/jobs/{}/steps/{}/resolve", coded(id), coded(step));
        self.exchange(self.request(Method::POST, &path, Some(&to_json(request))), ANSWER_TIMEOUT).await
    }

    pub async fn why(&self, id: &str) -> Result<Why, Error> {
        self.get(&format!("/api/jobs/{}/why", coded(id))).await
    }

    pub async fn logs(&self, id: &str, step: &str, query: &LogsQuery) -> Result<LogPage, Error> {
        self.get(&logs_path(id, step, "", query)).await
    }

    /// Follows a log to its end, through lost connections.
    pub fn log_stream(&self, id: &str, step: &str, query: &LogsQuery) -> LogStream {
        LogStream::new(self.clone(), logs_path(id, step, "/stream", query))
    }

    /// Follows a job to its end, through lost connections; begins after the event `after`.
    pub fn job_events(&self, id: &str, after: u64) -> EventStream {
        let after = after.to_string();
        let path = with_query(&format!("/api/jobs/{}/events", coded(id)), &[("after", Some(&after))]);
        EventStream::new(self.clone(), path)
    }

    pub async fn workers(&self) -> Result<Page<Worker>, Error> {
        self.get("/api/workers").await
    }

    /// `worker` may be an id or a name that only one has; `draining: false` takes it back.
    pub async fn drain_worker(&self, worker: &str, draining: bool) -> Result<Worker, Error> {
        let path = format!("/api/workers/{}/drain", coded(worker));
        let body = to_json(&DrainRequest { draining });
        self.exchange(self.request(Method::POST, &path, Some(&body)), ANSWER_TIMEOUT).await
    }

    pub async fn remove_worker(&self, worker: &str) -> Result<Removal, Error> {
        let path = format!("/api/workers/{}", coded(worker));
        self.exchange(self.request(Method::DELETE, &path, None), ANSWER_TIMEOUT).await
    }

    pub async fn stale(&self, older_than: Option<&str>) -> Result<Page<Stale>, Error> {
        self.get(&with_query("/api/recovery/stale", &[("older_than", older_than)])).await
    }

    /// What was given up.
    pub async fn recover_requeue(&self, request: &RecoverRequest) -> Result<Page<Stale>, Error> {
        let body = to_json(request);
        self.exchange(self.request(Method::POST, "/api/recovery/requeue", Some(&body)), ANSWER_TIMEOUT).await
    }

    pub async fn recover_fail(&self, request: &RecoverRequest) -> Result<Page<Stale>, Error> {
        let body = to_json(request);
        self.exchange(self.request(Method::POST, "/api/recovery/fail", Some(&body)), ANSWER_TIMEOUT).await
    }

    /// What is old is to go now, or only what would.
    pub async fn prune(&self, request: &PruneRequest) -> Result<Pruned, Error> {
        let body = to_json(request);
        self.exchange(self.request(Method::POST, "/api/retention/prune", Some(&body)), PRUNE_TIMEOUT).await
    }

    /// How far that has got.
    pub async fn retention(&self) -> Result<Pruned, Error> {
        self.get("/api/retention").await
    }

    /// Concurrency groups: who has their slots and who waits. One page.
    pub async fn groups(&self, cursor: Option<&str>) -> Result<Page<Group>, Error> {
        self.get(&with_query("/api/groups", &[("cursor", cursor)])).await
    }

    /// Webhooks that nobody took.
    pub async fn outbox(&self) -> Result<Page<Delivery>, Error> {
        self.get("/api/outbox").await
    }

    pub async fn retry_outbox(&self, id: &str) -> Result<Delivery, Error> {
        let path = format!("/api/outbox/{}/retry", coded(id));
        self.exchange(self.request(Method::POST, &path, None), ANSWER_TIMEOUT).await
    }

    pub async fn dispatch(&self) -> Result<Dispatch, Error> {
        self.get("/api/dispatch").await
    }

    pub async fn pause_dispatch(&self) -> Result<Dispatch, Error> {
        self.exchange(self.request(Method::POST, "/api/dispatch/pause", None), ANSWER_TIMEOUT).await
    }

    pub async fn resume_dispatch(&self) -> Result<Dispatch, Error> {
        self.exchange(self.request(Method::POST, "/api/dispatch/resume", None), ANSWER_TIMEOUT).await
    }

    pub async fn tasks(&self) -> Result<Page<TaskSummary>, Error> {
        self.get("/api/tasks").await
    }

    pub async fn task(&self, name: &str) -> Result<Task, Error> {
        self.get(&format!("/api/tasks/{}", coded(name))).await
    }

    pub async fn put_task(&self, name: &str, request: &PutTaskRequest) -> Result<Task, Error> {
        let path = format!("/api/tasks/{}", coded(name));
        self.exchange(self.request(Method::PUT, &path, Some(&to_json(request))), ANSWER_TIMEOUT).await
    }

    /// The files that the job's steps left.
    pub async fn artifacts(&self, id: &str, query: &ArtifactsQuery) -> Result<Page<Artifact>, Error> {
        let limit = query.limit.map(|limit| limit.to_string());
        let pairs = [("step", query.step.as_deref()), ("limit", limit.as_deref()), ("cursor", query.cursor.as_deref())];
        self.get(&with_query(&format!("/api/jobs/{}/artifacts", coded(id)), &pairs)).await
    }

    /// One of them, which has so many bytes.
    pub fn artifact(&self, id: &str, step: &str, path: &str, bytes: u64) -> Download {
        let path: Vec<String> = path.split('/').map(coded).collect();
        let path = format!("/api/jobs/{}/steps/{}/artifacts/{}", coded(id), coded(step), path.join("/"));
        Download::new(self.clone(), path, bytes)
    }

    /// All that a step left, one file after the other in the order of the list, so many bytes in all.
    pub fn artifacts_of_step(&self, id: &str, step: &str, bytes: u64) -> Download {
        let path = format!("/api/jobs/{}/steps/{}/artifacts", coded(id), coded(step));
        Download::new(self.clone(), path, bytes)
    }

    /// A request for a file from this byte on; only its head is awaited.
    pub(crate) async fn open_file(&self, path: &str, from: u64) -> Result<Answer, Error> {
        let mut request = self.request(Method::GET, path, None);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("*/*"));
        if from > 0 {
            let range = HeaderValue::try_from(format!("bytes={from}-")).expect("digits are good in a header");
            request.headers_mut().insert(RANGE, range);
        }
        let answer = self.inner.connections.send(request, ANSWER_TIMEOUT).await?;
        let status = answer.response.status();
        if status.is_success() { Ok(answer) } else { Err(self.refusal(status, &self.read_body(answer).await?)) }
    }

    pub(crate) fn give_back(&self, connection: Connection) {
        self.inner.connections.give_back(connection);
    }

    pub(crate) fn broken(&self, error: &hyper::Error) -> Error {
        self.inner.connections.broken(error)
    }

    pub(crate) fn silent(&self, patience: Duration) -> Error {
        self.inner.connections.silent(patience)
    }

    pub async fn triggers(&self) -> Result<Page<Trigger>, Error> {
        self.get("/api/triggers").await
    }

    pub async fn pause_trigger(&self, id: &str) -> Result<Trigger, Error> {
        let path = format!("/api/triggers/{}/pause", coded(id));
        self.exchange(self.request(Method::POST, &path, None), ANSWER_TIMEOUT).await
    }

    pub async fn resume_trigger(&self, id: &str) -> Result<Trigger, Error> {
        let path = format!("/api/triggers/{}/resume", coded(id));
        self.exchange(self.request(Method::POST, &path, None), ANSWER_TIMEOUT).await
    }

    pub async fn secrets(&self) -> Result<Page<Secret>, Error> {
        self.get("/api/secrets").await
    }

    pub async fn set_secret(&self, name: &str, request: &SetSecretRequest) -> Result<Secret, Error> {
        let path = format!("/api/secrets/{}", coded(name));
        self.exchange(self.request(Method::PUT, &path, Some(&to_json(request))), ANSWER_TIMEOUT).await
    }

    pub async fn remove_secret(&self, name: &str) -> Result<(), Error> {
        let path = format!("/api/secrets/{}", coded(name));
        self.exchange_bytes(self.request(Method::DELETE, &path, None), ANSWER_TIMEOUT).await.map(|_| ())
    }

    pub async fn tokens(&self) -> Result<Page<Token>, Error> {
        self.get("/api/tokens").await
    }

    pub async fn create_token(&self, request: &CreateTokenRequest) -> Result<CreatedToken, Error> {
        self.exchange(self.request(Method::POST, "/api/tokens", Some(&to_json(request))), ANSWER_TIMEOUT).await
    }

    pub async fn revoke_token(&self, id: &str) -> Result<(), Error> {
        let path = format!("/api/tokens/{}", coded(id));
        self.exchange_bytes(self.request(Method::DELETE, &path, None), ANSWER_TIMEOUT).await.map(|_| ())
    }

    pub async fn health(&self) -> Result<Health, Error> {
        self.get("/healthz").await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.exchange(self.request(Method::GET, path, None), ANSWER_TIMEOUT).await
    }

    /// A request for an event stream that goes on after `last_id`; only its head is awaited.
    pub(crate) async fn open_stream(&self, path: &str, last_id: Option<&str>) -> Result<Answer, Error> {
        let mut request = self.request(Method::GET, path, None);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(value) = last_id.and_then(|id| HeaderValue::try_from(id).ok()) {
            request.headers_mut().insert("last-event-id", value);
        }
        let answer = self.inner.connections.send(request, ANSWER_TIMEOUT).await?;
        if answer.response.status() == StatusCode::OK {
            return Ok(answer);
        }
        let status = answer.response.status();
        Err(self.refusal(status, &self.read_body(answer).await?))
    }

    async fn exchange<T: DeserializeOwned>(
        &self,
        request: Request<Full<Bytes>>,
        patience: Duration,
    ) -> Result<T, Error> {
        let body = self.exchange_bytes(request, patience).await?;
        serde_json::from_slice(&body).map_err(|error| self.bad_answer(format!("it cannot be read: {error}")))
    }

    async fn exchange_bytes(&self, request: Request<Full<Bytes>>, patience: Duration) -> Result<Bytes, Error> {
        let answer = self.inner.connections.send(request, patience).await?;
        let status = answer.response.status();
        let body = self.read_body(answer).await?;
        if status.is_success() { Ok(body) } else { Err(self.refusal(status, &body)) }
    }

    async fn read_body(&self, answer: Answer) -> Result<Bytes, Error> {
        let connections = &self.inner.connections;
        let body = Limited::new(answer.response.into_body(), BODY_BYTES_MAX);
        let body = timeout(BODY_TIMEOUT, body.collect()).await.map_err(|_| connections.silent(BODY_TIMEOUT))?;
        match body {
            Ok(body) => {
                connections.give_back(answer.connection);
                Ok(body.to_bytes())
            }
            Err(error) => match error.downcast_ref::<hyper::Error>() {
                Some(error) => Err(connections.broken(error)),
                None => Err(self.bad_answer(format!("it has more than {BODY_BYTES_MAX} bytes"))),
            },
        }
    }

    fn refusal(&self, status: StatusCode, body: &[u8]) -> Error {
        let error = match serde_json::from_slice::<ErrorAnswer>(body) {
            Ok(answer) => answer.error,
            Err(_) => ErrorBody {
                code: "unknown".to_owned(),
                message: format!("the server at {} answered {status} without saying why", self.endpoint()),
                hint: None,
                diagnostics: Vec::new(),
            },
        };
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Error::Refused { server: self.endpoint().to_string(), error }
            }
            _ => Error::Api { status: status.as_u16(), error },
        }
    }

    pub(crate) fn bad_answer(&self, reason: String) -> Error {
        Error::BadAnswer { server: self.endpoint().to_string(), reason }
    }

    fn request(&self, method: Method, path: &str, json: Option<&Bytes>) -> Request<Full<Bytes>> {
        let body = json.cloned().unwrap_or_default();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.endpoint().path(path).parse().expect("the path is coded, the base was parsed");
        let headers = request.headers_mut();
        let host = HeaderValue::try_from(self.endpoint().authority()).expect("an authority was parsed as one");
        headers.insert(HOST, host);
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("bowline/", env!("CARGO_PKG_VERSION"))));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if json.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(authorization) = &self.inner.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        request
    }
}

/// A key that no other submit has.
pub fn new_idempotency_key() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
}

fn logs_path(id: &str, step: &str, suffix: &str, query: &LogsQuery) -> String {
    let number = |number: Option<u64>| number.map(|n| n.to_string());
    let path = format!("/api/jobs/{}/steps/{}/logs{suffix}", coded(id), coded(step));
    let pairs = [
        ("from", number(query.from)),
        ("attempt", number(query.attempt.map(u64::from))),
        ("limit", number(query.limit.map(u64::from))),
        ("tail", number(query.tail.map(u64::from))),
    ];
    with_query(&path, &pairs.each_ref().map(|(key, value)| (*key, value.as_deref())))
}

fn with_query(path: &str, pairs: &[(&str, Option<&str>)]) -> String {
    let mut whole = path.to_owned();
    let mut separator = '?';
    for (key, value) in pairs {
        if let Some(value) = value {
            whole.push(separator);
            whole.push_str(key);
            whole.push('=');
            whole.push_str(&coded(value));
            separator = '&';
        }
    }
    whole
}

/// One segment or value. `.` and `..` would climb out of their place, so their dots are coded too.
fn coded(text: &str) -> String {
    let coded = utf8_percent_encode(text, CODED).to_string();
    if coded == "." || coded == ".." { coded.replace('.', "%2E") } else { coded }
}

fn to_json<T: Serialize>(value: &T) -> Bytes {
    serde_json::to_vec(value).expect("requests are plain data and always have a JSON form").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_are_coded() {
        assert_eq!(coded("last"), "last");
        assert_eq!(coded("a/b?c=d e"), "a%2Fb%3Fc%3Dd%20e");
        assert_eq!(coded("each[0]"), "each%5B0%5D");
        assert_eq!(coded(".."), "%2E%2E");
    }

    #[test]
    fn queries_hold_only_what_was_given() {
        let query = LogsQuery { from: Some(7), attempt: None, limit: None, tail: Some(2) };
        assert_eq!(logs_path("last", "build", "", &query), "/api/jobs/last/steps/build/logs?from=7&tail=2");
        assert_eq!(with_query("/x", &[("a", None)]), "/x");
    }
}
