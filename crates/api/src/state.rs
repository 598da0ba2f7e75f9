//! The words for where jobs, steps and attempts are. The same words as in the database; the engine decides them.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident from $origin:path { $($variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($variant),+ }

        impl From<$origin> for $name {
            fn from(state: $origin) -> Self {
                use $origin as Origin;
                match state { $(Origin::$variant => $name::$variant),+ }
            }
        }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            pub fn word(self) -> &'static str {
                use $origin as Origin;
                match self { $($name::$variant => Origin::$variant.word()),+ }
            }

            pub fn from_word(word: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|state| state.word() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }
    };
}

words!(
    /// Where a job is.
    JobState from engine::JobState { Pending, Running, Held, Recovering, Cancelling, Success, Failed, Cancelled }
);
words!(
    /// Where a step is.
    StepState from engine::StateName {
        Pending, Queued, Running, Recovering, Cancelling, Held, Waiting, Success, Failed, Cancelled, Skipped,
    }
);
words!(
    /// Where an attempt is.
    AttemptState from engine::attempt::AttemptState { Running, Recovering, Ended, Lost, Superseded }
);

impl JobState {
    pub fn is_final(self) -> bool {
        match self {
            JobState::Success | JobState::Failed | JobState::Cancelled => true,
            JobState::Pending | JobState::Running | JobState::Held | JobState::Recovering | JobState::Cancelling => {
                false
            }
        }
    }
}

impl StepState {
    pub fn is_final(self) -> bool {
        match self {
            StepState::Success | StepState::Failed | StepState::Cancelled | StepState::Skipped => true,
            StepState::Pending
            | StepState::Queued
            | StepState::Running
            | StepState::Recovering
            | StepState::Cancelling
            | StepState::Held
            | StepState::Waiting => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_engines_words() {
        for state in StepState::ALL {
            assert_eq!(serde_json::to_string(state).expect("json"), format!("\"{}\"", state.word()));
        }
        for state in engine::JobState::ALL {
            assert_eq!(JobState::from_word(state.word()), Some(JobState::from(state)));
            assert_eq!(JobState::from(state).is_final(), state.is_final());
        }
        for state in engine::StateName::ALL {
            assert_eq!(StepState::from(state).is_final(), state.is_final());
        }
    }
}
