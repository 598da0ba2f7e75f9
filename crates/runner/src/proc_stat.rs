//! What `/proc/PID/stat` says about a process.

use std::fs::{self, File};
use std::io::Read;

/// Its numbers and a name of at most 64 bytes fit with room to spare.
const STAT_BYTES_MAX: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcStat {
    pub(crate) pid: i32,
    pub(crate) zombie: bool,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// Clock ticks since boot.
    pub(crate) start_time: u64,
}

/// `None` if there is no such process.
pub(crate) fn read(pid: i32) -> Option<ProcStat> {
    let mut bytes = [0; STAT_BYTES_MAX];
    let length = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut bytes).ok()?;
    parse(&bytes[..length])
}

/// Every process that can be seen. Processes that end meanwhile are left out.
pub(crate) fn all() -> impl Iterator<Item = ProcStat> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| read(entry.ok()?.file_name().to_str()?.parse().ok()?))
}

/// `PID (name) state parent group …`: the name may hold anything, so the last `)` ends it.
fn parse(stat: &[u8]) -> Option<ProcStat> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let pid = stat.split(|byte| *byte == b' ').next()?;
    let pid = std::str::from_utf8(pid).ok()?.parse().ok()?;
    let rest = std::str::from_utf8(stat.get(name_end + 2..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(ProcStat {
        pid,
        zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_bad_bytes_is_no_obstacle() {
        let stat = b"12 (a) \xff (b) Z 3 12 4 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 777 0 0\n";
        let expected = ProcStat { pid: 12, zombie: true, parent: 3, group: 12, start_time: 777 };
        assert_eq!(parse(stat), Some(expected));
        assert_eq!(parse(b"12"), None);
        assert_eq!(parse(b"12 (x)"), None);
    }

    #[test]
    fn this_process_is_found() {
        let own = std::process::id() as i32;
        assert!(all().any(|process| process.pid == own && !process.zombie));
    }
}
