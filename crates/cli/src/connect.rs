//! Which server, and with which token: flags, then the environment, then the context.

use clap::Args;
use client::{Client, Endpoint};

use crate::context::Context;
use crate::error::CliError;

/// Where `bowline up` listens unless told otherwise.
const DEFAULT_SERVER: &str = "http://127.0.0.1:7411";

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectArgs {
    /// The server's address [env: BOWLINE_SERVER] [default: the one that `bowline up` wrote down]
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// The token to show [env: BOWLINE_TOKEN] [default: the one that `bowline up` wrote down]
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
}

// What every list takes. No doc comment: it would be the help of the commands that have it.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print the API's JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

impl ConnectArgs {
    /// A client for what these flags, or else the ones before the command, or the environment, or the context say.
    pub(crate) fn client(&self, before: &ConnectArgs) -> Result<Client, CliError> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let given = Given {
            server: self.server.clone().or_else(|| before.server.clone()).or_else(|| variable("BOWLINE_SERVER")),
            token: self.token.clone().or_else(|| before.token.clone()).or_else(|| variable("BOWLINE_TOKEN")),
        };
        let (endpoint, token) = given.complete(|| Ok(Context::load(&Context::path()?)?))?;
        Ok(Client::new(endpoint, token.as_deref()))
    }
}

struct Given {
    server: Option<String>,
    token: Option<String>,
}

impl Given {
    /// Fills in from the context. Its token belongs to its server and is shown to no other.
    fn complete(
        self,
        load: impl FnOnce() -> Result<Option<Context>, CliError>,
    ) -> Result<(Endpoint, Option<String>), CliError> {
        if let (Some(server), Some(token)) = (&self.server, &self.token) {
            return Ok((server.parse()?, Some(token.clone())));
        }
        let context = load()?;
        let known: Option<Endpoint> = context.as_ref().map(|context| context.server.parse()).transpose()?;
        let endpoint: Endpoint = match (&self.server, &known) {
            (Some(server), _) => server.parse()?,
            (None, Some(known)) => known.clone(),
            (None, None) => DEFAULT_SERVER.parse()?,
        };
        let of_context = context.and_then(|context| context.token).filter(|_| known.as_ref() == Some(&endpoint));
        Ok((endpoint, self.token.or(of_context)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(server: Option<&str>, token: Option<&str>, context: Option<(&str, &str)>, expected: (&str, Option<&str>)) {
        let given = Given { server: server.map(str::to_owned), token: token.map(str::to_owned) };
        let context =
            context.map(|(server, token)| Context { server: server.to_owned(), token: Some(token.to_owned()) });
        let (endpoint, token) = given.complete(|| Ok(context)).expect("good addresses");
        assert_eq!((endpoint.to_string().as_str(), token.as_deref()), expected);
    }

    #[test]
    fn flags_go_before_the_context() {
        let here = "http://127.0.0.1:7411";
        check(None, None, None, (here, None));
        check(None, None, Some(("http://a:1", "t")), ("http://a:1", Some("t")));
        check(Some("http://b:2"), Some("u"), Some(("http://a:1", "t")), ("http://b:2", Some("u")));
        check(None, Some("u"), Some(("http://a:1", "t")), ("http://a:1", Some("u")));
    }

    #[test]
    fn the_contexts_token_is_shown_to_its_own_server_only() {
        check(Some("a:1/"), None, Some(("http://a:1", "t")), ("http://a:1", Some("t")));
        check(Some("http://b:2"), None, Some(("http://a:1", "t")), ("http://b:2", None));
    }
}
