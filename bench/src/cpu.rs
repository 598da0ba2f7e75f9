//! The CPU time of processes, as the kernel counts it.

use std::path::Path;

use crate::Outcome;

/// What one process has used, its threads included, in seconds.
pub(crate) fn secs(pid: u32) -> Outcome<f64> {
    let stat = Stat::of(pid)?;
    Ok(stat.own / ticks_per_second())
}

/// The same of a process and its children, those that have ended included.
pub(crate) fn secs_of_family(parent: u32) -> Outcome<f64> {
    let first = Stat::of(parent)?;
    let mut ticks = first.own + first.reaped;
    for entry in Path::new("/proc").read_dir()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // One that ends meanwhile has nothing to say.
        if let Ok(stat) = Stat::of(pid)
            && stat.parent == parent
        {
            ticks += stat.own;
        }
    }
    Ok(ticks / ticks_per_second())
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// In ticks.
#[derive(Debug, PartialEq)]
struct Stat {
    parent: u32,
    own: f64,
    /// Of children that ended.
    reaped: f64,
}

impl Stat {
    fn of(pid: u32) -> Outcome<Stat> {
        let path = format!("/proc/{pid}/stat");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
        Stat::parse(&text).ok_or_else(|| format!("{path} does not have the usual fields").into())
    }

    fn parse(text: &str) -> Option<Stat> {
        // The name, in parentheses, may hold anything.
        let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
        let ticks = |place: usize| fields.get(place)?.parse::<f64>().ok();
        Some(Stat {
            parent: fields.get(1)?.parse().ok()?,
            own: ticks(11)? + ticks(12)?,
            reaped: ticks(13)? + ticks(14)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_fields_are_read() {
        let text = "77 (a) b (c) S 12 77 77 0 -1 4194304 100 200 0 0 31 11 5 6 20 0 1 0 100 0 0\n";
        assert_eq!(Stat::parse(text), Some(Stat { parent: 12, own: 42.0, reaped: 11.0 }));
        assert_eq!(Stat::parse("77 (a) S 12"), None);
    }

    #[test]
    fn this_process_uses_some() {
        let pid = std::process::id();
        assert!(secs(pid).expect("our own") <= secs_of_family(pid).expect("our own"));
    }
}
