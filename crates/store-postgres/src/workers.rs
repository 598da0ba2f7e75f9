//! What a batch says of workers: who came, who was heard from, who is gone.

use std::collections::BTreeMap;

use engine::{Epoch, Heard, Time, WorkerId};
use store::rows::{FleetChange, WorkerHello};
use store::{Batch, StoreError};

use crate::commit::Writes;
use crate::hold::Held;
use crate::session::{Failure, refused};
use crate::sql;
use crate::values::{column, counted, param, signed, tags_text, text};

/// What is said of one worker more than once comes to one row here, as if each had been written after the other.
pub(crate) fn write<'a>(writes: &mut Writes<'a>, batch: &'a Batch) -> Result<(), StoreError> {
    fleet(writes, batch);
    hellos(writes, batch)?;
    let mut seen: BTreeMap<WorkerId, Time> = BTreeMap::new();
    for (worker, at) in &batch.seen {
        let last = seen.entry(*worker).or_insert(*at);
        *last = (*last).max(*at);
    }
    let seen: Vec<_> = seen.into_iter().collect();
    writes.train.add_if(!seen.is_empty(), sql::WORKER_SEEN, || {
        vec![column(&seen, |(worker, _)| worker.0), column(&seen, |(_, at)| at.0)]
    });

    let left: BTreeMap<(WorkerId, Epoch), Heard> =
        batch.left.iter().map(|(worker, epoch, heard)| ((*worker, *epoch), *heard)).collect();
    let left: Vec<_> = left.into_iter().collect();
    let epochs = counted(&left, |((_, epoch), _)| signed(epoch.0))?;
    writes.train.add_if(!left.is_empty(), sql::WORKER_LEFT, || {
        vec![column(&left, |((worker, _), _)| worker.0), epochs, column(&left, |(_, heard)| heard.0)]
    });

    let unwilling: BTreeMap<(WorkerId, Epoch), bool> =
        batch.unwilling.iter().map(|(worker, epoch, unwilling)| ((*worker, *epoch), *unwilling)).collect();
    let unwilling: Vec<_> = unwilling.into_iter().collect();
    let epochs = counted(&unwilling, |((_, epoch), _)| signed(epoch.0))?;
    writes.train.add_if(!unwilling.is_empty(), sql::WORKER_UNWILLING, || {
        vec![column(&unwilling, |((worker, _), _)| worker.0), epochs, column(&unwilling, |(_, unwilling)| *unwilling)]
    });

    let mut used: BTreeMap<WorkerId, Epoch> = BTreeMap::new();
    for (worker, epoch) in &batch.used_epochs {
        let highest = used.entry(*worker).or_insert(*epoch);
        *highest = (*highest).max(*epoch);
    }
    let used: Vec<_> = used.into_iter().collect();
    let epochs = counted(&used, |(_, epoch)| signed(epoch.0))?;
    writes
        .train
        .add_if(!used.is_empty(), sql::WORKER_USED_EPOCH, || vec![column(&used, |(worker, _)| worker.0), epochs]);
    Ok(())
}

fn fleet(writes: &mut Writes<'_>, batch: &Batch) {
    let (mut drained, mut removed) = (BTreeMap::new(), BTreeMap::new());
    for change in &batch.fleet {
        match *change {
            FleetChange::Drain { worker, on } => {
                drained.insert(worker, on);
            }
            FleetChange::Remove { worker, at } => {
                removed.entry(worker).or_insert(at);
            }
        }
    }
    let drained: Vec<_> = drained.into_iter().collect();
    writes.train.add_if(!drained.is_empty(), sql::DRAIN_WORKER, || {
        vec![column(&drained, |(worker, _)| worker.0), column(&drained, |(_, on)| *on)]
    });
    let removed: Vec<_> = removed.into_iter().collect();
    writes.train.add_if(!removed.is_empty(), sql::REMOVE_WORKER, || {
        vec![column(&removed, |(worker, _)| worker.0), column(&removed, |(_, at)| at.0)]
    });
}

/// Each replaces all that the one before it said.
fn hellos<'a>(writes: &mut Writes<'a>, batch: &'a Batch) -> Result<(), StoreError> {
    let rows: BTreeMap<WorkerId, &WorkerHello> = batch.hellos.iter().map(|hello| (hello.id, hello)).collect();
    let rows: Vec<_> = rows.into_values().collect();
    if rows.is_empty() {
        return Ok(());
    }
    let params = vec![
        column(&rows, |hello| hello.id.0),
        counted(&rows, |hello| signed(hello.epoch.0))?,
        column(&rows, |hello| text(&hello.name)),
        column(&rows, |hello| tags_text(&hello.tags)),
        column(&rows, |hello| i64::from(hello.slots)),
        column(&rows, |hello| text(hello.kind)),
        column(&rows, |hello| hello.session),
        column(&rows, |hello| text(&hello.boot_id)),
        column(&rows, |hello| hello.state_id),
        column(&rows, |hello| text(&hello.machine)),
        column(&rows, |hello| text(&hello.version)),
        column(&rows, |hello| text(&hello.platform)),
        column(&rows, |hello| text(&hello.hostname)),
        column(&rows, |hello| i64::from(hello.pid)),
        column(&rows, |hello| hello.started_at.0),
        column(&rows, |hello| hello.no_reconnect),
        column(&rows, |hello| hello.server.0),
        column(&rows, |hello| hello.unwilling),
        column(&rows, |hello| tags_text(&hello.features)),
        column(&rows, |hello| hello.unread),
        column(&rows, |hello| hello.after_loss.map(u64::cast_signed)),
        param(batch.now.0),
    ];
    writes.train.add(sql::WORKER_HELLO, params);
    Ok(())
}

/// Whether each has an epoch above all that its worker had. The rows are locked: what they say stays true.
pub(crate) fn greet(batch: &Batch, held: &Held) -> Result<(), Failure> {
    let mut given: BTreeMap<WorkerId, u64> = BTreeMap::new();
    for hello in &batch.hellos {
        let Some(last) = given.get(&hello.id).or(held.epochs.get(&hello.id)) else {
            return Err(refused(format!("there is no worker {}", hello.id)));
        };
        if hello.epoch.0 <= *last {
            let message =
                format!("worker {} has a link with epoch {} already, or a later one", hello.id, hello.epoch.0);
            return Err(Failure::Store(StoreError::Moved { message }));
        }
        given.insert(hello.id, hello.epoch.0);
    }
    Ok(())
}
