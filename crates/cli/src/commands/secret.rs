//! `bowline secret`: what steps and hooks are given, and nobody sees.

use std::io::{self, IsTerminal as _, Read as _, Write as _};

use api::{Secret, SecretPlace, SetSecretRequest};
use clap::{Args, Subcommand};
use client::Client;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::connect::{ConnectArgs, ListArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put_json, say};
use crate::table::put_page;
use crate::times::when;

/// More than the server takes, so that it can say what is wrong.
const VALUE_BYTES_MAX: u64 = 1024 * 1024;

/// Set, list and remove secrets of steps and hooks
///
/// A step that names one in `secrets` gets it in a variable of that name. Values go in and never come out: they lie sealed in
/// the database, and `***` stands for them in logs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bowline secret set DEPLOY_KEY                    asks for the value, without showing it
  bowline secret set DEPLOY_KEY < deploy.key
  pass show deploy | bowline secret set DEPLOY_KEY
  bowline secret list
  bowline secret remove DEPLOY_KEY")]
pub struct SecretArgs {
    #[command(subcommand)]
    pub action: SecretAction,
}

#[derive(Debug, Subcommand)]
pub enum SecretAction {
    /// Put a secret into the store, in the place of one that is there
    ///
    /// The value is read from stdin, or asked for on a terminal. It is never an argument, which others could see in `ps`.
    /// Blanks and line ends at its end are not part of it.
    Set(NamedArgs),
    /// List the secrets that the server has, without their values
    List(ListArgs),
    /// Remove a secret from the store
    Remove(NamedArgs),
}

#[derive(Debug, Args)]
pub struct NamedArgs {
    /// The secret's name: letters, digits and `_`
    pub name: String,
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

pub(crate) async fn run(before: &ConnectArgs, args: &SecretArgs) -> Result<Exit, CliError> {
    match &args.action {
        SecretAction::Set(args) => set(&args.connect.client(before)?, args).await,
        SecretAction::List(args) => list(&args.connect.client(before)?, args.json).await,
        SecretAction::Remove(args) => {
            args.connect.client(before)?.remove_secret(&args.name).await?;
            if args.json {
                put_json(&serde_json::json!({ "removed": args.name }))?;
            } else {
                say(&format!("secret {} is removed", args.name));
            }
            Ok(Exit::Success)
        }
    }
}

async fn set(client: &Client, args: &NamedArgs) -> Result<Exit, CliError> {
    let request = SetSecretRequest { value: value(&args.name)? };
    let secret = client.set_secret(&args.name, &request).await?;
    if args.json {
        put_json(&secret)?;
    } else {
        say(&told(&secret));
    }
    Ok(Exit::Success)
}

fn told(secret: &Secret) -> String {
    let name = &secret.name;
    match secret.source {
        SecretPlace::Store => format!("secret {name} is set"),
        SecretPlace::Environment => {
            format!("secret {name} is stored, but the server's variable BOWLINE_SECRET_{name} comes before it")
        }
        SecretPlace::File => {
            format!("secret {name} is stored, but the file secrets/{name} in the server's data folder comes before it")
        }
    }
}

async fn list(client: &Client, json: bool) -> Result<Exit, CliError> {
    let row = |secret: &Secret| {
        let by = secret.set_by.clone().unwrap_or_else(|| "-".to_owned());
        let source = secret.source.word();
        let source = secret.problem.as_ref().map_or(source.to_owned(), |why| format!("{source}, not used: {why}"));
        vec![secret.name.clone(), source, when(secret.set_at), by]
    };
    put_page(&client.secrets().await?, json, &["name", "from", "set", "by"], row, "no secrets")
}

/// From stdin, or from a person whose typing nobody sees.
fn value(name: &str) -> Result<String, CliError> {
    let unreadable = |source| CliError::Unreadable { path: "stdin".into(), source };
    let stdin = io::stdin();
    let mut bytes = Vec::new();
    if stdin.is_terminal() {
        let mut terminal = io::stderr();
        write!(terminal, "Value of {name}: ")?;
        terminal.flush()?;
        let mut line = String::new();
        let read = {
            let _dark = NoEcho::on_stdin();
            stdin.read_line(&mut line)
        };
        writeln!(terminal)?;
        read.map_err(unreadable)?;
        bytes.extend(line.into_bytes());
    } else {
        stdin.lock().take(VALUE_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    }
    let text = String::from_utf8(bytes).map_err(|_| CliError::usage("the value is not UTF-8 text"))?;
    let text = text.trim_ascii_end();
    if text.is_empty() {
        let hint = format!("give it on stdin, as in `bowline secret set {name} < FILE`");
        return Err(CliError::usage_hint("the value is empty", hint));
    }
    Ok(text.to_owned())
}

/// While it lives the terminal does not show what is typed.
struct NoEcho(Option<Termios>);

impl NoEcho {
    fn on_stdin() -> NoEcho {
        let stdin = io::stdin();
        let Ok(before) = tcgetattr(&stdin) else { return NoEcho(None) };
        let mut dark = before.clone();
        dark.local_modes.remove(LocalModes::ECHO);
        NoEcho(tcsetattr(&stdin, OptionalActions::Now, &dark).is_ok().then_some(before))
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}
