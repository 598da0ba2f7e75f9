//! The network between worker and server is cut, one way or both, or loses a connection.

use std::time::Duration;

use sim::faults::{FaultKind, Ways};
use sim::scenario::{Moment, Script};
use sim::workload::RetryPlan;

use crate::row::{FOR_GOOD, LEASE, LONG, Row, WINDOW, returns, running, secs, when};

const PINGS: &str = "three pings of `link_ping_secs` without an answer";

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = short();
    rows.extend(long());
    rows.extend(stages());
    rows
}

fn short() -> Vec<Row> {
    let short = |ways| returns(running().fault(cut(ways, secs(60))), secs(60));
    vec![
        Row::new("network-cut-short", "cut for 60 s", short(Ways::Both))
            .rule(PINGS)
            .with("recovery: { link_ping_secs: 2 }")
            .real("a_cut_of_any_kind_is_found_and_costs_nothing_when_it_heals"),
        Row::new("network-one-way-to-server", "nothing comes to the server for 60 s", short(Ways::ToServer))
            .rule(PINGS)
            .real("a_cut_of_any_kind_is_found_and_costs_nothing_when_it_heals"),
        Row::new("network-one-way-to-worker", "nothing comes to the worker for 60 s", short(Ways::ToHost))
            .rule(PINGS)
            .real("a_cut_of_any_kind_is_found_and_costs_nothing_when_it_heals"),
        Row::new(
            "network-half-open",
            "a middle box forgets the connection, and tells nobody",
            running().fault(FaultKind::HalfOpen { host: 0 }),
        )
        .either()
        .rule(PINGS)
        .real("a_cut_of_any_kind_is_found_and_costs_nothing_when_it_heals"),
        Row::new(
            "network-cut-stop-30s",
            "cut for 30 s; the step has `on_disconnect: stop`",
            returns(running().step(|step| step.stop = true).fault(cut(Ways::Both, secs(30))), secs(30)),
        )
        .rule(LEASE),
        Row::new(
            "network-cut-stop-60s",
            "cut for 60 s; the step has `on_disconnect: stop`",
            short(Ways::Both).step(|step| step.stop = true),
        )
        .rule("its lease (96 s) leaves room for `cancel.grace`, up to a third of it: the signal comes earlier"),
    ]
}

fn long() -> Vec<Row> {
    let long = || returns(running().fault(cut(Ways::Both, LONG)).after(secs(60)).asks_why(), secs(240));
    let stop = |script: Script| script.step(|step| step.stop = true);
    vec![
        Row::new("network-cut-long", "cut for 300 s; the step `writes`", long().after(secs(20)).asks_why())
            .rule(WINDOW)
            .with("recovery: { max_reconnect_delay_secs: 10 }")
            .with("recovery: { max_reconnect_delay_secs: 300 }")
            .real("a_cut_longer_than_the_window_fails_a_step_that_writes_and_its_end_is_kept_as_the_late_truth"),
        Row::new("network-cut-long-none", "cut for 300 s; effects `none` or `idempotent`, and another worker", long().hosts(2).effects("none"))
            .alike(|script| script.effects("idempotent"))
            .rule(WINDOW)
            .real("a_cut_longer_than_the_window_repeats_a_step_that_only_reads_and_stops_the_stray_copy"),
        Row::new("network-cut-long-none-alone", "the same, and there is no other worker", long().effects("none")).rule(WINDOW),
        Row::new("network-cut-stop-none", "cut for 300 s; effects `none` with `on_disconnect: stop`, and another worker", stop(long().hosts(2).effects("none")))
            .rule(LEASE)
            .real("a_step_that_is_cut_off_ends_with_its_lease_before_its_successor_begins"),
        Row::new("network-cut-stop-writes", "cut for 300 s; the step `writes` and has `on_disconnect: stop`", stop(long()))
            .rule(LEASE)
            .with("recovery: { max_reconnect_delay_secs: 20 }")
            .real("a_step_that_writes_and_is_cut_off_fails_with_its_process_gone"),
        Row::new(
            "network-cut-retry",
            "cut for 300 s; the step `writes` and has `retry: { attempts: 2, on: [worker_lost], delay: 5s, jitter: true }`, and another worker",
            long().hosts(2).step(|step| step.retry = Some(RetryPlan::of(2, vec!["worker_lost"], secs(5)))),
        )
        .rule("the policy, which makes the step end with its lease"),
        Row::new("network-mass-cut", "six of six workers are cut off at once for 300 s; the step `writes`", returns(running().hosts(6).fault(FaultKind::MassCut { time: LONG }), LONG))
            .rule("`mass_loss`: the server suspects itself, and waits one window more"),
    ]
}

fn stages() -> Vec<Row> {
    let stage = |moment, time| returns(when(moment).fault(cut(Ways::Both, time)), time);
    vec![
        Row::new(
            "network-cut-offered",
            "cut for good while the offer is under way; there is another worker",
            when(Moment::Offered).hosts(2).fault(cut(Ways::Both, FOR_GOOD)),
        )
        .rule("`dispatch_ack_secs`")
        .with("recovery: { dispatch_ack_secs: 3 }")
        .real("a_step_that_is_offered_into_a_cut_runs_once_afterwards"),
        Row::new(
            "network-cut-accepted",
            "cut for 60 s before the worker's question for leave is answered",
            stage(Moment::Accepted, secs(60)),
        )
        .rule("an answer later than `dispatch_ack_secs` is not used, but asked for again"),
        Row::new(
            "network-cut-granted",
            "cut for 60 s after the start is committed, before the worker knows",
            stage(Moment::Granted, secs(60)),
        )
        .rule("an answer later than `dispatch_ack_secs` is not used, but asked for again"),
        Row::new("network-cut-ended", "cut for 60 s when the step has just ended", stage(Moment::Ended, secs(60)))
            .real("a_step_that_ends_during_a_cut_is_told_about_once"),
    ]
}

fn cut(ways: Ways, time: Duration) -> FaultKind {
    FaultKind::Cut { host: 0, server: None, ways, time }
}
