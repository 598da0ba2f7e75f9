//! Bowline from the outside: the real binary, real processes, real signals, as a user meets them.

mod emulator;
mod house;

mod approvals;
mod commands;
mod crashes;
mod fences;
mod graphs;
mod hooks;
mod input;
mod manners;
mod output;
mod stopping;
mod terminal;
