//! `bowline groups`: who has the slots of concurrency groups, and who waits for them.

use api::{Group, GroupDoubt, GroupHolder, Page};
use clap::Args;
use client::Client;

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::put_json;
use crate::table::put_table;
use crate::times::when;

/// List concurrency groups: who has their slots, and who waits
///
/// Those that wait stand in the order of their turns. A slot that is `unproven` is held by an attempt that was given up and may
/// still run: `bowline resolve --confirm-dead` frees it, and it is free by itself when the time is over that is named there.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline groups\n  bowline groups --json")]
pub struct GroupsArgs {
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &GroupsArgs) -> Result<Exit, CliError> {
    let mut groups = Vec::new();
    let mut cursor = None;
    loop {
        let page = client.groups(cursor.as_deref()).await?;
        groups.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    if args.json {
        put_json(&Page::whole(groups))?;
        return Ok(Exit::Success);
    }
    let rows = groups.iter().flat_map(rows).collect();
    put_table(&["group", "slots", "job", "task", "stands", "since"], rows, "no jobs with a concurrency group")?;
    Ok(Exit::Success)
}

/// A line for each of its jobs, those that have a slot first.
fn rows(group: &Group) -> Vec<Vec<String>> {
    let limits: Vec<String> = group.limits.iter().map(u32::to_string).collect();
    let slots = format!("{}/{}", group.held, limits.join("|"));
    let row = |job: String, task: &str, stands: String, since: String| {
        vec![group.name.clone(), slots.clone(), job, task.to_owned(), stands, since]
    };
    let holders = group.holders.iter().map(|one| row(one.job.to_string(), &one.task, stands(one), when(one.since)));
    let line = group.line.iter().enumerate().map(|(place, one)| {
        row(one.job.to_string(), &one.task, format!("waits ({})", place + 1), when(Some(one.since)))
    });
    let listed = |count: usize, all: u32| all as usize > count;
    let mut rows: Vec<Vec<String>> = holders.collect();
    if listed(group.holders.len(), group.held) {
        rows.push(row(
            "…".to_owned(),
            "",
            format!("{} more have a slot", group.held as usize - group.holders.len()),
            String::new(),
        ));
    }
    rows.extend(line);
    if listed(group.line.len(), group.waiting) {
        rows.push(row(
            "…".to_owned(),
            "",
            format!("{} more wait", group.waiting as usize - group.line.len()),
            String::new(),
        ));
    }
    rows
}

fn stands(holder: &GroupHolder) -> String {
    match &holder.unproven {
        None => holder.state.word().to_owned(),
        Some(GroupDoubt { step, attempt, worker, until, .. }) => {
            format!("{}, unproven: attempt {attempt} of {step} on {worker}, until {until}", holder.state.word())
        }
    }
}
