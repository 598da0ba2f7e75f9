//! Carries words to the outside: one HTTP request for each try, signed, or one mail, and never longer than a try may take. What became of
//! it goes back to the ledger, which decides what follows.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use reqwest::redirect::Policy;
use sha2::Sha256;
use spec::config::server::Mail;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::access::{OWN_KEY, Secrets};
use crate::app::stopped;
use crate::ledger::{Command, Delivered, Ledger, Letter, Parcel, TRY_WITHIN};
use crate::sendmail;

/// So much of an answer is worth telling.
const ANSWER_CHARS_MAX: usize = 200;
/// Of which so much is read at all.
const ANSWER_BYTES_MAX: usize = 4096;

/// Runs until the server stops. What is under way then is tried again by whoever comes next.
pub async fn run(
    mut parcels: mpsc::UnboundedReceiver<Parcel>,
    ledger: Ledger,
    secrets: Arc<Secrets>,
    mail: Mail,
    mut shutdown: watch::Receiver<bool>,
) {
    let courier = match Courier::new(secrets, mail) {
        Ok(courier) => Arc::new(courier),
        Err(error) => {
            tracing::error!(%error, "nothing can be sent to the outside; it waits until a server can");
            return;
        }
    };
    let mut under_way = JoinSet::new();
    loop {
        tokio::select! {
            parcel = parcels.recv() => {
                let Some(parcel) = parcel else { return };
                let courier = courier.clone();
                under_way.spawn(async move { courier.deliver(parcel).await });
            }
            Some(done) = under_way.join_next() => match done {
                Ok(delivered) => {
                    if ledger.send(Command::Delivered(delivered)).await.is_err() {
                        return;
                    }
                }
                Err(error) => tracing::error!(%error, "a delivery broke off; it is tried again when its time is over"),
            },
            () = stopped(&mut shutdown) => return,
        }
    }
}

struct Courier {
    client: reqwest::Client,
    secrets: Arc<Secrets>,
    mail: Mail,
}

impl Courier {
    fn new(secrets: Arc<Secrets>, mail: Mail) -> Result<Courier, reqwest::Error> {
        let client = reqwest::Client::builder()
            .timeout(TRY_WITHIN)
            // Whoever moved says so to whoever wrote the task: a signed word goes only where it was meant to.
            .redirect(Policy::none())
            .user_agent(concat!("bowline/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Courier { client, secrets, mail })
    }

    async fn deliver(&self, parcel: Parcel) -> Delivered {
        let outcome = self.send(&parcel).await;
        Delivered { id: parcel.id, tries: parcel.tries, outcome }
    }

    async fn send(&self, parcel: &Parcel) -> Result<(), String> {
        let Letter { url, secret, on, text, mail } = &parcel.letter;
        if let Some(envelope) = mail {
            return sendmail::send(&self.mail, parcel.id, envelope, text).await;
        }
        let name = secret.as_deref().unwrap_or(OWN_KEY);
        let key = self.secrets.get(name).map_err(|error| format!("{error}; {}", error.hint()))?;
        let id = parcel.id.to_string();
        let request = self
            .client
            .post(url)
            .header("content-type", "application/json")
            .header("idempotency-key", &id)
            .header("x-bowline-delivery", &id)
            .header("x-bowline-event", on)
            .header("x-bowline-signature", signature(&key, text.as_bytes()))
            .body(text.clone());
        let mut answer = request.send().await.map_err(|error| in_one_line(&error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        // Whoever answers may do so without end.
        let mut said = Vec::new();
        while said.len() < ANSWER_BYTES_MAX
            && let Ok(Some(piece)) = answer.chunk().await
        {
            said.extend_from_slice(&piece[..piece.len().min(ANSWER_BYTES_MAX)]);
        }
        let said: String = String::from_utf8_lossy(&said).trim().chars().take(ANSWER_CHARS_MAX).collect();
        Err(if said.is_empty() { format!("it answered {status}") } else { format!("it answered {status}: {said}") })
    }
}

/// How a body is signed, out and in.
pub fn signature(key: &[u8], body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length of key will do");
    mac.update(body);
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

/// The whole chain of causes: the outermost alone says only that something went wrong.
fn in_one_line(error: &reqwest::Error) -> String {
    let mut line = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        line = format!("{line}: {inner}");
        cause = inner.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 4231, test case 2.
    #[test]
    fn a_signature_is_hmac_sha256() {
        let signed = signature(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(signed, "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
