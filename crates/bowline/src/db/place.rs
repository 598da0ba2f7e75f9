//! Where a database is, for commands that work on one themselves.

use std::fmt;
use std::path::PathBuf;

use cli::db::PlaceArgs;
use spec::config::server::{Database, ServerConfig};

use crate::Failed;
use crate::server::read_config;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A file, which is there.
    Sqlite(PathBuf),
    Postgres(String),
}

impl Place {
    /// A file that is not there is an error: none of these commands makes a database.
    pub(crate) fn of(args: &PlaceArgs) -> Result<Place, Failed> {
        Ok(Place::with_config(args)?.0)
    }

    /// The same, with the config of the server that has it; what a database alone does not say is as it is by default.
    pub(crate) fn with_config(args: &PlaceArgs) -> Result<(Place, ServerConfig), Failed> {
        let mut config = read_config(args.config.as_deref())?;
        if let Some(data) = &args.data {
            config.data = data.display().to_string();
            config.database = Database::Sqlite(None);
        }
        if let Some(text) = &args.database {
            config.database = named(text)?;
        }
        Ok((Place::in_config(&config)?, config))
    }

    /// The database itself, for what cannot be done through a pooler that hands out sessions for a transaction at a time.
    pub(crate) fn direct(args: &PlaceArgs) -> Result<Place, Failed> {
        let (place, config) = Place::with_config(args)?;
        // Whoever names an address knows where it leads to.
        if args.database.is_some() || !config.postgres.pooled || matches!(place, Place::Sqlite(_)) {
            return Ok(place);
        }
        config.postgres.listen.map(Place::Postgres).ok_or_else(|| {
            let why = "leads to a connection pooler, through which this cannot be done";
            Failed::usage(format!(
                "{place} {why}; name the database itself: `--database`, or `postgres.listen` in the config"
            ))
        })
    }

    /// The one that this text names.
    pub(crate) fn named(text: &str) -> Result<Place, Failed> {
        Place::in_config(&ServerConfig { database: named(text)?, ..ServerConfig::default() })
    }

    fn in_config(config: &ServerConfig) -> Result<Place, Failed> {
        let place = match &config.database {
            Database::Sqlite(None) => Place::Sqlite(PathBuf::from(&config.data).join("bowline.db")),
            Database::Sqlite(Some(path)) => Place::Sqlite(PathBuf::from(path)),
            Database::Postgres(url) => Place::Postgres(url.clone()),
        };
        if let Place::Sqlite(path) = &place
            && !path.exists()
        {
            let message = format!("there is no database at {}", path.display());
            return Err(Failed::usage(format!("{message}; say where it is: `--data`, `--config` or `--database`")));
        }
        Ok(place)
    }
}

/// For people, without a password.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Sqlite(path) => path.display().fmt(f),
            Place::Postgres(url) => f.write_str(&store_postgres::shown(url)),
        }
    }
}

fn named(text: &str) -> Result<Database, Failed> {
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        return Ok(Database::Postgres(text.to_owned()));
    }
    match text.strip_prefix("sqlite:") {
        Some(path) if !path.is_empty() => Ok(Database::Sqlite(Some(path.to_owned()))),
        Some(_) | None => {
            // What comes after the scheme may hold a password.
            let shown = text.split_once("://").map_or_else(|| text.to_owned(), |(scheme, _)| format!("{scheme}://…"));
            Err(Failed::usage(format!("`{shown}` is neither `postgres://…` nor `sqlite:PATH`")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_the_database_itself_goes_around_a_pooler() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("server.yaml");
        let direct = |more: &str| {
            std::fs::write(&path, format!("database: postgres://pooler/jobs\n{more}")).expect("written");
            Place::direct(&PlaceArgs { config: Some(path.clone()), ..PlaceArgs::default() })
        };
        let leads_to = |more: &str, url: &str| {
            assert!(direct(more).is_ok_and(|place| place == Place::Postgres(url.to_owned())), "{more}");
        };
        leads_to("", "postgres://pooler/jobs");
        leads_to("postgres: { pooled: true, listen: 'postgres://db/jobs' }\n", "postgres://db/jobs");
        let refused = direct("postgres: { pooled: true }\n");
        assert!(refused.is_err_and(|failed| failed.message.contains("postgres.listen")));
    }
}
