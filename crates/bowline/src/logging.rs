//! Where the roles' own words go: stderr, as text or JSON, as much as asked for.

use spec::config::worker::LogFormat;
use tracing_subscriber::EnvFilter;

/// `BOWLINE_LOG` goes before `level`: `debug`, or a filter such as `info,worker=trace`.
pub(crate) fn start(level: &str, format: LogFormat) {
    let filter = EnvFilter::try_from_env("BOWLINE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // Set once per process, before anything else: a second time cannot happen.
    match format {
        LogFormat::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
