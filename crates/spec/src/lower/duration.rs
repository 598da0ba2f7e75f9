//! Durations as people write them: `45m`, `1h30m`, `500ms`, `1d`.

use std::time::Duration;

/// Ten years: a longer wait is a typing error.
const DURATION_MAX: Duration = Duration::from_secs(3650 * 24 * 3600);

/// Units from the longest to the shortest, in milliseconds.
const UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The duration, or what is wrong with it.
pub fn parse(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("a duration is a number with a unit".to_owned());
    }
    let mut total: u64 = 0;
    let mut last_unit: Option<usize> = None;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = match rest[..digits].parse() {
            Ok(number) => number,
            Err(_) if digits == 0 => return Err(format!("a number is missing before `{rest}`, as in `1h30m`")),
            Err(_) => return Err(too_long()),
        };
        let word = rest[digits..].split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        let Some(unit) = UNITS.iter().position(|&(name, _)| name == word) else {
            return Err(no_unit(word, text));
        };
        if last_unit.is_some_and(|last| unit <= last) {
            return Err("units go from the longest to the shortest, each once".to_owned());
        }
        last_unit = Some(unit);
        total = number.checked_mul(UNITS[unit].1).and_then(|ms| total.checked_add(ms)).ok_or_else(too_long)?;
        rest = &rest[digits + word.len()..];
    }
    let duration = Duration::from_millis(total);
    if duration > DURATION_MAX { Err(too_long()) } else { Ok(duration) }
}

fn no_unit(word: &str, text: &str) -> String {
    if word.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        format!("a unit is missing: `{text}s`, `{text}m`, `{text}h`")
    } else {
        "units are ms, s, m, h, d and w, as in `1h30m`; numbers are whole".to_owned()
    }
}

fn too_long() -> String {
    "that is longer than ten years".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_ones() {
        let ms = |text| parse(text).map(|d| d.as_millis());
        assert_eq!(ms("45m"), Ok(2_700_000));
        assert_eq!(ms("1h30m"), Ok(5_400_000));
        assert_eq!(ms("500ms"), Ok(500));
        assert_eq!(ms("1m500ms"), Ok(60_500));
        assert_eq!(ms("0s"), Ok(0));
        assert_eq!(ms("1d"), Ok(86_400_000));
    }

    #[test]
    fn bad_ones() {
        for text in
            ["", "5", "s", "-5s", "1.5h", "5 s", "1m1h", "1s1s", "5x", "99999999999999999999s", "9999999w", "5så"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
