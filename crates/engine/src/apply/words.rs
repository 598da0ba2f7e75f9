//! What people read when an attempt was lost: a beginning that never changes, then who, where and when.

use std::time::Duration;

use crate::attempt::Loss;
use crate::event::NoReturn;
use crate::failure::{Failure, FailureKind};
use crate::ids::{StepIx, WorkerId};
use crate::state::{Ground, Live, Recovering, State};

use super::draft::Draft;

impl Draft<'_> {
    /// `worker build-1 on host-7`; by its id where it has no name.
    pub(super) fn worker(&self, id: WorkerId) -> String {
        self.ctx.workers.label(id).map_or_else(|| format!("worker {id}"), |label| label.to_string())
    }

    pub(super) fn is_removed(&self, id: WorkerId) -> bool {
        self.ctx.workers.label(id).is_some_and(|label| label.removed)
    }

    /// `worker build-1 on host-7, attempt 2, started 2026-11-15T12:00:00Z`.
    pub(super) fn whereabouts(&self, live: &Live) -> String {
        format!("{}, attempt {}, started {}", self.worker(live.worker), live.number, live.started_at)
    }

    /// A loss with its evidence, and the ground that this is for a successor.
    pub(super) fn failure_of_loss(&self, ix: StepIx, live: &Live, loss: &Loss) -> (Failure, Ground) {
        let (kind, beginning, ground) = match loss {
            Loss::Void => (FailureKind::RunnerLost, "The attempt never started", Ground::NeverStarted),
            Loss::RunnerLost => (FailureKind::RunnerLost, "Job failed: the step's runner died", Ground::ReportedGone),
            Loss::ResultNotAvailable => (
                FailureKind::ResultNotAvailable,
                "Job failed: the step's result could not be read",
                Ground::ReportedGone,
            ),
            Loss::MachineRebooted => (
                FailureKind::MachineRebooted,
                "Job failed: the worker's machine was restarted; the step's process is gone",
                Ground::ReportedGone,
            ),
            Loss::NotReported => (
                FailureKind::RunnerLost,
                "Job failed: the step's runner died; its worker has no trace of it",
                Ground::ReportedGone,
            ),
            Loss::StartForgotten => (
                FailureKind::RunnerLost,
                "Job failed: the step's runner died; its worker does not remember that it had started",
                Ground::ReportedGone,
            ),
            Loss::LeaseExpired => (FailureKind::LeaseExpired, LEASE_EXPIRED, Ground::LeaseOver),
        };
        (self.told(ix, kind, beginning, live), ground)
    }

    /// The window is over and nobody came back; or nobody could, since the worker was removed meanwhile.
    pub(super) fn failure_of_silence(&self, ix: StepIx, recovering: &Recovering) -> Failure {
        let live = &recovering.live;
        if self.is_removed(live.worker) {
            return self.failure_of_removal(ix, live);
        }
        let beginning = "Job failed: agent disconnected and did not reconnect within the recovery window \
                         (recovery timeout exceeded)";
        let message = format!(
            "{beginning}: step `{}` on {}, cut off {}, window of {}",
            self.name(ix),
            self.whereabouts(live),
            recovering.disconnected_at,
            seconds(self.ctx.rules.recovery_window),
        );
        Failure::new(FailureKind::WorkerLost, message)
    }

    pub(super) fn failure_of_no_return(&self, ix: StepIx, live: &Live, why: NoReturn) -> Failure {
        let beginning = match why {
            NoReturn::SaidSo => "Job failed: agent disconnected, and had said that it will not reconnect",
            NoReturn::MachineGone => "Job failed: scaler-managed agent disconnected mid-execution",
        };
        self.told(ix, FailureKind::WorkerLost, beginning, live)
    }

    pub(super) fn failure_of_removal(&self, ix: StepIx, live: &Live) -> Failure {
        self.told(ix, FailureKind::WorkerRemoved, "Job failed: the worker no longer exists", live)
    }

    /// The worker ended the step itself: because it was stopped, or because it was removed.
    pub(super) fn failure_of_leaving(&self, ix: StepIx) -> Failure {
        let Some(live) = self.step(ix).state.live() else {
            return Failure::new(FailureKind::WorkerLost, "Job failed: the worker was told to end the step with it");
        };
        if self.is_removed(live.worker) {
            return self.failure_of_removal(ix, live);
        }
        self.told(ix, FailureKind::WorkerLost, "Job failed: the worker was told to end the step with it", live)
    }

    pub(super) fn failure_of_lease(&self, ix: StepIx) -> Failure {
        match self.step(ix).state.live() {
            Some(live) => self.told(ix, FailureKind::LeaseExpired, LEASE_EXPIRED, live),
            None => Failure::new(FailureKind::LeaseExpired, LEASE_EXPIRED),
        }
    }

    /// What was lost before, for a step that is given up for it.
    pub(super) fn failure_of_poison(&self, ix: StepIx, losses: u32, last: &Failure) -> Failure {
        let message = format!(
            "Job failed: the step lost {losses} workers in a row (step `{}`); the last time: {}",
            self.name(ix),
            last.message
        );
        Failure::new(FailureKind::Poison, message)
    }

    pub(super) fn told(&self, ix: StepIx, kind: FailureKind, beginning: &str, live: &Live) -> Failure {
        let cut = match &self.step(ix).state {
            State::Recovering(recovering) => format!(", cut off {}", recovering.disconnected_at),
            _ => String::new(),
        };
        let name = self.name(ix);
        let message =
            format!("{beginning} (step `{name}` on {}{cut}, noticed {})", self.whereabouts(live), self.ctx.now);
        Failure::new(kind, message)
    }
}

const LEASE_EXPIRED: &str = "Step stopped: its worker was cut off for longer than its lease";

/// `120s`, `0.5s`.
pub(super) fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs_f64())
}
