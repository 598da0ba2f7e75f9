//! `/`: a plain page that says what this is and where to go, until there is a real one. It shows counts and nothing else.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{Html, IntoResponse as _, Response};
use http::header;

use crate::app::App;

use super::error::ApiError;
use super::health::VERSION;

pub(super) async fn index(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let workers = app.ledger.inspect(crate::dispatch::Roster::connected).await?;
    let counts = app.read(|app| Ok(app.reader.job_counts()?)).await?;
    let headers = [
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Html(html(&counts, workers))).into_response())
}

/// State words and numbers are all that goes in: nothing that would have to be escaped.
fn html(counts: &[(String, u64)], workers: usize) -> String {
    let mut rows = String::new();
    for (state, count) in counts {
        // Writing to a string cannot fail.
        let _ = write!(rows, "<tr><td>{state}</td><td>{count}</td></tr>");
    }
    if rows.is_empty() {
        rows.push_str("<tr><td>no jobs yet</td><td></td></tr>");
    }
    format!(
        r#"<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Bowline</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}}
td{{padding:0 1.5rem 0 0}}code{{background:#eee;padding:0 .3em}}</style></head>
<body>
<h1>Bowline {VERSION}</h1>
<p>A job never slips and never jams.</p>
<h2>Jobs</h2>
<table>{rows}</table>
<p>Workers connected: {workers}</p>
<h2>Where to go</h2>
<ul>
<li><code>bowline jobs</code>, <code>bowline run FILE</code>, <code>bowline why ID</code> on the command line</li>
<li><a href="/api/openapi.json">/api/openapi.json</a> describes the API; it wants a token, as <code>admin.token</code> in the data folder holds</li>
<li><a href="/healthz">/healthz</a>, <a href="/readyz">/readyz</a>, <a href="/metrics">/metrics</a></li>
</ul>
</body>
</html>
"#
    )
}
