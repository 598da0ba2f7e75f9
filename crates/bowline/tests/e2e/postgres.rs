//! Servers on PostgreSQL: how it is reached, directly or through a pooler, and what is said when it is not.

use std::process::Stdio;

use testkit::PgBouncer;
use testkit::postgres::{Database, Postgres};

use crate::house::{House, Role, await_that, finish};

/// One for all servers on a database.
const ADMIN_TOKEN: &str = "an-admin-token-that-both-servers-know";

const LISTENING: &str = "SELECT count(*) FROM pg_stat_activity
                         WHERE datname = current_database() AND application_name = 'bowline-bell'";

fn server_on(settings: &[(&str, &str)]) -> (House, Role) {
    let mut house = House::new();
    house.set("BOWLINE_ADMIN_TOKEN", ADMIN_TOKEN);
    for (name, value) in settings {
        house.set(name, value);
    }
    let server = house.start_server();
    (house, server)
}

/// Jobs are given to one of them, and the worker is the other one's.
fn share_the_work(settings: &[(&str, &str)]) -> (House, Role, House, Role) {
    let ((one, first), (other, second)) = (server_on(settings), server_on(settings));
    let _worker = one.start_worker("w", &[]);
    for _ in 0..5 {
        let job = other.submit("name: t\nsteps: { a: { run: echo hello }, b: { run: echo again, needs: a } }\n");
        assert_eq!(other.end(&job)["state"], "success");
        assert_eq!(other.log(&job, "b"), "again\n");
        assert_eq!(one.job(&job)["state"], "success");
    }
    (one, first, other, second)
}

#[test]
fn servers_share_a_database_and_wake_each_other() {
    let database = Database::new();
    let _both = share_the_work(&[("BOWLINE_DATABASE", &database.url())]);
    assert_eq!(database.psql(LISTENING), "2");
}

#[test]
fn servers_share_a_database_behind_a_pooler() {
    let database = Database::new();
    let pooler = PgBouncer::start(&database.url());
    let (url, direct) = (pooler.url(), database.url());
    let pooled = [("BOWLINE_DATABASE", url.as_str()), ("BOWLINE_POSTGRES__POOLED", "true")];
    let both = share_the_work(&pooled);
    assert_eq!(database.psql(LISTENING), "0", "they look by themselves");
    drop(both);
    let listening = [&pooled[..], &[("BOWLINE_POSTGRES__LISTEN", direct.as_str())]].concat();
    let _both = share_the_work(&listening);
    assert_eq!(database.psql(LISTENING), "2");
}

/// Starts a server that must refuse to, with usage's exit code; returns what it says.
fn refused(settings: &[(&str, &str)]) -> String {
    let mut house = House::new();
    for (name, value) in settings {
        house.set(name, value);
    }
    let child = house.command(&["server"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    finish(child).code(2).err
}

#[test]
fn an_address_that_cannot_be_used_is_refused_at_once_without_its_password() {
    let good = "postgres://ada:hush@127.0.0.1:1/jobs";
    let with = |more: &str| format!("{good}{more}");
    let cases = [
        (vec![("BOWLINE_DATABASE", "postgres://ada:hush@db:x/jobs".to_owned())], "postgres://user:password@host:5432"),
        (vec![("BOWLINE_DATABASE", "postgres://ada:h@hush@db/jobs".to_owned())], "%40"),
        (vec![("BOWLINE_DATABASE", "mysql://ada:hush@db/jobs".to_owned())], "postgres://…"),
        (vec![("BOWLINE_DATABASE", with("?sslmode=require"))], "not encrypted yet"),
        (vec![("BOWLINE_DATABASE", with("?sslmode=verify-full"))], "not encrypted yet"),
        (
            vec![("BOWLINE_DATABASE", with("")), ("BOWLINE_POSTGRES__LISTEN", with("?sslmode=require"))],
            "postgres.listen",
        ),
        (vec![("BOWLINE_DATABASE", with("")), ("BOWLINE_POSTGRES__LISTN", with(""))], "BOWLINE_POSTGRES__LISTEN"),
    ];
    for (settings, expected) in cases {
        let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let told = refused(&settings);
        assert!(told.contains(expected) && !told.contains("hush"), "{settings:?}: {told}");
    }
}

#[test]
fn a_pooler_that_nobody_spoke_of_is_refused() {
    let database = Database::new();
    let pooler = PgBouncer::start(&database.url());
    let told = refused(&[("BOWLINE_DATABASE", &pooler.url())]);
    assert!(told.contains("connection pooler") && told.contains("postgres.pooled: true"), "{told}");
}

#[test]
fn a_database_that_is_away_is_waited_for() {
    let mut postgres = Postgres::start(&[]);
    postgres.stop();
    let mut house = House::new();
    let url = postgres.url();
    house.set("BOWLINE_DATABASE", &url);
    house.set("BOWLINE_LOG", "debug");
    let log = house.path("roles.log");
    let told = std::thread::scope(|scope| {
        let starting = scope.spawn(|| house.start_server());
        let told = await_that("it says that it waits", || {
            std::fs::read_to_string(&log).ok().filter(|log| log.contains("waiting for the database"))
        });
        postgres.start_again();
        drop(starting.join().expect("it starts when the database is there"));
        told
    });
    let (credentials, _) = url.split_once('@').expect("a user");
    let (_, password) = credentials.rsplit_once(':').expect("a password");
    let all = std::fs::read_to_string(&log).expect("a log");
    assert!(told.contains("WARN") && told.contains("postgres://postgres@127.0.0.1"), "{told}");
    assert!(password.len() > 8 && !all.contains(password), "{password} in {all}");
}
