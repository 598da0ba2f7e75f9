//! What nobody took: listed, and begun anew when a person says so.

use serde_json::json;
use server::ledger::{Command, Delivered, Parcel};
use store::Batch;
use store::rows::OutboxMove;

use crate::hand::Hand;
use crate::site::{HELLO, Site};

const TELLS: &str = "name: tells\nsteps:\n  a: { run: 'true' }\non_error: [ { webhook: 'http://outside/hook' } ]\n";

impl Site {
    /// Somebody took it, or did not; on record when this returns.
    async fn carried(&self, parcel: &Parcel, outcome: Result<(), String>) {
        let delivered = Delivered { id: parcel.id, tries: parcel.tries, outcome };
        self.app.ledger.send(Command::Delivered(delivered)).await.expect("the ledger runs");
        // Answered with the commit of a round that is not before that one.
        self.submit(HELLO).await;
    }

    /// As after the last of its tries.
    async fn given_up(&self, parcel: &Parcel) {
        let (id, tries) = (parcel.id, parcel.tries);
        let error = Some("it answered 500".to_owned());
        let dead = OutboxMove { id, expected: tries, tries, next_at: None, delivered_at: None, error };
        let call = move |store: &mut dyn store::Store, now| {
            store.commit(&Batch { now, outbox_moves: vec![dead], ..Batch::default() })
        };
        let committed = self.app.ledger.with_store(call).await.expect("the ledger runs").expect("a commit");
        assert!(committed.outbox_moved.is_empty(), "it stood as it was thought to");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_took_is_listed_and_begins_anew_under_its_id() {
    let site = Site::start().await;
    assert_eq!(site.get("/api/outbox").await.is(200), json!({ "items": [], "next": null }));
    let job = site.submit(TELLS).await;
    let mut hand = Hand::join(&site, "w", 1).await;
    let spec = hand.start().await;
    hand.end(&spec, 1).await;
    let first = site.parcel().await;
    assert_eq!((first.job.to_string(), first.tries), (job.clone(), 1));
    site.carried(&first, Err("nobody answers".to_owned())).await;
    assert_eq!(site.get("/api/outbox").await.is(200)["items"], json!([]), "it is tried again by itself");
    let retry = format!("/api/outbox/{}/retry", first.id);
    let waiting = site.post(&retry, &json!({})).await.is(200);
    assert_eq!((&waiting["state"], &waiting["tries"]), (&json!("waiting"), &json!(1)), "and stays as it is");

    site.given_up(&first).await;
    let dead = site.get("/api/outbox").await.is(200)["items"].clone();
    assert_eq!(dead.as_array().map(Vec::len), Some(1), "{dead}");
    let dead = &dead[0];
    assert_eq!((&dead["id"], &dead["job"]), (&json!(first.id.to_string()), &json!(job)));
    assert_eq!((&dead["state"], &dead["tries"]), (&json!("dead"), &json!(1)));
    assert_eq!((&dead["url"], &dead["error"]), (&json!("http://outside/hook"), &json!("it answered 500")));
    assert_eq!(dead["next_at"], json!(null));
    assert_eq!(site.get(&format!("/api/jobs/{job}")).await.is(200)["hooks"][0]["state"], "dead");

    let again = site.post(&retry, &json!({})).await.is(200);
    assert_eq!((&again["id"], &again["state"]), (&dead["id"], &json!("waiting")));
    let second = site.parcel().await;
    assert_eq!((second.id, second.tries, &second.letter), (first.id, 1, &first.letter), "from the beginning");
    site.carried(&second, Ok(())).await;
    assert_eq!(site.get("/api/outbox").await.is(200)["items"], json!([]));
    assert_eq!(site.post(&retry, &json!({})).await.is(200)["state"], "delivered", "and not again");
    assert_eq!(site.get(&format!("/api/jobs/{job}")).await.is(200)["hooks"][0]["state"], "delivered");
    site.post("/api/outbox/nothing/retry", &json!({})).await.is_error(404, "not_found");
    let none = format!("/api/outbox/{}/retry", uuid::Uuid::nil());
    site.post(&none, &json!({})).await.is_error(404, "not_found");
}
