//! What PostgreSQL's own programs need to reach a database, in variables: arguments of processes are for all to see.

use store::StoreError;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::address::{self, CONNECT_PATIENCE};
use crate::driver::wait;
use crate::place::{Place, Purpose};
use crate::values::get;

/// Names and values; none: the variable must not be set, since it would lead somewhere else.
pub fn dump_variables(url: &str) -> Result<Vec<(&'static str, Option<String>)>, StoreError> {
    let config = address::read(url)?;
    let password = match config.get_password() {
        Some(bytes) => Some(String::from_utf8(bytes.to_vec()).map_err(|_| StoreError::Refused {
            message: "the password in this address of a PostgreSQL database is no text".to_owned(),
        })?),
        None => None,
    };
    let mut variables = vec![
        ("PGSERVICE", None),
        ("PGSERVICEFILE", None),
        ("PGHOST", hosts(&config)),
        ("PGHOSTADDR", joined(config.get_hostaddrs())),
        ("PGPORT", joined(config.get_ports())),
        ("PGUSER", config.get_user().map(str::to_owned)),
        ("PGDATABASE", config.get_dbname().or(config.get_user()).map(str::to_owned)),
        ("PGOPTIONS", config.get_options().map(str::to_owned)),
        ("PGSSLMODE", Some(if config.get_ssl_mode() == SslMode::Disable { "disable" } else { "prefer" }.to_owned())),
        ("PGAPPNAME", Some("bowline-backup".to_owned())),
        // Of several hosts the one that takes writes: a standby is behind what was answered.
        ("PGTARGETSESSIONATTRS", Some("read-write".to_owned())),
    ];
    // Without one, the programs may know it from a file of their own.
    if password.is_some() {
        variables.push(("PGPASSWORD", password));
    }
    Ok(variables)
}

/// Which PostgreSQL it is: a dump needs a program that is not older.
pub fn server_major(url: &str) -> Result<i32, StoreError> {
    let place = Place::new(url, false)?;
    let mut session = place.connect(Purpose::Check)?;
    let asked = "SELECT current_setting('server_version_num')::int";
    let row = match wait(CONNECT_PATIENCE, session.query_opt(asked, &[])) {
        Some(row) => row.map_err(|failure| failure.into_store(&place.name))?,
        None => return Err(place.unavailable("no answer")),
    };
    let number: Option<i32> = row.and_then(|row| get(&row, 0).ok());
    number.map(|number| number / 10_000).ok_or_else(|| place.unavailable("it does not say which version it is"))
}

fn hosts(config: &Config) -> Option<String> {
    let host = |host: &Host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    };
    let hosts: Vec<String> = config.get_hosts().iter().map(host).collect();
    (!hosts.is_empty()).then(|| hosts.join(","))
}

fn joined<T: ToString>(values: &[T]) -> Option<String> {
    (!values.is_empty()).then(|| values.iter().map(T::to_string).collect::<Vec<String>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_said_in_variables() {
        let said = |url: &str, name: &str| {
            let variables = dump_variables(url).expect("an address");
            variables.into_iter().find(|(other, _)| *other == name).and_then(|(_, value)| value)
        };
        let url = "postgres://ada:hu%40sh@a:1,b:2/jobs";
        let cases =
            [("PGHOST", "a,b"), ("PGPORT", "1,2"), ("PGUSER", "ada"), ("PGDATABASE", "jobs"), ("PGPASSWORD", "hu@sh")];
        for (name, expected) in cases {
            assert_eq!(said(url, name).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(said("host=/run/pg user=ada", "PGHOST").as_deref(), Some("/run/pg"));
        assert_eq!(said("host=/run/pg user=ada", "PGDATABASE").as_deref(), Some("ada"));
        assert_eq!(said("host=/run/pg user=ada", "PGPASSWORD"), None);
    }
}
