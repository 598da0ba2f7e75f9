//! From a tree to typed values, collecting every problem on the way. Shared by task and config files.
//!
//! A [`Shape`] lists the keys of one kind of mapping. It is the one truth for unknown-key hints and for the JSON
//! Schema; [`Fields`] makes sure in debug builds that the code asks for exactly these keys.

pub(crate) mod duration;
mod fields;
pub(crate) mod json;
pub(crate) mod nearest;
pub(crate) mod shape;
pub(crate) mod signal;
mod size;
pub(crate) mod values;

pub(crate) use fields::Fields;
pub(crate) use shape::{Key, Kind, Shape};
