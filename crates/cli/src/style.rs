//! How states look. Colours are taken out again where the output is no terminal.

use api::{JobState, StepState};
use owo_colors::OwoColorize;

pub(crate) fn step_state(state: StepState) -> String {
    coloured(step_tone(state), &format!("{} {state}", step_mark(state)))
}

pub(crate) fn job_state(state: JobState) -> String {
    coloured(job_tone(state), state.word())
}

/// One character that tells the state apart without colour.
pub(crate) fn step_mark(state: StepState) -> char {
    match state {
        StepState::Success => '✓',
        StepState::Failed => '✗',
        StepState::Cancelled => '■',
        StepState::Skipped => '↷',
        StepState::Running => '●',
        StepState::Recovering | StepState::Cancelling => '◐',
        StepState::Pending | StepState::Queued | StepState::Held | StepState::Waiting => '○',
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Tone {
    Plain,
    Strong,
    Good,
    Bad,
    Odd,
    Busy,
    Quiet,
}

pub(crate) fn coloured(tone: Tone, text: &str) -> String {
    match tone {
        Tone::Plain => text.to_owned(),
        Tone::Strong => text.bold().to_string(),
        Tone::Good => text.green().to_string(),
        Tone::Bad => text.red().to_string(),
        Tone::Odd => text.yellow().to_string(),
        Tone::Busy => text.cyan().to_string(),
        Tone::Quiet => text.dimmed().to_string(),
    }
}

pub(crate) fn step_tone(state: StepState) -> Tone {
    match state {
        StepState::Success => Tone::Good,
        StepState::Failed => Tone::Bad,
        StepState::Recovering | StepState::Cancelling | StepState::Cancelled | StepState::Held => Tone::Odd,
        StepState::Running => Tone::Busy,
        StepState::Pending | StepState::Queued | StepState::Waiting | StepState::Skipped => Tone::Quiet,
    }
}

pub(crate) fn job_tone(state: JobState) -> Tone {
    match state {
        JobState::Success => Tone::Good,
        JobState::Failed => Tone::Bad,
        JobState::Recovering | JobState::Cancelling | JobState::Cancelled | JobState::Held => Tone::Odd,
        JobState::Running => Tone::Busy,
        JobState::Pending => Tone::Quiet,
    }
}
