//! What a worker can do beyond what every worker could from the first, in the words of its hello.

/// It stores the files that steps leave, and fetches them for others.
pub const ARTIFACTS: &str = "artifacts";
/// Its runners execute what cleans up after a step that was stopped.
pub const CLEANUP: &str = "cleanup";
/// It can be handed secrets.
pub const SECRETS: &str = "secrets";

/// All that this version can do.
pub fn all() -> Vec<String> {
    [ARTIFACTS, CLEANUP, SECRETS].map(str::to_owned).to_vec()
}
