//! Faults that wait for a moment: between two writes, or when a certain message is on its way. They hit whoever is there.

use serde::{Deserialize, Serialize};

use super::{Fault, FaultKind};
use crate::net::{ConnId, Parcel, Way};
use crate::users::Act;
use crate::world::World;

/// What a fault can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// The folder is made and its runner forked; the server was not asked yet.
    Prepared,
    /// A welcome was heard; its epoch is not on disk.
    Welcomed,
    EpochKept,
    /// A runner is about to claim its attempt; has claimed it and not started the step; has started it.
    BeforeIntent,
    AfterIntent,
    AfterExec,
    /// A step has ended and its record is not written; it is, and nobody was told.
    BeforeRecord,
    AfterRecord,
    /// A worker is about to take back an attempt that was not to start; has done so and told nobody.
    BeforeVoid,
    AfterVoid,
    /// It was told to forget an attempt, which is not put away yet; is, and nobody was told.
    BeforeKept,
    Kept,
    /// It leaves, and has not written what a caretaker has to know; has, and is still there.
    BeforeWord,
    WordLeft,
    /// A message of this kind was just sent.
    HelloSent,
    AcceptSent,
    EndedSent,
    RenewSent,
    WelcomeSent,
    OfferSent,
    GoSent,
    StopSent,
    ForgetSent,
}

/// Who is there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene {
    pub host: usize,
    pub server: Option<usize>,
    pub runner: Option<u32>,
}

const MESSAGES: [(Moment, Way, &str); 9] = [
    (Moment::HelloSent, Way::ToServer, "hello"),
    (Moment::AcceptSent, Way::ToServer, "accept"),
    (Moment::EndedSent, Way::ToServer, "ended"),
    (Moment::RenewSent, Way::ToServer, "renew"),
    (Moment::WelcomeSent, Way::ToHost, "welcome"),
    (Moment::OfferSent, Way::ToHost, "offer"),
    (Moment::GoSent, Way::ToHost, "go"),
    (Moment::StopSent, Way::ToHost, "stop"),
    (Moment::ForgetSent, Way::ToHost, "forget"),
];

impl World {
    /// The worker of this host has come to this point. It may be dead afterwards.
    pub(crate) fn stage(&mut self, host: usize, moment: Moment) {
        self.comes(moment, Scene { host, server: None, runner: None });
    }

    /// The same for a runner.
    pub(crate) fn runner_stage(&mut self, host: usize, pid: u32, moment: Moment) {
        self.comes(moment, Scene { host, server: None, runner: Some(pid) });
    }

    /// A parcel was put on its way.
    pub(crate) fn message_stage(&mut self, conn: ConnId, way: Way, message: &str) {
        let Some(ends) = self.net.get(conn) else { return };
        let scene = Scene { host: ends.host, server: Some(ends.server), runner: None };
        let said = MESSAGES.iter().find(|(_, direction, word)| (*direction, *word) == (way, message));
        if let Some((moment, ..)) = said {
            self.comes(*moment, scene);
        }
    }

    /// The first fault that waits for this happens now. Whoever waits for a chance besides waits on if there is none.
    fn comes(&mut self, moment: Moment, scene: Scene) {
        let waits = |fault: &Fault| fault.on == Some(moment);
        let is_decision = |fault: &&Fault| waits(fault) && matches!(fault.kind, FaultKind::Decide(_));
        if let Some(FaultKind::Decide(act)) = self.armed.iter().find(is_decision).map(|fault| fault.kind) {
            self.scene = Some(scene);
            if self.act(act) {
                self.has_fired(format!("{} at {}", act.name(), moment.name()));
                let done = |fault: &Fault| waits(fault) && fault.kind == FaultKind::Decide(act);
                if let Some(at) = self.armed.iter().position(done) {
                    self.armed.remove(at);
                }
            }
            self.scene = None;
        }
        let is_other = |fault: &Fault| waits(fault) && !matches!(fault.kind, FaultKind::Decide(_));
        let Some(at) = self.armed.iter().position(is_other) else { return };
        let Fault { kind, .. } = self.armed.remove(at);
        let kind = kind.aimed_at(scene);
        self.tell(|| format!("fault, its moment has come ({moment:?}): {kind:?}"));
        self.scene = Some(scene);
        if self.lays_in_wait(kind) {
            // It is counted when it has struck a commit.
        } else if self.fire(kind) {
            self.has_fired(format!("{} at {}", kind.name(), moment.name()));
        }
        self.scene = None;
    }
}

/// The kinds of messages in a frame, if any fault waits for one.
pub(crate) fn messages_in(parcel: &Parcel) -> Vec<&'static str> {
    let Parcel::Text(frame) = parcel else { return Vec::new() };
    let is_in = |word: &str| frame.contains(&format!("\"type\":\"{word}\""));
    MESSAGES.iter().map(|(_, _, word)| *word).filter(|word| is_in(word)).collect()
}

impl FaultKind {
    /// At whoever is there.
    fn aimed_at(mut self, scene: Scene) -> FaultKind {
        if let Some(host) = self.host_mut() {
            *host = scene.host;
        }
        if let (
            FaultKind::KillServer { server, .. }
            | FaultKind::FreezeServer { server, .. }
            | FaultKind::AmbushServer { server, .. },
            Some(there),
        ) = (&mut self, scene.server)
        {
            *server = there;
        }
        self
    }
}

impl Moment {
    pub fn name(self) -> &'static str {
        match self {
            Moment::Prepared => "prepared",
            Moment::Welcomed => "welcomed",
            Moment::EpochKept => "epoch-kept",
            Moment::BeforeIntent => "before-intent",
            Moment::AfterIntent => "after-intent",
            Moment::AfterExec => "after-exec",
            Moment::BeforeRecord => "before-record",
            Moment::AfterRecord => "after-record",
            Moment::BeforeVoid => "before-void",
            Moment::AfterVoid => "after-void",
            Moment::BeforeKept => "before-kept",
            Moment::Kept => "kept",
            Moment::BeforeWord => "before-word",
            Moment::WordLeft => "word-left",
            Moment::HelloSent => "hello",
            Moment::AcceptSent => "accept",
            Moment::EndedSent => "ended",
            Moment::RenewSent => "renew",
            Moment::WelcomeSent => "welcome",
            Moment::OfferSent => "offer",
            Moment::GoSent => "go",
            Moment::StopSent => "stop",
            Moment::ForgetSent => "forget",
        }
    }
}

/// What an operator does at such moments.
pub(super) const ACTS: [Act; 5] =
    [Act::Cancel { force: false }, Act::Cancel { force: true }, Act::Drain, Act::Pause, Act::Remove];
