//! Files that steps leave, fetched by later steps and by people, with real processes.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::house::{House, peak_kib, step_of};

/// What storing and fetching a file may cost server and worker, however large it is: some buffers.
const GROWTH_KIB_MAX: u64 = 8 * 1024;

const BUILD: &str = r#"name: build
input: { version: { type: string, default: v7 } }
steps:
  build:
    run: |
      mkdir -p dist/deep
      printf '#!/bin/sh\necho built {{ input.version }}\n' > "dist/app-{{ input.version }}"
      chmod +x dist/app-*
      printf data > dist/deep/data.bin
      : > dist/empty
      echo secret > other
    artifacts: [ "dist/app-{{ input.version }}", "dist/**/*.bin", dist/empty ]
  test:
    needs: [build]
    fetch: [build, { from: build, to: copy }]
    run: |
      find . -type f | sort
      ./dist/app-v7
      cat copy/dist/deep/data.bin
"#;

fn files(house: &House, id: &str) -> Vec<Value> {
    house.bowline(&["artifacts", id, "--json"]).ok().json()["items"].as_array().expect("items").clone()
}

#[test]
fn files_reach_later_steps_and_people() {
    let (house, _up) = House::up();
    let id = house.submit(BUILD);
    assert_eq!(house.end(&id)["state"], "success");
    let expected = "./copy/dist/app-v7\n./copy/dist/deep/data.bin\n./copy/dist/empty\n./dist/app-v7\n./dist/deep/data.bin\n./dist/empty\nbuilt v7\ndata";
    assert_eq!(house.log(&id, "test").trim_end(), expected);

    let listed = files(&house, &id);
    let paths: Vec<&str> = listed.iter().filter_map(|file| file["path"].as_str()).collect();
    assert_eq!(paths, ["dist/app-v7", "dist/deep/data.bin", "dist/empty"]);
    assert_eq!((&listed[0]["executable"], &listed[1]["executable"]), (&Value::Bool(true), &Value::Bool(false)));
    let data = "3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7";
    assert_eq!((&listed[1]["size"], &listed[1]["sha256"]), (&4.into(), &data.into()));

    let out = house.path("out");
    let got = house.bowline(&["artifacts", &id, "build", "--get", "**/*.bin", "-o", &out.display().to_string()]).ok();
    assert_eq!(got.out.trim_end(), out.join("dist/deep/data.bin").display().to_string());
    house.bowline(&["artifacts", &id, "--all", "-o", &out.display().to_string()]).ok();
    assert_eq!(fs::read_to_string(out.join("dist/deep/data.bin")).expect("there"), "data");
    let mode = fs::metadata(out.join("dist/app-v7")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert_eq!(fs::metadata(out.join("dist/empty")).expect("there").len(), 0);
    let nothing = house.bowline(&["artifacts", &id, "build", "--get", "nothing"]).code(2);
    assert!(nothing.err.contains("no file is meant"), "{}", nothing.err);
    assert!(house.bowline(&["artifacts", &id]).ok().out.contains("dist/deep/data.bin"));
}

#[test]
fn what_cannot_be_kept_fails_the_step_and_keeps_its_exit_code() {
    let mut house = House::new();
    house.set("BOWLINE_ARTIFACTS__MAX_STEP_BYTES", "1000B");
    house.set("BOWLINE_ARTIFACTS__MAX_BYTES", "1500B");
    let _up = house.start_up(&[]);
    let id = house.submit(
        "name: t\nsteps:
  nothing: { run: 'true', artifacts: [ missing ] }
  optional: { run: 'true', artifacts: { paths: [ missing ], optional: true } }
  escape: { run: 'ln -s /etc/passwd out', artifacts: [ out ] }
  large: { run: 'head -c 2000 /dev/zero > f', artifacts: [ f ] }
  failed: { run: 'echo report > r; exit 3', artifacts: { paths: [ r, never ], when: always } }
  unkept: { run: 'echo report > r; exit 4', artifacts: [ r ] }
",
    );
    let job = house.end(&id);
    let error =
        |name: &str| (step_of(&job, name)["error"]["code"].clone(), step_of(&job, name)["error"]["message"].clone());
    let told = |name: &str| error(name).1.as_str().unwrap_or_default().to_owned();
    assert_eq!(error("nothing").0, "artifacts");
    assert!(told("nothing").contains("`missing` matches no file"), "{}", told("nothing"));
    assert_eq!(step_of(&job, "nothing")["attempts"][0]["exit_code"], 0, "the exit code is not lost");
    assert_eq!(step_of(&job, "optional")["state"], "success");
    assert!(told("escape").contains("leads out of the working folder"), "{}", told("escape"));
    assert!(told("large").contains("2000") && told("large").contains("1000"), "{}", told("large"));
    assert_eq!(error("failed").0, "exit_code");
    let kept: Vec<String> = files(&house, &id)
        .iter()
        .map(|f| format!("{}/{}", f["step"].as_str().unwrap_or(""), f["path"].as_str().unwrap_or("")))
        .collect();
    assert_eq!(kept, ["failed/r"], "only what was asked for of steps that failed");

    // Two that fit each for itself, and not together.
    let id = house.submit(
        "name: t\nsteps:
  one: { run: 'head -c 600 /dev/urandom > f', artifacts: [ f ] }
  two: { run: 'head -c 700 /dev/urandom > f', needs: [one], artifacts: [ f ] }
",
    );
    let job = house.end(&id);
    let told = step_of(&job, "two")["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(told.contains("700") && told.contains("1500"), "{told}");
}

#[test]
fn what_a_job_took_over_keeps_its_files_and_items_have_their_own() {
    let (house, _up) = House::up();
    let flag = house.path("flag");
    let id = house.submit(&format!(
        "name: t\nsteps:
  each:
    for_each: [a, b]
    run: 'echo {{{{ item }}}} > f'
    artifacts: [ f ]
  sum:
    needs: [each]
    fetch: [each]
    run: 'test -e {flag} && cat 0/f 1/f'
",
        flag = flag.display()
    ));
    assert_eq!(house.end(&id)["state"], "failed");
    fs::write(&flag, "").expect("writable");
    let again = house.bowline(&["retry", &id, "--from-failed", "--json"]).ok().json();
    let again = again["id"].as_str().expect("an id").to_owned();
    assert_eq!(house.end(&again)["state"], "success");
    assert_eq!(house.log(&again, "sum"), "a\nb\n");
    let steps: Vec<Value> = files(&house, &again).iter().map(|file| file["step"].clone()).collect();
    assert_eq!(steps, ["each[0]", "each[1]"]);
}

#[test]
fn many_files_and_large_ones() {
    let (house, _up) = House::up();
    let id = house.submit(
        "name: t\nsteps:
  many:
    run: |
      mkdir d
      for i in $(seq 10000); do echo $i > d/$i; done
    artifacts: [ d ]
  large:
    run: 'truncate -s 200M hole && echo end >> hole'
    artifacts: [ hole ]
  use:
    needs: [many, large]
    fetch: [many, large]
    run: 'ls d | wc -l; cat d/7777; tail -c 4 hole; stat -c %s hole'
",
    );
    assert_eq!(house.end(&id)["state"], "success", "{:#}", house.job(&id));
    assert_eq!(house.log(&id, "use"), "10000\n7777\nend\n209715204\n");
    let out = house.path("out");
    house.bowline(&["artifacts", &id, "many", "--all", "-o", &out.display().to_string()]).ok();
    assert_eq!(fs::read_dir(out.join("d")).expect("there").count(), 10_000);
}

#[test]
fn a_large_file_costs_no_memory_of_its_size() {
    let mut house = House::new();
    let roles = [house.start_server(), house.start_worker("w", &[])];
    let carry = |mebibytes: u32| {
        let make = format!("head -c {mebibytes}M /dev/urandom > file; sha256sum file");
        let task = format!(
            "name: t\nsteps:\n  make: {{ run: '{make}', artifacts: [file] }}\n  use: {{ needs: [make], fetch: [make], run: sha256sum file }}\n"
        );
        let id = house.submit(&task);
        assert_eq!(house.end(&id)["state"], "success", "{:#}", house.job(&id));
        assert_eq!(house.log(&id, "use"), house.log(&id, "make"));
    };
    // A small one first: what both need to carry anything at all.
    carry(1);
    let before = roles.each_ref().map(|role| peak_kib(role.pid()));
    carry(64);
    let after = roles.each_ref().map(|role| peak_kib(role.pid()));
    println!("server and worker, KiB: {before:?}, then {after:?}");
    for (before, after) in before.into_iter().zip(after) {
        assert!(after <= before + GROWTH_KIB_MAX, "from {before} KiB to {after}");
    }
}

#[test]
fn all_files_of_a_step_come_in_one_stream() {
    let (house, _up) = House::up();
    let run = "mkdir -p d/e; printf 1 > d/a; : > d/b; printf 333 > d/e/c";
    let id = house.submit(&format!(
        "name: t\nsteps:\n  a: {{ run: '{run}', artifacts: [d] }}\n  b: {{ run: 'printf 2 > x', artifacts: [x] }}\n"
    ));
    assert_eq!(house.end(&id)["state"], "success");
    let out = house.path("out");
    let got = house.bowline(&["artifacts", &id, "--all", "-o", &out.display().to_string()]).ok();
    let paths: Vec<String> =
        ["a/d/a", "a/d/b", "a/d/e/c", "b/x"].map(|path| out.join(path).display().to_string()).to_vec();
    assert_eq!(got.out.lines().collect::<Vec<_>>(), paths);
    let texts: Vec<String> = paths.iter().map(|path| fs::read_to_string(path).expect("there")).collect();
    assert_eq!(texts, ["1", "", "333", "2"]);
}

#[test]
fn bad_words_are_found_before_anything_runs() {
    let (house, _up) = House::up();
    let bad = house.write(
        "bad.yaml",
        "name: t\nsteps:\n  a: { run: 'true' }\n  b: { run: 'true', fetch: [a, c, d], artifacts: [ ../x, /etc ] }\n  c: { run: 'true', artifacts: [ x ] }\n",
    );
    let told = house.bowline(&["check", &bad.display().to_string()]).code(2).out;
    for words in [
        "`a` leaves no artifacts",
        "`d`, which is not there",
        "`c`, which may not be over",
        "leads out of",
        "must be relative",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}
