//! A step that asks whether it still owns its attempt.

use crate::house::{House, await_that};

/// Asks until `stop` appears, and writes down every answer.
const ASKING: &str = r#"
while [ ! -e "$STOP" ]; do
  code=0; "$BOWLINE" fence check 2>/dev/null || code=$?
  echo "$code" >> "$ANSWERS"
  sleep 0.05
done
"#;

#[test]
fn a_step_knows_when_nobody_confirms_it_any_more() {
    let mut house = House::new();
    house.set("BOWLINE_RECOVERY__MAX_RECONNECT_DELAY_SECS", "0.5");
    let server = house.start_server();
    let _worker = house.start_worker("w", &[]);
    let (stop, answers) = (house.path("stop"), house.path("answers"));
    let env = |name: &str, value: &std::path::Path| format!("{name}={}", value.display());
    let submitted = house
        .bowline(&[
            "exec",
            "--detach",
            "--env",
            &env("STOP", &stop),
            "--env",
            &env("ANSWERS", &answers),
            "--env",
            &env("BOWLINE", env!("CARGO_BIN_EXE_bowline").as_ref()),
            "--",
            "sh",
            "-c",
            ASKING,
        ])
        .ok();
    let id = submitted.out.trim().to_owned();
    let last = || std::fs::read_to_string(&answers).unwrap_or_default().lines().last().map(str::to_owned);
    await_that("it is the owner", || (last().as_deref() == Some("0")).then_some(()));
    server.kill();
    await_that("nobody confirms it", || (last().as_deref() == Some("1")).then_some(()));
    let _server = house.start_server();
    await_that("it is confirmed again", || (last().as_deref() == Some("0")).then_some(()));
    std::fs::write(&stop, "").expect("writable");
    assert_eq!(house.end(&id)["state"], "success");
    house.bowline(&["fence", "check"]).code(2);
}
