//! The engine's tests, in one binary: stories with their traces, the table, properties, words, purity.

mod support;

mod deadlines;
mod definition;
mod matrix;
mod messages;
mod properties;
mod purity;
mod reasons;
mod rows;
mod stories;
mod table;
mod verdict;
mod why;
mod words;
