//! Whether a cron expression can be read: five fields, or a word such as `@daily`.

const WORDS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    /// Names stand for numbers from `min` on.
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", min: 0, max: 59, names: &[] },
    Field { name: "hour", min: 0, max: 23, names: &[] },
    Field { name: "day", min: 1, max: 31, names: &[] },
    Field { name: "month", min: 1, max: 12, names: &MONTHS },
    Field { name: "weekday", min: 0, max: 7, names: &DAYS },
];

pub(super) fn check(expression: &str) -> Result<(), String> {
    if WORDS.contains(&expression) {
        return Ok(());
    }
    let parts: Vec<&str> = expression.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Err(format!("it has {} fields, not five", parts.len()));
    }
    for (field, part) in FIELDS.iter().zip(parts) {
        for item in part.split(',') {
            field.check(item).ok_or_else(|| format!("`{item}` is no {}", field.name))?;
        }
    }
    Ok(())
}

impl Field {
    /// `*`, `5`, `1-5`, each with `/2` after it.
    fn check(&self, item: &str) -> Option<()> {
        let (range, every) = item.split_once('/').unwrap_or((item, "1"));
        let every: u32 = every.parse().ok()?;
        if every == 0 || every > self.max {
            return None;
        }
        if range == "*" {
            return Some(());
        }
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        (self.number(from)? <= self.number(to)?).then_some(())
    }

    fn number(&self, word: &str) -> Option<u32> {
        let by_name = self.names.iter().zip(self.min..).find(|(name, _)| name.eq_ignore_ascii_case(word));
        let number = by_name.map(|(_, number)| number).or_else(|| word.parse().ok())?;
        (self.min..=self.max).contains(&number).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        for good in ["0 3 * * *", "*/5 * * * *", "0 9-17 * * MON-FRI", "0 0 1,15 jan *", "@daily"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["", "* * * *", "60 * * * *", "*/0 * * * *", "5-1 * * * *", "* * * * FUN", "@never", "a b c d e"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
