//! Devices: which of them makes room for a further one. A use is noted at most once a day.

use std::sync::Arc;

use escale::Code;
use escale::model::schema::Schema;
use escale_server::accounts::{AccountTokens, SignUp};
use escale_server::clock::ManualClock;
use escale_server::engine::{Engine, Opening, first_site};
use escale_server::mark::{Mark, MemoryMark};
use escale_server::provider::{MemoryDatabase, MemoryProvider};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use super::support::*;
use crate::support::client::*;
use crate::support::world::*;

const HOUR: u64 = DAY / 24;

/// An instance that a device uses.
struct Instance<'e> {
    engine: &'e Engine,
    tokens: AccountTokens,
}

impl<'e> Instance<'e> {
    fn of(engine: &'e Engine) -> Self {
        Instance { engine, tokens: AccountTokens::default() }
    }

    /// A request with that token, as the transport handles it.
    fn meets(&self, token: &str) {
        assert!(self.tokens.enter(self.engine, ORG, token).unwrap().is_some(), "the token is valid");
        self.tokens.note_use(self.engine, ORG, token).unwrap();
    }
}

/// The last use of each device, in the order of their sign-ins.
fn last_uses(desk: &Desk, token: &str) -> Vec<u64> {
    let listed = desk.simple("devices", token).unwrap();
    let devices = listed.as_map().unwrap()["devices"].as_array().unwrap();
    devices.iter().map(|device| device.as_map().unwrap()["last"].as_u64().unwrap()).collect()
}

fn the_device_that_was_unused_longest_makes_room(engine: &Engine, pass: &dyn Fn(u64)) {
    let desk = Desk::new(engine);
    let one = Secret::passphrase("one");
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let mut devices = Vec::new();
    for _ in 0..64 {
        pass(1_000);
        devices.push(desk.sign_in("ada", &one, None).unwrap());
    }
    pass(DAY);
    // The second signs in again, so it is another token of the same device.
    devices[1].0 = desk.sign_in("ada", &one, Some(&devices[1].1)).unwrap().0;
    // All but the first and the fourth are used, by two instances in turn.
    let instances = [Instance::of(engine), Instance::of(engine)];
    for (n, (token, _)) in devices.iter().enumerate().filter(|(n, _)| *n != 0 && *n != 3) {
        instances[n % 2].meets(token);
    }
    let mut here = String::new();
    for _ in 0..2 {
        pass(1_000);
        here = desk.sign_in("ada", &one, None).unwrap().0;
    }
    assert_eq!(last_uses(&desk, &here).len(), 64);
    for (n, (token, id)) in devices.iter().enumerate() {
        let is_ended = n == 0 || n == 3;
        assert_eq!(desk.bearer(token).is_none(), is_ended, "device {n}");
        if is_ended {
            assert_eq!(code(desk.sign_in("ada", &one, Some(id))), Code::DeviceRevoked);
        }
    }
}

fn a_use_is_noted_once_a_day(engine: &Engine, pass: &dyn Fn(u64)) {
    let desk = Desk::new(engine);
    let one = Secret::passphrase("one");
    desk.sign_up("bob", 2, &[&one], None).unwrap();
    let (token, id) = desk.sign_in("bob", &one, None).unwrap();
    let began = last_uses(&desk, &token);
    let instances = [Instance::of(engine), Instance::of(engine)];
    let use_it = || instances.iter().for_each(|instance| instance.meets(&token));
    pass(DAY - HOUR);
    use_it();
    assert_eq!(last_uses(&desk, &token), began, "the sign-in is a use");
    pass(HOUR);
    use_it();
    let noted = last_uses(&desk, &token);
    assert_eq!(noted, [began[0] + DAY]);
    pass(DAY - 1);
    use_it();
    assert_eq!(last_uses(&desk, &token), noted);
    pass(1);
    use_it();
    assert_eq!(last_uses(&desk, &token), [began[0] + 2 * DAY]);
    // A change of the passphrase ends the token, and the device keeps its last use.
    let (other, _) = desk.sign_in("bob", &one, None).unwrap();
    desk.change(("bob", &other), &one, &[&Secret::passphrase("two")], &[], true).unwrap();
    assert_eq!(last_uses(&desk, &other)[0], began[0] + 2 * DAY);
    // A void token notes nothing.
    instances[0].tokens.note_use(engine, ORG, &token).unwrap();
    assert!(Instance::of(engine).tokens.enter(engine, ORG, &token).unwrap().is_none());
    assert_eq!(code(desk.sign_in("bob", &one, Some(&id))), Code::WrongPassphrase);
}

fn in_memory() -> (Engine, Arc<ManualClock>) {
    let clock = ManualClock::at(NOON);
    let database = MemoryDatabase::new(first_site(NOON).unwrap());
    let mark = Mark::in_memory(&Arc::new(MemoryMark::default()));
    let schema = Schema::from_json(SCHEMA).unwrap();
    let opening =
        Opening { schema, settings: Settings::default(), seal: Seal::clear(), clock: clock.clone() };
    (Engine::over(Box::new(MemoryProvider::open(&database)), mark, opening, 7).unwrap(), clock)
}

#[test]
fn the_device_that_was_unused_longest_makes_room_on_sqlite() {
    let world = world();
    let pass = |ms| world.clock.advance(ms);
    the_device_that_was_unused_longest_makes_room(&world.engine, &pass);
    a_use_is_noted_once_a_day(&world.engine, &pass);
}

#[test]
fn the_device_that_was_unused_longest_makes_room_in_memory() {
    let (engine, clock) = in_memory();
    let pass = |ms| clock.advance(ms);
    the_device_that_was_unused_longest_makes_room(&engine, &pass);
    a_use_is_noted_once_a_day(&engine, &pass);
}

#[cfg(feature = "postgres")]
#[test]
fn the_device_that_was_unused_longest_makes_room_on_postgresql() {
    use escale_server::clock::Clock;
    let database = crate::support::postgres::server().database().with_clock(NOON);
    let clock = ManualClock::at(NOON);
    let engine = database.engine(&clock, Settings::default()).unwrap();
    let pass = |ms| {
        clock.advance(ms);
        database.raw().set_clock(clock.now_ms());
    };
    the_device_that_was_unused_longest_makes_room(&engine, &pass);
    a_use_is_noted_once_a_day(&engine, &pass);
}

/// Over the network: the requests of three days.
#[tokio::test]
async fn a_request_notes_the_use_of_its_device() {
    let world = world();
    let running = serve(&world, |options| options.sign_up = Some(SignUp::Open)).await;
    let desk = Desk::new(&world.engine);
    let one = Secret::passphrase("one");
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let (token, _) = desk.sign_in("ada", &one, None).unwrap();
    let began = last_uses(&desk, &token)[0];
    let bearer = format!("Bearer {token}");
    let pull = async || {
        let body = br#"{"p":1,"session":"s","subs":[["Note",0]]}"#;
        request(&running, "POST", "/o/sync", &[JSON, ("Authorization", &bearer)], body).await.status
    };
    for days in 0..3 {
        assert_eq!(pull().await, 200);
        assert_eq!(last_uses(&desk, &token), [began + days * DAY]);
        world.clock.advance(DAY);
    }
    running.stop().await;
}
