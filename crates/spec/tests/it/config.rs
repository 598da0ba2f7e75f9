//! Config files with the environment over them.

use std::time::Duration;

use expect_test::{Expect, expect};
use spec::config::server::{Database, Postgres, ServerConfig};
use spec::config::worker::{LogFormat, WorkerConfig};

use crate::lines;

const SERVER: &str = include_str!("data/contract-server.yaml");
const WORKER: &str = include_str!("data/contract-worker.yaml");

fn variables(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn server(text: &str, list: &[(&str, &str)]) -> ServerConfig {
    let (config, diagnostics) = spec::config::server::parse(text, "server-config.yaml", variables(list));
    config.unwrap_or_else(|| panic!("{}", lines(&diagnostics)))
}

fn worker(text: &str, list: &[(&str, &str)]) -> WorkerConfig {
    let (config, diagnostics) = spec::config::worker::parse(text, "worker-config.yaml", variables(list));
    config.unwrap_or_else(|| panic!("{}", lines(&diagnostics)))
}

fn server_problems(text: &str, list: &[(&str, &str)], expect: &Expect) {
    let (config, diagnostics) = spec::config::server::parse(text, "server-config.yaml", variables(list));
    assert!(config.is_none());
    expect.assert_eq(&lines(&diagnostics));
}

fn worker_problems(text: &str, list: &[(&str, &str)], expect: &Expect) {
    let (config, diagnostics) = spec::config::worker::parse(text, "worker-config.yaml", variables(list));
    assert!(config.is_none());
    expect.assert_eq(&lines(&diagnostics));
}

#[test]
fn the_documented_files_are_the_defaults() {
    let mut documented = server(SERVER, &[]);
    assert_eq!(documented.environments["production"].reviewers, 1);
    documented.environments.clear();
    assert_eq!(documented, ServerConfig::default());
    assert_eq!(server("", &[]), ServerConfig::default());

    let documented = worker(WORKER, &[]);
    assert_eq!(documented.name.as_deref(), Some("build-1"));
    assert_eq!(documented.slots, Some(4));
    let rest = WorkerConfig { name: None, slots: None, tags: Vec::new(), ..documented };
    assert_eq!(rest, WorkerConfig::default());
}

#[test]
fn the_environment_wins() {
    let config = server(
        "recovery: { heartbeat_timeout_secs: 100 }\nlisten: 127.0.0.1:1\n",
        &[
            ("BOWLINE_RECOVERY__HEARTBEAT_TIMEOUT_SECS", "5"),
            ("BOWLINE_RECOVERY__HEARTBEAT_INTERVAL_SECS", "0.5"),
            ("BOWLINE_RECOVERY__MASS_LOSS__FRACTION", "0.9"),
            ("BOWLINE_RECOVERY__CARETAKER_AFTER_SECS", "null"),
            ("BOWLINE_LISTEN", "0.0.0.0:80"),
            ("BOWLINE_DATABASE", "postgres://u@h/db"),
            ("BOWLINE_DATA", "123"),
            ("BOWLINE_DEFAULTS__STEP_TIMEOUT", "1h"),
            ("BOWLINE_ENVIRONMENTS__PRODUCTION__REVIEWERS", "2"),
            ("BOWLINE_TOKEN", "not ours"),
            ("BOWLINE_ADMIN_TOKEN", "not ours"),
            ("BOWLINE_WORKER__SLOTS", "not ours"),
            ("PATH__X", "not ours"),
        ],
    );
    assert_eq!(config.recovery.heartbeat_timeout, Duration::from_secs(5));
    assert_eq!(config.recovery.heartbeat_interval, Duration::from_millis(500));
    assert!((config.recovery.mass_loss.fraction - 0.9).abs() < f64::EPSILON);
    assert_eq!(config.recovery.caretaker_after, None);
    assert_eq!((config.listen.as_str(), config.data.as_str()), ("0.0.0.0:80", "123"));
    assert_eq!(config.database, Database::Postgres("postgres://u@h/db".to_owned()));
    assert_eq!(config.defaults.step_timeout, Some(Duration::from_secs(3600)));
    assert_eq!(config.environments["production"].reviewers, 2);

    let config = worker(
        "tags: [a]\n",
        &[
            ("BOWLINE_WORKER__SLOTS", "8"),
            ("BOWLINE_WORKER__TAGS", "script, docker"),
            ("BOWLINE_WORKER__SERVERS", "[\"http://a:1\", \"http://b:2\"]"),
            ("BOWLINE_WORKER__SPOOL__LOG_BYTES", "500MB"),
            ("BOWLINE_WORKER__LOG__FORMAT", "json"),
            ("BOWLINE_RECOVERY__HEARTBEAT_TIMEOUT_SECS", "a server's"),
            ("BOWLINE_SERVER", "not ours"),
        ],
    );
    assert_eq!(config.slots, Some(8));
    assert_eq!(config.tags, ["docker", "script"]);
    assert_eq!(config.servers, ["http://a:1", "http://b:2"]);
    assert_eq!(config.spool.log_bytes, 500_000_000);
    assert_eq!(config.log.format, LogFormat::Json);
}

#[test]
fn broken_pairs_name_both_values_and_the_rule() {
    server_problems(
        "recovery:\n  heartbeat_timeout_secs: 5\n",
        &[],
        &expect![[r#"
        server-config.yaml:2:27 error broken_rule: `recovery.heartbeat_timeout_secs` (5) must be at least twice `recovery.heartbeat_interval_secs` (30)
            raise the first to 60 or lower the second to 2.5
    "#]],
    );
    server_problems(
        "recovery: { running_stale_secs: 30, runner_heartbeat_interval_secs: 20 }",
        &[],
        &expect![[r#"
        server-config.yaml:1:33 error broken_rule: `recovery.running_stale_secs` (30) must be at least twice `recovery.runner_heartbeat_interval_secs` (20)
            raise the first to 40 or lower the second to 15
    "#]],
    );
    server_problems(
        "",
        &[("BOWLINE_RECOVERY__CLAIMED_STALE_SECS", "1.5")],
        &expect![[r#"
        BOWLINE_RECOVERY__CLAIMED_STALE_SECS:1:1 error broken_rule: `recovery.claimed_stale_secs` (1.5) must be at least twice `recovery.heartbeat_interval_secs` (30)
            raise the first to 60 or lower the second to 0.75
    "#]],
    );
}

#[test]
fn unknown_keys_and_variables() {
    server_problems(
        "recovery: { hearbeat_timeout_secs: 5 }\nlisen: x\nport: 1\n",
        &[],
        &expect![[r#"
        server-config.yaml:1:13 error unknown_key: `recovery` has no key `hearbeat_timeout_secs`
            did you mean `heartbeat_timeout_secs`?
        server-config.yaml:2:1 error unknown_key: the server's configuration has no key `lisen`
            did you mean `listen`?
        server-config.yaml:3:1 error unknown_key: the server's configuration has no key `port`
            that is called `listen` here
    "#]],
    );
    server_problems(
        "",
        &[
            ("BOWLINE_RECOVERY__HEARBEAT_TIMEOUT_SECS", "5"),
            ("BOWLINE_RECOVRY__MAX_LOSSES", "5"),
            ("BOWLINE_LISTEN__PORT", "5"),
            ("BOWLINE_WROKER__SLOTS", "5"),
        ],
        &expect![[r#"
            BOWLINE_RECOVERY__HEARBEAT_TIMEOUT_SECS:1:1 error unknown_variable: the environment variable BOWLINE_RECOVERY__HEARBEAT_TIMEOUT_SECS sets nothing that exists
                did you mean `BOWLINE_RECOVERY__HEARTBEAT_TIMEOUT_SECS`?
            BOWLINE_RECOVRY__MAX_LOSSES:1:1 error unknown_variable: the environment variable BOWLINE_RECOVRY__MAX_LOSSES sets nothing that exists
                did you mean `BOWLINE_RECOVERY__MAX_LOSSES`?
            BOWLINE_LISTEN__PORT:1:1 error unknown_variable: the environment variable BOWLINE_LISTEN__PORT sets nothing that exists
            BOWLINE_WROKER__SLOTS:1:1 error unknown_variable: the environment variable BOWLINE_WROKER__SLOTS sets nothing that exists
                did you mean `BOWLINE_WORKER__SLOTS`?
        "#]],
    );
    worker_problems(
        "",
        &[("BOWLINE_WORKER__SLOT", "5"), ("BOWLINE_WROKER__SLOTS", "5")],
        &expect![[r#"
            BOWLINE_WORKER__SLOT:1:1 error unknown_variable: the environment variable BOWLINE_WORKER__SLOT sets nothing that exists
                did you mean `BOWLINE_WORKER__SLOTS`?
            BOWLINE_WROKER__SLOTS:1:1 error unknown_variable: the environment variable BOWLINE_WROKER__SLOTS sets nothing that exists
                did you mean `BOWLINE_WORKER__SLOTS`?
        "#]],
    );
}

#[test]
fn bad_values() {
    server_problems(
        "listen: 7411\ndatabase: mysql\ndefaults: { expires: 0s }\nrecovery: { max_losses: 0, link_ping_secs: fast, mass_loss: { fraction: 2 } }\n\
         credentials: { ttl: 1h }\nscalers: [ { kind: docker } ]\nretention: { jobs_days: -1 }\nenvironments: [a]\n",
        &[],
        &expect![[r#"
            server-config.yaml:1:9 error wrong_type: `listen` must be a text, not the number 7411
                put it into quotes: "7411"
            server-config.yaml:2:11 error bad_value: `database` must be sqlite, sqlite:PATH or postgres://…, not the text `mysql`
            server-config.yaml:3:22 error bad_value: `expires` must be longer than zero
                leave it out for no limit
            server-config.yaml:4:25 error bad_value: `max_losses` must be between 1 and 1000000, not 0
            server-config.yaml:4:44 error wrong_type: `link_ping_secs` must be a number, not the text `fast`
            server-config.yaml:4:73 error bad_value: `fraction` must be between 0 and 1, not 2
            server-config.yaml:5:14 error broken_rule: `credentials.refresh` (28800s) must be shorter than `credentials.ttl` (3600s)
            server-config.yaml:6:1 error not_supported: `scalers` is not supported yet
                leave the list empty
            server-config.yaml:7:25 error bad_value: `jobs_days` must be between 0 and 36500, not -1
            server-config.yaml:8:15 error wrong_type: `environments` must be a mapping, not a list
                as in `production: { reviewers: 1 }`
        "#]],
    );
    server_problems(
        "",
        &[("BOWLINE_RECOVERY__MAX_LOSSES", "many"), ("BOWLINE_SCALERS", "[1")],
        &expect![[r#"
        BOWLINE_RECOVERY__MAX_LOSSES:1:1 error wrong_type: `max_losses` must be a whole number, not the text `many`
        BOWLINE_SCALERS:1:3 error syntax: this is not valid YAML: while parsing a flow sequence, expected ',' or ']'
    "#]],
    );
    worker_problems(
        "servers: []\nslots: 0\ntags: ['a b']\nspool: { log_lines: 5, log_bytes: big }\nlog: { level: loud, format: xml }\nname: ''\n",
        &[],
        &expect![[r#"
            worker-config.yaml:1:10 error bad_value: `servers` names no server
            worker-config.yaml:2:8 error bad_value: `slots` must be between 1 and 10000, not 0
            worker-config.yaml:3:7 error bad_name: `a b` is no tag
                tags are made of letters, digits and `_-.:/=`
            worker-config.yaml:4:21 error bad_value: `log_lines` must be between 10000 and 1000000000, not 5
            worker-config.yaml:4:35 error bad_value: `log_bytes` is no size: the text `big`
                a size is a whole number with a unit, as in `1GiB` or `500MB`
            worker-config.yaml:5:15 error bad_value: `level` must be `error`, `warn`, `info`, `debug` or `trace`, not the text `loud`
            worker-config.yaml:5:29 error bad_value: `format` must be `text` or `json`, not the text `xml`
            worker-config.yaml:6:7 error bad_value: `name` is empty
        "#]],
    );
}

#[test]
fn how_postgres_is_reached() {
    let text =
        "database: postgres://u@pooler/db\npostgres: { pooled: true, listen: 'postgres://u@db/db', connections: 8 }\n";
    let config = server(text, &[]);
    let expected = Postgres { pooled: true, listen: Some("postgres://u@db/db".to_owned()), connections: 8 };
    assert_eq!(config.postgres, expected);
    let over = [("BOWLINE_POSTGRES__POOLED", "false"), ("BOWLINE_POSTGRES__LISTEN", "null")];
    let expected = Postgres { pooled: false, listen: None, connections: 8 };
    assert_eq!(server(text, &over).postgres, expected);
    server_problems(
        "postgres: { pooled: 1, listen: localhost, connections: 0, pgbouncer: true }\n",
        &[],
        &expect![[r#"
            server-config.yaml:1:21 error wrong_type: `pooled` must be true or false, not the number 1
            server-config.yaml:1:32 error bad_value: `postgres.listen` must be an address of PostgreSQL
                as in `postgres://user:password@host:5432/database`
            server-config.yaml:1:56 error bad_value: `connections` must be between 1 and 100, not 0
            server-config.yaml:1:59 error unknown_key: `postgres` has no key `pgbouncer`
                that is called `pooled` here
        "#]],
    );
}

/// Problems are shown with the line where they are.
#[test]
fn passwords_are_not_shown() {
    let cases = [
        "database: mysql://ada:hush@db/jobs\n",
        "database: mysql://ada:a-very-very-long-password-hush@db/jobs\n",
        "datbase: postgres://ada:hush@db/jobs\n",
        "postgres: { listen: 'mysql://ada:hush@db/jobs' }\n",
        "postgres: { pooled: maybe, listen: 'postgres://ada:hush@db/jobs' }\n",
        "database: [postgres://ada:hush@db/jobs\n",
    ];
    let names = ["BOWLINE_DATABASE", "BOWLINE_POSTGRES__LISTEN", "BOWLINE_POSTGRES__LISTN"];
    let told = |text: &str, list: &[(&str, &str)]| {
        let (config, problems) = spec::config::server::parse(text, "server-config.yaml", variables(list));
        assert!(config.is_none(), "{text}");
        spec::render(&problems, false)
    };
    let mut all: Vec<String> = cases.iter().map(|text| told(text, &[])).collect();
    all.extend(names.map(|name| told("", &[(name, "mysql://ada:hush@db/jobs")])));
    for told in all {
        assert!(told.contains("error") && !told.contains("hush") && !told.contains("very-long"), "{told}");
    }
    let good =
        server("database: postgres://ada:hush@db/jobs\npostgres: { listen: 'postgres://ada:hush@db/jobs' }\n", &[]);
    assert!(!format!("{good:?}").contains("hush"), "{good:?}");
}

#[test]
fn notices_and_mail() {
    let text = "notices: { queue: 15m, on: [{ mail: ops@example.com }, { task: page, with: { text: '{{ notice.text }} {{ job.id }}' } }] }\nmail: { sendmail: /opt/sendmail, from: bowline@example.com }\n";
    let config = server(text, &[]);
    assert_eq!((config.notices.queue, config.notices.on.len()), (Some(Duration::from_secs(900)), 2));
    assert_eq!((config.mail.sendmail.as_str(), config.mail.from.as_str()), ("/opt/sendmail", "bowline@example.com"));
    assert_eq!(server("notices: { queue: null }\n", &[]).notices.queue, None);
    let text = "notices: { queue: 0s, on: [{ mail: ops }, { task: page, with: { text: '{{ steps.a.state }} {{ input.x }}' } }] }\nmail: { sendmail: sendmail, from: nobody }\n";
    let (config, diagnostics) = spec::config::server::parse(text, "server-config.yaml", Vec::new());
    let told = lines(&diagnostics);
    assert!(config.is_none(), "{told}");
    let expected = [
        "`queue` must be longer than zero",
        "`ops` is no mail address",
        "steps cannot be named",
        "there is no input `x`",
        "`mail.sendmail` must be a whole path",
        "`nobody` is no mail address",
    ];
    for words in expected {
        assert!(told.contains(words), "{words}\n{told}");
    }
}
