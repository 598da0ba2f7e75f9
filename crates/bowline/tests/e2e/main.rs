//! Bowline from the outside: the real binary, real processes, real signals, as a user meets them.

mod house;

mod commands;
mod crashes;
mod graphs;
mod input;
mod output;
mod stopping;
