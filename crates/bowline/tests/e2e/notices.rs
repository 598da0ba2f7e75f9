//! A notice reaches people: by the local program that takes mails, which fails first, and in what they look at.

use crate::house::{House, await_that, program};

/// Takes every mail but the first, and keeps what it was given.
const SENDMAIL: &str = "#!/bin/sh
n=$(ls \"$(dirname \"$0\")\" | grep -c '^try')
cat > \"$(dirname \"$0\")/try.$n\"
echo \"$* ${BOWLINE_SECRET_X:-none}\" >> \"$(dirname \"$0\")/args\"
[ \"$n\" -gt 0 ] || { echo 'no room today' >&2; exit 75; }
";

#[test]
fn a_step_that_takes_too_long_is_told_by_mail_until_it_is_taken() {
    let mut house = House::new();
    let sendmail = program(&house, "post/sendmail", SENDMAIL);
    house.set("BOWLINE_MAIL__SENDMAIL", &sendmail.display().to_string());
    house.set("BOWLINE_MAIL__FROM", "bowline@build.example.com");
    house.set("BOWLINE_SECRET_X", "s3cret");
    let _up = house.start_up(&[]);
    let task = "name: slow\nsteps:\n  a: { run: 'until [ -e GO ]; do sleep 0.05; done', expect: 1s }\non_notice: [{ mail: ops@example.com }]\n";
    let id = house.submit(&task.replace("GO", &house.path("go").display().to_string()));
    let post = sendmail.parent().expect("a folder").to_owned();
    let kept = |n: u32| std::fs::read_to_string(post.join(format!("try.{n}"))).ok();
    let second = await_that("the mail is taken", || {
        let delivered = house.job(&id)["hooks"][0]["state"] == "delivered";
        delivered.then(|| kept(1)).flatten()
    });
    let first = kept(0).expect("it was tried before");
    assert_eq!(first, second, "each try is the same mail");
    assert!(
        second.contains("To: ops@example.com\n") && second.contains("From: bowline@build.example.com\n"),
        "{second}"
    );
    let job = house.job(&id);
    let hook = job["hooks"][0]["id"].as_str().expect("an id");
    assert!(second.contains(&format!("Message-ID: <{hook}@build.example.com>")), "{second}");
    let told = std::fs::read_to_string(post.join("args")).expect("it was called");
    assert_eq!(told.lines().collect::<Vec<_>>(), ["-t -i none"; 2], "it is shown none of the server's secrets");
    assert_eq!((&job["notices"][0]["kind"], &job["state"]), (&"step_late".into(), &"running".into()));
    let why = house.bowline(&["why", &id]).ok();
    assert!(why.out.contains("takes longer than expected: 1s"), "{}", why.out);
    assert!(
        house.bowline(&["logs", &id, "_server"]).ok().out.contains("step a: notice: takes longer than expected: 1s")
    );
    assert!(house.bowline(&["job", &id]).ok().out.contains("notice   step a takes longer than expected: 1s"));
    std::fs::write(house.path("go"), "").expect("it goes on");
    assert_eq!(house.end(&id)["state"], "success");
}
