//! `bowline fence check`: asked from inside a step.

use std::path::Path;
use std::process::ExitCode;

use runner::fence::{Answer, check};

/// The variable by which a step knows its attempt's folder.
const FOLDER_VARIABLE: &str = "BOWLINE_ATTEMPT_DIR";

/// 0 still the owner, 1 not, 2 cannot tell.
pub(crate) fn run() -> ExitCode {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else {
        eprintln!("cannot tell: {FOLDER_VARIABLE} is not set; `bowline fence check` is for use inside a step");
        return ExitCode::from(2);
    };
    match check(Path::new(&folder)) {
        Answer::Owner { left } => {
            eprintln!("still the owner for {:.1} s", left.as_secs_f64());
            ExitCode::SUCCESS
        }
        Answer::NotOwner => {
            eprintln!("not the owner: no server has confirmed it within the lease");
            ExitCode::from(1)
        }
        Answer::CannotTell => {
            eprintln!("cannot tell: {} holds no answer of a server; treat it as not", Path::new(&folder).display());
            ExitCode::from(2)
        }
    }
}
