//! The memory of a process, as the kernel counts it.

use rustix::process::Pid;

use crate::Outcome;

/// In megabytes (of a million bytes).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Memory {
    /// All pages in memory, those of the binary that others share included.
    pub(crate) resident: f64,
    /// With shared pages divided among those who share them.
    pub(crate) proportional: f64,
    /// What would be free without this process.
    pub(crate) private: f64,
}

impl Memory {
    pub(crate) fn of(pid: Pid) -> Outcome<Memory> {
        let path = format!("/proc/{}/smaps_rollup", pid.as_raw_nonzero());
        let text = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
        Memory::parse(&text).ok_or_else(|| format!("{path} does not have the usual lines").into())
    }

    /// The most that was ever resident.
    pub(crate) fn peak(pid: Pid) -> Outcome<f64> {
        let path = format!("/proc/{}/status", pid.as_raw_nonzero());
        let text = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("the kernel does not say")?;
        let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes * 1024.0 / 1e6)
    }

    fn parse(text: &str) -> Option<Memory> {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
            Some(kib * 1_024.0 / 1_000_000.0)
        };
        Some(Memory {
            resident: field("Rss")?,
            proportional: field("Pss")?,
            private: field("Private_Clean")? + field("Private_Dirty")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read() {
        let text = "55d1-7ffe ---p 00000000 00:00 0    [rollup]\nRss:      15625 kB\nPss:       6250 kB\n\
                    Pss_Dirty: 1 kB\nPrivate_Clean:    125 kB\nPrivate_Dirty:   3000 kB\n";
        let expected = Memory { resident: 16.0, proportional: 6.4, private: 3.2 };
        assert_eq!(Memory::parse(text), Some(expected));
        assert_eq!(Memory::parse("Rss: 1 kB\n"), None);
    }

    #[test]
    fn this_process_has_some() {
        let memory = Memory::of(rustix::process::getpid()).expect("our own memory");
        assert!(memory.resident > 0.5 && memory.private <= memory.resident, "{memory:?}");
    }
}
