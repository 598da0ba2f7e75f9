//! A job that nobody submits: a call of its task's webhook trigger makes it.

use std::sync::Arc;

use server::ledger::{Command, IdempotencyKey, Submit, submitted_by};
use server::schedule::{Book, plan};
use server::settings::DefinitionSettings;
use server::tasks::TaskRegistry;
use store::rows::{DefinitionRow, TaskRow};
use tokio::sync::oneshot;

use crate::servers::DAWN;
use crate::workload::{JobPlan, SUBMITTER};
use crate::world::World;

/// The last part of the webhook's address.
const HOOK: &str = "release";

/// What the caller names the one call that it makes.
const DELIVERY: &str = "delivery:1";

/// A task as it is written, and what starts it.
pub(super) struct Text {
    row: DefinitionRow,
    /// Its webhook trigger, and the book in which that stands.
    trigger: String,
    book: Arc<Book>,
}

impl Text {
    pub(super) fn of(job: &JobPlan) -> Text {
        let source = format!("{}triggers: [{{ webhook: {HOOK}, secret: RELEASE_HOOK }}]\n", job.text());
        let (trigger, book) = (format!("{}:webhook:{HOOK}", job.name), book(job, &source));
        let hash = *blake3::hash(source.as_bytes()).as_bytes();
        Text { row: DefinitionRow { hash, source, settings: job.settings().to_json() }, trigger, book }
    }
}

fn book(job: &JobPlan, source: &str) -> Arc<Book> {
    let row =
        TaskRow { name: job.name.clone(), source: source.to_owned(), pushed_at: DAWN, pushed_by: SUBMITTER.to_owned() };
    TaskRegistry::new(DefinitionSettings::default(), None, &[row], DAWN).book()
}

/// What a server does with the request. Nobody waits for the answer: whoever gets none asks again, if the script says so.
pub(super) fn call(world: &mut World, server: usize, text: &Text) {
    let row = text.row.clone();
    let definition = world.definitions.get(&row).unwrap_or_else(|problem| panic!("{problem}\n{}", row.source));
    let (reply, _) = oneshot::channel();
    world.command(server, Command::Triggers(text.book.clone(), reply));
    let (token, request_hash) = (plan::caller(&text.trigger), *blake3::hash(b"{}").as_bytes());
    let order = Submit {
        definition,
        row,
        children: Vec::new(),
        input: serde_json::json!({}),
        submitted_by: submitted_by(&text.trigger),
        idempotency: Some(IdempotencyKey { token, key: DELIVERY.to_owned(), request_hash }),
        trigger: Some(text.trigger.clone()),
    };
    world.tell(|| format!("server {server} is asked for a job by {}", order.submitted_by));
    let (reply, _) = oneshot::channel();
    world.command(server, Command::Submit(Box::new(order), reply));
}
