//! Promise: nobody is called dead who lives. That an attempt's runner died, that its machine was restarted or that its result
//! cannot be read is said only when nothing of it runs any more: whoever cannot know says nothing, and the window decides.

use engine::AttemptId;

use super::rows::Rows;
use super::{Accepted, Findings};

const CHECKER: &str = "proof";

/// What is certain when it is written.
const CERTAIN: [&str; 3] = ["runner_lost", "machine_rebooted", "result_not_available"];

/// `rows` are those before the batch. `lives`: whether something of an attempt runs.
pub(crate) fn committed(rows: &Rows, accepted: &Accepted<'_>, lives: impl Fn(AttemptId) -> bool, found: &mut Findings) {
    for row in accepted.attempts() {
        let known = rows.attempts.get(&row.id).is_some_and(|before| before.is_over());
        let certain = row.error_code.filter(|code| CERTAIN.contains(code));
        if let Some(code) = certain.filter(|_| !known && lives(row.id)) {
            let name = format!("attempt {} of step {} of {}", row.number, row.ix.0, row.job);
            found.add(CHECKER, format!("{name} is on record as {code}, and runs"));
        }
    }
}
