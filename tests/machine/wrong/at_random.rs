//! A server that answers at random, on its socket too. No session asks it in a hot loop.

use escale::codec::{Data, Fault, OpResult, Part, Row, ServerFrame, ServerParts, SyncReply, SyncRequest};
use escale::crypto::{Random, SeededRandom};
use escale::sync::{Config, Event};
use escale::{Code, Error};

use super::mistakes::{accepted, waiting_with};
use crate::harness::{Harness, config, def, epoch, part, pk, reply, row, row_in, section};

/// Any reply that the grammar allows.
fn at_random(request: &SyncRequest, random: &mut SeededRandom) -> SyncReply {
    let mut below = |n: u64| random.below(n).expect("a number");
    let mut reply = reply(below(9_000), vec![]);
    reply.epoch = epoch(1 + below(2));
    reply.delta = below(3_000);
    reply.seq = below(20);
    for op in &request.ops {
        match below(6) {
            0 => {}
            1 => reply.results.push(accepted(op, below(9_000))),
            kind => {
                let codes = [Code::Contention, Code::OrderHeld, Code::SessionReused, Code::VersionConflict];
                let mut fault = Fault::new(codes[kind as usize - 2], "at random");
                if fault.code == "version_conflict" {
                    fault.doc = Some(row("a", below(9_000)));
                }
                reply.results.push(OpResult { id: op.id.clone(), ok: None, fault: Some(fault) });
            }
        }
    }
    for sub in &request.subs {
        let asked = if below(8) == 0 { def("Nobody") } else { sub.def.clone() };
        let mut answer = part(&asked, vec![]);
        match below(8) {
            0 => continue,
            1 if below(4) == 0 => answer.fault = Some(Fault::new(Code::Withdrawn, "at random")),
            1 => answer.fault = Some(Fault::new(Code::UnknownDef, "at random")),
            2 => answer.fault = Some(Fault::new(Code::BadCursor, "at random")),
            3 => answer.fault = Some(Fault::new(Code::ServerError, "at random")),
            4 => answer.next = Some(format!("c{}", below(3))),
            5 => answer.present = Some(vec![pk("a")]),
            6 => answer.left = vec![(pk("b"), below(9_000))],
            _ => {}
        }
        if below(30) == 0 {
            let known = row_in("a", below(9_000), "games");
            answer.rows.push(match below(3) {
                0 => known,
                1 => Row { deleted: true, data: None, ..known },
                _ => {
                    Row { data: Some(Data::from_bytes(&[0x81, 0xc1]).expect("a map, by its mark")), ..known }
                }
            });
        }
        reply.parts.push(answer);
    }
    reply
}

/// Whether a reply brings anything new: a result, a row, a departure, a later epoch, or a cursor other than the
/// one of the request.
fn brings(request: &SyncRequest, reply: &SyncReply, known: &mut u64) -> bool {
    let is_later = reply.epoch.ms() > std::mem::replace(known, (*known).max(reply.epoch.ms()));
    let is_new = |part: &Part| {
        let asked = request.subs.iter().find(|sub| sub.def == part.def).and_then(|sub| sub.cursor.as_ref());
        !part.rows.is_empty() || !part.left.is_empty() || (part.next.is_some() && part.next.as_ref() != asked)
    };
    is_later || reply.results.iter().any(OpResult::is_final) || reply.parts.iter().any(is_new)
}

/// The server does something with the socket. Returns whether that brings anything new.
fn stir(harness: &mut Harness, socket: u64, random: &mut SeededRandom, known: &mut u64) -> bool {
    let mut below = |n: u64| random.below(n).expect("a number");
    let frame = match below(7) {
        0 => {
            harness.feed(Event::SocketOpened { socket });
            return false;
        }
        1 => {
            let code = [1006, 1008, 1013, 4401, 4429, 4500][below(6) as usize];
            harness.feed(Event::SocketClosed { socket, code, reason: String::new() });
            return false;
        }
        2 => ServerFrame::Alive,
        3 => ServerFrame::confirm(vec![def("Doc")], vec![]),
        4 => ServerFrame::confirm(vec![], vec![(def("Doc"), Fault::new(Code::UnknownDef, ""))]),
        5 => ServerFrame::Hints(vec![(def("Doc"), below(9_000)), (def("Nobody"), 5)]),
        _ => {
            let rows = if below(3) == 0 { vec![row("a", below(9_000))] } else { vec![] };
            let (epoch, now) = (epoch(1 + below(2)), below(9_000));
            let parts = vec![part(&def("Doc"), rows)];
            ServerFrame::Parts(ServerParts { epoch, now, delta: below(3_000), seq: below(20), parts })
        }
    };
    let brings = match &frame {
        ServerFrame::Parts(pushed) => {
            let is_later = pushed.epoch.ms() > std::mem::replace(known, (*known).max(pushed.epoch.ms()));
            is_later || pushed.parts.iter().any(|part| !part.rows.is_empty())
        }
        _ => false,
    };
    harness.frame(socket, frame);
    brings
}

/// R12's promise to servers: ten requests in a second, and one in each later one, without progress.
#[test]
fn whatever_a_server_answers_it_is_not_asked_in_a_hot_loop() {
    let mut frames = 0;
    let seeds = escale_testkit::seeds::each(800);
    for seed in seeds.clone() {
        let mut random = SeededRandom::new(seed);
        let has_live = seed % 2 == 1;
        let mut harness = waiting_with(Config { has_live, ..config() }, 3, &["Doc", "Note"]);
        harness.subscribe(&section("games"));
        let mut socket = None;
        let (mut since, mut sent, mut known) = (harness.now, 0, 0);
        let end = harness.now + 60_000;
        while harness.now < end {
            socket = harness.opened_socket().or(socket);
            if let Some(socket) = socket.filter(|_| random.below(3).expect("a number") == 0) {
                frames += 1;
                if stir(&mut harness, socket, &mut random, &mut known) {
                    (since, sent) = (harness.now, 0);
                }
                continue;
            }
            let Some((number, request, _)) = harness.requests.pop_front() else {
                match harness.wake_at() {
                    Some(at) => harness.wake(at),
                    None => break,
                }
                continue;
            };
            sent += 1;
            let most = 10 + (harness.now - since) / 1_000;
            assert!(sent <= most, "seed {seed}: {sent} requests in {} ms", harness.now - since);
            if random.below(12).expect("a number") == 0 {
                let code = [Code::Offline, Code::UnknownOrg, Code::TooLarge, Code::TooMany, Code::Malformed]
                    [random.below(5).expect("a number") as usize];
                harness.feed(Event::Replied { number, reply: Err(Error::new(code, "at random").into()) });
                continue;
            }
            let reply = at_random(&request, &mut random);
            if brings(&request, &reply, &mut known) {
                (since, sent) = (harness.now, 0);
            }
            harness.answer(number, reply);
        }
    }
    let is_one = seeds.end - seeds.start == 1;
    assert!(is_one || frames > seeds.end - seeds.start, "only {frames} frames of sockets");
}
