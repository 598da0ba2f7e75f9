//! What the operating system says about this machine.

use std::fs;

use uuid::Uuid;

pub(crate) use runner::clock::boot_id;

/// Stays with the installation; `None` where there is none, as in some containers.
pub(crate) fn machine_id() -> Option<String> {
    read_word("/etc/machine-id")
}

pub(crate) fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

pub(crate) fn platform() -> String {
    format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH)
}

pub(crate) fn random_id() -> Uuid {
    uuid::Builder::from_random_bytes(random_bytes()).into_uuid()
}

/// Between 0 and 1, for spreading reconnects.
pub(crate) fn random_fraction() -> f64 {
    f64::from(u32::from_le_bytes(random_bytes())) / (f64::from(u32::MAX) + 1.0)
}

fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the kernel gives random bytes once it has booted");
    bytes
}

fn read_word(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let word = text.trim();
    (!word.is_empty()).then(|| word.to_owned())
}
