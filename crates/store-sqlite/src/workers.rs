//! What a batch says of workers: who came, who was heard from, who is gone.

use rusqlite::{Transaction, params};
use store::rows::WorkerHello;
use store::{Batch, StoreError};

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
            hello.server.0.as_bytes(),
            hello.unwilling,
            tags_text(&hello.features),
            hello.unread,
            hello.after_loss.map(u64::cast_signed),
        ])?;
        if updated == 0 {
            return Err(too_late(tx, hello)?);
        }
    }
    Ok(())
}

fn too_late(tx: &Transaction<'_>, hello: &WorkerHello) -> Result<Failure, Failure> {
    let known = tx.prepare_cached(sql::WORKER)?.exists([hello.id.0.as_bytes()])?;
    Ok(if known {
        let message = format!("worker {} has a link with epoch {} already, or a later one", hello.id, hello.epoch.0);
        Failure::Store(StoreError::Moved { message })
    } else {
        refused(format!("there is no worker {}", hello.id))
    })
}

pub(crate) fn unwilling(tx: &Transaction<'_>, batch: &Batch) -> Result<(), Failure> {
    let mut update = tx.prepare_cached(sql::WORKER_UNWILLING)?;
    for (worker, epoch, unwilling) in &batch.unwilling {
        update.execute(params![worker.0.as_bytes(), signed(epoch.0)?, unwilling])?;
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
    for (worker, epoch, heard) in &batch.left {
        leave.execute(params![worker.0.as_bytes(), signed(epoch.0)?, heard.0])?;
    }
    Ok(())
}
