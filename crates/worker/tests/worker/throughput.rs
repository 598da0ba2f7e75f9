//! How many trivial steps one worker gets through. Not a test of right or wrong; run it with
//! `cargo build -p worker --release --examples`, then
//! `cargo test -p worker --release --test worker -- --ignored --nocapture throughput`.

use std::time::Instant;

use protocol::link::{ServerMessage, WorkerMessage};

use crate::kit::{Stage, Worker, command, ticket};

const STEPS: u64 = 4000;
const SLOTS: u32 = 8;

#[tokio::test]
#[ignore = "a measurement"]
async fn throughput() {
    let stage = Stage::new().await;
    let mut options = stage.options();
    options.slots = SLOTS;
    let _worker = Worker::start(options);
    let mut peer = stage.welcomed().await;
    let started = Instant::now();
    let mut offered = 0;
    let mut ended = 0;
    while offered < u64::from(SLOTS) {
        offered += 1;
        peer.offer(command(offered, "/bin/true")).await;
    }
    while ended < STEPS {
        let message = peer.expect("accept or ended", Some).await;
        match message {
            WorkerMessage::Accept { ticket } => peer.go(ticket.fence).await,
            WorkerMessage::Ended { ticket: about, .. } => {
                ended += 1;
                let mut answer = vec![ServerMessage::Forget { number: peer.number(), ticket: about }];
                if offered < STEPS {
                    offered += 1;
                    let spec = Box::new(command(offered, "/bin/true"));
                    assert_eq!(spec.ticket, ticket(offered));
                    answer.push(ServerMessage::Offer { number: peer.number(), spec });
                }
                peer.send(&answer).await;
            }
            _ => {}
        }
    }
    let rate = STEPS as f64 / started.elapsed().as_secs_f64();
    println!("{STEPS} steps through {SLOTS} slots: {rate:.0} per second");
}
