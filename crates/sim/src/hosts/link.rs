//! A worker's link: which server is tried when, and what comes over it.

use std::time::Duration;

use protocol::link::{ServerMessage, decode_text};
use worker::agent::Input;
use worker::link::{Setback, Then, probe_interval};

use super::{LOCAL, Link, WorkerEvent};
use crate::net::{CONNECT_TIMEOUT, ConnId, Parcel, Way};
use crate::servers::ServerEvent;
use crate::world::{Event, World};

impl World {
    pub(super) fn connect(&mut self, at: usize) {
        let servers = self.servers.len();
        let Some(process) = &mut self.hosts[at].process else { return };
        // Each host has the servers in an order of its own.
        let server = (at + process.search.next_server()) % servers;
        process.plan += 1;
        let life = process.life;
        let cut = [Way::ToServer, Way::ToHost].into_iter().any(|way| self.net.is_cut(server, at, way));
        let up = self.servers[server].process.as_ref().map(|process| process.life);
        let server_life = match up.filter(|_| !cut) {
            Some(life) if self.is_enrolled(server, at) => life,
            Some(_) => return self.fail_to_connect(at, 2 * LOCAL, Setback::Unauthorized),
            None if cut => return self.fail_to_connect(at, CONNECT_TIMEOUT, Setback::Unreachable),
            None => return self.fail_to_connect(at, 2 * LOCAL, Setback::Unreachable),
        };
        let conn = self.net.open(server, server_life, at, life);
        if let Some(process) = &mut self.hosts[at].process {
            process.link = Link::Connecting(conn);
        }
        let knock = Event::Server { server, life: server_life, what: ServerEvent::Knock(conn) };
        self.agenda.after(2 * LOCAL, knock);
        let silent = WorkerEvent::ConnectFailed { conn: Some(conn), setback: Setback::Refused };
        self.later_at_worker(at, CONNECT_TIMEOUT, silent);
    }

    fn fail_to_connect(&mut self, at: usize, after: Duration, setback: Setback) {
        if let Some(process) = &mut self.hosts[at].process {
            process.link = Link::Down;
        }
        self.later_at_worker(at, after, WorkerEvent::ConnectFailed { conn: None, setback });
    }

    pub(super) fn connect_later(&mut self, at: usize, setback: Setback) {
        let host = &mut self.hosts[at];
        let jitter = host.dice.fraction();
        let first_probe = probe_interval(host.dice.fraction());
        let Some(process) = &mut host.process else { return };
        process.link = Link::Down;
        process.plan += 1;
        let plan = process.plan;
        let Then::TryAfter { delay, probe } = process.search.after(setback, jitter) else {
            // Whoever had a link ends by its agent's word; who never got one has nothing to end.
            if setback == Setback::Unauthorized {
                self.enrolment_is_gone(at);
            }
            if setback != Setback::Lost {
                self.worker_gives_up(at);
            }
            return;
        };
        self.later_at_worker(at, delay, WorkerEvent::Connect { plan });
        if probe && first_probe < delay {
            self.later_at_worker(at, first_probe, WorkerEvent::Probe { plan });
        }
    }

    /// Whether some server can be reached again before the delay is over.
    pub(super) fn probe(&mut self, at: usize) {
        let reachable = (0..self.servers.len()).any(|server| {
            let cut = [Way::ToServer, Way::ToHost].into_iter().any(|way| self.net.is_cut(server, at, way));
            !cut && self.servers[server].process.is_some()
        });
        let pause = probe_interval(self.hosts[at].dice.fraction());
        let Some(process) = &self.hosts[at].process else { return };
        let plan = process.plan;
        if reachable {
            self.connect(at);
        } else {
            self.later_at_worker(at, pause, WorkerEvent::Probe { plan });
        }
    }

    pub(super) fn take_parcel(&mut self, at: usize, conn: ConnId, parcel: Parcel) {
        let Some(process) = &mut self.hosts[at].process else { return };
        match (process.link, parcel) {
            (Link::Connecting(waits_for), Parcel::Accepted) if waits_for == conn => {
                process.link = Link::Up(conn);
                process.shipper.stop_all();
                self.net.establish(conn);
                self.feed(at, Input::LinkUp);
            }
            (Link::Connecting(waits_for), Parcel::End) if waits_for == conn => {
                self.net.forget(conn);
                self.connect_later(at, Setback::Refused);
            }
            (Link::Up(up), Parcel::Text(text)) if up == conn => {
                let messages: Vec<ServerMessage> = match decode_text(&text) {
                    Ok(messages) => messages,
                    Err(error) => panic!("a server sent what no worker understands: {error}\n{text}"),
                };
                messages.iter().for_each(|message| process.search.heard(message));
                self.feed(at, Input::Frame(messages));
            }
            (_, Parcel::End) => {
                self.send(conn, Way::ToServer, Parcel::End);
                self.link_down(at, conn);
                self.net.forget(conn);
            }
            _ => {}
        }
    }

    pub(super) fn link_down(&mut self, at: usize, conn: ConnId) {
        let Some(process) = &mut self.hosts[at].process else { return };
        if process.link != Link::Up(conn) {
            return;
        }
        process.link = Link::Down;
        process.shipper.stop_all();
        self.feed(at, Input::LinkDown);
        self.connect_later(at, Setback::Lost);
    }
}
