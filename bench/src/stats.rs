//! Medians and percentiles of times.

use std::time::Duration;

/// Times in milliseconds, in ascending order.
#[derive(Debug)]
pub(crate) struct Times(Vec<f64>);

impl Times {
    /// None if there are no times.
    pub(crate) fn new(times: &[Duration]) -> Option<Times> {
        let mut millis: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1_000.0).collect();
        millis.sort_by(f64::total_cmp);
        (!millis.is_empty()).then_some(Times(millis))
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// The smallest time that is not exceeded by `percent` of all.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).clamp(1, self.0.len());
        self.0[rank - 1]
    }
}

/// The middle one, or the lower of two; none if there are none.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

/// So many things in that time, per second.
pub(crate) fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(millis: &[u64]) -> Times {
        Times::new(&millis.iter().map(|ms| Duration::from_millis(*ms)).collect::<Vec<_>>()).expect("some times")
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let hundred = times(&(1..=100).rev().collect::<Vec<_>>());
        assert_eq!((hundred.median(), hundred.percentile(95), hundred.percentile(100)), (50.0, 95.0, 100.0));
        assert_eq!(hundred.percentile(0), 1.0);
        let three = times(&[30, 10, 20]);
        assert_eq!((three.median(), three.percentile(95)), (20.0, 30.0));
        assert_eq!(times(&[7]).median(), 7.0);
    }

    #[test]
    fn no_times_have_no_median() {
        assert!(Times::new(&[]).is_none());
    }

    #[test]
    fn medians() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[2.0, 1.0]), median(&[])), (Some(2.0), Some(1.0), None));
    }

    #[test]
    fn rates() {
        assert_eq!(rate(500, Duration::from_millis(250)), 2_000.0);
    }
}
