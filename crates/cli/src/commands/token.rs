//! `bowline token`: who may use the server.

use api::{CreateTokenRequest, Role, Token, TokenKind};
use clap::{Args, Subcommand, ValueEnum};
use client::Client;

use crate::connect::{ConnectArgs, ListArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put, put_json, say};
use crate::table::put_page;
use crate::times::when;

/// Create, list and revoke tokens
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline token create --kind enroll --ttl 1h
  bowline token create --kind api --role viewer --json
  bowline token revoke 3f2a")]
pub struct TokenArgs {
    #[command(subcommand)]
    pub action: TokenAction,
}

#[derive(Debug, Subcommand)]
pub enum TokenAction {
    /// Make a token and print it; it is shown only this once
    Create(CreateArgs),
    /// List tokens, without their texts
    List(ListArgs),
    /// Make a token useless
    Revoke(RevokeArgs),
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// `enroll` lets a worker in, `api` a person or a program
    #[arg(long, value_enum)]
    pub kind: KindArg,
    /// What its holder may do (only for `api`)
    #[arg(long, value_enum)]
    pub role: Option<RoleArg>,
    /// Who holds it, as history and approvals name them (only for `api`) [default: the token's id]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// How long it is good, such as `24h` [default: until revoked]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub ttl: Option<String>,
    /// The tags that its workers may have (only for `enroll`) [default: any]
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    pub tags: Vec<String>,
    /// How many workers it lets in (only for `enroll`) [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub uses: Option<u32>,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// The token's id, or a unique prefix of it, as `token list` shows it
    pub id: String,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum KindArg {
    Enroll,
    Api,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum RoleArg {
    Viewer,
    Operator,
    Admin,
}

pub(crate) async fn run(before: &ConnectArgs, args: &TokenArgs) -> Result<Exit, CliError> {
    match &args.action {
        TokenAction::Create(args) => create(&args.connect.client(before)?, args).await,
        TokenAction::List(args) => list(&args.connect.client(before)?, args).await,
        TokenAction::Revoke(args) => {
            args.connect.client(before)?.revoke_token(&args.id).await?;
            say(&format!("token {} is revoked", args.id));
            Ok(Exit::Success)
        }
    }
}

async fn create(client: &Client, args: &CreateArgs) -> Result<Exit, CliError> {
    let request = CreateTokenRequest {
        kind: match args.kind {
            KindArg::Enroll => TokenKind::Enroll,
            KindArg::Api => TokenKind::Api,
        },
        role: args.role.map(|role| match role {
            RoleArg::Viewer => Role::Viewer,
            RoleArg::Operator => Role::Operator,
            RoleArg::Admin => Role::Admin,
        }),
        name: args.name.clone(),
        ttl: args.ttl.clone(),
        tags: args.tags.clone(),
        uses: args.uses,
    };
    let created = client.create_token(&request).await?;
    if args.json {
        put_json(&created)?;
    } else {
        put(&created.token)?;
        say(&format!("token {} ({}); it is not shown again", created.id, created.kind.word()));
    }
    Ok(Exit::Success)
}

async fn list(client: &Client, args: &ListArgs) -> Result<Exit, CliError> {
    let row = |token: &Token| {
        vec![
            token.id.clone(),
            token.name.clone(),
            token.kind.word().to_owned(),
            token.role.map_or("-", Role::word).to_owned(),
            when(Some(token.created_at)),
            when(token.expires_at),
            token.uses_left.map_or_else(|| "-".to_owned(), |uses| uses.to_string()),
            if token.revoked_at.is_some() { "revoked" } else { "" }.to_owned(),
        ]
    };
    let headings = ["id", "name", "kind", "role", "created", "expires", "uses left", ""];
    put_page(&client.tokens().await?, args.json, &headings, row, "no tokens")
}

/// Checked here, so that the message is about the flag.
fn duration(text: &str) -> Result<String, String> {
    spec::parse_duration(text).map(|_| text.to_owned())
}
