//! What a batch says of workers: who came, who was heard from, who is gone.

use rusqlite::{Transaction, params};
use store::Batch;

use crate::commit::{Failure, refused};
use crate::sql;
use crate::values::{signed, tags_text};

pub(crate) fn said_hello(tx: &Transaction<'_>, batch: &Batch) -> Result<(), Failure> {
    let mut update = tx.prepare_cached(sql::WORKER_HELLO)?;
    for hello in &batch.hellos {
        let updated = update.execute(params![
            hello.id.0.as_bytes(),
            hello.name,
            tags_text(&hello.tags),
            hello.slots,
            hello.kind,
            hello.session.as_bytes(),
            hello.boot_id,
            hello.state_id.as_bytes(),
            hello.machine,
            hello.version,
            hello.platform,
            hello.hostname,
            hello.pid,
            hello.started_at.0,
            batch.now.0,
            signed(hello.epoch.0)?,
            hello.no_reconnect,
        ])?;
        if updated == 0 {
            return Err(refused(format!("there is no worker {} with an epoch below {}", hello.id, hello.epoch.0)));
        }
    }
    Ok(())
}

pub(crate) fn seen(tx: &Transaction<'_>, batch: &Batch) -> Result<(), Failure> {
    let mut touch = tx.prepare_cached(sql::WORKER_SEEN)?;
    for (worker, at) in &batch.seen {
        touch.execute(params![worker.0.as_bytes(), at.0])?;
    }
    Ok(())
}

pub(crate) fn used_epochs(tx: &Transaction<'_>, batch: &Batch) -> Result<(), Failure> {
    let mut update = tx.prepare_cached(sql::WORKER_USED_EPOCH)?;
    for (worker, epoch) in &batch.used_epochs {
        update.execute(params![worker.0.as_bytes(), signed(epoch.0)?])?;
    }
    Ok(())
}

pub(crate) fn left(tx: &Transaction<'_>, batch: &Batch) -> Result<(), Failure> {
    let mut leave = tx.prepare_cached(sql::WORKER_LEFT)?;
    for (worker, heard) in &batch.left {
        leave.execute(params![worker.0.as_bytes(), heard.0])?;
    }
    Ok(())
}
