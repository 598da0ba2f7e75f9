//! What a batch says of workers: an operator's word, who came, who was heard from, who is gone.

use std::sync::Arc;

use engine::{Epoch, Time, WorkerId};
use store::rows::{FleetChange, NewWorker, WorkerHello, WorkerRow};
use store::{Batch, Enrolled, StoreError};

use crate::tables::{Tables, WorkerRecord, countable, refused};

pub(crate) fn write(tables: &mut Tables, batch: &Batch) -> Result<(), StoreError> {
    for change in &batch.fleet {
        match *change {
            FleetChange::Drain { worker, on } => {
                update(tables, worker, |row| Some(WorkerRow { draining: on, ..row.clone() }));
            }
            // The first removal stays.
            FleetChange::Remove { worker, at } => {
                update(tables, worker, |row| {
                    row.removed_at.is_none().then(|| WorkerRow { removed_at: Some(at), ..row.clone() })
                });
            }
        }
    }
    for hello in &batch.hellos {
        said_hello(tables, hello, batch.now)?;
    }
    for (worker, at) in &batch.seen {
        update(tables, *worker, |row| {
            row.last_seen_at.is_none_or(|last| last < *at).then(|| WorkerRow { last_seen_at: Some(*at), ..row.clone() })
        });
    }
    for (worker, epoch, heard) in &batch.left {
        countable(epoch.0)?;
        update(tables, *worker, |row| {
            (row.epoch == *epoch).then(|| WorkerRow { left_heard: Some(*heard), ..row.clone() })
        });
    }
    for (worker, epoch, unwilling) in &batch.unwilling {
        countable(epoch.0)?;
        update(tables, *worker, |row| {
            (row.epoch == *epoch).then(|| WorkerRow { unwilling: *unwilling, ..row.clone() })
        });
    }
    for (worker, epoch) in &batch.used_epochs {
        countable(epoch.0)?;
        update(tables, *worker, |row| {
            (row.used_epoch < *epoch).then(|| WorkerRow { used_epoch: *epoch, ..row.clone() })
        });
    }
    Ok(())
}

fn said_hello(tables: &mut Tables, hello: &WorkerHello, now: Time) -> Result<(), StoreError> {
    countable(hello.epoch.0)?;
    let greeted = update(tables, hello.id, |row| {
        (row.epoch < hello.epoch).then(|| WorkerRow {
            id: row.id,
            name: hello.name.clone(),
            epoch: hello.epoch,
            used_epoch: row.used_epoch,
            draining: row.draining,
            kind: hello.kind.to_owned(),
            tags: hello.tags.clone(),
            slots: hello.slots,
            session: Some(hello.session),
            boot_id: hello.boot_id.clone(),
            state_id: hello.state_id,
            machine: hello.machine.clone(),
            version: hello.version.clone(),
            platform: hello.platform.clone(),
            hostname: hello.hostname.clone(),
            pid: hello.pid,
            created_at: row.created_at,
            started_at: Some(hello.started_at),
            last_seen_at: Some(now),
            left_heard: None,
            removed_at: row.removed_at,
            allowed_tags: row.allowed_tags.clone(),
            server: Some(hello.server),
            unwilling: hello.unwilling,
            features: hello.features.clone(),
            unread: hello.unread,
            after_loss: hello.after_loss,
        })
    });
    if !greeted {
        let WorkerHello { id, epoch, .. } = hello;
        if tables.workers.contains(id) {
            let message = format!("worker {id} has a link with epoch {} already, or a later one", epoch.0);
            return Err(StoreError::Moved { message });
        }
        return Err(refused(format!("there is no worker {id}")));
    }
    Ok(())
}

/// Spends one use of the token and makes the worker.
pub(crate) fn enroll(
    tables: &mut Tables,
    token_hash: &[u8; 32],
    worker: &NewWorker,
    now: Time,
) -> Result<Enrolled, StoreError> {
    let id = tables.tokens.index().get(token_hash).copied();
    let token = id.and_then(|id| tables.tokens.get(&id)).filter(|token| {
        token.kind == "enroll"
            && token.revoked_at.is_none()
            && token.expires_at.is_none_or(|at| at > now)
            && token.uses_left.is_none_or(|left| left > 0)
    });
    let Some(mut token) = token.cloned() else {
        return Ok(Enrolled::Refused);
    };
    let credential_hash = worker.credential_hash;
    if tables.workers.contains(&worker.id) || tables.workers.index().credential.contains_key(&credential_hash) {
        return Err(refused(format!("there is a worker {} or one with its credential", worker.id)));
    }
    token.uses_left = token.uses_left.map(|left| left - 1);
    let row = Arc::new(fresh(worker, now, token.tags.clone()));
    tables.tokens.put(token.id, token);
    tables.workers.put(worker.id, WorkerRecord { row, credential_hash });
    Ok(Enrolled::Yes)
}

/// A worker that has not said hello yet.
fn fresh(worker: &NewWorker, now: Time, allowed_tags: Vec<String>) -> WorkerRow {
    WorkerRow {
        id: worker.id,
        name: worker.name.clone(),
        epoch: Epoch(0),
        used_epoch: Epoch(0),
        draining: false,
        kind: "static".to_owned(),
        tags: Vec::new(),
        slots: 0,
        session: None,
        boot_id: String::new(),
        state_id: worker.state_id,
        machine: String::new(),
        version: String::new(),
        platform: String::new(),
        hostname: String::new(),
        pid: 0,
        created_at: now,
        started_at: None,
        last_seen_at: None,
        left_heard: None,
        removed_at: None,
        allowed_tags,
        server: None,
        unwilling: false,
        features: Vec::new(),
        unread: false,
        after_loss: None,
    }
}

fn update(tables: &mut Tables, worker: WorkerId, change: impl FnOnce(&WorkerRow) -> Option<WorkerRow>) -> bool {
    tables.workers.update(&worker, |record| {
        change(&record.row).map(|row| WorkerRecord { row: Arc::new(row), credential_hash: record.credential_hash })
    })
}
