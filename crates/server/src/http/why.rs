//! `GET /api/jobs/{id}/why`: the engine explains, over the job as it is stored and the fleet as it is now.

use std::collections::HashMap;
use std::sync::Arc;

use api::{Why, WhyNext, WhyStep};
use axum::extract::State;
use axum::response::Response;
use engine::why::{MatchView, Roster, StepWhy, WorkerView};
use engine::{Time, WorkerId};
use http::StatusCode;
use store::rows::WorkerRow;

use crate::app::App;
use crate::dispatch::{self, TagSet};

use super::error::ApiError;
use super::extract::Path;
use super::{answer, ids};

pub(super) async fn get(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let live =
        app.ledger.inspect(|roster| roster.iter().map(|(id, worker)| (id, Member::of(worker))).collect()).await?;
    let why = app.read(move |app| explain(app, &id, live)).await?;
    Ok(answer(StatusCode::OK, &why))
}

fn explain(app: &App, id: &str, live: HashMap<WorkerId, Member>) -> Result<Why, ApiError> {
    let id = ids::resolve(app, id)?;
    let stored = app.reader.job(id)?.ok_or_else(|| ids::no_such_job(&id.to_string()))?;
    let (job, _) = app.definitions.load(&stored)?;
    let fleet = Fleet::new(live, app.reader.workers()?);
    let why = engine::why::why(&job, &fleet, app.clock.now());
    Ok(Why { summary: why.summary, steps: why.steps.into_iter().map(step).collect() })
}

fn step(step: StepWhy) -> WhyStep {
    WhyStep {
        name: step.name.to_string(),
        state: step.state.into(),
        owner: Some(step.owner).filter(|_| !step.state.is_final()),
        last_sign_of_life: step.last_sign_of_life.map(Into::into),
        reason: step.reason,
        next: step.next.map(|next| WhyNext { at: next.at.into(), action: next.action }),
    }
}

/// Every worker that was not removed: those that the ledger knows as they are now, the rest as they were last.
struct Fleet {
    members: HashMap<WorkerId, Member>,
}

struct Member {
    name: String,
    host: String,
    tags: TagSet,
    connected: bool,
    takes_work: bool,
    has_room: bool,
    slots: u32,
    held: u32,
    last_seen: Option<Time>,
}

impl Member {
    fn of(worker: &dispatch::Worker) -> Member {
        Member {
            name: worker.name.clone(),
            host: worker.hostname.clone(),
            tags: worker.tags.clone(),
            connected: worker.link.is_some(),
            takes_work: worker.takes_work(),
            has_room: worker.has_room(),
            slots: worker.slots,
            held: u32::try_from(worker.held.len()).unwrap_or(u32::MAX).min(worker.slots),
            last_seen: worker.last_seen,
        }
    }

    fn away(row: WorkerRow) -> Member {
        Member {
            tags: TagSet::new(row.tags.into_iter().map(Arc::from)),
            name: row.name,
            host: row.hostname,
            connected: false,
            takes_work: false,
            has_room: false,
            slots: row.slots,
            held: 0,
            last_seen: row.last_seen_at,
        }
    }
}

impl Fleet {
    fn new(mut live: HashMap<WorkerId, Member>, rows: Vec<WorkerRow>) -> Fleet {
        let here = rows.into_iter().filter(|row| row.removed_at.is_none());
        let members = here.map(|row| {
            let id = row.id;
            // The ledger knows some only by what they hold; without a link the row says more.
            let member = match live.remove(&id).filter(|member| member.connected) {
                Some(mut member) => {
                    member.last_seen = member.last_seen.max(row.last_seen_at);
                    member
                }
                None => Member::away(row),
            };
            (id, member)
        });
        Fleet { members: members.collect() }
    }
}

impl Roster for Fleet {
    fn worker(&self, id: WorkerId) -> Option<WorkerView> {
        let member = self.members.get(&id)?;
        Some(WorkerView {
            name: member.name.clone(),
            host: member.host.clone(),
            connected: member.connected,
            last_seen: member.last_seen,
        })
    }

    fn matching(&self, tags: &[Arc<str>]) -> MatchView {
        let wanted = TagSet::new(tags.iter().cloned());
        let mut view = MatchView::default();
        for member in self.members.values() {
            let fits = member.tags.contains_all(&wanted);
            view.connected += u32::from(member.takes_work);
            view.away += u32::from(fits && !member.takes_work);
            if fits && member.takes_work {
                view.matching += 1;
                view.busy += u32::from(!member.has_room);
                view.slots += member.slots;
                view.slots_taken += member.held;
            }
        }
        let known = |tag: &str| self.members.values().any(|member| member.tags.iter().any(|has| has == tag));
        view.missing = tags.iter().filter(|tag| !known(tag)).cloned().collect();
        view
    }
}
