//! A site of ten instances and many sessions, in virtual time. It has the real hub, pace and gates, and the delays of real
//! sessions. The network, the sessions' other decisions and the work of a pull are models.
//!
//! `SESSIONS` says how many there are, and `ESCALE_SEED` plays a history again.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use escale::crypto::{Random, SeededRandom};
use escale::limits::BACKOFF_MS;
use escale::model::Def;
use escale::sync::Backoff;
use escale_testkit::seeds;
use tokio::sync::{Semaphore, watch};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::accounts::Network;
use crate::http::admission::{Gate, Holder, Place, Slot};
use crate::http::entering::{Connection, ConnectionLimiter};
use crate::http::hub::{Hub, Seat, Turn};
use crate::http::reply::RETRY_SECONDS;
use crate::http::serve::{BACKLOG, CONNECTIONS_MAX, PULLS, REQUESTS_MAX, SOCKETS_MAX};
use crate::http::stopped::stopped;

const ORG: &str = "acme";
const NODES: usize = 10;
const CORES: usize = 2;
/// The work of a pull on one core.
const PULL: Duration = Duration::from_millis(3);
/// All sessions are back, and know the last write, within this time.
const BACK_WITHIN: Duration = Duration::from_secs(60);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// One life of an instance, from its start to its kill.
struct Life {
    hub: Arc<Hub>,
    limiter: Arc<ConnectionLimiter>,
    sockets: Arc<Gate>,
    requests: Arc<Gate>,
    cores: Semaphore,
    stop: watch::Sender<bool>,
    /// Connections that wait for a place.
    entering: Cell<usize>,
    /// Pulls that it answered.
    served: Cell<usize>,
    /// Sockets that it has now.
    seats: Cell<usize>,
}

impl Life {
    fn begin(seed: u64) -> Rc<Self> {
        let hub = Arc::new(Hub::new(PULLS, seed));
        let (stop, stops) = watch::channel(false);
        tokio::task::spawn_local(Arc::clone(&hub).run(stops));
        Rc::new(Life {
            hub,
            limiter: ConnectionLimiter::new(CONNECTIONS_MAX),
            sockets: Gate::new(SOCKETS_MAX, true),
            requests: Gate::new(REQUESTS_MAX, true),
            cores: Semaphore::new(CORES),
            stop,
            entering: Cell::new(0),
            served: Cell::new(0),
            seats: Cell::new(0),
        })
    }
}

/// The instances, and the facts that the checks compare.
struct Site {
    nodes: RefCell<Vec<Option<Rc<Life>>>>,
    /// By how much the database is slower than usual.
    slowness: Cell<u32>,
    /// The number of the last write that all sessions follow.
    written: Cell<u64>,
    /// By session: the last write that it knows, while its socket is confirmed.
    known: RefCell<Vec<Option<u64>>>,
    entering_most: Cell<usize>,
    waiting_most: Cell<usize>,
    refused: Cell<usize>,
    seed: u64,
}

/// A pull or a socket that has failed, and the delay for which the server asks.
struct Failed(Duration);

const FAILED: Failed = Failed(Duration::ZERO);

impl Site {
    fn new(seed: u64) -> Rc<Self> {
        Rc::new(Site {
            nodes: RefCell::new((0..NODES as u64).map(|n| Some(Life::begin(seed + n))).collect()),
            slowness: Cell::new(1),
            written: Cell::new(0),
            known: RefCell::default(),
            entering_most: Cell::new(0),
            waiting_most: Cell::new(0),
            refused: Cell::new(0),
            seed,
        })
    }

    fn lives(&self) -> Vec<Rc<Life>> {
        self.nodes.borrow().iter().flatten().cloned().collect()
    }

    fn kill(&self, node: usize) {
        let life = self.nodes.borrow_mut()[node].take();
        life.expect("it runs").stop.send_replace(true);
    }

    fn start(&self, node: usize) {
        self.nodes.borrow_mut()[node] = Some(Life::begin(self.seed + node as u64));
    }

    /// A balancer: any instance that runs.
    fn pick(&self, random: &mut SeededRandom) -> Option<Rc<Life>> {
        let lives = self.lives();
        (!lives.is_empty()).then(|| lives[random.below(lives.len() as u64).unwrap() as usize].clone())
    }

    /// A write that every session follows.
    fn write(&self) {
        self.written.set(self.written.get() + 1);
        for life in self.lives() {
            life.hub.hint(ORG, &list(), self.written.get());
            self.waiting_most.set(self.waiting_most.get().max(life.hub.waiting()));
        }
    }

    /// A connection that the instance has accepted.
    async fn enter(&self, life: &Life) -> Result<Arc<Connection>, Failed> {
        if life.entering.get() >= BACKLOG as usize {
            return Err(FAILED);
        }
        life.entering.set(life.entering.get() + 1);
        self.entering_most.set(self.entering_most.get().max(life.entering.get()));
        let connection = life.limiter.enter(balancer()).await;
        life.entering.set(life.entering.get() - 1);
        Ok(connection)
    }

    async fn pull(&self, caller: &str, random: &mut SeededRandom) -> Result<u64, Failed> {
        sleep(ms(10 + random.below(50).unwrap())).await;
        let life = self.pick(random).ok_or(FAILED)?;
        let connection = self.enter(&life).await?;
        let Ok(slot) = life.requests.enter(&Holder::Account(caller.into())) else {
            self.refused.set(self.refused.get() + 1);
            return Err(Failed(Duration::from_secs(RETRY_SECONDS)));
        };
        let busy = connection.serve();
        let active = busy.mark_active();
        let permit = life.cores.acquire().await.unwrap();
        // The snapshot of the reply.
        let known = self.written.get();
        sleep(PULL * self.slowness.get()).await;
        drop((permit, active, busy, slot));
        if *life.stop.borrow() {
            return Err(FAILED);
        }
        life.served.set(life.served.get() + 1);
        Ok(known)
    }

    async fn connect(&self, caller: &str, random: &mut SeededRandom) -> Result<Socket, Failed> {
        sleep(ms(10 + random.below(50).unwrap())).await;
        let life = self.pick(random).ok_or(FAILED)?;
        let connection = self.enter(&life).await?;
        tokio::select! {
            () = sleep(ms(20 + random.below(100).unwrap())) => {}
            () = connection.must_leave() => return Err(FAILED),
        }
        if *life.stop.borrow() {
            return Err(FAILED);
        }
        let slot = life.sockets.enter(&Holder::Account(caller.into())).map_err(|_| FAILED)?;
        drop(connection);
        let mut seat = life.hub.join(ORG);
        seat.listen(HashSet::from([list(), format!("Own@{caller}").parse().unwrap()]));
        self.waiting_most.set(self.waiting_most.get().max(life.hub.waiting()));
        life.seats.set(life.seats.get() + 1);
        Ok(Socket { life, seat, _slot: slot })
    }
}

/// All connections come from one address.
fn balancer() -> Network {
    Network::of([10, 0, 0, 1].into())
}

fn list() -> Def {
    "List".parse().unwrap()
}

struct Socket {
    life: Rc<Life>,
    seat: Seat,
    _slot: (Slot, Place),
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.life.seats.set(self.life.seats.get() - 1);
    }
}

/// A session: its socket and its pulls have their own delays, as those of the core have.
async fn session(site: Rc<Site>, number: usize) {
    let mut random = SeededRandom::new(site.seed ^ (number as u64) << 20);
    let caller = format!("account-{number}");
    let (mut pulls, mut sockets) = (Backoff::default(), Backoff::default());
    let mut socket: Option<Socket> = None;
    let (mut known, mut is_confirmed, mut is_failing) = (0, false, false);
    // Sessions do not begin in the same moment.
    let began = Instant::now() + ms(random.below(30_000).unwrap());
    let (mut connects_at, mut pulls_at, mut ahead_at) = (began, Some(began), began);
    loop {
        site.known.borrow_mut()[number] = is_confirmed.then_some(known);
        let turn = async {
            match &socket {
                Some(Socket { life, seat, .. }) => {
                    let mut stop = life.stop.subscribe();
                    tokio::select! {
                        () = stopped(&mut stop) => None,
                        turn = seat.turn() => Some(turn),
                    }
                }
                None => std::future::pending().await,
            }
        };
        let pull_is_due = async {
            match pulls_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            turn = turn => match turn {
                Some(Turn::Live) => {
                    sockets = Backoff::default();
                    (is_confirmed, pulls_at) = (true, Some(Instant::now()));
                }
                Some(_) => pulls_at = Some(pulls_at.unwrap_or_else(Instant::now)),
                None => {
                    (socket, is_confirmed) = (None, false);
                    connects_at = Instant::now() + ms(sockets.next_ms(&mut random).unwrap());
                    pulls_at = Some(pulls_at.unwrap_or_else(Instant::now));
                }
            },
            () = pull_is_due => match site.pull(&caller, &mut random).await {
                Ok(found) => {
                    (known, pulls_at, pulls) = (found, None, Backoff::default());
                    // The server is back, and its sockets are tried at once: not more often than the longest delay.
                    if std::mem::take(&mut is_failing) && socket.is_none() && Instant::now() >= ahead_at {
                        ahead_at = Instant::now() + ms(BACKOFF_MS.1);
                        connects_at = Instant::now();
                    }
                }
                Err(Failed(asked)) => {
                    is_failing = true;
                    let delay = ms(pulls.next_ms(&mut random).unwrap());
                    pulls_at = Some(Instant::now() + delay.max(asked));
                }
            },
            () = sleep_until(connects_at), if socket.is_none() => match site.connect(&caller, &mut random).await {
                Ok(connected) => socket = Some(connected),
                Err(Failed(asked)) => {
                    let delay = ms(sockets.next_ms(&mut random).unwrap());
                    connects_at = Instant::now() + delay.max(asked);
                }
            },
        }
    }
}

/// The least and the most of something, over the instances.
fn ends(site: &Site, of: impl Fn(&Life) -> usize) -> (usize, usize) {
    let all: Vec<usize> = site.lives().iter().map(|life| of(life)).collect();
    (*all.iter().min().unwrap(), *all.iter().max().unwrap())
}

/// Waits until every session is back and knows the last write. Returns the time that this took.
async fn back(site: &Site, what: &str) -> Duration {
    let began = Instant::now();
    // Sessions notice that their sockets have closed.
    sleep(ms(1)).await;
    loop {
        let late = site.known.borrow().iter().filter(|known| **known != Some(site.written.get())).count();
        if late == 0 {
            break;
        }
        assert!(began.elapsed() <= BACK_WITHIN, "{what}: {late} sessions are late");
        sleep(ms(50)).await;
    }
    assert!(site.waiting_most.get() <= 2 * SOCKETS_MAX.1, "each socket waits once for each of its two defs");
    assert!(site.entering_most.get() < BACKLOG as usize, "the system refuses connections");
    let (seats, served) = (ends(site, |life| life.seats.get()), ends(site, |life| life.served.get()));
    let Site { entering_most, waiting_most, refused, .. } = site;
    eprintln!(
        "proof: {what}: back within {:.1} s; sockets {seats:?}, pulls {served:?}, at most {} connections and {} hints waiting, {} refused",
        began.elapsed().as_secs_f64(),
        entering_most.get(),
        waiting_most.get(),
        refused.take(),
    );
    began.elapsed()
}

#[test]
fn r42_all_sessions_of_a_site_come_back_from_storms() {
    let sessions = usize::try_from(seeds::count("SESSIONS", 1_000)).unwrap();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let seed = seeds::start();
    eprintln!("ESCALE_SEED={seed}");
    LocalSet::new().block_on(&runtime, async {
        let site = Site::new(seed);
        *site.known.borrow_mut() = vec![None; sessions];
        for number in 0..sessions {
            tokio::task::spawn_local(session(Rc::clone(&site), number));
        }
        back(&site, "all begin").await;
        site.write();
        back(&site, "one write for all").await;
        (0..NODES).for_each(|node| site.kill(node));
        sleep(ms(5_000)).await;
        (0..NODES).for_each(|node| site.start(node));
        back(&site, "all instances start again").await;
        site.kill(0);
        back(&site, "an instance has died").await;
        let (least, most) = ends(&site, |life| life.seats.get());
        assert!(most * 10 <= least * 12 || sessions < 10_000, "sockets are uneven: {least} to {most}");
        site.start(0);
        site.slowness.set(10);
        site.write();
        sleep(ms(30_000)).await;
        site.write();
        site.slowness.set(1);
        back(&site, "the database was slow for 30 s").await;
    });
}
