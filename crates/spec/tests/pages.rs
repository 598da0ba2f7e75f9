//! What the documentation shows is what the parser takes.

use std::path::Path;

fn blocks(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut blocks = Vec::new();
    let mut rest = text.as_str();
    while let Some((_, after)) = rest.split_once("```yaml\n") {
        let (block, tail) = after.split_once("```").expect("a block that ends");
        blocks.push(block.to_owned());
        rest = tail;
    }
    blocks
}

fn check_task(page: &str, text: &str) {
    let (task, problems) = spec::task::parse(text, page, &spec::task::Options::default());
    assert!(problems.is_empty(), "{}", spec::render(&problems, false));
    let task = task.expect("a task");
    assert!(task.not_supported.is_empty(), "{page} shows what does not work yet: {:?}", task.not_supported);
}

#[test]
fn every_task_on_the_pages_is_good_and_works_now() {
    let mut count = 0;
    for page in ["README.md", "docs/tasks.md"] {
        for block in blocks(page) {
            check_task(page, &block);
            count += 1;
        }
    }
    assert!(count >= 5, "only {count} examples were found");
}

#[test]
fn every_config_on_the_pages_is_good() {
    let found = blocks("docs/operations.md");
    assert_eq!(found.len(), 6);
    let none = || std::iter::empty::<(String, String)>();
    for text in [&found[0], &found[2], &found[3], &found[4], &found[5]] {
        let (server, problems) = spec::config::server::parse(text, "server", none());
        assert!(server.is_some() && problems.is_empty(), "{}", spec::render(&problems, false));
    }
    let (worker, problems) = spec::config::worker::parse(&found[1], "worker", none());
    assert!(worker.is_some() && problems.is_empty(), "{}", spec::render(&problems, false));
}
