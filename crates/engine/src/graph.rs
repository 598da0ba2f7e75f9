//! The shape of a task: who waits for whom, and that nobody waits for himself.

use std::sync::Arc;

use crate::definition::{STEPS_MAX, StepDef};
use crate::ids::StepIx;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    #[error("a task has at least one step")]
    Empty,
    #[error("a task has at most {STEPS_MAX} steps, this one has {found}")]
    TooManySteps { found: usize },
    #[error("two steps are named `{name}`")]
    DuplicateName { name: Arc<str> },
    #[error("step `{step}` needs a step that is not there")]
    UnknownNeed { step: Arc<str> },
    #[error("these steps wait for each other: {}", .steps.join(" → "))]
    Cycle { steps: Vec<String> },
}

/// For each step, those that need it. Fails on an unknown need and on a cycle.
pub fn dependents(steps: &[StepDef]) -> Result<Vec<Vec<StepIx>>, GraphError> {
    if steps.is_empty() {
        return Err(GraphError::Empty);
    }
    if steps.len() > STEPS_MAX {
        return Err(GraphError::TooManySteps { found: steps.len() });
    }
    let mut dependents = vec![Vec::new(); steps.len()];
    for (index, step) in steps.iter().enumerate() {
        for need in &step.needs {
            let Some(list) = dependents.get_mut(need.step.get()) else {
                return Err(GraphError::UnknownNeed { step: step.name.clone() });
            };
            list.push(StepIx::of(index));
        }
    }
    let needs: Vec<Vec<usize>> = steps.iter().map(|s| s.needs.iter().map(|n| n.step.get()).collect()).collect();
    if let Some(cycle) = find_cycle(&needs) {
        let steps = cycle.iter().map(|&i| steps[i].name.to_string()).collect();
        return Err(GraphError::Cycle { steps });
    }
    Ok(dependents)
}

/// A cycle in `needs[i] = those that i waits for`, first node repeated at the end; or none.
///
/// Peels off nodes that wait for nobody until none is left; whoever remains waits in a circle, or for one.
pub fn find_cycle(needs: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut waiting_for: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut wanted_by: Vec<Vec<usize>> = vec![Vec::new(); needs.len()];
    for (node, list) in needs.iter().enumerate() {
        for &need in list {
            wanted_by[need].push(node);
        }
    }
    let mut free: Vec<usize> = (0..needs.len()).filter(|&n| waiting_for[n] == 0).collect();
    while let Some(node) = free.pop() {
        for &other in &wanted_by[node] {
            waiting_for[other] -= 1;
            if waiting_for[other] == 0 {
                free.push(other);
            }
        }
    }
    let start = waiting_for.iter().position(|&n| n > 0)?;
    // From a stuck node every walk along stuck needs comes back to where it has been.
    let mut path = Vec::new();
    let mut place = vec![None; needs.len()];
    let mut node = start;
    loop {
        if let Some(first) = place[node] {
            let mut cycle: Vec<usize> = path[first..].to_vec();
            cycle.push(node);
            return Some(cycle);
        }
        place[node] = Some(path.len());
        path.push(node);
        node = *needs[node].iter().find(|&&n| waiting_for[n] > 0)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_cycles_and_only_cycles() {
        assert_eq!(find_cycle(&[vec![], vec![0], vec![0, 1]]), None);
        assert_eq!(find_cycle(&[vec![0]]), Some(vec![0, 0]));
        assert_eq!(find_cycle(&[vec![1], vec![2], vec![1], vec![]]), Some(vec![1, 2, 1]));
    }

    /// Steps that can run hide no circle: neither one that comes before it, nor one that its members need as well.
    #[test]
    fn finds_a_cycle_behind_steps_that_can_run() {
        assert_eq!(find_cycle(&[vec![], vec![0], vec![3], vec![2]]), Some(vec![2, 3, 2]));
        assert_eq!(find_cycle(&[vec![], vec![0, 2], vec![0, 1]]), Some(vec![1, 2, 1]));
    }

    #[test]
    fn a_long_chain_is_no_cycle() {
        let needs: Vec<Vec<usize>> = (0..20_000).map(|i: usize| i.checked_sub(1).into_iter().collect()).collect();
        assert_eq!(find_cycle(&needs), None);
    }
}
