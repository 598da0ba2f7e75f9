//! A row of the table: what happens to whom, and the script that makes it happen.

use std::time::Duration;

use sim::faults::FaultKind;
use sim::scenario::{Moment, Script};

pub(crate) struct Table {
    /// Where it stands in the page.
    pub name: &'static str,
    pub rows: Vec<Row>,
}

pub(crate) struct Row {
    /// The name that the table gives it.
    pub id: &'static str,
    /// What happens, in words.
    pub case: &'static str,
    pub script: Script,
    /// What decides, and where it can be set.
    pub rule: &'static str,
    /// Other steps to which exactly the same happens.
    pub alike: Vec<Script>,
    /// Lines of server-config.yaml under which it is shown once more.
    pub settings: Vec<&'static str>,
    /// Chance decides which of several ways it goes.
    pub either: bool,
    /// It takes a day, which two worlds tell as well as four.
    pub long: bool,
    /// Tests in which real processes go through it.
    pub real: Vec<&'static str>,
}

impl Row {
    pub(crate) fn new(id: &'static str, case: &'static str, script: Script) -> Row {
        let (alike, settings, real) = (Vec::new(), Vec::new(), Vec::new());
        Row { id, case, script, rule: "", alike, settings, either: false, long: false, real }
    }

    pub(crate) fn rule(mut self, rule: &'static str) -> Row {
        self.rule = rule;
        self
    }

    /// The same happens to a step that differs so.
    pub(crate) fn alike(mut self, change: impl FnOnce(Script) -> Script) -> Row {
        self.alike.push(change(self.script.clone()));
        self
    }

    pub(crate) fn with(mut self, setting: &'static str) -> Row {
        self.settings.push(setting);
        self
    }

    pub(crate) fn either(mut self) -> Row {
        self.either = true;
        self
    }

    pub(crate) fn long(mut self) -> Row {
        self.long = true;
        self
    }

    pub(crate) fn real(mut self, test: &'static str) -> Row {
        self.real.push(test);
        self
    }
}

/// The event happens at this moment.
pub(crate) fn when(moment: Moment) -> Script {
    Script::new().at(moment).mark("")
}

/// The event happens while the step runs.
pub(crate) fn running() -> Script {
    when(Moment::Execution(1))
}

/// The event happens when the step has ended and a server that has no room for log frames has none of its last lines.
pub(crate) fn log_under_way() -> Script {
    let full = FaultKind::DropLogs { server: 0, time: secs(700) };
    Script::new().at(Moment::Execution(1)).fault(full).at(Moment::LogUnderWay).mark("")
}

/// So long after the event, and whatever it took away is back.
pub(crate) fn returns(script: Script, after: Duration) -> Script {
    script.after(after).mark("its return")
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Longer than any of the worlds.
pub(crate) const FOR_GOOD: Duration = secs(24 * 3600);

/// Shorter than the recovery window, and longer.
pub(crate) const SHORT: Duration = secs(45);
pub(crate) const LONG: Duration = secs(300);

/// What decides most rows.
pub(crate) const WINDOW: &str = "recovery window: 2 × `max_reconnect_delay_secs`";
pub(crate) const LEASE: &str = "lease: 0.8 × the recovery window";
