//! Bowline from the outside: the real binary, real processes, real signals, as a user meets them.

mod emulator;
mod house;
mod receiver;

mod approvals;
mod artifacts;
mod cleanups;
mod commands;
mod crashes;
mod databases;
mod ends;
mod fences;
mod graphs;
mod groups;
mod hooks;
mod input;
mod manners;
mod notices;
mod output;
mod pages;
mod postgres;
mod retention;
mod secrets;
mod stopping;
mod terminal;
