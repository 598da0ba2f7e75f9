//! A mail, given to the program of this machine that takes mails. The same one with every try, down to its `Message-ID`, so
//! that whoever gets it twice can tell.

use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use spec::config::server::Mail;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;

use crate::ledger::{Envelope, TRY_WITHIN};

/// So much of what the program says is worth telling.
const SAID_CHARS_MAX: usize = 200;
/// Of which so much is read at all.
const SAID_BYTES_MAX: u64 = 4096;
/// How long a program that has failed is listened to for the reason.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A line of base64 in a body; and how many bytes one encoded word of a head holds, well below its 75 characters.
const LINE_CHARS: usize = 76;
const WORD_BYTES: usize = 42;

/// A subject is one line, and no letter.
const SUBJECT_CHARS_MAX: usize = 300;

/// What of this process's environment is the program's business: there are secrets in the rest.
const ENVIRONMENT: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

/// Hands it over. Taken is what the program said yes to.
pub async fn send(mail: &Mail, id: Uuid, envelope: &Envelope, text: &str) -> Result<(), String> {
    let message = message(&mail.from, id, envelope, text);
    match timeout(TRY_WITHIN, hand_over(&mail.sendmail, message)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("{} did not end within {TRY_WITHIN:?}", mail.sendmail)),
    }
}

async fn hand_over(program: &str, message: String) -> Result<(), String> {
    let environment = ENVIRONMENT.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut child = Command::new(program)
        .args(["-t", "-i"])
        .env_clear()
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{program} could not be started: {error}"))?;
    let stdin = child.stdin.take();
    let written = async {
        if let Some(mut stdin) = stdin {
            // One that does not read to the end says why when it ends.
            let _ = stdin.write_all(message.as_bytes()).await;
            let _ = stdin.shutdown().await;
        }
    };
    // Its exit decides, not the end of what it says: it may leave another program behind that has its stderr.
    let (tell, told) = oneshot::channel();
    let mut ears = JoinSet::new();
    if let Some(mut stderr) = child.stderr.take() {
        ears.spawn(async move {
            let mut said = Vec::new();
            let _ = (&mut stderr).take(SAID_BYTES_MAX).read_to_end(&mut said).await;
            let _ = tell.send(said);
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
        });
    }
    let (ended, ()) = tokio::join!(child.wait(), written);
    let status = ended.map_err(|error| format!("{program} could not be waited for: {error}"))?;
    if status.success() {
        return Ok(());
    }
    let said = timeout(LAST_WORDS, told).await.ok().and_then(Result::ok).unwrap_or_default();
    let said: String = String::from_utf8_lossy(&said).trim().chars().take(SAID_CHARS_MAX).collect();
    Err(if said.is_empty() { format!("{program} ended with {status}") } else { format!("{program}: {status}: {said}") })
}

/// The whole mail. Addresses were checked when they were read, and nothing else in the head comes from a job but the subject,
/// of which nothing is left that could end a line.
fn message(from: &str, id: Uuid, envelope: &Envelope, text: &str) -> String {
    let domain = from.rsplit_once('@').map_or("localhost", |(_, domain)| domain);
    let body = STANDARD.encode(text);
    let lines: Vec<&str> =
        (0..body.len()).step_by(LINE_CHARS).map(|at| &body[at..body.len().min(at + LINE_CHARS)]).collect();
    format!(
        "From: {from}\nTo: {to}\nSubject: {subject}\nDate: {date}\nMessage-ID: <{id}@{domain}>\nMIME-Version: 1.0\n\
         Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\nAuto-Submitted: auto-generated\n\n\
         {body}\n",
        to = envelope.to.join(",\n "),
        subject = head_text(&envelope.subject),
        date = date(engine::Time(envelope.at)),
        body = lines.join("\n"),
    )
}

/// A text as it may stand in a head: in words of base64 where it is not plain.
fn head_text(text: &str) -> String {
    let one_line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SUBJECT_CHARS_MAX).collect();
    if one_line.is_ascii() && one_line.len() <= LINE_CHARS && !one_line.contains("=?") {
        return one_line;
    }
    let mut words = vec![String::new()];
    for c in one_line.chars() {
        if words.last().is_some_and(|word| word.len() + c.len_utf8() > WORD_BYTES) {
            words.push(String::new());
        }
        words.last_mut().expect("there is always one").push(c);
    }
    let encoded: Vec<String> = words.iter().map(|word| format!("=?utf-8?B?{}?=", STANDARD.encode(word))).collect();
    encoded.join("\n ")
}

/// `15 Nov 2025 12:00:00 +0000`, made of `2025-11-15T12:00:00Z`.
fn date(at: engine::Time) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let told = at.to_string();
    let month = told.get(5..7).and_then(|month| month.parse::<usize>().ok()).unwrap_or(1);
    let part = |range| told.get(range).unwrap_or_default();
    format!("{} {} {} {} +0000", part(8..10), MONTHS[(month - 1).min(11)], part(0..4), part(11..19))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(subject: &str) -> Envelope {
        let to = vec!["ops@example.com".to_owned(), "boss@example.com".to_owned()];
        Envelope { to, subject: subject.to_owned(), at: 1_763_208_000_000_000 }
    }

    fn head(subject: &str) -> Vec<String> {
        let message = message("bowline@build.example.com", Uuid::nil(), &envelope(subject), "one\ntwo\n");
        let (head, body) = message.split_once("\n\n").expect("a head and a body");
        assert_eq!(STANDARD.decode(body.trim_end()).expect("base64"), b"one\ntwo\n");
        head.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_mail_has_one_name_and_all_its_readers() {
        let lines = head("[bowline] nightly: failed");
        assert_eq!(
            lines[..6],
            [
                "From: bowline@build.example.com",
                "To: ops@example.com,",
                " boss@example.com",
                "Subject: [bowline] nightly: failed",
                "Date: 15 Nov 2025 12:00:00 +0000",
                "Message-ID: <00000000-0000-0000-0000-000000000000@build.example.com>",
            ]
        );
    }

    fn program(text: &str) -> tempfile::TempPath {
        use std::os::unix::fs::PermissionsExt as _;
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o700)).expect("a program");
        file.into_temp_path()
    }

    /// What it leaves behind has its stderr, and holds it for longer than a try may take.
    #[tokio::test]
    async fn a_program_that_leaves_another_behind_has_taken_the_mail() {
        let file = program("#!/bin/sh\ncat >/dev/null\nsleep 30 &\nexit 0\n");
        let sendmail = file.display().to_string();
        let taken = timeout(Duration::from_secs(5), hand_over(&sendmail, "a mail".to_owned())).await;
        assert_eq!(taken, Ok(Ok(())));
    }

    #[tokio::test]
    async fn what_a_program_says_is_told_however_much_it_is() {
        let sendmail = program("#!/bin/sh\necho 'no such mailbox' >&2\nhead -c 1000000 /dev/zero >&2\nexit 67\n");
        let refused = hand_over(&sendmail.display().to_string(), "a mail".to_owned()).await.expect_err("refused");
        assert!(refused.contains("67") && refused.contains("no such mailbox") && refused.len() < 400, "{refused}");
    }

    /// What a job says may be part of a subject, and of nothing else in the head.
    #[test]
    fn no_text_can_begin_a_line_of_the_head() {
        let evil = "x\r\nBcc: all@example.com\n\nbody";
        let lines = head(evil);
        assert_eq!(lines.len(), head("x").len(), "{lines:?}");
        assert!(lines.contains(&"Subject: x  Bcc: all@example.com  body".to_owned()), "{lines:?}");
        let long = head(&format!("{evil} \u{fc}ber {}", "=?".repeat(400)));
        for line in long.iter().filter(|line| line.contains("=?")) {
            assert!(line.len() <= 76 + "Subject: ".len() && line.is_ascii(), "{line}");
            assert!(line.starts_with(" =?utf-8?B?") || line.starts_with("Subject: =?utf-8?B?"), "{line}");
        }
        assert!(!long.iter().any(|line| line.starts_with("Bcc")), "{long:?}");
    }
}
