//! What a text that has errors says of other tasks all the same: which it begins and what it gives them, and what it takes itself.
//! So `bowline check` tells all that is wrong at once, and not the rest when the first is repaired.

use engine::definition::{ChildBody, Occasion};
use serde_json::{Map, Value as Json};

use super::calls::{By, Call, Misfit, misfits_of};
use super::input::{self, Input};
use super::kin::entry;
use crate::diagnostic::Sink;
use crate::lower::json::to_json;
use crate::source::{Source, Sources};
use crate::yaml::{self, Node, Scalar, Value};

#[derive(Debug)]
pub struct Sketch {
    pub name: Option<String>,
    /// None where they have errors themselves.
    pub inputs: Option<Vec<Input>>,
    steps: Vec<(String, ChildBody)>,
    /// Each with its number among those of its occasion.
    hooks: Vec<(Occasion, usize, ChildBody)>,
}

impl Sketch {
    /// None if it is no YAML.
    pub fn of(text: &str) -> Option<Sketch> {
        let sink = || Sink::new(Sources::of_file(Source::file("", text)));
        let root = yaml::load(text, &mut sink())?;
        let mut found = sink();
        let inputs = entry(&root, "input").map(|node| input::inputs(node, &mut found)).unwrap_or_default();
        let steps = entry(&root, "steps").and_then(Node::entries).unwrap_or_default();
        let begun = steps.iter().filter_map(|step| Some((step.key.text.clone(), body(&step.value)?)));
        let hooks = Occasion::ALL.into_iter().flat_map(|on| {
            let items = match entry(&root, on.word()).map(|node| &node.value) {
                Some(Value::List(items)) => items.as_slice(),
                Some(Value::Map(_) | Value::Scalar { .. }) | None => &[],
            };
            items.iter().enumerate().filter_map(move |(number, item)| Some((on, number, body(item)?)))
        });
        Some(Sketch {
            name: entry(&root, "name").and_then(text_of),
            inputs: Some(inputs).filter(|_| !found.has_errors()),
            steps: begun.collect(),
            hooks: hooks.collect(),
        })
    }

    /// As [`super::calls::misfits`].
    pub fn misfits<'a, 'i>(&'a self, find: &dyn Fn(&str) -> Option<&'i [Input]>) -> Vec<Misfit<'a>> {
        let steps = self.steps.iter().map(|(name, body)| Call { by: By::Step(name), body });
        let hooks = self.hooks.iter().map(|(on, number, body)| Call { by: By::Hook(*on, *number), body });
        let known = steps.chain(hooks).filter_map(|call| Some((call, find(&call.body.task)?)));
        known.flat_map(|(call, inputs)| misfits_of(call, inputs)).collect()
    }
}

/// None where it begins nothing, or what it gives is no mapping.
fn body(node: &Node) -> Option<ChildBody> {
    let task = text_of(entry(node, "task")?)?;
    let with = match entry(node, "with") {
        Some(with) => Some(to_json(with)).filter(Json::is_object)?,
        None => Json::Object(Map::new()),
    };
    Some(ChildBody { task: task.into(), with, bound: None })
}

fn text_of(node: &Node) -> Option<String> {
    match node.as_scalar()? {
        Scalar::Text(text) => Some(text.to_owned()),
        Scalar::Null | Scalar::Bool(_) | Scalar::Int(_) | Scalar::Float(_) => None,
    }
}
