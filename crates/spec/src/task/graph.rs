//! The graph as a whole: nobody waits for himself, and texts name only steps that are over when they are read.

use engine::StepIx;

use super::step::StepRead;
use crate::diagnostic::{Code, Finding, Sink};
use crate::source::Span;

/// Steps that are looked for in one pass over the graph: the bits of a word.
const TARGETS_PER_PASS: usize = 64;
/// A longer ring is shown by its beginning and its end.
const RING_SHOWN_MAX: usize = 12;

/// Reports a ring if there is one. Returns an order in which every step comes after what it needs.
pub(super) fn order(steps: &[StepRead], sink: &mut Sink) -> Option<Vec<usize>> {
    let needs: Vec<Vec<usize>> =
        steps.iter().map(|s| s.definition.needs.iter().map(|need| need.step.get()).collect()).collect();
    if let Some(ring) = engine::graph::find_cycle(&needs) {
        report_ring(&ring, steps, sink);
        return None;
    }
    Some(sorted(&needs))
}

fn report_ring(ring: &[usize], steps: &[StepRead], sink: &mut Sink) {
    let names: Vec<&str> = ring.iter().map(|&step| &*steps[step].definition.name).collect();
    let shown = if names.len() > RING_SHOWN_MAX {
        let half = RING_SHOWN_MAX / 2;
        format!("{} → … → {}", names[..half].join(" → "), names[names.len() - half..].join(" → "))
    } else {
        names.join(" → ")
    };
    let edge = |from: usize, to: usize| -> Span {
        let step = &steps[from];
        let place = step.definition.needs.iter().position(|need| need.step.get() == to);
        place.map_or(step.name_span, |at| step.need_spans[at])
    };
    let message = format!("these steps wait for each other: {shown}");
    let mut finding = Finding::error(Code::Cycle, edge(ring[0], ring[1]), message);
    for pair in ring[1..].windows(2).take(RING_SHOWN_MAX) {
        finding = finding.related(
            edge(pair[0], pair[1]),
            format!("`{}` needs `{}`", names_of(steps, pair[0]), names_of(steps, pair[1])),
        );
    }
    sink.add(finding.hint("each arrow reads \"needs\"; take one of them away"));
}

fn names_of(steps: &[StepRead], step: usize) -> &str {
    &steps[step].definition.name
}

fn sorted(needs: &[Vec<usize>]) -> Vec<usize> {
    let mut waiting: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut wanted_by: Vec<Vec<usize>> = vec![Vec::new(); needs.len()];
    for (step, list) in needs.iter().enumerate() {
        list.iter().for_each(|&need| wanted_by[need].push(step));
    }
    let mut order: Vec<usize> = (0..needs.len()).filter(|&step| waiting[step] == 0).collect();
    let mut next = 0;
    while next < order.len() {
        for &step in &wanted_by[order[next]] {
            waiting[step] -= 1;
            if waiting[step] == 0 {
                order.push(step);
            }
        }
        next += 1;
    }
    order
}

/// Every step that a text names must be an ancestor by `needs`, or its state would not be known yet. Fills in `uses`.
pub(super) fn resolve_uses(steps: &mut [StepRead], order: &[usize], sink: &mut Sink) {
    let mut far = far_uses(steps);
    far.sort_by_key(|&(_, target, _)| target);
    let mut targets: Vec<StepIx> = far.iter().map(|&(_, target, _)| target).collect();
    targets.dedup();
    let mut rest = far.as_slice();
    // Many targets cost several passes over the edges, never a pass per step.
    for some in targets.chunks(TARGETS_PER_PASS) {
        let above = ancestors_among(some, steps, order);
        let now;
        (now, rest) = rest.split_at(rest.partition_point(|&(_, target, _)| some.last() >= Some(&target)));
        for &(step, target, span) in now {
            let is_above = some.binary_search(&target).is_ok_and(|bit| above[step] & (1 << bit) != 0);
            if !is_above {
                report_use(step, target, span, steps, sink);
            }
        }
    }
    for step in steps {
        let mut uses: Vec<StepIx> = step.uses.iter().map(|&(target, _)| target).collect();
        uses.sort_unstable();
        uses.dedup();
        step.definition.uses = uses;
    }
}

/// Uses of steps that are not direct needs.
fn far_uses(steps: &[StepRead]) -> Vec<(usize, StepIx, Span)> {
    let mut far = Vec::new();
    for (index, step) in steps.iter().enumerate().filter(|(_, step)| !step.uses.is_empty()) {
        let needs: std::collections::HashSet<StepIx> = step.definition.needs.iter().map(|need| need.step).collect();
        let others = step.uses.iter().filter(|(target, _)| !needs.contains(target));
        far.extend(others.map(|&(target, span)| (index, target, span)));
    }
    far
}

/// For each step, which of the targets lie above it.
fn ancestors_among(targets: &[StepIx], steps: &[StepRead], order: &[usize]) -> Vec<u64> {
    let mut above = vec![0u64; steps.len()];
    for &step in order {
        for need in &steps[step].definition.needs {
            let itself = targets.binary_search(&need.step).map_or(0, |bit| 1 << bit);
            above[step] |= above[need.step.get()] | itself;
        }
    }
    above
}

fn report_use(step: usize, target: StepIx, span: Span, steps: &[StepRead], sink: &mut Sink) {
    let (name, other) = (names_of(steps, step), names_of(steps, target.get()));
    let message = if step == target.get() {
        format!("the step `{name}` names itself")
    } else {
        format!("the step `{name}` reads `{other}`, which may not be over by then")
    };
    let hint = format!("add `{other}` to the `needs` of `{name}`");
    let finding = Finding::error(Code::UnknownReference, span, message);
    sink.add(if step == target.get() { finding } else { finding.hint(hint) });
}
