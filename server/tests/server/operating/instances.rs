//! Three instances of the real binary on one PostgreSQL, of which random ones are killed or paused while clients write.
//! Connections are cut, the database is killed, and a standby takes over. Every acknowledged operation is there once,
//! nobody is stuck, and all instances answer the same. `make cluster ROUNDS=200` is the long form.

use std::net::SocketAddr;
use std::time::Instant;

use escale::codec::{Format, Row, Sub, SyncReply, SyncRequest, encode};
use escale::model::Epoch;

use super::kills::Clients;
use crate::support::base::Base;
use crate::support::chance::Chance;
use crate::support::outside::{Outside, sync};
use crate::support::postgres::Server;
use crate::support::proof::{shown, times};
use crate::support::world::*;

const INSTANCES: usize = 3;

/// The events of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// An instance is killed, and started again.
    Kill,
    /// An instance stops in the middle of its work, and goes on later: perhaps with a lock that it has lost meanwhile.
    Pause,
    /// The connections of all instances to the database are cut.
    Cut,
    /// The database is killed, and started again.
    Crash,
    /// A standby is made, the database is killed, and the standby takes over.
    Promote,
}

const EVENTS: [Event; 5] = [Event::Kill, Event::Pause, Event::Cut, Event::Crash, Event::Promote];

struct Cluster {
    postgres: Server,
    base: Base,
    folder: tempfile::TempDir,
    instances: Vec<Outside>,
    clients: Clients,
}

impl Cluster {
    /// Half of the clients send to that instance, and the others to another one, which is returned.
    fn go_to(&self, at: usize, chance: &mut Chance) -> usize {
        let other = (at + 1 + chance.below(INSTANCES as u64 - 1) as usize) % INSTANCES;
        self.clients.go_to([at, other].map(|at| self.instances[at].address));
        other
    }

    fn play(&mut self, event: Event, chance: &mut Chance) {
        let at = chance.below(INSTANCES as u64) as usize;
        let other = self.go_to(at, chance);
        self.clients.wait_for_some(chance);
        match event {
            Event::Kill => {
                self.instances[at].end();
                self.clients.go_to([other; 2].map(|at| self.instances[at].address));
                self.instances[at] = self.base.serve(self.folder.path());
            }
            Event::Pause => {
                self.instances[at].signal("STOP");
                // The others' work goes on, if need be after the database has taken the lock from the paused instance.
                self.clients.wait_for_progress();
                self.instances[at].signal("CONT");
            }
            Event::Cut => self.base.cut(),
            Event::Crash => self.commands(["crash", "go"]),
            Event::Promote => self.postgres.fail_over(|| self.clients.wait_for_progress()),
        }
        self.go_to(other, chance);
        self.clients.wait_for_progress();
    }

    fn commands(&self, commands: [&str; 2]) {
        for command in commands {
            self.postgres.command(command);
        }
    }
}

/// The epoch, and all notes over as many pages as it takes.
fn all_notes(address: SocketAddr) -> (Epoch, Vec<Row>) {
    let (mut rows, mut cursor) = (Vec::new(), None);
    loop {
        let subs = vec![Sub { cursor, ..sub(&def("Note"), 0) }];
        let request = encode(Format::Msgpack, &SyncRequest { subs, ..SyncRequest::of("reader") }).unwrap();
        let SyncReply { epoch, mut parts, .. } = sync(address, "", &request).unwrap();
        let part = parts.remove(0);
        assert!(part.fault.is_none() && (part.next.is_none() || !part.rows.is_empty()), "{:?}", part.fault);
        rows.extend(part.rows);
        cursor = part.next;
        if cursor.is_none() {
            return (epoch, rows);
        }
    }
}

#[test]
fn three_instances_killed_paused_and_cut_lose_nothing_and_answer_the_same() {
    let since = Instant::now();
    let (rounds, folder, mut chance) = (times("ROUNDS", 5), tempfile::tempdir().unwrap(), Chance::new());
    let postgres = Server::start(&["fsync=on"]);
    let base = Base::postgres(&postgres, None);
    let instances = (0..INSTANCES).map(|_| base.serve(folder.path())).collect();
    let clients = Clients::begin(&mut chance);
    let mut cluster = Cluster { postgres, base, folder, instances, clients };
    for round in 0..rounds {
        // Each event has its turn, so a short run has all of them.
        let event = EVENTS.get(round as usize).copied().unwrap_or_else(|| chance.pick(&EVENTS));
        let began = Instant::now();
        eprint!("round {round}: {event:?}");
        cluster.play(event, &mut chance);
        eprintln!(", {:.1} s", began.elapsed().as_secs_f64());
    }
    let Cluster { postgres, base, folder: _folder, instances, clients } = cluster;
    let base = base.again();
    let count = clients.end(&base, instances[0].address);
    let answers: Vec<_> = instances.iter().map(|instance| all_notes(instance.address)).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "two instances answer differently");
    eprintln!("{count} operations acknowledged over {rounds} rounds");
    let promise =
        "of three instances on PostgreSQL, killed, paused, cut and promoted, none is stuck or differs";
    shown("cluster", promise, rounds, "rounds", since);
    instances.into_iter().for_each(Outside::kill);
    drop(base);
    postgres.command("stop");
}
