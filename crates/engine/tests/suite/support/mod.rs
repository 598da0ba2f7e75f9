//! What the engine's tests share: tasks written in a line of text, a toy evaluator, and a world that plays events.

pub(crate) mod script;
pub(crate) mod task;
pub(crate) mod toy;
pub(crate) mod world;
