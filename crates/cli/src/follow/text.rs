//! Log text on a terminal that we draw on: it may be coloured, it must not move the cursor. Pure.

/// Makes one line of what may be many tricks: of a carriage-return progress bar the last state, colours kept, other
/// escape sequences left out, other control characters shown as `·`.
pub(crate) fn tame(text: &str) -> String {
    let last = text.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
    let mut tamed = String::with_capacity(last.len());
    let mut rest = last;
    while let Some(c) = rest.chars().next() {
        if c == '\u{1b}' {
            let length = escape_length(rest);
            if is_colour(&rest[..length]) {
                tamed.push_str(&rest[..length]);
            }
            rest = &rest[length..];
            continue;
        }
        match c {
            '\t' => tamed.push_str("    "),
            c if c.is_control() => tamed.push('·'),
            c => tamed.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    if tamed.contains('\u{1b}') {
        tamed.push_str("\u{1b}[0m");
    }
    tamed
}

/// How many bytes the escape sequence at the start of `text` has.
fn escape_length(text: &str) -> usize {
    let body = &text[1..];
    let end = match body.chars().next() {
        Some('[') => body[1..].find(|c: char| ('@'..='~').contains(&c)).map(|at| 1 + at + 1),
        Some(']') => body.find('\u{7}').map(|at| at + 1).or_else(|| body.find("\u{1b}\\").map(|at| at + 2)),
        Some(c) => Some(c.len_utf8()),
        None => Some(0),
    };
    1 + end.unwrap_or(body.len())
}

fn is_colour(sequence: &str) -> bool {
    sequence.starts_with("\u{1b}[")
        && sequence.ends_with('m')
        && sequence[2..sequence.len() - 1].bytes().all(|b| b.is_ascii_digit() || b == b';' || b == b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_text_is_left() {
        let cases = [
            ("plain blå", "plain blå"),
            ("10%\r50%\r100%\r", "100%"),
            ("a\tb", "a    b"),
            ("bell\u{7} nul\0", "bell· nul·"),
            ("\u{1b}[31mred\u{1b}[0m", "\u{1b}[31mred\u{1b}[0m\u{1b}[0m"),
            ("\u{1b}[2J\u{1b}[Hgone", "gone"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]8;;http://x\u{1b}\\link", "link"),
            ("cut \u{1b}[31", "cut "),
            ("lone \u{1b}", "lone "),
            ("\u{1b}øx", "x"),
        ];
        for (text, expected) in cases {
            assert_eq!(tame(text), expected, "{text:?}");
        }
    }
}
