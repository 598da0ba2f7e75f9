//! What the process may use of the machine.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Every link, request and follower is an open file, and many shells allow only a thousand: take what is allowed at all.
pub(crate) fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}
