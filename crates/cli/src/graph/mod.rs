//! A task's graph, layer by layer: what `bowline graph` prints. Pure.
//!
//! A step stands in the first layer in which all that it needs is above it. A graph that people can take in is drawn
//! with its edges; a larger one is a list that names them.

mod lanes;
mod words;

use engine::definition::{Condition, Definition, Ends, Items, StepDef, Work};
use serde::Serialize;

use self::lanes::Lanes;
use crate::style::{Tone, coloured};

/// More rows than this fit on no screen, and lines over several screens can be followed by nobody.
const DRAWN_STEPS_MAX: usize = 60;

/// More lines side by side leave no room for names on a terminal of 80 columns.
const DRAWN_LANES_MAX: usize = 16;

/// Longer names do not push the notes of all the others to the right.
const NAME_WIDTH_MAX: usize = 32;

/// The graph as `--json` gives it.
#[derive(Debug, Serialize)]
pub(crate) struct Graph {
    task: String,
    layers: usize,
    /// By layer, in the file's order within each.
    steps: Vec<Step>,
}

#[derive(Debug, Serialize)]
struct Step {
    name: String,
    /// From 1.
    layer: usize,
    kind: &'static str,
    /// The task that it begins.
    task: Option<String>,
    /// If it becomes many.
    fan_out: Option<FanOut>,
    #[serde(rename = "if")]
    condition: Option<String>,
    environment: Option<String>,
    /// How many people must say yes; 0 also where only the server's configuration knows.
    reviewers: u32,
    allow_failure: bool,
    needs: Vec<Need>,
}

#[derive(Debug, Serialize)]
struct FanOut {
    /// None if it is not known before the job runs.
    items: Option<usize>,
    max_parallel: Option<u32>,
    fail_fast: bool,
}

#[derive(Debug, Serialize)]
struct Need {
    step: String,
    /// The ends of that step that satisfy this one.
    on: Vec<&'static str>,
    /// Where that step stands in the list.
    #[serde(skip)]
    row: usize,
}

impl Graph {
    pub(crate) fn new(definition: &Definition) -> Graph {
        let steps = definition.steps();
        let layers = layers(definition);
        let mut order: Vec<usize> = (0..steps.len()).collect();
        order.sort_by_key(|&index| layers[index]);
        let mut row_of = vec![0; steps.len()];
        for (row, &index) in order.iter().enumerate() {
            row_of[index] = row;
        }
        Graph {
            task: definition.name.to_string(),
            layers: layers.iter().copied().max().unwrap_or(0),
            steps: order.iter().map(|&index| step(&steps[index], layers[index], steps, &row_of)).collect(),
        }
    }

    /// The picture, a row for each step under a headline.
    pub(crate) fn rows(&self) -> Vec<String> {
        let lanes = Lanes::new(&self.needs());
        let lanes = (self.steps.len() <= DRAWN_STEPS_MAX && lanes.width() <= DRAWN_LANES_MAX).then_some(lanes);
        let longest = self.steps.iter().map(|step| step.name.len()).max().unwrap_or(0);
        let margin = self.layers.to_string().len();
        let mut rows = vec![self.headline()];
        let mut layer = 0;
        for (row, step) in self.steps.iter().enumerate() {
            let number = if step.layer == layer { String::new() } else { step.layer.to_string() };
            layer = step.layer;
            let edges = lanes.as_ref().map(|lanes| lanes.row(row)).unwrap_or_default();
            let notes = words::notes(step, lanes.is_none());
            let width = if notes.is_empty() { 0 } else { longest.min(NAME_WIDTH_MAX) };
            let mut text = coloured(Tone::Quiet, &format!("{number:>margin$}  {edges}"));
            text.push_str(&coloured(Tone::Strong, &format!("{:width$}", step.name)));
            if !notes.is_empty() {
                text.push_str(&coloured(Tone::Quiet, &format!("  {notes}")));
            }
            rows.push(text);
        }
        rows
    }

    /// For each row those that it needs.
    fn needs(&self) -> Vec<Vec<usize>> {
        self.steps.iter().map(|step| step.needs.iter().map(|need| need.row).collect()).collect()
    }

    fn headline(&self) -> String {
        let counted = |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
        let size = format!("{} in {}", counted(self.steps.len(), "step"), counted(self.layers, "layer"));
        format!("{}: {size}", coloured(Tone::Strong, &self.task))
    }
}

/// For each step its layer, from 1. Steps whose needs are all placed are placed in turn; a definition has no circle.
fn layers(definition: &Definition) -> Vec<usize> {
    let steps = definition.steps();
    let mut layers = vec![1; steps.len()];
    let mut waits_for: Vec<usize> = steps.iter().map(|step| step.needs.len()).collect();
    let mut placed: Vec<usize> = (0..steps.len()).filter(|&index| waits_for[index] == 0).collect();
    while let Some(index) = placed.pop() {
        let Some(ix) = definition.find(&steps[index].name) else { continue };
        for dependent in definition.dependents(ix).iter().map(|dependent| dependent.get()) {
            layers[dependent] = layers[dependent].max(layers[index] + 1);
            waits_for[dependent] -= 1;
            if waits_for[dependent] == 0 {
                placed.push(dependent);
            }
        }
    }
    layers
}

fn step(step: &StepDef, layer: usize, steps: &[StepDef], row_of: &[usize]) -> Step {
    let (kind, task) = match &step.work {
        Work::Run(_) => ("run", None),
        Work::Approve => ("approve", None),
        Work::Child(body) => ("task", Some(body.task.to_string())),
    };
    let need = |need: &engine::definition::Need| Need {
        step: steps[need.step.get()].name.to_string(),
        on: ends(need.on),
        row: row_of[need.step.get()],
    };
    Step {
        name: step.name.to_string(),
        layer,
        kind,
        task,
        fan_out: step.fan_out.as_ref().map(|fan_out| FanOut {
            items: items(&fan_out.items),
            max_parallel: fan_out.max_parallel,
            fail_fast: fan_out.fail_fast,
        }),
        condition: match &step.condition {
            Condition::Success => None,
            Condition::Expression(text) => Some(text.to_string()),
        },
        environment: step.protection.environment.as_ref().map(ToString::to_string),
        reviewers: step.protection.reviewers,
        allow_failure: step.allow_failure,
        needs: step.needs.iter().map(need).collect(),
    }
}

fn items(items: &Items) -> Option<usize> {
    match items {
        Items::Text(_) => None,
        Items::List(list) => Some(list.len()),
        Items::Matrix(axes) => Some(axes.iter().map(|(_, values)| values.len()).product()),
    }
}

/// In the words of the task file.
fn ends(on: Ends) -> Vec<&'static str> {
    let all = [(on.success, "success"), (on.failed, "failed"), (on.cancelled, "cancelled"), (on.skipped, "skipped")];
    all.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect()
}

#[cfg(test)]
mod tests {
    use spec::task::{Options, parse};

    use super::*;

    fn rows(text: &str) -> Vec<String> {
        let (task, diagnostics) = parse(text, "t.yaml", &Options::default());
        let task = task.unwrap_or_else(|| panic!("{}", spec::render(&diagnostics, false)));
        let rows = Graph::new(&task.definition).rows();
        rows.iter().map(|row| anstream::adapter::strip_str(row).to_string().trim_end().to_owned()).collect()
    }

    #[test]
    fn a_diamond_is_drawn_with_its_edges() {
        let text = "
name: release
steps:
  release: { run: x, needs: [unit, style, smoke] }
  build: { run: x }
  unit: { run: x, needs: [build] }
  style: { run: x, needs: [build], allow_failure: true }
  smoke: { run: x, needs: [build] }
";
        let drawn = [
            "release: 5 steps in 3 layers",
            "1  ●──── build",
            "2  ├─●─▶ unit",
            "   ├─●─▶ style    may fail",
            "   ╰─●─▶ smoke",
            "3    ╰─▶ release",
        ];
        assert_eq!(rows(text), drawn);
    }

    #[test]
    fn lines_that_only_cross_are_told_from_those_that_meet() {
        let text = "
name: t
steps:
  a: { run: x }
  b: { run: x }
  c: { run: x, needs: [a] }
  d: { run: x, needs: [b, c] }
  alone: { run: x }
";
        let drawn =
            ["t: 5 steps in 3 layers", "1  ●──── a", "   │ ●── b", "   │ │   alone", "2  ╰─●─▶ c", "3    ╰─▶ d"];
        assert_eq!(rows(text), drawn);
        let crossing = text.replace("needs: [b, c]", "needs: [b, c, a]");
        assert_eq!(rows(&crossing)[4..], ["2  ├─●─▶ c", "3  ╰─┴─▶ d"]);
        let apart =
            text.replace("needs: [b, c]", "needs: [b]").replace("alone: { run: x }", "e: { run: x, needs: [c] }");
        let drawn =
            ["t: 5 steps in 3 layers", "1  ●────── a", "   │ ●──── b", "2  ╰─│─●─▶ c", "     ╰─│─▶ d", "3      ╰─▶ e"];
        assert_eq!(rows(&apart), drawn);
    }

    #[test]
    fn what_is_special_about_a_step_stands_beside_it() {
        let text = "
name: t
steps:
  build: { run: x, matrix: { os: [a, b], arch: [c, d, e] }, max_parallel: 2 }
  each: { run: x, for_each: '{{ steps.build.output }}', needs: [build] }
  ask: { approve: { message: sure?, reviewers: 2 }, needs: [build] }
  deploy: { task: deploy-all, needs: [ask], if: input.really, environment: production }
  blame: { run: x, needs: [{ step: build, on: failure }, { step: ask, on: [cancelled, skipped] }] }
  tidy: { run: x, needs: [{ step: deploy, on: [success, failed, cancelled, skipped] }] }
input: { really: { type: boolean } }
";
        let drawn = [
            "t: 6 steps in 4 layers",
            "1  ●────── build   for each of 6, 2 at a time",
            "2  ├─────▶ each    for each item",
            "   ├─●───▶ ask     approve by 2",
            "3  │ ├─●─▶ deploy  task deploy-all · environment production · if success() and (input.really)",
            "   ╰─┴─│─▶ blame   on failed: build · on cancelled or skipped: ask",
            "4      ╰─▶ tidy    on any end: deploy",
        ];
        assert_eq!(rows(text), drawn);
    }

    #[test]
    fn a_thousand_steps_are_a_list_by_layer() {
        let mut text = "name: wide\nsteps:\n  first: { run: x }\n".to_owned();
        let names: Vec<String> = (0..998).map(|n| format!("s{n}")).collect();
        for name in &names {
            text.push_str(&format!("  {name}: {{ run: x, needs: [first] }}\n"));
        }
        text.push_str(&format!("  last: {{ run: x, needs: [{}] }}\n", names.join(", ")));
        let rows = rows(&text);
        assert_eq!(rows.len(), 1001);
        assert_eq!(rows[..3], ["wide: 1000 steps in 3 layers", "1  first", "2  s0     ← first"]);
        assert_eq!(rows[1000], "3  last   ← s0, s1, s2, s3, s4 and 993 more");
    }

    #[test]
    fn a_chain_needs_two_lanes_however_long_it_is() {
        let steps: String = (1..30).map(|n| format!("  s{n}: {{ run: x, needs: [s{}] }}\n", n - 1)).collect();
        let rows = rows(&format!("name: chain\nsteps:\n  s0: {{ run: x }}\n{steps}"));
        assert_eq!(rows[1..5], [" 1  ●──── s0", " 2  ╰─●─▶ s1", " 3  ●─┴─▶ s2", " 4  ╰─●─▶ s3"]);
        assert_eq!(rows[30], "30  ╰───▶ s29");
    }
}
