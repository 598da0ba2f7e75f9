//! The examples of docs/tasks.md, executed: what the page says of each is what comes of it.

mod played;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::played::Stage;

use crate::house::{House, await_that, states, step_of};

const PAGE: &str = include_str!("../../../../docs/tasks.md");

/// An example: the heading that it stands under, its task's name, and what becomes of it.
struct Example(&'static str, &'static str, Does);

enum Does {
    /// It ends so: with these inputs, the job and its steps in these states, and steps with these logs.
    Ends {
        inputs: &'static [&'static str],
        job: &'static str,
        steps: &'static str,
        logs: &'static [(&'static str, &'static str)],
    },
    /// People, other programs or time have a part in it, which this plays with the example's text.
    Plays(fn(&Stage, &str)),
}

use Does::{Ends, Plays};

const EXAMPLES: [Example; 16] = [
    Example(
        "Task files",
        "release",
        Ends {
            inputs: &["version=v1"],
            job: "success",
            steps: "build success, announce success",
            logs: &[("build", "building v1\n"), ("announce", "v1 is abc123\n")],
        },
    ),
    Example(
        "Defaults",
        "sweep",
        Ends {
            inputs: &[],
            job: "success",
            steps: "list success, remove success",
            logs: &[("list", "older than 30 days, in sweep\n"), ("remove", "older than 60 days\n")],
        },
    ),
    Example(
        "Inputs",
        "report",
        Ends {
            inputs: &["title=Disks & more", "days=3"],
            job: "success",
            steps: "make success",
            logs: &[("make", "Disks & more over 3 days as html\nfrom 0.9 on, for ops\n")],
        },
    ),
    Example(
        "Steps",
        "steps",
        Ends { inputs: &[], job: "success", steps: "lint success, count success", logs: &[("lint", "lint\n")] },
    ),
    Example("Stopping and cleaning up", "rollout", Plays(played::somebody_cancels)),
    Example("Secrets", "deploy", Plays(played::somebody_sets_the_secret)),
    Example(
        "Needs and conditions",
        "conditions",
        Ends {
            inputs: &[],
            job: "failed",
            steps: "test failed, publish skipped, blame success, tidy success",
            logs: &[("blame", "failed because of exit_code\n"), ("tidy", "tidy\n")],
        },
    ),
    Example(
        "Needs and conditions",
        "numbers",
        Ends {
            inputs: &[],
            job: "success",
            steps: "test success, many skipped, good success",
            logs: &[("good", "some, and none failed\n")],
        },
    ),
    Example(
        "One step for each item",
        "fan-out",
        Ends {
            inputs: &["targets=east,west"],
            job: "success",
            steps: "list success, each success, each[0] success, each[1] success, each[2] success, \
            build success, build[0] success, build[1] success, build[2] success, build[3] success, sum success",
            logs: &[
                ("each[1]", "part b\n"),
                ("build[0]", "debian on x86 for east and west\n"),
                ("build[1]", "debian on arm for east and west\n"),
                ("sum", "a was first of 3\n"),
            ],
        },
    ),
    Example(
        "A job of its own",
        "nightly",
        Ends {
            inputs: &[],
            job: "success",
            steps: "build success, check success, regions success, regions[0] success, regions[1] success, sum success",
            logs: &[("sum", "3 of v7\n")],
        },
    ),
    Example("Approvals and environments", "ship", Plays(played::people_say_yes)),
    Example(
        "Artifacts",
        "ship",
        Ends {
            inputs: &[],
            job: "success",
            steps: "build success, test failed, publish success",
            logs: &[
                ("test", "v1\n"),
                (
                    "publish",
                    "release:\nabout\ndist\nreports\n\nrelease/about:\ncoverage.txt\n\nrelease/dist:\napp\n\nrelease/reports:\nunit.xml\n",
                ),
            ],
        },
    ),
    Example("Hooks", "backup", Plays(played::it_ends_in_every_way)),
    Example("Notices", "copy", Plays(played::it_takes_too_long)),
    Example("Triggers", "nightly", Plays(played::somebody_calls)),
    Example(
        "Concurrency groups",
        "release",
        Ends { inputs: &[], job: "success", steps: "ship success", logs: &[("ship", "to north\n")] },
    ),
];

/// The task that one of the examples begins. One of its steps writes nothing.
const MEASURE: &str = r#"
name: measure
input: { version: { type: string, required: true }, times: { type: integer, default: 1 } }
steps:
  look: { run: 'echo "found={{ input.times }} of {{ input.version }}" >> "$BOWLINE_OUTPUT"' }
  rest: { run: 'true' }
"#;

#[test]
fn the_examples_of_the_page_do_what_it_says() {
    let blocks = blocks();
    for (section, text) in &blocks {
        let known = EXAMPLES.iter().any(|Example(of, name, _)| of == section && name_of(text) == *name);
        assert!(known, "the example {} under {section} is not executed here", name_of(text));
    }
    let stage = Stage::new();
    let house = &stage.house;
    let measure = house.write("measure.yaml", MEASURE).display().to_string();
    house.bowline(&["tasks", "push", &measure]).ok();
    let example = |section: &str, name: &str| -> &str {
        let block = blocks.iter().find(|(of, text)| of == section && name_of(text) == name);
        block.map_or_else(|| panic!("the page has no example {name} under {section}"), |(_, text)| text)
    };
    // All that need nobody are begun before any of them is waited for.
    let begun: Vec<Option<String>> = EXAMPLES
        .iter()
        .map(|Example(section, name, does)| match does {
            Ends { inputs, .. } => Some(submit(house, example(section, name), inputs)),
            Plays(_) => None,
        })
        .collect();
    for Example(section, name, does) in &EXAMPLES {
        if let Plays(play) = does {
            play(&stage, example(section, name));
        }
    }
    for (Example(section, name, does), id) in EXAMPLES.iter().zip(begun) {
        let (Ends { job, steps, logs, .. }, Some(id)) = (does, id) else { continue };
        let code = house.bowline(&["wait", &id]).code;
        let seen = house.job(&id);
        assert_eq!((states(&seen).as_str(), &seen["state"]), (*steps, &json!(job)), "{name} under {section}: {seen}");
        assert_eq!(code, i32::from(*job != "success"), "{name} under {section}");
        for (step, log) in *logs {
            assert_eq!(house.log(&id, step), *log, "{step} of {name} under {section}");
        }
        look_closer(name, section, &seen);
    }
}

/// Three in the morning, by the clock of the page's zone.
#[test]
fn the_schedule_of_the_page_comes_in_the_night() {
    let Some((mut house, clock)) = House::on_a_clock() else { return };
    house.set("BOWLINE_SECRET_RELEASE_HOOK", "s3cret");
    let up = house.start_up(&[]);
    let blocks = blocks();
    let (_, text) = blocks.iter().find(|(section, _)| section == "Triggers").expect("it is there");
    played::push(&house, text);
    let trigger = await_that("the schedule is known", || {
        let listed = house.bowline(&["triggers", "--json"]).ok().json()["items"][0].clone();
        (listed["next"].as_array().map(Vec::len) == Some(3)).then_some(listed)
    });
    assert_eq!(
        [&trigger["timezone"], &trigger["missed"], &trigger["jitter_ms"]],
        [&json!("Europe/Oslo"), &json!("once"), &json!(600_000)]
    );
    let listed = house.bowline(&["triggers"]).ok().out;
    assert!(listed.contains("0 3 * * * Europe/Oslo") && listed.contains("POST /hooks/release"), "{listed}");
    let next: Timestamp = trigger["next"][0].as_str().and_then(|at| at.parse().ok()).expect("a time");
    let there = next.in_tz("Europe/Oslo").expect("a zone");
    assert!(there.hour() == 3 && there.minute() < 10, "{there}");
    // A server that runs takes no leap of the clock for time that has passed.
    up.kill();
    clock.step(next.as_second() - Timestamp::now().as_second() - 1);
    let _up = house.start_up(&[]);
    let id = await_that("its job is made", || {
        let made = house.bowline(&["jobs", "--json"]).ok().json()["items"][0]["id"].clone();
        made.as_str().map(str::to_owned)
    });
    assert_eq!(house.end(&id)["state"], "success");
    assert_eq!(house.log(&id, "clean"), "cleaning what is all\n");
}

/// What the page says besides.
fn look_closer(name: &str, section: &str, job: &Value) {
    if (name, section) == ("nightly", "A job of its own") {
        let found = |text: &str| json!({ "look": { "found": text }, "rest": {} });
        assert_eq!(step_of(job, "check")["output"], found("3 of v7"));
        assert_eq!(step_of(job, "regions")["output"], json!([found("1 of north"), found("1 of south")]));
    }
}

fn submit(house: &House, text: &str, inputs: &[&str]) -> String {
    let file = house.write("example.yaml", text).display().to_string();
    let mut words = vec!["run", &file, "--detach"];
    inputs.iter().for_each(|input| words.extend(["-i", *input]));
    house.bowline(&words).ok().out.trim().to_owned()
}

/// Each example, with the heading that it stands under.
fn blocks() -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut section = "";
    let mut block: Option<String> = None;
    let mut is_text = false;
    for line in PAGE.lines() {
        match (&mut block, line) {
            (Some(text), "```") => {
                blocks.push((section.to_owned(), std::mem::take(text)));
                block = None;
            }
            (Some(text), line) => *text += &format!("{line}\n"),
            (None, "```yaml") => block = Some(String::new()),
            (None, line) if line.starts_with("```") => is_text = !is_text,
            (None, line) if line.starts_with('#') && !is_text => section = line.trim_start_matches('#').trim(),
            (None, _) => {}
        }
    }
    blocks
}

fn name_of(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("name: ")).expect("a task has a name")
}
