//! Leases: which of several servers does what only one of them should do.
//!
//! A lease is a row that names its holder, and until when. The holder renews it with its marks; who finds it over takes it,
//! and with it the next epoch. Holder and epoch are the fence: whatever is done under a lease names them ([`Tenure`]), and is
//! compared in the same transaction. So a server that slept through the end of its lease writes nothing more under it, however
//! late it wakes.
//!
//! Its time is hearing time: nobody can renew while the database is away, and nobody loses a lease for that. A clock that was
//! set takes none away either.

use engine::Heard;
use planted::Bug;

use crate::StoreError;
use crate::rows::ServerId;

/// What one server at a time does for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lease {
    /// Triggers whose time has come.
    Cron,
    /// What is old goes.
    Retention,
    /// The part of the sweep that is about everybody.
    Sweep,
}

impl Lease {
    pub const ALL: [Lease; 3] = [Lease::Cron, Lease::Retention, Lease::Sweep];

    /// As it is stored.
    pub fn name(self) -> &'static str {
        match self {
            Lease::Cron => "cron",
            Lease::Retention => "retention",
            Lease::Sweep => "sweep",
        }
    }

    /// None for one that only a later build knows.
    pub fn by_name(name: &str) -> Option<Lease> {
        Lease::ALL.into_iter().find(|lease| lease.name() == name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseRow {
    pub lease: Lease,
    pub holder: ServerId,
    /// Grows by one with every holder, from 1 on.
    pub epoch: u64,
    /// From then on anyone may take it.
    pub until: Heard,
}

/// Who acts under a lease: as long as the row names the same holder and epoch, nobody else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenure {
    pub lease: Lease,
    pub holder: ServerId,
    pub epoch: u64,
}

/// A server wants a lease, or wants to keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    pub lease: Lease,
    pub by: ServerId,
    /// Another one's lease is taken if it is over by then. [`Claim::WHATEVER`]: it is taken in any case.
    pub at: Heard,
    /// Who gives it back names a time that has come.
    pub until: Heard,
}

impl Claim {
    pub const WHATEVER: Heard = Heard(i64::MAX);

    /// The row as this claim makes it; none where the lease is another one's, and stays so.
    pub fn decide(&self, row: Option<LeaseRow>) -> Option<LeaseRow> {
        let &Claim { lease, by: holder, at, until } = self;
        let epoch = match row {
            None => 1,
            Some(row) if row.holder == holder => row.epoch,
            Some(row) if row.until <= at && !planted::is(Bug::LeaseOutlivesHolder) => row.epoch + 1,
            Some(_) => return None,
        };
        Some(LeaseRow { lease, holder, epoch, until })
    }
}

impl LeaseRow {
    pub fn tenure(&self) -> Tenure {
        Tenure { lease: self.lease, holder: self.holder, epoch: self.epoch }
    }
}

impl Tenure {
    /// Whether the row still says so; what is done under a lease that it does not is not done.
    pub fn compare(&self, row: Option<LeaseRow>) -> Result<(), StoreError> {
        if row.is_some_and(|row| row.tenure() == *self) || planted::is(Bug::LeaseFenceIgnored) {
            return Ok(());
        }
        let (name, epoch) = (self.lease.name(), self.epoch);
        let now = row.map_or("nobody".to_owned(), |row| format!("server {} in epoch {}", row.holder.0, row.epoch));
        Err(StoreError::Moved { message: format!("the lease `{name}` of epoch {epoch} is over; {now} has it") })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn claim(by: u128, at: i64) -> Claim {
        Claim { lease: Lease::Cron, by: ServerId(Uuid::from_u128(by)), at: Heard(at), until: Heard(at + 10) }
    }

    #[test]
    fn a_lease_is_its_holders_until_it_is_over() {
        let first = claim(1, 0).decide(None).expect("nobody has it");
        assert_eq!((first.epoch, first.until), (1, Heard(10)));
        assert_eq!(claim(2, 9).decide(Some(first)), None);
        let kept = claim(1, 50).decide(Some(first)).expect("nobody else has taken it");
        assert_eq!((kept.epoch, kept.until), (1, Heard(60)), "it is the same tenure");
        let second = claim(2, 10).decide(Some(first)).expect("it is over");
        assert_eq!((second.epoch, second.until), (2, Heard(20)));
        assert_eq!(claim(1, 11).decide(Some(second)), None);
        let taken = Claim { at: Claim::WHATEVER, ..claim(1, 11) }.decide(Some(second)).expect("whoever has it");
        assert_eq!(taken.epoch, 3);
        let given_back = Claim { until: Heard(11), ..claim(2, 11) }.decide(Some(second)).expect("it is its own");
        assert_eq!(claim(1, 11).decide(Some(given_back)).map(|row| row.epoch), Some(3));
    }

    #[test]
    fn a_fence_is_holder_and_epoch() {
        let row = claim(1, 0).decide(None).expect("nobody has it");
        let tenure = row.tenure();
        assert!(tenure.compare(Some(LeaseRow { until: Heard(0), ..row })).is_ok(), "over, and nobody has taken it");
        let others = [None, Some(LeaseRow { epoch: 2, ..row }), Some(LeaseRow { holder: claim(2, 0).by, ..row })];
        for other in others {
            assert!(matches!(tenure.compare(other), Err(StoreError::Moved { .. })), "{other:?}");
        }
    }

    #[test]
    fn every_lease_has_a_name_of_its_own() {
        for lease in Lease::ALL {
            assert_eq!(Lease::by_name(lease.name()), Some(lease));
        }
        assert_eq!(Lease::by_name("tea"), None);
    }
}
