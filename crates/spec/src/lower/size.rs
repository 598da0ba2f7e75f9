//! Sizes as people write them: `1GiB`, `500MB`, `4096`.

const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Bytes, or what is wrong.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let unit = text[digits..].trim_start();
    let factor = match unit {
        "" => Some(1),
        _ => UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|&(_, factor)| factor),
    };
    let number: Option<u64> = text[..digits].parse().ok();
    match (number, factor) {
        (Some(number), Some(factor)) => number
            .checked_mul(factor)
            .filter(|&bytes| i64::try_from(bytes).is_ok())
            .ok_or_else(|| "that is more than any disk holds".to_owned()),
        _ => Err("a size is a whole number with a unit, as in `1GiB` or `500MB`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse("1GiB"), Ok(1 << 30));
        assert_eq!(parse("500 MB"), Ok(500_000_000));
        assert_eq!(parse("4096"), Ok(4096));
        assert!(parse("1.5GiB").is_err());
        assert!(parse("GiB").is_err());
        assert!(parse("99999999TiB").is_err());
    }
}
