//! Who may talk to the server. Only hashes of tokens are stored; a token's text is shown once, when it is made.
//!
//! There are three kinds, and none is good for another's door: API tokens (`bwl_api_…`, in the table of tokens), enroll
//! tokens (`bwl_enroll_…`, there too), and workers' credentials (`bwl_worker_…`, on the worker's row).
//! Called by the HTTP guard, by the workers' link, and once at the start for `admin.token`.

mod admin;
mod known;
mod secret;
mod secrets;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::{Role, TokenKind};
use engine::{Time, WorkerId};
use store::rows::{NewWorker, TokenRow, WorkerRow};
use store::{Enrolled, Reader, StoreError};
use uuid::Uuid;

use crate::clock::Clock;
use crate::ledger::{Ledger, LedgerDown};

pub use admin::{AdminTokenError, FILE_NAME as ADMIN_TOKEN_FILE};
use known::Known;
use secret::Secret;
pub use secrets::{Listed, NoSecrets, OWN_KEY, Place, STORED_MAX, SealError, SecretError, SecretSource, Secrets};

pub struct Access {
    ledger: Ledger,
    reader: Arc<dyn Reader>,
    clock: Arc<Clock>,
    shared: bool,
    known: Mutex<Known>,
}

/// Someone with a good API token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub token: Uuid,
    pub role: Role,
    /// How history names them.
    pub name: Arc<str>,
}

#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// Unknown, expired, revoked, used up, or of another kind. One answer for all: a stranger learns nothing.
    #[error("the token is not valid here")]
    Denied,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Ledger(#[from] LedgerDown),
    #[error("the system gave no random bytes: {0}")]
    NoChance(#[from] getrandom::Error),
    #[error("the look-up of a token did not end: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

impl AccessError {
    /// Nothing is wrong with the token: the database cannot be asked at the moment.
    pub fn is_away(&self) -> bool {
        match self {
            AccessError::Store(error) => matches!(error, StoreError::Unavailable { .. }),
            AccessError::Ledger(down) => matches!(down, LedgerDown::Away(_) | LedgerDown::WentAway(_)),
            AccessError::Denied | AccessError::NoChance(_) | AccessError::Broken(_) => false,
        }
    }
}

/// What is wanted of a new token.
#[derive(Debug, Clone)]
pub struct NewToken {
    pub kind: TokenKind,
    pub role: Role,
    pub name: String,
    pub uses: Option<u32>,
    /// Of an enroll token: the tags that its workers may have. Empty: any.
    pub tags: Vec<String>,
    pub expires_at: Option<Time>,
}

/// A token that was just made, with the text that is never seen again.
#[derive(Debug)]
pub struct Created {
    pub row: TokenRow,
    pub text: String,
}

/// A worker that was just made.
#[derive(Debug)]
pub struct NewcomerCredential {
    pub worker: WorkerId,
    pub text: String,
}

/// Where several servers share the tokens: how long after one was revoked at another it may still be taken here.
const REVOKED_ELSEWHERE_WITHIN: Duration = Duration::from_secs(1);

impl Access {
    /// `shared`: other servers may revoke tokens, too.
    pub fn new(ledger: Ledger, reader: Arc<dyn Reader>, clock: Arc<Clock>, shared: bool) -> Access {
        Access { ledger, reader, clock, shared, known: Mutex::default() }
    }

    /// Whose API token this is.
    pub async fn caller(&self, token: &str) -> Result<Caller, AccessError> {
        let row = self.valid(&secret::hash(token), TokenKind::Api).await?;
        let name = if row.name.is_empty() { format!("token {}", row.id) } else { row.name.clone() };
        // A role that this build does not know may do no more than look.
        let role = Role::from_word(&row.role).unwrap_or(Role::Viewer);
        Ok(Caller { token: row.id, role, name: name.into() })
    }

    /// Which worker's credential this is.
    ///
    /// Also that of one which was deleted for its absence: it is good for one thing, to be told so.
    pub async fn worker(&self, credential: &str) -> Result<WorkerId, AccessError> {
        let (reader, hash) = (self.reader.clone(), secret::hash(credential));
        let find = move || match reader.worker_by_credential(&hash)? {
            Some(row) => Ok(Some(row.id)),
            None => reader.departed_by_credential(&hash),
        };
        tokio::task::spawn_blocking(find).await??.ok_or(AccessError::Denied)
    }

    /// The worker whose credential this is, if it is one of the roster.
    pub async fn member(&self, credential: &str) -> Result<WorkerRow, AccessError> {
        let (reader, hash) = (self.reader.clone(), secret::hash(credential));
        let found = tokio::task::spawn_blocking(move || reader.worker_by_credential(&hash)).await??;
        found.ok_or(AccessError::Denied)
    }

    /// Spends one use of an enroll token and makes a worker with a credential of its own.
    pub async fn enroll(&self, token: &str, name: String, state_id: Uuid) -> Result<NewcomerCredential, AccessError> {
        let token_hash = secret::hash(token);
        // Looked up first, so that strangers never reach the writer; the writer decides for good.
        self.valid(&token_hash, TokenKind::Enroll).await?;
        let credential = Secret::new("bwl_worker")?;
        let worker = NewWorker {
            id: WorkerId(secret::uuid(self.clock.now())?),
            name,
            credential_hash: credential.hash,
            state_id,
        };
        let id = worker.id;
        match self.ledger.with_store(move |store, now| store.enroll(&token_hash, &worker, now)).await?? {
            Enrolled::Yes => Ok(NewcomerCredential { worker: id, text: credential.text }),
            Enrolled::Refused => Err(AccessError::Denied),
        }
    }

    pub async fn create(&self, new: NewToken) -> Result<Created, AccessError> {
        let prefix = match new.kind {
            TokenKind::Api => "bwl_api",
            TokenKind::Enroll => "bwl_enroll",
        };
        let secret = Secret::new(prefix)?;
        let row = self.put(new, secret.hash).await?;
        Ok(Created { row, text: secret.text })
    }

    /// Whether there was such a token that was still good.
    pub async fn revoke(&self, id: Uuid) -> Result<bool, AccessError> {
        let revoked = self.ledger.with_store(move |store, now| store.revoke_token(id, now)).await??;
        self.known().forget();
        Ok(revoked)
    }

    async fn put(&self, new: NewToken, hash: [u8; 32]) -> Result<TokenRow, AccessError> {
        let row = TokenRow {
            id: secret::uuid(self.clock.now())?,
            kind: new.kind.word().to_owned(),
            role: new.role.word().to_owned(),
            name: new.name,
            hash,
            tags: new.tags,
            uses_left: new.uses,
            created_at: self.clock.now(),
            expires_at: new.expires_at,
            revoked_at: None,
        };
        let stored = row.clone();
        self.ledger.with_store(move |store, _| store.put_token(&stored)).await??;
        Ok(row)
    }

    async fn valid(&self, hash: &[u8; 32], kind: TokenKind) -> Result<Arc<TokenRow>, AccessError> {
        let row = self.find(hash).await?.ok_or(AccessError::Denied)?;
        let now = self.clock.now();
        let good = row.kind == kind.word()
            && row.revoked_at.is_none()
            && row.expires_at.is_none_or(|at| now < at)
            && row.uses_left != Some(0);
        if good { Ok(row) } else { Err(AccessError::Denied) }
    }

    async fn find(&self, hash: &[u8; 32]) -> Result<Option<Arc<TokenRow>>, AccessError> {
        let now = self.clock.now();
        let ticket = {
            let mut known = self.known();
            if self.shared {
                known.forget_after(REVOKED_ELSEWHERE_WITHIN, now);
            }
            match known.get(hash) {
                Ok(row) => return Ok(Some(row)),
                Err(ticket) => ticket,
            }
        };
        let (reader, hash) = (self.reader.clone(), *hash);
        let row = tokio::task::spawn_blocking(move || reader.token_by_hash(&hash)).await??.map(Arc::new);
        if let Some(row) = row.as_ref().filter(|row| row.uses_left.is_none()) {
            self.known().remember(ticket, hash, row.clone());
        }
        Ok(row)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        // A panic while it was held cannot have left it half-changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
