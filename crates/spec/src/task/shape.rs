//! Every key of a task file, as data: for hints, for the JSON Schema, for the reader.

use engine::retry::ATTEMPTS_MAX;

use crate::lower::{Key, Kind, Shape};

/// Words for priorities beyond this are "now" and "never".
pub const PRIORITY_MAX: i64 = 1_000_000;
pub(crate) const BACKOFF_MAX: f64 = 100.0;
pub(crate) const REVIEWERS_MAX: i64 = 100;
pub(crate) const PARALLEL_MAX: i64 = 10_000;
pub(crate) const CONCURRENCY_MAX: i64 = 10_000;

pub(crate) const INPUT_TYPES: &[&str] = &["string", "number", "integer", "boolean", "enum", "list", "object"];
pub(crate) const RUNNERS: &[&str] = &["local", "docker", "pod"];
pub(crate) const EFFECTS: &[&str] = &["none", "idempotent", "writes"];
pub(crate) const ON_DISCONNECT: &[&str] = &["keep", "stop"];
pub(crate) const KEEP_WHEN: &[&str] = &["success", "always"];
pub(crate) const WHEN_FULL: &[&str] = &["queue", "reject", "cancel_oldest"];
pub(crate) const MISSED: &[&str] = &["skip", "once"];
/// `failure` is another word for `failed`: it is what conditions call it.
pub(crate) const END_WORDS: &[&str] = &["success", "failed", "failure", "cancelled", "skipped"];

const TEXTS: Kind = Kind::List(&Kind::Text);
const ENV: Kind = Kind::Map(&Kind::AnyScalar);
const OPTIONAL_DURATION: Kind = Kind::OneOf(&[Kind::Duration, Kind::Null]);
const WORDS_OR_TEXT: Kind = Kind::OneOf(&[Kind::Text, TEXTS]);
/// A script, or the words of a program, of which some may look like numbers.
const PROGRAM: Kind = Kind::OneOf(&[Kind::Text, Kind::List(&Kind::AnyScalar)]);
const END_WORD: Kind = Kind::Words(END_WORDS);
const RETRY_KIND: Kind = Kind::OneOf(&[Kind::Integer { min: 1, max: ATTEMPTS_MAX as i64 }, Kind::Shape(&RETRY)]);
const SIGNAL_OR_NUMBER: Kind = Kind::OneOf(&[Kind::Text, Kind::Integer { min: 1, max: 64 }]);
const PATIENCE: Kind = Kind::OneOf(&[Kind::Duration, Kind::Words(&["wait"])]);
const HOOKS: Kind = Kind::List(&Kind::Shape(&HOOK));

pub(crate) static TASK: Shape = Shape {
    title: "a task",
    keys: &[
        Key::required("name", Kind::Text, "the task's name, as in `name: nightly-backup`"),
        Key::new("description", Kind::Text, "what it is for"),
        Key::new("input", Kind::Map(&Kind::Shape(&INPUT)), "the inputs that a job may be given, by name"),
        Key::new("timeout", OPTIONAL_DURATION, "a job that takes longer is cancelled"),
        Key::new("concurrency", Kind::Shape(&CONCURRENCY), "how many jobs of a group may run at once"),
        Key::new("env", ENV, "environment variables of every step"),
        Key::new(
            "priority",
            Kind::Integer { min: -PRIORITY_MAX, max: PRIORITY_MAX },
            "higher goes first; 0 if not said",
        ),
        Key::new("expires", OPTIONAL_DURATION, "a job that has not started by then fails as `expired`"),
        Key::new("expect", OPTIONAL_DURATION, "a job that takes longer is worth a notice"),
        Key::new("defaults", Kind::Shape(&DEFAULTS), "what steps say unless they say otherwise"),
        Key::required(
            "steps",
            Kind::Map(&Kind::Shape(&STEP)),
            "the steps, by name, as in `steps: { hello: { run: echo hello } }`",
        ),
        Key::new("on_success", HOOKS, "what is started when a job succeeded"),
        Key::new("on_error", HOOKS, "what is started when a job failed, or took longer than its timeout"),
        Key::new("on_cancel", HOOKS, "what is started when somebody cancelled a job"),
        Key::new(
            "on_recovered",
            HOOKS,
            "what is started when a job succeeded although it lost touch with a worker on the way",
        ),
        Key::new("on_notice", HOOKS, "what is started when something takes longer than expected, or did not happen"),
        Key::new("triggers", Kind::List(&Kind::Shape(&TRIGGER)), "what starts a job by itself"),
    ],
    synonyms: &[
        ("inputs", "input"),
        ("params", "input"),
        ("parameters", "input"),
        ("jobs", "steps"),
        ("tasks", "steps"),
        ("environment", "env"),
        ("on", "triggers"),
        ("schedule", "triggers"),
        ("on_failure", "on_error"),
    ],
};

pub(crate) static INPUT: Shape = Shape {
    title: "an input",
    keys: &[
        Key::new("type", Kind::Words(INPUT_TYPES), "what it is; `string` if not said"),
        Key::new("description", Kind::Text, "what it is for"),
        Key::new("required", Kind::Boolean, "whether it must be given"),
        Key::new("default", Kind::Any, "its value if it is not given"),
        Key::new("pattern", Kind::Text, "a regular expression that a string must match"),
        Key::new(
            "min",
            Kind::Number { min: f64::MIN, max: f64::MAX },
            "the least number, or the least length of a string or list",
        ),
        Key::new(
            "max",
            Kind::Number { min: f64::MIN, max: f64::MAX },
            "the greatest number, or the greatest length of a string or list",
        ),
        Key::new("options", Kind::List(&Kind::AnyScalar), "the words that an `enum` may be"),
    ],
    synonyms: &[("values", "options"), ("enum", "options"), ("choices", "options"), ("regex", "pattern")],
};

pub(crate) static CONCURRENCY: Shape = Shape {
    title: "`concurrency`",
    keys: &[
        Key::new("group", Kind::Text, "jobs with the same group share its slots; the task's name if not said"),
        Key::new("limit", Kind::Integer { min: 1, max: CONCURRENCY_MAX }, "how many may run at once; 1 if not said"),
        Key::new("when_full", Kind::Words(WHEN_FULL), "what happens to one more; `queue` if not said"),
    ],
    synonyms: &[("max", "limit")],
};

pub(crate) static DEFAULTS: Shape = Shape {
    title: "`defaults`",
    keys: &[
        Key::new("timeout", OPTIONAL_DURATION, "how long a step may take"),
        Key::new("expect", OPTIONAL_DURATION, "a step that takes longer is worth a notice"),
        Key::new("retry", RETRY_KIND, "when and how often a step is tried again"),
        Key::new("runner", Kind::Words(RUNNERS), "where `run` happens"),
        Key::new("shell", WORDS_OR_TEXT, "what executes scripts"),
        Key::new("workdir", Kind::Text, "the folder that steps start in"),
        Key::new("tags", TEXTS, "tags that a worker must have"),
        Key::new("effects", Kind::Words(EFFECTS), "what steps do to the world"),
        Key::new("unmatched", PATIENCE, "how long a step waits for a matching worker"),
        Key::new("on_disconnect", Kind::Words(ON_DISCONNECT), "what a step does when its worker is cut off"),
        Key::new("cancel", Kind::Shape(&CANCEL), "how a step is asked to end"),
    ],
    synonyms: &[("retries", "retry")],
};

pub(crate) static STEP: Shape = Shape {
    title: "a step",
    keys: &[
        Key::new("description", Kind::Text, "what it is for"),
        Key::new(
            "needs",
            Kind::OneOf(&[Kind::Text, Kind::List(&Kind::OneOf(&[Kind::Text, Kind::Shape(&NEED)]))]),
            "the steps that must end before this one",
        ),
        Key::new(
            "if",
            Kind::OneOf(&[Kind::Text, Kind::Boolean]),
            "whether it runs: an expression; `success()` if not said",
        ),
        Key::new("run", PROGRAM, "a script, or a list of words that are executed without a shell"),
        Key::new("docker", Kind::Shape(&DOCKER), "a container"),
        Key::new("pod", Kind::Shape(&POD), "a Kubernetes pod"),
        Key::new("task", Kind::Text, "another task, as a child job"),
        Key::new("with", Kind::Map(&Kind::Any), "the child job's input"),
        Key::new("approve", Kind::Shape(&APPROVE), "a person's yes"),
        Key::new("runner", Kind::Words(RUNNERS), "where `run` happens; `local` if not said"),
        Key::new("image", Kind::Text, "the image, with `runner: docker` or `pod`"),
        Key::new("shell", WORDS_OR_TEXT, "what executes the script; `bash -e` if not said"),
        Key::new("env", ENV, "environment variables, over those of the task"),
        Key::new("workdir", Kind::Text, "the folder it starts in, relative to the attempt's own"),
        Key::new("tags", TEXTS, "tags that a worker must have"),
        Key::new(
            "effects",
            Kind::Words(EFFECTS),
            "what it does to the world, and so whether it may be repeated; `writes` if not said",
        ),
        Key::new("timeout", OPTIONAL_DURATION, "how long one attempt may take"),
        Key::new("expect", OPTIONAL_DURATION, "an attempt that takes longer is worth a notice"),
        Key::new("retry", RETRY_KIND, "when and how often it is tried again"),
        Key::new("unmatched", PATIENCE, "how long it waits for a matching worker: a duration or `wait`"),
        Key::new("allow_failure", Kind::Boolean, "its failure does not fail the job"),
        Key::new(
            "artifacts",
            Kind::OneOf(&[Kind::Text, TEXTS, Kind::Shape(&ARTIFACTS)]),
            "files that it leaves for later steps and for people: globs relative to the folder it starts in",
        ),
        Key::new(
            "fetch",
            Kind::OneOf(&[
                Kind::Text,
                Kind::List(&Kind::OneOf(&[Kind::Text, Kind::Shape(&FETCH)])),
                Kind::Shape(&FETCH),
            ]),
            "earlier steps whose artifacts lie in its folder when it starts",
        ),
        Key::new("secrets", TEXTS, "names of secrets that it sees"),
        Key::new("for_each", Kind::OneOf(&[Kind::Text, Kind::List(&Kind::Any)]), "one copy for each item"),
        Key::new("matrix", Kind::Map(&Kind::List(&Kind::AnyScalar)), "one copy for each combination"),
        Key::new("max_parallel", Kind::Integer { min: 1, max: PARALLEL_MAX }, "how many copies run at once"),
        Key::new("fail_fast", Kind::Boolean, "whether one failed copy ends the others"),
        Key::new("environment", Kind::Text, "a protected environment; its rules hold the step back"),
        Key::new(
            "on_disconnect",
            Kind::Words(ON_DISCONNECT),
            "what it does when its worker is cut off; `keep` if not said",
        ),
        Key::new("cancel", Kind::Shape(&CANCEL), "how it is asked to end"),
        Key::new("cleanup", PROGRAM, "a script that runs after a cancel or its timeout has ended it"),
    ],
    synonyms: &[
        ("depends_on", "needs"),
        ("dependencies", "needs"),
        ("after", "needs"),
        ("when", "if"),
        ("condition", "if"),
        ("script", "run"),
        ("command", "run"),
        ("cmd", "run"),
        ("retries", "retry"),
        ("working_directory", "workdir"),
        ("cwd", "workdir"),
        ("continue_on_error", "allow_failure"),
        ("ignore_errors", "allow_failure"),
        ("labels", "tags"),
        ("foreach", "for_each"),
        ("use", "fetch"),
        ("download", "fetch"),
        ("outputs", "artifacts"),
    ],
};

pub(crate) static ARTIFACTS: Shape = Shape {
    title: "`artifacts`",
    keys: &[
        Key::required(
            "paths",
            WORDS_OR_TEXT,
            "files, folders and globs, relative to the folder that the step starts in",
        ),
        Key::new("when", Kind::Words(KEEP_WHEN), "`success`, or `always`: also of a step that failed"),
        Key::new("optional", Kind::Boolean, "whether a glob may match nothing; false if not said"),
    ],
    synonyms: &[("path", "paths"), ("files", "paths"), ("on", "when")],
};

pub(crate) static FETCH: Shape = Shape {
    title: "an item of `fetch`",
    keys: &[
        Key::required("from", Kind::Text, "the step whose artifacts are wanted"),
        Key::new("to", Kind::Text, "a folder below the one that the step starts in; that itself if not said"),
    ],
    synonyms: &[("step", "from"), ("dir", "to"), ("path", "to")],
};

pub(crate) static NEED: Shape = Shape {
    title: "an item of `needs`",
    keys: &[
        Key::required("step", Kind::Text, "the step's name"),
        Key::new(
            "on",
            Kind::OneOf(&[END_WORD, Kind::List(&END_WORD)]),
            "the end that satisfies it, or a list of ends; [success] if not said",
        ),
    ],
    synonyms: &[("name", "step")],
};

pub(crate) static RETRY: Shape = Shape {
    title: "`retry`",
    keys: &[
        Key::new("attempts", Kind::Integer { min: 1, max: ATTEMPTS_MAX as i64 }, "how often it is executed in all"),
        Key::new("on", TEXTS, "failure, timeout, worker_lost, exit:N, signal:N; [failure, timeout] if not said"),
        Key::new("delay", Kind::Duration, "the wait before the second execution"),
        Key::new(
            "backoff",
            Kind::Number { min: 1.0, max: BACKOFF_MAX },
            "each further wait is the one before times this",
        ),
        Key::new("max_delay", Kind::Duration, "no wait is longer"),
        Key::new("jitter", Kind::Boolean, "take a random share of each wait"),
    ],
    synonyms: &[
        ("max", "attempts"),
        ("count", "attempts"),
        ("limit", "attempts"),
        ("times", "attempts"),
        ("wait", "delay"),
    ],
};

pub(crate) static CANCEL: Shape = Shape {
    title: "`cancel`",
    keys: &[
        Key::new("signal", SIGNAL_OR_NUMBER, "the signal that asks it to end; TERM if not said"),
        Key::new("grace", Kind::Duration, "how long it has before it is killed; 10s if not said"),
        Key::new("cleanup", Kind::Duration, "how long its cleanup has, if it has one; 30s if not said"),
    ],
    synonyms: &[("timeout", "grace")],
};

pub(crate) static DOCKER: Shape = Shape {
    title: "`docker`",
    keys: &[
        Key::required("image", Kind::Text, "the image, as in `alpine:3`"),
        Key::new("command", TEXTS, "the words to execute; the image's own if not said"),
    ],
    synonyms: &[("run", "command"), ("cmd", "command"), ("args", "command")],
};

pub(crate) static POD: Shape = Shape {
    title: "`pod`",
    keys: &[
        Key::required("image", Kind::Text, "the image, as in `alpine:3`"),
        Key::new("command", TEXTS, "the words to execute; the image's own if not said"),
        Key::new("namespace", Kind::Text, "the Kubernetes namespace"),
    ],
    synonyms: &[("run", "command"), ("cmd", "command"), ("args", "command")],
};

pub(crate) static APPROVE: Shape = Shape {
    title: "`approve`",
    keys: &[
        Key::new("message", Kind::Text, "what the person reads"),
        Key::new(
            "reviewers",
            Kind::Integer { min: 1, max: REVIEWERS_MAX },
            "how many people must say yes; 1 if not said",
        ),
        Key::new("expires", Kind::Duration, "how long they have"),
        Key::new("allow_submitter", Kind::Boolean, "whether who submitted the job may say yes; true if not said"),
    ],
    synonyms: &[("timeout", "expires")],
};

pub(crate) static HOOK: Shape = Shape {
    title: "a hook",
    keys: &[
        Key::new("task", Kind::Text, "the task to start"),
        Key::new("with", Kind::Map(&Kind::Any), "its input"),
        Key::new("webhook", Kind::Text, "the address to call"),
        Key::new("secret", Kind::Text, "the name of the secret that signs the call; the server's own key if not said"),
        Key::new("mail", WORDS_OR_TEXT, "the address to write to, or a list of them"),
    ],
    synonyms: &[("url", "webhook"), ("email", "mail")],
};

pub(crate) static TRIGGER: Shape = Shape {
    title: "a trigger",
    keys: &[
        Key::new("cron", Kind::Text, "minute, hour, day, month, weekday, as in `0 3 * * *`"),
        Key::new("timezone", Kind::Text, "the time zone of `cron`; UTC if not said"),
        Key::new("missed", Kind::Words(MISSED), "what happens to times that passed while the server was down"),
        Key::new("jitter", Kind::Duration, "start a random while later, at most this long"),
        Key::new("webhook", Kind::Text, "the last part of `/hooks/…`"),
        Key::new("secret", Kind::Text, "the name of the secret that signs the webhook's calls"),
        Key::new("with", Kind::Map(&Kind::Any), "the job's input"),
    ],
    synonyms: &[("schedule", "cron"), ("tz", "timezone"), ("zone", "timezone")],
};
