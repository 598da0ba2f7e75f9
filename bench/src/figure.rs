//! One measured number, the limit it is compared with, and what we want of it.

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond,
    Millis,
    Megabytes,
    /// Rows that were written.
    Rows,
}

/// What the same machine gave in the same run without Bowline, in the figure's unit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Limit {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    AtLeast(f64),
    Below(f64),
    /// So many times the limit.
    RatioAtLeast(f64),
    RatioAtMost(f64),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: Unit,
    pub(crate) limit: Option<Limit>,
    pub(crate) target: Option<Target>,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: Unit) -> Figure {
        Figure { name: name.into(), value, unit, limit: None, target: None }
    }

    pub(crate) fn limit(mut self, name: &'static str, value: f64) -> Figure {
        self.limit = Some(Limit { name, value });
        self
    }

    pub(crate) fn target(mut self, target: Target) -> Figure {
        self.target = Some(target);
        self
    }

    /// How many times the limit it is.
    pub(crate) fn ratio(&self) -> Option<f64> {
        self.limit.as_ref().map(|limit| self.value / limit.value)
    }

    /// None without a target.
    pub(crate) fn is_met(&self) -> Option<bool> {
        self.target.map(|target| match target {
            Target::AtLeast(least) => self.value >= least,
            Target::Below(bound) => self.value < bound,
            Target::RatioAtLeast(least) => self.ratio().is_some_and(|ratio| ratio >= least),
            Target::RatioAtMost(most) => self.ratio().is_some_and(|ratio| ratio <= most),
        })
    }
}

impl Unit {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Unit::PerSecond => "/s",
            Unit::Millis => "ms",
            Unit::Megabytes => "MB",
            Unit::Rows => "rows",
        }
    }

    /// With as many digits as say something.
    pub(crate) fn show(self, value: f64) -> String {
        let number = match value {
            large if large >= 1_000.0 => with_commas(large),
            middle if middle >= 100.0 => format!("{middle:.0}"),
            small if small >= 10.0 => format!("{small:.1}"),
            tiny => format!("{tiny:.2}"),
        };
        format!("{number} {}", self.word())
    }
}

impl Target {
    pub(crate) fn show(self, unit: Unit) -> String {
        match self {
            Target::AtLeast(least) => format!("at least {}", unit.show(least)),
            Target::Below(bound) => format!("under {}", unit.show(bound)),
            Target::RatioAtLeast(least) => format!("at least {least} ×"),
            Target::RatioAtMost(most) => format!("at most {most} ×"),
        }
    }
}

fn with_commas(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        let shown: Vec<String> = [0.254, 4.7, 12.34, 254.6, 2_440.4, 1_234_567.0].map(|n| Unit::Millis.show(n)).into();
        assert_eq!(shown, ["0.25 ms", "4.70 ms", "12.3 ms", "255 ms", "2,440 ms", "1,234,567 ms"]);
    }

    #[test]
    fn targets_look_at_the_value_or_at_the_ratio() {
        let figure = Figure::new("steps", 650.0, Unit::PerSecond);
        assert_eq!(figure.is_met(), None);
        assert_eq!(figure.clone().target(Target::AtLeast(650.0)).is_met(), Some(true));
        assert_eq!(figure.clone().target(Target::Below(650.0)).is_met(), Some(false));
        assert_eq!(figure.clone().target(Target::RatioAtLeast(0.25)).is_met(), Some(false), "no limit, no ratio");
        let figure = figure.limit("raw", 2_600.0);
        assert_eq!(figure.ratio(), Some(0.25));
        assert_eq!(figure.clone().target(Target::RatioAtLeast(0.25)).is_met(), Some(true));
        assert_eq!(figure.target(Target::RatioAtMost(0.2)).is_met(), Some(false));
    }
}
