//! Which jobs may go.

use engine::{JobId, Time};
use planted::Bug;
use store::OldJob;

use super::Kept;

/// Why a family of jobs stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// One of it is not over.
    Open,
    /// One of it ended, or was heard of, too short ago.
    Young,
    /// A job that goes on for one of it is not over.
    CarriedOn,
    /// The job that one of it goes on for is still on record: the older one goes first.
    Continues,
    /// An attempt was given up without proof that nothing of it runs.
    InDoubt,
    /// Lines of a log are waited for.
    LogOpen,
    /// Somebody outside is still to hear of it.
    Undelivered,
    /// A worker that is connected has something of it.
    InHand,
}

pub(super) fn count(kept: &mut Kept, keep: Keep, jobs: usize) {
    let jobs = jobs as u64;
    match keep {
        // Not old enough is no reason to speak of.
        Keep::Young => {}
        Keep::Open | Keep::CarriedOn | Keep::Continues => kept.needed += jobs,
        Keep::InDoubt => kept.in_doubt += jobs,
        Keep::LogOpen | Keep::Undelivered | Keep::InHand => kept.under_way += jobs,
    }
}

/// What a judgement wants to know besides the rows.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// What ended from then on is too young.
    pub before: Time,
    /// Whether a connected worker has something of a job.
    pub in_hand: &'a dyn Fn(JobId) -> bool,
    /// Whether a job that is on record goes before the one that is judged.
    pub goes_first: &'a dyn Fn(JobId) -> bool,
}

/// Whether a family, all of it that is on record, may go; or why it stays.
pub fn judge(family: &[OldJob], rules: &Rules<'_>) -> Result<(), Keep> {
    family.iter().try_for_each(|job| judge_one(job, rules))
}

fn judge_one(job: &OldJob, rules: &Rules<'_>) -> Result<(), Keep> {
    let &Rules { before, in_hand, goes_first } = rules;
    let has_gone = |old: JobId| are_kin(job.id, old) || goes_first(old);
    let is_old = |at: Option<Time>| at.is_some_and(|at| at < before);
    let doubtful = job.in_doubt && !planted::is(Bug::PrunedInDoubt);
    let reasons = [
        (job.open, Keep::Open),
        (!is_old(job.ended_at) || job.last_event_at.is_some_and(|at| at >= before), Keep::Young),
        (job.carried_on, Keep::CarriedOn),
        (job.continues.is_some_and(|old| !has_gone(old)), Keep::Continues),
        (doubtful, Keep::InDoubt),
        (job.log_open, Keep::LogOpen),
        (job.undelivered, Keep::Undelivered),
        (in_hand(job.id), Keep::InHand),
    ];
    reasons.into_iter().find(|(holds, _)| *holds).map_or(Ok(()), |(_, keep)| Err(keep))
}

/// Whether two jobs that stand next to each other in the order of their ids go together.
pub(super) fn are_kin(one: JobId, other: JobId) -> bool {
    one.may_be_kin(other) && !planted::is(Bug::FamilyTornApart)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn old(n: u64) -> OldJob {
        OldJob {
            id: JobId(Uuid::from_u64_pair(1, n)),
            version: 1,
            open: false,
            ended_at: Some(Time(50)),
            last_event_at: Some(Time(60)),
            in_doubt: false,
            log_open: false,
            undelivered: false,
            continues: None,
            carried_on: false,
        }
    }

    #[test]
    fn each_reason_keeps_a_job_and_with_it_its_family() {
        let nobody = |_| false;
        let elsewhere = Some(JobId(Uuid::from_u64_pair(9, 9)));
        let cases = [
            (old(2), Ok(())),
            (OldJob { open: true, ended_at: None, ..old(2) }, Err(Keep::Open)),
            (OldJob { ended_at: Some(Time(100)), ..old(2) }, Err(Keep::Young)),
            (OldJob { last_event_at: Some(Time(100)), ..old(2) }, Err(Keep::Young)),
            (OldJob { last_event_at: None, ..old(2) }, Ok(())),
            (OldJob { carried_on: true, ..old(2) }, Err(Keep::CarriedOn)),
            (OldJob { continues: elsewhere, ..old(2) }, Err(Keep::Continues)),
            (OldJob { continues: Some(old(1).id), ..old(2) }, Ok(())),
            (OldJob { in_doubt: true, ..old(2) }, Err(Keep::InDoubt)),
            (OldJob { log_open: true, ..old(2) }, Err(Keep::LogOpen)),
            (OldJob { undelivered: true, ..old(2) }, Err(Keep::Undelivered)),
        ];
        let rules = Rules { before: Time(100), in_hand: &nobody, goes_first: &nobody };
        for (job, expected) in cases {
            assert_eq!(judge(&[old(1), job.clone(), old(3)], &rules), expected, "{job:?}");
        }
        let then = Rules { before: Time(50), ..rules };
        assert_eq!(judge(&[old(1)], &then), Err(Keep::Young), "what ended just then is not older");
        let in_hand = Rules { in_hand: &|job| job == old(1).id, ..rules };
        assert_eq!(judge(&[old(1)], &in_hand), Err(Keep::InHand));
        let after = Rules { goes_first: &|job| Some(job) == elsewhere, ..rules };
        let next = OldJob { continues: elsewhere, ..old(2) };
        assert_eq!(judge(&[next], &after), Ok(()), "the one that it goes on for goes first");
    }

    #[test]
    fn what_stays_is_counted_by_its_reason() {
        let mut kept = Kept::default();
        for keep in [Keep::Open, Keep::Continues, Keep::CarriedOn, Keep::Young, Keep::InDoubt, Keep::LogOpen] {
            count(&mut kept, keep, 2);
        }
        assert_eq!(kept, Kept { needed: 6, in_doubt: 2, under_way: 2 });
    }
}
