//! Leases that two have, or nobody, and what is written under them too late.

use engine::Heard;
use store::rows::ServerId;
use store::{Claim, Lease, LeaseRow, Tenure};

use super::*;

const fn server(n: u128) -> ServerId {
    ServerId(Uuid::from_u128(n))
}

fn tenure(by: u128, epoch: u64) -> Tenure {
    Tenure { lease: Lease::Sweep, holder: server(by), epoch }
}

impl Scene {
    /// Server `by` claims the lease at a time, for ten more, and this is what it heard.
    fn claims(&mut self, by: u128, at: i64, holder: u128, epoch: u64) -> &mut Scene {
        let (lease, until) = (Lease::Sweep, Heard(at + 10));
        let claim = Claim { lease, by: server(by), at: Heard(at), until };
        let batch = Batch { now: self.time(), claims: vec![claim], ..Batch::default() };
        let row = LeaseRow { lease, holder: server(holder), epoch, until };
        self.checks.moment(self.now);
        self.checks.committed(0, &batch, &Committed { leases: vec![row], ..Committed::default() });
        self
    }

    fn acts(&mut self, by: u128, epoch: u64) -> &mut Scene {
        let batch = Batch { now: self.time(), under: vec![tenure(by, epoch)], ..Batch::default() };
        self.commit(&batch)
    }
}

#[test]
fn a_lease_goes_from_hand_to_hand() {
    let mut scene = Scene::new(|_| {});
    scene.claims(1, 0, 1, 1).acts(1, 1).claims(1, 5, 1, 1).acts(1, 1);
    scene.claims(2, 15, 2, 2).acts(2, 2).claims(1, 40, 1, 3).acts(1, 3);
    scene.checks.acted(tenure(1, 3));
    scene.is_well();
}

#[test]
fn what_a_server_writes_that_was_relieved_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.claims(1, 0, 1, 1).claims(2, 10, 2, 2).acts(1, 1);
    scene.is_found("lease", "acts in epoch 1");
    let mut scene = Scene::new(|_| {});
    scene.claims(1, 0, 1, 1).claims(2, 10, 2, 2);
    scene.checks.acted(tenure(1, 1));
    scene.is_found("lease", "acts in epoch 1");
}

#[test]
fn two_in_one_epoch_are_found() {
    let mut scene = Scene::new(|_| {});
    scene.claims(1, 0, 1, 1).acts(1, 1).claims(2, 10, 2, 1);
    scene.is_found("lease", "changes hands within epoch 1");
    scene.acts(2, 1);
    scene.is_found("lease", "both act in epoch 1");
}

#[test]
fn a_lease_that_is_taken_too_early_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.claims(1, 0, 1, 1).claims(2, 9, 2, 2);
    scene.is_found("lease", "before its time is over");
}

#[test]
fn an_epoch_that_is_passed_over_is_found() {
    let mut scene = Scene::new(|_| {});
    scene.claims(1, 0, 1, 1).claims(2, 10, 2, 3);
    scene.is_found("lease", "comes");
}
