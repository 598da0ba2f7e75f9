//! `bowline workers`: the fleet.

use clap::Args;
use client::Client;

use super::dispatch::told;
use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put_json, say};
use crate::table::put_table;
use crate::times::when;

/// List workers
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bowline workers\n  bowline workers --json")]
pub struct WorkersArgs {
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &WorkersArgs) -> Result<Exit, CliError> {
    let page = client.workers().await?;
    if args.json {
        put_json(&page)?;
        return Ok(Exit::Success);
    }
    let rows = page.items.iter().map(|worker| {
        vec![
            worker.name.clone(),
            worker.status.word().to_owned(),
            if worker.connected { "yes" } else { "no" }.to_owned(),
            format!("{}/{}", worker.busy, worker.slots),
            worker.tags.join(","),
            when(worker.last_seen_at),
            worker.version.clone().unwrap_or_default(),
            worker.id.to_string(),
        ]
    });
    let headings = ["name", "status", "connected", "busy", "tags", "last seen", "version", "id"];
    // Said beside the table: idle workers and a long queue would be a riddle otherwise.
    if let Ok(dispatch) = client.dispatch().await
        && dispatch.paused
    {
        say(&told(&dispatch));
    }
    put_table(&headings, rows.collect(), "no workers; start one with `bowline worker`")?;
    Ok(Exit::Success)
}
