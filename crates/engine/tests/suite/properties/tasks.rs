//! Small tasks of every shape: edges, conditions, budgets, timeouts, patience, protection.

use std::sync::Arc;
use std::time::Duration;

use engine::StepIx;
use engine::definition::{
    Condition, Definition, DefinitionParts, Effects, Ends, FanOut, Items, Need, OnDisconnect, Patience, Protection,
    StepDef, StopPolicy, Work,
};
use engine::retry::{RetryOn, RetryPolicy};
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::task::{child, plain_step};

pub(super) fn small() -> impl Strategy<Value = Arc<Definition>> {
    let limit = || prop_oneof![4 => Just(None), 1 => select(vec![5, 90, 4_000, 9_000]).prop_map(secs)];
    (prop::collection::vec(step(), 1..=5), limit(), limit(), limit()).prop_map(
        |(mut steps, timeout, expires, expect)| {
            for (index, step) in steps.iter_mut().enumerate() {
                step.name = format!("s{index}").into();
                // Edges lead backwards only, so there is no circle.
                step.needs.retain(|need| need.step.get() < index);
            }
            let parts = DefinitionParts {
                name: "any".into(),
                timeout,
                expires,
                expect,
                priority: 0,
                concurrency: None,
                hooks: Vec::new(),
                steps,
            };
            Arc::new(Definition::new(parts).expect("edges lead backwards"))
        },
    )
}

fn step() -> impl Strategy<Value = StepDef> {
    let shape = (prop::collection::vec(need(), 0..3), condition(), any_work(), prop::bool::weighted(0.2), fan_out());
    let safety = (effects(), prop::bool::weighted(0.3), retry(), protection());
    let times = (timeout(), timeout(), patience(), select(vec![0, 5, 300]));
    (shape, safety, times).prop_map(|((needs, condition, work, allow_failure, fan_out), safety, times)| {
        let (effects, leased, retry, protection) = safety;
        let (timeout, expect, unmatched, grace) = times;
        let fan_out = fan_out.filter(|_| !matches!(work, Work::Approve));
        StepDef {
            fan_out,
            needs,
            condition,
            work,
            allow_failure,
            effects,
            on_disconnect: if leased { OnDisconnect::Stop } else { OnDisconnect::Keep },
            retry,
            protection,
            timeout,
            expect,
            unmatched,
            stop: StopPolicy { signal: 15, grace: Duration::from_secs(grace), cleanup: Duration::from_secs(grace) },
            ..plain_step("")
        }
    })
}

fn need() -> impl Strategy<Value = Need> {
    let ends = (prop::bool::weighted(0.8), prop::bool::weighted(0.3), prop::bool::weighted(0.2), any::<bool>());
    let on = prop_oneof![
        2 => Just(Ends::SUCCESS),
        1 => ends.prop_map(|(success, failed, cancelled, skipped)| Ends { success, failed, cancelled, skipped }),
    ];
    (0..4u32, on).prop_map(|(step, on)| Need { step: StepIx(step), on })
}

fn condition() -> impl Strategy<Value = Condition> {
    let words = select(vec!["always()", "failure()", "cancelled()", "success()", "true", "false", "nonsense"]);
    prop_oneof![3 => Just(Condition::Success), 2 => words.prop_map(|w| Condition::Expression(w.into()))]
}

fn any_work() -> impl Strategy<Value = Work> {
    prop_oneof![8 => Just(plain_step("").work), 1 => Just(Work::Approve), 1 => Just(child("it"))]
}

/// More items have none of these steps.
pub(super) const ITEMS_MOST: usize = 3;

fn fan_out() -> impl Strategy<Value = Option<FanOut>> {
    let some = (0..=ITEMS_MOST as u64, prop::option::of(1..3u32), any::<bool>()).prop_map(
        |(count, max_parallel, fail_fast)| {
            let items = Items::List(Arc::new((0..count).map(serde_json::Value::from).collect()));
            Some(FanOut { items, max_parallel, fail_fast })
        },
    );
    prop_oneof![4 => Just(None), 1 => some]
}

fn effects() -> impl Strategy<Value = Effects> {
    select(vec![Effects::None, Effects::Idempotent, Effects::Writes])
}

fn retry() -> impl Strategy<Value = RetryPolicy> {
    let on = (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(failure, timeout, worker_lost)| RetryOn {
        failure,
        timeout,
        worker_lost,
        ..RetryOn::default()
    });
    (1..4u32, on, select(vec![0, 3, 7_000])).prop_map(|(attempts, on, delay)| RetryPolicy {
        attempts,
        on,
        delay: Duration::from_secs(delay),
        ..RetryPolicy::default()
    })
}

fn protection() -> impl Strategy<Value = Protection> {
    let some = (select(vec![0, 60, 5_000]), 0..3u32, select(vec![0, 60, 5_000]));
    let some = some.prop_map(|(wait, reviewers, hold)| Protection {
        wait: secs(wait).filter(|d| !d.is_zero()),
        reviewers,
        hold_expires: secs(hold).filter(|d| !d.is_zero()),
        ..Protection::default()
    });
    prop_oneof![4 => Just(Protection::default()), 1 => some]
}

fn timeout() -> impl Strategy<Value = Option<Duration>> {
    prop_oneof![2 => Just(None), 1 => select(vec![1, 60, 10_000]).prop_map(secs)]
}

fn patience() -> impl Strategy<Value = Patience> {
    let some = select(vec![0, 10, 20_000]).prop_map(|s| Patience::For(Duration::from_secs(s)));
    prop_oneof![3 => Just(Patience::Default), 1 => Just(Patience::Forever), 1 => some]
}

fn secs(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}
