//! What happens to steps when servers, workers, runners, networks, disks and clocks fail: real processes, real signals,
//! real sockets. Whether a step ran twice is judged by a file that Bowline does not know.
//!
//! Scenarios that only wait run side by side in one test (`story::each`): each has a house of its own.

mod dice;
mod story;

mod artifacts;
mod caretakers;
mod chaos;
mod clocks;
mod cluster;
mod cuts;
mod demo;
mod disks;
mod identity;
mod kills;
mod leases;
mod losses;
mod map;
mod markers;
mod outages;
mod restored;
mod silence;
mod stages;
mod triggers;
mod verdicts;
