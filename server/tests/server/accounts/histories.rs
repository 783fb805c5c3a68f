//! Random histories of requests, against a model of a few lines: who may enter, and by which secret.

use std::collections::{BTreeMap, BTreeSet};

use escale::Code;

use escale_server::clock::ManualClock;
use escale_server::engine::Engine;
use escale_server::settings::Settings;

use super::support::*;
use crate::support::chance::Chance;
use crate::support::proof::times;
use crate::support::world::*;

const LOGINS: [&str; 3] = ["ada", "bob", "zoe"];

#[derive(Default)]
struct Known {
    public: u8,
    secrets: BTreeMap<String, Secret>,
    first: Vec<Secret>,
    /// Devices with their tokens.
    devices: BTreeMap<String, Option<String>>,
    ended: BTreeSet<String>,
    is_closed: bool,
}

/// `ESCALE_ACCOUNTS=n` plays n histories.
#[test]
fn r72_r77_histories_equal_a_model() {
    let mut chance = Chance::new();
    for _ in 0..times("ESCALE_ACCOUNTS", 40) {
        history(&mut chance.fork());
    }
}

fn history(chance: &mut Chance) {
    let folder = quick_folder();
    let clock = ManualClock::at(NOON);
    let engine = open(folder.path(), &clock, Settings::default()).unwrap();
    play(chance, &engine, &clock, 5_000);
}

/// The same on PostgreSQL. Each request is read by an instance of its own, as tokens always are.
#[cfg(feature = "postgres")]
#[test]
fn r72_r77_histories_equal_a_model_on_postgresql() {
    let mut chance = Chance::new();
    for _ in 0..3 {
        let database = crate::support::postgres::server().database().with_clock(NOON);
        let clock = ManualClock::at(NOON);
        let engine = database.engine(&clock, Settings::default()).unwrap();
        // Its clock and the database's may be a minute apart.
        play(&mut chance.fork(), &engine, &clock, 1_000);
    }
}

fn play(chance: &mut Chance, engine: &Engine, clock: &ManualClock, step_ms: u64) {
    let desk = Desk::new(engine);
    let mut known: BTreeMap<&str, Known> = BTreeMap::new();
    let mut void: Vec<String> = Vec::new();
    for _ in 0..40 {
        clock.advance(1 + chance.below(step_ms));
        let login = chance.pick(&LOGINS);
        let secret = chance.pick(&[
            Secret::passphrase("a"),
            Secret::passphrase("b"),
            Secret::code("a"),
            Secret::code("b"),
            Secret::passkey("a"),
        ]);
        step(chance, &desk, &mut known, &mut void, (login, &secret));
        for (login, account) in &known {
            for token in account.devices.values().flatten() {
                let entered = desk.bearer(token).expect("a token of the model is valid");
                assert_eq!(entered.login, *login);
            }
        }
        assert!(void.iter().all(|token| desk.bearer(token).is_none()), "a void token enters");
    }
}

fn step(
    chance: &mut Chance,
    desk: &Desk,
    known: &mut BTreeMap<&'static str, Known>,
    void: &mut Vec<String>,
    (login, secret): (&'static str, &Secret),
) {
    let taken: BTreeSet<u8> = known.values().map(|account| account.public).collect();
    let Some(account) = known.get_mut(login) else {
        let public = chance.below(4) as u8;
        let done = desk.sign_up(login, public, &[secret], None);
        if taken.contains(&public) {
            assert_eq!(code(done), if secret.by == "passkey" { Code::BadValue } else { Code::LoginTaken });
        } else if secret.by == "passkey" {
            assert_eq!(code(done), Code::BadValue);
        } else {
            done.unwrap();
            let secrets = BTreeMap::from([(secret.id.clone(), secret.clone())]);
            let first = vec![secret.clone()];
            known.insert(login, Known { public, secrets, first, ..Known::default() });
        }
        return;
    };
    let holder = account.devices.iter().find_map(|(id, token)| Some((id.clone(), token.clone()?)));
    let opens = account.secrets.get(&secret.id) == Some(secret);
    match (chance.below(8), holder) {
        (0..=3, _) | (_, None) => sign_in(chance, desk, account, void, (login, secret), opens),
        (4, Some((id, token))) => {
            let put = Secret::passphrase(chance.pick(&["a", "b"]));
            let others = chance.is(50);
            let done = desk.change((login, &token), secret, &[&put], &[], others);
            if !opens {
                return assert_eq!(code(done), Code::WrongPassphrase);
            }
            done.unwrap();
            account.secrets.insert(put.id.clone(), put);
            if others {
                for (_, token) in account.devices.iter_mut().filter(|(device, _)| **device != id) {
                    void.extend(token.take());
                }
            }
        }
        (5, Some((_, token))) => {
            let remove = secret.id.clone();
            let proof = account.secrets.values().next().cloned().unwrap();
            let done = desk.change((login, &token), &proof, &[], &[&remove], false);
            let left = account.secrets.values().any(|left| left.id != remove && left.by != "passkey");
            if !left {
                return assert_eq!(code(done), Code::BadValue);
            }
            done.unwrap();
            account.secrets.remove(&remove);
        }
        (6, Some((_, token))) => {
            let devices: Vec<String> = account.devices.keys().cloned().collect();
            let lost = chance.pick(&devices);
            desk.revoke(&token, &lost).unwrap();
            void.extend(account.devices.remove(&lost).flatten());
            account.ended.insert(lost);
        }
        (_, Some((_, token))) => {
            if !chance.is(20) {
                let same =
                    desk.sign_up(login, account.public, &account.first.iter().collect::<Vec<_>>(), None);
                let is_as_made = account.secrets.values().eq(account.first.iter());
                return assert_eq!(same.is_ok(), is_as_made);
            }
            let done = desk.close((login, &token), secret);
            if !opens {
                return assert_eq!(code(done), Code::WrongPassphrase);
            }
            done.unwrap();
            account.is_closed = true;
            void.extend(std::mem::take(&mut account.devices).into_values().flatten());
        }
    }
}

fn sign_in(
    chance: &mut Chance,
    desk: &Desk,
    account: &mut Known,
    void: &mut Vec<String>,
    (login, secret): (&str, &Secret),
    opens: bool,
) {
    let devices: Vec<String> = account.devices.keys().chain(&account.ended).cloned().collect();
    let device = (!devices.is_empty() && chance.is(60)).then(|| chance.pick(&devices));
    let done = desk.sign_in(login, secret, device.as_deref());
    if account.is_closed {
        return assert_eq!(code(done), Code::AccountClosed);
    }
    if !opens {
        return assert_eq!(code(done), Code::WrongPassphrase);
    }
    if device.as_ref().is_some_and(|device| account.ended.contains(device)) {
        return assert_eq!(code(done), Code::DeviceRevoked);
    }
    let (token, id) = done.unwrap();
    assert!(device.is_none_or(|device| device == id));
    void.extend(account.devices.insert(id, Some(token)).flatten());
}
