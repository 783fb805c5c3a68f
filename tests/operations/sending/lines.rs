//! Slow lines, in simulated time: a request takes as long as its bytes need, and a server gives up in its own way. All
//! writes arrive, and few bytes are sent twice.

use escale::codec::{Format, encode};
use escale::crypto::{Random, SeededRandom};
use escale::journal::{PendingOp, Policy};
use escale::limits::{REQUEST_TIMEOUT_MS, SUBS_MAX, line_ms};
use escale::model::{Def, Value};
use escale::sync::{Event, Mode, Refusal};
use escale::{Code, Error};
use escale_testkit::seeds;
use escale_testkit::server::ModelServer;

use crate::driver::{Driver, server};

/// How long a server, or a proxy before it, waits for a body.
#[derive(Clone, Copy, Debug)]
enum Patience {
    /// So many milliseconds, regardless of its bytes. Then it answers 408.
    Total(u64),
    /// The same, and then it cuts the connection.
    Cut(u64),
    /// 30 s more than the least rate of 512 bytes a second needs: this product's own server.
    Rate,
}

struct Line {
    bytes_per_s: u64,
    patience: Patience,
    /// The server executes a request whose connection was cut, and only the answer is lost.
    loses_answers: bool,
    sent: u64,
    /// The bytes of requests with operations that passed.
    passed: u64,
}

impl Line {
    fn new(bytes_per_s: u64, patience: Patience) -> Self {
        Line { bytes_per_s, patience, loses_answers: false, sent: 0, passed: 0 }
    }

    /// Carries the request that is waiting, if there is one, and answers it.
    fn carry(&mut self, driver: &mut Driver, server: &mut ModelServer) -> bool {
        let Some((number, request)) = driver.sent.take() else { return false };
        let bytes = encode(Format::Msgpack, &request).expect("a request").len();
        // A request has headers, and each packet too.
        let needed_ms = (bytes as u64 + 500) * 1_030 / self.bytes_per_s + 1;
        let own_ms = REQUEST_TIMEOUT_MS + line_ms(bytes);
        let (within_ms, code) = match self.patience {
            Patience::Total(ms) => (ms, Code::Timeout),
            Patience::Cut(ms) => (ms, Code::Offline),
            Patience::Rate => (30_000 + bytes as u64 * 1_000 / 512, Code::Timeout),
        };
        let took_ms = needed_ms.min(within_ms).min(own_ms);
        driver.now += took_ms + 50;
        self.sent += bytes as u64 * took_ms / needed_ms;
        let reply = if needed_ms <= took_ms {
            if !request.ops.is_empty() {
                self.passed += bytes as u64;
            }
            Ok(driver.answer(server, &request))
        } else {
            if self.loses_answers && code == Code::Offline {
                driver.answer(server, &request);
            }
            Err(Refusal::from(Error::new(code, "the body took too long")))
        };
        driver.feed(Event::Replied { number, reply });
        true
    }

    /// Until all operations have ended, for a day at most.
    fn drain(&mut self, driver: &mut Driver, server: &mut ModelServer) {
        let end = driver.now + 24 * 3_600_000;
        while driver.machine.status().pending > 0 {
            assert!(driver.now < end, "{} wait for ever", driver.machine.status().pending);
            if !self.carry(driver, server) {
                driver.wait(1_000);
            }
        }
    }
}

fn offline(server: &mut ModelServer) -> Driver {
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(server);
    driver.feed(Event::Network(false));
    driver
}

fn put(driver: &mut Driver, number: usize, chars: usize) -> String {
    let text = Value::String("x".repeat(chars));
    let data = Value::from([("id", format!("id{number}").as_str().into()), ("text", text)]);
    driver.write("doc.put", Value::from([("class", "Doc".into()), ("data", data)]))
}

/// 500 notes of 2 KB were sent again and again as one request, which a server cut off after 30 s each time.
#[test]
fn a_megabyte_written_offline_arrives_over_any_line() {
    for patience in [Patience::Total(30_000), Patience::Total(10_000), Patience::Cut(30_000), Patience::Rate]
    {
        for bytes_per_s in [8_192, 1_024] {
            let mut server = server(0);
            let mut driver = offline(&mut server);
            for number in 0..500 {
                put(&mut driver, number, 2_048);
            }
            driver.feed(Event::Network(true));
            let mut line = Line::new(bytes_per_s, patience);
            line.drain(&mut driver, &mut server);
            assert_eq!(server.db.operations.executed.len(), 500);
            let (sent, passed) = (line.sent, line.passed);
            assert!(2 * sent <= 3 * passed, "{patience:?}, {bytes_per_s}: {sent} for {passed}");
        }
    }
}

/// One operation cannot be cut. So a server, and the session itself, wait as long as it brings something.
#[test]
fn one_operation_of_900_kb_arrives_over_a_slow_line() {
    for bytes_per_s in [8_192, 1_024] {
        let mut server = server(0);
        let mut driver = offline(&mut server);
        put(&mut driver, 0, 900 << 10);
        driver.feed(Event::Network(true));
        let mut line = Line::new(bytes_per_s, Patience::Rate);
        line.drain(&mut driver, &mut server);
        assert_eq!(server.db.operations.executed.len(), 1);
        assert!(2 * line.sent <= 3 * line.passed, "{bytes_per_s}: {} for {}", line.sent, line.passed);
    }
}

/// A server that gives up after 30 s never gets the large one. The others do not wait for it, and neither do later ones.
#[test]
fn r12_what_no_line_carries_in_time_holds_nothing_back() {
    let mut server = server(0);
    let mut driver = offline(&mut server);
    let large = put(&mut driver, 0, 300 << 10);
    let behind = put(&mut driver, 0, 10);
    for number in 1..=10 {
        put(&mut driver, number, 100);
    }
    driver.feed(Event::Network(true));
    let mut line = Line::new(8_192, Patience::Total(30_000));
    let began = driver.now;
    while server.db.operations.executed.len() < 10 {
        assert!(driver.now < began + 10_000, "the small ones wait");
        if !line.carry(&mut driver, &mut server) {
            driver.wait(1_000);
        }
    }
    for number in 11..=15 {
        // Each is written while the large one is on its way, or waits.
        let began = driver.now;
        put(&mut driver, number, 100);
        while server.db.operations.executed.len() < number {
            assert!(driver.now < began + 150_000, "a later one waits");
            if !line.carry(&mut driver, &mut server) {
                driver.wait(1_000);
            }
        }
    }
    let waiting = |op: &PendingOp| op.state.issued.id == large || op.state.issued.id == behind;
    let operations = driver.machine.operations();
    assert!(
        operations.iter().filter(|(op, _)| op.is_waiting()).all(|(op, _)| waiting(op)),
        "only those of one document wait"
    );
    // A better line takes it, and then the one behind it.
    line.bytes_per_s = 1 << 20;
    line.drain(&mut driver, &mut server);
    let executed: Vec<&str> = server.db.operations.executed.iter().map(|(_, id)| id.as_str()).collect();
    assert_eq!(executed[15..], [large.as_str(), behind.as_str()]);
}

/// A session that writes without end does not keep a large operation from the server.
#[test]
fn r12_a_large_operation_is_passed_a_few_times_only() {
    let mut server = server(0);
    let mut driver = offline(&mut server);
    let large = put(&mut driver, 0, 300 << 10);
    driver.feed(Event::Network(true));
    let mut line = Line::new(8_192, Patience::Total(30_000));
    assert!(line.carry(&mut driver, &mut server), "it is tried, and cut off");
    line.patience = Patience::Rate;
    let is_there =
        |server: &ModelServer| server.db.operations.executed.iter().any(|(_, executed)| *executed == large);
    for number in 1.. {
        assert!(number < 40, "passed for ever");
        put(&mut driver, number, 100);
        if !line.carry(&mut driver, &mut server) {
            driver.wait(40_000);
        }
        if is_there(&server) {
            break;
        }
    }
}

/// Once the line is good, a request carries as much as it may.
#[test]
fn pieces_grow_again_with_the_line() {
    let mut server = server(0);
    let mut driver = offline(&mut server);
    for number in 0..60 {
        put(&mut driver, number, 2_048);
    }
    driver.feed(Event::Network(true));
    let mut line = Line::new(1_024, Patience::Total(30_000));
    line.drain(&mut driver, &mut server);
    driver.feed(Event::Network(false));
    for number in 60..1_560 {
        put(&mut driver, number, 2_048);
    }
    driver.feed(Event::Network(true));
    line.bytes_per_s = 4 << 20;
    let before = driver.hooks.requests;
    line.drain(&mut driver, &mut server);
    let requests = driver.hooks.requests - before;
    assert!(requests <= 8, "{requests} requests for 3 MB");
}

/// A thousand subscriptions are a body as well.
#[test]
fn subscriptions_arrive_over_a_slow_line_in_pieces() {
    let mut server = server(3);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.feed(Event::Network(false));
    let defs: Vec<Def> =
        (0..SUBS_MAX).map(|number| format!("Doc@{number:0>43}").parse().expect("a def")).collect();
    for def in &defs {
        driver.feed(Event::Subscribe(def.clone()));
    }
    driver.feed(Event::Network(true));
    let mut line = Line::new(1_024, Patience::Total(30_000));
    let end = driver.now + 3_600_000;
    while !defs.iter().all(|def| driver.machine.list(def).expect("a subscribed def").1) {
        assert!(driver.now < end, "never loaded");
        if !line.carry(&mut driver, &mut server) {
            driver.wait(1_000);
        }
    }
}

/// Lines that change their rate, in any order with writes of any size: everything arrives once, and operations on one
/// document in their order.
#[test]
fn r12_random_lines_and_sizes_lose_and_repeat_nothing() {
    for seed in seeds::each(20) {
        println!("ESCALE_SEED={seed}");
        let mut random = SeededRandom::new(seed);
        let mut below = |end: usize| random.below(end as u64).expect("a number") as usize;
        let mut server = server(0);
        let mut driver = offline(&mut server);
        driver.feed(Event::Network(true));
        let mut line = Line::new(8_192, Patience::Rate);
        let mut written: Vec<Vec<String>> = vec![Vec::new(); 6];
        for _ in 0..80 {
            line.bytes_per_s = [300, 1_024, 8_192, 1 << 20][below(4)];
            line.patience = [Patience::Total(30_000), Patience::Cut(5_000), Patience::Rate][below(3)];
            line.loses_answers = below(3) == 0;
            for _ in 0..below(4) {
                let number = below(written.len());
                let chars = [10, 500, 5_000, 60_000, 200_000][below(5)];
                let id = put(&mut driver, number, chars);
                written[number].push(id);
            }
            if !line.carry(&mut driver, &mut server) {
                driver.wait(1 + below(60_000) as u64);
            }
        }
        (line.bytes_per_s, line.patience) = (1 << 20, Patience::Rate);
        line.drain(&mut driver, &mut server);
        for (number, written) in written.iter().enumerate() {
            let executed = server.db.operations.executed.iter().map(|(_, id)| id);
            let executed: Vec<&String> = executed.filter(|id| written.contains(id)).collect();
            assert_eq!(executed, written.iter().collect::<Vec<_>>(), "document {number}");
        }
    }
}
