//! What tells the jobs of `bowline exec` apart in a list: all have the same task, only the command differs.

use engine::definition::{Program, Work};

use crate::app::App;

/// The task that `bowline exec` sends.
const EXEC_TASK: &str = "exec";

/// A list is no place for whole scripts.
const COMMAND_CHARS_MAX: usize = 200;

/// How `bowline exec` writes braces, so that no template is seen in them.
const LITERAL_BRACES: &str = "{{ '{{' }}";

/// The command of a job of `bowline exec`. What cannot be read is left out: the list is worth more than this.
pub(super) fn of(app: &App, row: &store::read::JobSummary) -> Option<String> {
    if row.task != EXEC_TASK {
        return None;
    }
    let stored = app.reader.job(row.id).ok()??;
    let (job, _) = app.definitions.load(&stored).ok()?;
    let [step] = job.definition.steps() else { return None };
    let Work::Run(body) = &step.work else { return None };
    match &body.program {
        Program::Command { argv } => Some(typed(argv)),
        Program::Script { .. } => None,
    }
}

/// As one would type it.
fn typed(argv: &[String]) -> String {
    let mut command = String::new();
    for word in argv {
        if command.len() > COMMAND_CHARS_MAX * 4 {
            break;
        }
        if !command.is_empty() {
            command.push(' ');
        }
        command.push_str(&quoted(&word.replace(LITERAL_BRACES, "{{")));
    }
    match command.char_indices().nth(COMMAND_CHARS_MAX) {
        None => command,
        Some((end, _)) => format!("{}…", &command[..end]),
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-+=./:,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(argv: &[&str], expected: &str) {
        let argv: Vec<String> = argv.iter().map(|&word| word.to_owned()).collect();
        assert_eq!(typed(&argv), expected);
    }

    #[test]
    fn commands_look_as_they_were_typed() {
        check(&["make", "-j8", "CC=gcc"], "make -j8 CC=gcc");
        check(&["sh", "-c", "echo 'a b'", ""], r"sh -c 'echo '\''a b'\''' ''");
        check(&["docker", "ps", "{{ '{{' }}.ID}}"], "docker ps '{{.ID}}'");
    }

    #[test]
    fn long_ones_are_cut() {
        let long = "ø".repeat(1_000);
        let cut = typed(&[long.clone(), long]);
        assert_eq!(cut.chars().count(), COMMAND_CHARS_MAX + 1);
        assert!(cut.ends_with('…'));
    }
}
