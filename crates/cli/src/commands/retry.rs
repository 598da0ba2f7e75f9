//! `bowline retry`: run a job again that is over.

use std::path::PathBuf;

use api::RetryRequest;
use clap::Args;
use client::Client;

use crate::connect::ConnectArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::inputs;
use crate::print::{put, put_json, say};

/// Run a job again that is over
///
/// A new job with the same definition and inputs; its id is printed. Follow it with `bowline attach`. Where the same was
/// asked before and that job is not over yet, it is that one. Inputs that are given go over the old ones.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bowline retry last --from-failed\n  bowline attach $(bowline retry 0193a5b2)\n  bowline retry 0193a5b2 -i version=v1.3"
)]
pub struct RetryArgs {
    /// A job's id, a unique prefix of one, or `last`
    pub id: String,
    /// Take over what ended well, with its outputs
    #[arg(long)]
    pub from_failed: bool,
    /// An input that is to be another one; `key=@file` takes a file's text and `key=@-` what is on stdin, without its last line end
    #[arg(short, long = "input", value_name = "KEY=VALUE", conflicts_with = "from_failed")]
    pub input: Vec<String>,
    /// A file of such inputs, a mapping in YAML or JSON, or `-` for stdin; `-i` goes over it
    #[arg(long, value_name = "FILE", conflicts_with = "from_failed")]
    pub input_file: Option<PathBuf>,
    /// Nothing of the old job runs any more: you made sure
    #[arg(long)]
    pub confirm_dead: bool,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(client: &Client, args: &RetryArgs) -> Result<Exit, CliError> {
    let input = inputs::given(args.input_file.as_deref(), &args.input)?;
    let request = RetryRequest { from_failed: args.from_failed, confirm_dead: args.confirm_dead, input };
    let job = client.retry(&args.id, &request).await?;
    if args.json {
        put_json(&job)?;
        return Ok(Exit::Success);
    }
    if let Some(old) = job.continues {
        say(&format!("job {} continues job {old}", job.id));
    }
    put(&job.id.to_string())?;
    Ok(Exit::Success)
}
