//! Addresses of databases: what they say, what of that we cannot do, and how they are shown to people.

use std::str::FromStr;
use std::time::Duration;

use store::StoreError;
use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, Host, SslMode, SslNegotiation, TargetSessionAttrs};

/// For a connection, with all that is said before the first statement.
pub(crate) const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// A peer that acknowledges nothing for so long is gone, whatever the network says.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// How idle connections are asked whether they live.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

const FORM: &str = "it is written as postgres://user:password@host:5432/database";

/// `url` is `postgres://user:password@host:port/database`, or any other form that PostgreSQL's own programs take.
pub(crate) fn read(url: &str) -> Result<Config, StoreError> {
    if url.contains("://") && url.matches('@').count() > 1 {
        // What comes after the first one would be shown as a host's name, and may be the rest of a password.
        let message = "this address of a PostgreSQL database has more than one `@`; in a password it is written as %40";
        return Err(refused(message));
    }
    let mut config = Config::from_str(url).map_err(|error| {
        let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        match why.contains("sslmode") {
            true => encrypted("of `sslmode`, only `disable` and `prefer` can be had"),
            false => refused(&format!("this is no address of a PostgreSQL database: {why}; {FORM}")),
        }
    })?;
    check(&config)?;
    config
        .connect_timeout(CONNECT_PATIENCE)
        .tcp_user_timeout(SILENCE_MAX)
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        // Of several hosts the one that takes writes: a standby is behind what was answered.
        .target_session_attrs(TargetSessionAttrs::ReadWrite);
    if config.get_application_name().is_none() {
        config.application_name("bowline");
    }
    Ok(config)
}

/// What would only be found out, again and again, when connecting.
fn check(config: &Config) -> Result<(), StoreError> {
    if config.get_ssl_mode() == SslMode::Require || config.get_ssl_negotiation() == SslNegotiation::Direct {
        return Err(encrypted("`sslmode=require` cannot be had"));
    }
    if config.get_channel_binding() == ChannelBinding::Require {
        return Err(encrypted("`channel_binding=require` cannot be had"));
    }
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(refused(&format!("this address of a PostgreSQL database names no host; {FORM}")));
    }
    Ok(())
}

fn encrypted(what: &str) -> StoreError {
    refused(&format!(
        "{what}: connections to PostgreSQL are not encrypted yet; leave it out, and let a tunnel or a private network protect the way"
    ))
}

fn refused(message: &str) -> StoreError {
    StoreError::Refused { message: message.to_owned() }
}

/// An address as people may see it, without a password.
pub fn shown(url: &str) -> String {
    read(url).map_or_else(|_| "a PostgreSQL database".to_owned(), |config| name(&config))
}

/// The address without what is secret in it.
pub(crate) fn name(config: &Config) -> String {
    let port = |index: usize| config.get_ports().get(index).or(config.get_ports().first()).copied().unwrap_or(5432);
    let host = |(index, host): (usize, &Host)| match host {
        Host::Tcp(host) => format!("{host}:{}", port(index)),
        Host::Unix(path) => format!("{}:{}", path.display(), port(index)),
    };
    let mut hosts: Vec<String> = config.get_hosts().iter().enumerate().map(host).collect();
    if hosts.is_empty() {
        hosts = config.get_hostaddrs().iter().enumerate().map(|(n, ip)| format!("{ip}:{}", port(n))).collect();
    }
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{user}{}/{database}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_name_has_no_password() {
        let name = |url| name(&read(url).expect("an address"));
        assert_eq!(name("postgres://ada:hush@db.example/jobs"), "postgres://ada@db.example:5432/jobs");
        assert_eq!(name("postgres://ada@db.example/jobs?password=hush"), "postgres://ada@db.example:5432/jobs");
        assert_eq!(name("host=a,b port=1,2 user=u password=hush"), "postgres://u@a:1,b:2/u");
        assert_eq!(name("hostaddr=127.0.0.1 user=u password=hush"), "postgres://u@127.0.0.1:5432/u");
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_way_out() {
        let cases = [
            ("host=a nonsense=hush", "postgres://user:password@host:5432/database"),
            ("postgres://ada:hush@db:port/jobs", "postgres://user:password@host:5432/database"),
            ("postgres://ada:hush@/jobs", "names no host"),
            ("postgres://ada:hu@hush@db/jobs", "%40"),
            ("postgres://ada:h@db/hush@db/jobs", "%40"),
            ("postgres://ada:hush@db/jobs?sslmode=require", "not encrypted yet"),
            ("postgres://ada:hush@db/jobs?sslmode=verify-full", "not encrypted yet"),
            ("postgres://ada:hush@db/jobs?sslnegotiation=direct", "not encrypted yet"),
            ("postgres://ada:hush@db/jobs?channel_binding=require", "not encrypted yet"),
        ];
        for (url, expected) in cases {
            let error = read(url).map(|config| name(&config)).expect_err(url);
            assert!(matches!(error, StoreError::Refused { .. }), "{url}: {error}");
            assert!(error.to_string().contains(expected), "{url}: {error}");
            assert!(!error.to_string().contains("hush"), "{url}: {error}");
        }
        read("postgres://ada:hush@db/jobs?sslmode=prefer").expect("what PostgreSQL's own programs do by default");
    }
}
