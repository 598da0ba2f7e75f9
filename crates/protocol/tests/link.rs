//! What is said on the link arrives as it was said.

use protocol::link::{WorkerMessage, decode_text, encode_text};

/// A reader that rounds carelessly makes 990.0011 of it.
#[test]
fn a_number_comes_out_as_it_went_in() {
    let output = r#""output":{"price":990.0011000000001,"tiny":-2.2250738585072014e-308}"#;
    let end = format!(r#"{{"result":{{"kind":"exited","code":0}},{output},"log_last_seq":0,"duration_ms":5}}"#);
    let ticket = r#"{"attempt":"0190a2b4-0000-7000-8000-000000000001","fence":7}"#;
    let frame = format!(r#"[{{"type":"ended","ticket":{ticket},"end":{end}}}]"#);
    let messages = decode_text::<WorkerMessage>(&frame).expect("a good frame");
    let again = encode_text(&messages);
    assert!(again.contains(output), "{again}");
}
