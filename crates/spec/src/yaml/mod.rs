//! YAML as a tree in which every key and value knows its place. JSON is YAML too.
//!
//! `load` builds the tree from the parser's events, within limits; `scalar` says what plain words mean.

mod load;
mod node;
mod scalar;

pub(crate) use load::{load, load_variable};
pub(crate) use node::{Entry, Key, Node, Style, Value, brief};
pub(crate) use scalar::Scalar;
