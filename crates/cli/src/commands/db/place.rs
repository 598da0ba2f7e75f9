//! Which database is meant, where a command works on one itself.

use std::path::PathBuf;

use clap::Args;

/// At most one of them; without any it is the database that `bowline server` would use here.
#[derive(Debug, Clone, Default, Args)]
#[group(multiple = false)]
pub struct PlaceArgs {
    /// The data folder of a server
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The config file of a server
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The database itself, as the config names it: `postgres://…`, or `sqlite:PATH`
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,
}
