//! Steps that are done many times: over a list that is written down, one that a step before gives, or a matrix.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Behaviour, JobPlan, Kind, LONGEST_ITEM, StepPlan, quoted};
use crate::dice::Dice;
use crate::millis;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FanPlan {
    pub items: Vec<Behaviour>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    pub fail_fast: bool,
    /// The step whose program gives the list, where it is not written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<usize>,
    /// Its items are all combinations of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub axes: Option<Axes>,
}

/// What the step's program does otherwise in each item. The second turns fastest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axes {
    pub takes_ms: Vec<u64>,
    /// The code of the first executions.
    pub codes: Vec<i32>,
}

/// What stands between the lists that a program is told to give: their names, items, and words of items.
const OF_NAME: char = '=';
const OF_ITEMS: char = ';';
const OF_WORDS: char = ':';

/// So many words say what a program does; what follows are lists.
const BEHAVIOUR_WORDS: usize = 9;

impl Axes {
    fn items(&self, of: Behaviour) -> Vec<Behaviour> {
        let with = |takes: Duration| self.codes.iter().map(move |code| Behaviour { takes, first_code: *code, ..of });
        self.takes_ms.iter().flat_map(|takes| with(Duration::from_millis(*takes))).collect()
    }
}

impl JobPlan {
    /// Lets some of those that are done many times go over what a step before gives, or over a matrix.
    pub(super) fn roll_lists(&mut self, dice: &mut Dice) {
        for child in self.steps.iter_mut().filter_map(|step| step.child.as_mut()) {
            child.job.roll_lists(dice);
        }
        for ix in 0..self.steps.len() {
            if self.steps[ix].fan.is_none() {
                continue;
            }
            let givers = self.steps[ix].needs.iter().map(|need| need.step).filter(|step| self.steps[*step].is_plain());
            let giver = dice.pick(&givers.collect::<Vec<usize>>()).copied().filter(|_| dice.chance(0.6));
            let axes = Axes::roll(dice);
            let is_matrix = giver.is_none() && dice.chance(0.4);
            let StepPlan { fan: Some(fan), kind: Kind::Work(behaviour), child, .. } = &mut self.steps[ix] else {
                continue;
            };
            fan.from = giver;
            // What a job of its own is given is one number.
            if is_matrix && child.is_none() {
                fan.items = axes.items(*behaviour);
                fan.axes = Some(axes);
            }
        }
    }
}

impl Axes {
    fn roll(dice: &mut Dice) -> Axes {
        let (takes, codes) = (dice.between(1, 3), dice.between(1, 2));
        let takes = (0..takes).map(|_| millis::count(Behaviour::roll(dice).takes.min(LONGEST_ITEM)));
        Axes { takes_ms: takes.collect(), codes: (0..codes).map(|_| Behaviour::roll(dice).first_code).collect() }
    }
}

impl StepPlan {
    pub(super) fn roll_fan(&mut self, dice: &mut Dice) {
        self.roll_fan_often(dice, 0.06);
    }

    pub(super) fn roll_fan_often(&mut self, dice: &mut Dice, chance: f64) {
        let Kind::Work(behaviour) = self.kind else { return };
        if !dice.chance(chance) {
            return;
        }
        let count = dice.between(1, 5);
        let short = |behaviour: Behaviour| Behaviour { takes: behaviour.takes.min(LONGEST_ITEM), ..behaviour };
        let items = (1..count).map(|_| Behaviour::roll(dice)).chain([behaviour]).map(short).collect();
        let max_parallel = dice.chance(0.4).then(|| dice.between(1, 2) as u32);
        self.fan = Some(FanPlan { max_parallel, fail_fast: dice.chance(0.4), ..FanPlan::over(items) });
    }

    /// What it goes over, and by which rules.
    pub(super) fn write_fan(&self, fan: &FanPlan, steps: &[StepPlan], text: &mut String) {
        let _ = match (fan.from, &fan.axes) {
            (Some(from), _) => {
                writeln!(text, "    for_each: \"{{{{ steps.{}.output.{} }}}}\"", steps[from].name, self.name)
            }
            (None, Some(Axes { takes_ms, codes })) => {
                writeln!(text, "    matrix: {{ takes: {takes_ms:?}, code: {codes:?} }}")
            }
            (None, None) if self.child.is_some() => {
                let numbers: Vec<usize> = (0..fan.items.len()).collect();
                writeln!(text, "    for_each: {numbers:?}")
            }
            (None, None) => {
                let items: Vec<String> = fan.items.iter().map(|item| quoted(&item.argv())).collect();
                writeln!(text, "    for_each: [{}]", items.join(", "))
            }
        };
        let _ = writeln!(text, "    fail_fast: {}", fan.fail_fast);
        if let Some(most) = fan.max_parallel {
            let _ = writeln!(text, "    max_parallel: {most}");
        }
    }

    /// What its program is told to give to those of these steps that go over a list of its own: a word for each.
    pub(super) fn lists(&self, steps: &[StepPlan]) -> Vec<String> {
        let is_its = |from: usize| steps.get(from).is_some_and(|giver| giver.name == self.name);
        let list = |step: &StepPlan| {
            let fan = step.fan.as_ref().filter(|fan| fan.from.is_some_and(is_its))?;
            let items: Vec<String> = match step.child {
                Some(_) => (0..fan.items.len()).map(|number| number.to_string()).collect(),
                None => fan.items.iter().map(|item| item.argv().join(&OF_WORDS.to_string())).collect(),
            };
            Some(format!("{}{OF_NAME}{}", step.name, items.join(&OF_ITEMS.to_string())))
        };
        steps.iter().filter_map(list).collect()
    }
}

impl FanPlan {
    /// One after the other or all at once, with nothing asked for.
    pub(crate) fn over(items: Vec<Behaviour>) -> FanPlan {
        FanPlan { items, max_parallel: None, fail_fast: false, from: None, axes: None }
    }

    /// The program of each item, in terms of what that is.
    pub(super) fn argv(&self, of: &Behaviour) -> Vec<String> {
        let mut words = of.argv();
        match &self.axes {
            None => {
                words.iter_mut().enumerate().for_each(|(at, word)| *word = format!("{{{{ item[{at}] }}}}"));
            }
            Some(_) => {
                "{{ item.takes }}".clone_into(&mut words[1]);
                "{{ item.code }}".clone_into(&mut words[3]);
            }
        }
        words
    }
}

/// The lists that a program is told to give, by their names.
pub(crate) fn lists_of(argv: &[String]) -> Vec<(String, serde_json::Value)> {
    let item = |text: &str| match text.parse::<i64>() {
        Ok(number) => serde_json::json!(number),
        Err(_) => serde_json::json!(text.split(OF_WORDS).collect::<Vec<&str>>()),
    };
    let list = |word: &String| {
        let (name, items) = word.split_once(OF_NAME)?;
        Some((name.to_owned(), items.split(OF_ITEMS).map(item).collect()))
    };
    argv.iter().skip(BEHAVIOUR_WORDS).filter_map(list).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::NeedPlan;

    fn behaviour() -> Behaviour {
        Behaviour::roll(&mut Dice::new(7, "a fan"))
    }

    #[test]
    fn a_program_gives_the_lists_that_others_go_over() {
        let items = vec![behaviour(), Behaviour { output: 3, ..behaviour() }];
        let needs = vec![NeedPlan { step: 0, on: vec!["success"] }];
        let fan = Some(FanPlan { from: Some(0), ..FanPlan::over(items.clone()) });
        let many = StepPlan { needs, fan, ..StepPlan::plain("b", behaviour()) };
        let steps = [StepPlan::plain("a", behaviour()), many];
        let argv: Vec<String> = behaviour().argv().into_iter().chain(steps[0].lists(&steps)).collect();
        let words: Vec<Vec<String>> = items.iter().map(Behaviour::argv).collect();
        assert_eq!(lists_of(&argv), [("b".to_owned(), serde_json::json!(words))]);
        assert_eq!(Behaviour::parse(&argv), Some(behaviour()), "and does what it did");
        assert_eq!(lists_of(&behaviour().argv()), []);
    }

    #[test]
    fn a_matrix_is_every_combination() {
        let seconds = Duration::from_secs;
        let axes = Axes { takes_ms: vec![1_000, 2_000], codes: vec![0, 1] };
        let seen: Vec<(Duration, i32)> =
            axes.items(behaviour()).iter().map(|item| (item.takes, item.first_code)).collect();
        assert_eq!(seen, [(seconds(1), 0), (seconds(1), 1), (seconds(2), 0), (seconds(2), 1)]);
    }
}
