//! A definition with the tasks that its steps begin, all the way down: from texts that are stored with it, so that a job
//! does what it was submitted with, whatever becomes of the tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::definition::{ChildBody, ChildTask, DEPTH_MAX, Definition, DefinitionParts, Hook, HookWork, StepDef, Work};
use spec::task::kin;
use store::rows::DefinitionRow;

use crate::settings::DefinitionSettings;

use super::known::hash;

/// What a text and its settings come to.
#[derive(Debug)]
pub struct Bound {
    pub definition: Arc<Definition>,
    /// The tasks that it begins, near and far, as they are stored.
    pub children: Vec<(DefinitionRow, Arc<Definition>)>,
}

/// Puts what the settings say over `definition`, and finds the tasks that it begins.
pub fn bind(definition: &Arc<Definition>, settings: &DefinitionSettings) -> Result<Bound, String> {
    if settings.overrides_nothing() && kin::is_alone(definition) {
        return Ok(Bound { definition: definition.clone(), children: Vec::new() });
    }
    let mut book = Book { settings, known: BTreeMap::new() };
    let (definition, _) = book.bind(definition, 0, Role::Own)?;
    let children = book.known.into_values().map(|known| (known.row, known.task.definition.clone())).collect();
    Ok(Bound { definition, children })
}

/// The tasks of one submit. One may be in it twice: what follows on another job's end has nothing that follows on its own.
struct Book<'a> {
    settings: &'a DefinitionSettings,
    known: BTreeMap<(String, Role), Known>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Own,
    /// It, or the job that began it, follows on another's end.
    Hook,
}

struct Known {
    task: Arc<ChildTask>,
    row: DefinitionRow,
    /// All that it begins, near and far.
    begins: BTreeSet<String>,
}

impl Book<'_> {
    /// The definition as it is to run, and the names of all that it begins.
    fn bind(
        &mut self,
        definition: &Definition,
        depth: usize,
        role: Role,
    ) -> Result<(Arc<Definition>, BTreeSet<String>), String> {
        let mut begins = BTreeSet::new();
        let mut steps = definition.steps().to_vec();
        for step in &mut steps {
            self.settings.apply_to(step);
            if let Work::Child(body) = &step.work {
                step.work = Work::Child(self.begun(body, depth, role, &mut begins)?);
            }
        }
        let mut hooks = if role == Role::Own { definition.hooks.clone() } else { Vec::new() };
        for hook in &mut hooks {
            if let HookWork::Task(body) = &hook.work {
                hook.work = HookWork::Task(self.begun(body, depth, Role::Hook, &mut begins)?);
            }
        }
        Ok((with_parts(definition, steps, hooks, self.settings), begins))
    }

    fn begun(
        &mut self,
        body: &ChildBody,
        depth: usize,
        role: Role,
        begins: &mut BTreeSet<String>,
    ) -> Result<Arc<ChildBody>, String> {
        let key = (body.task.to_string(), role);
        if !self.known.contains_key(&key) && self.settings.tasks.contains_key(&key.0) {
            let known = self.read(&key.0, depth + 1, role)?;
            self.known.insert(key.clone(), known);
        }
        let bound = self.known.get(&key).map(|known| {
            begins.extend(known.begins.iter().cloned());
            known.task.clone()
        });
        begins.insert(key.0);
        Ok(Arc::new(ChildBody { bound, ..body.clone() }))
    }

    fn read(&mut self, name: &str, depth: usize, role: Role) -> Result<Known, String> {
        if depth > DEPTH_MAX {
            return Err(format!("tasks begin each other more than {DEPTH_MAX} levels deep, at `{name}`"));
        }
        let source = self.settings.tasks.get(name).cloned().unwrap_or_default();
        let (task, problems) = spec::task::parse_stored(&source, name, &self.settings.options());
        let Some(task) = task else {
            let first = problems.iter().find(|problem| problem.is_error());
            let first = first.map(|problem| problem.message.clone()).unwrap_or_default();
            return Err(format!("the stored task `{name}` cannot be read: {first}"));
        };
        let (definition, begins) = self.bind(&task.definition, depth, role)?;
        let settings = self.settings.with_tasks(|other| begins.contains(other)).to_json();
        let row = DefinitionRow { hash: hash(&source, &settings), source, settings };
        let task = Arc::new(ChildTask { definition, hash: row.hash, inputs: Box::new(task) });
        Ok(Known { task, row, begins })
    }
}

fn with_parts(
    definition: &Definition,
    steps: Vec<StepDef>,
    hooks: Vec<Hook>,
    settings: &DefinitionSettings,
) -> Arc<Definition> {
    let parts = DefinitionParts {
        name: definition.name.clone(),
        timeout: definition.timeout,
        expires: definition.expires,
        expect: definition.expect,
        priority: settings.priority.unwrap_or(definition.priority),
        concurrency: definition.concurrency.clone(),
        hooks,
        steps,
    };
    Arc::new(Definition::new(parts).expect("the graph is the one that was checked"))
}
