//! Under fire: thieves who hold the records of accounts and recorded requests, and strangers who take the keys or the logins
//! of others.

use std::collections::BTreeSet;

use escale::model::{Value, sha_s};
use escale::{Code, Result};
use escale_server::accounts::{SignUp, answer, is_proven, login_of};
use escale_server::engine::Account;
use escale_testkit::seeds;

use crate::accounts::support::*;
use crate::support::chance::Chance;
use crate::support::world::*;

const OTHER_ORG: &str = "p";

fn device() -> Map {
    Map::from([("device".to_owned(), Value::Map(Map::new()))])
}

/// Who has `stored` of a copy of the database, and has seen one sign-in, finds the key of the proof by a subtraction. So the
/// proof passes at every later sign-in. The token does not: it opens by the account's key.
#[test]
fn r74_a_thief_with_the_stored_digest_and_a_recorded_sign_in_gets_no_token() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let one = Secret::passphrase("one");
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    // The owner signs in, and the thief sees all of it.
    let recorded = desk.proven("sign-in", "ada", &one, device());
    let seen = desk.ask(&Value::Map(recorded.clone()), None).unwrap();
    let shown = bytes("proof", &Value::Map(recorded.clone()));
    let mask = hmac(&one.stored(), &auth_of_sign_in("ada", &one, &recorded));
    let key: Vec<u8> = shown.iter().zip(mask).map(|(shown, mask)| shown ^ mask).collect();
    assert_eq!(key, derive(&one.x, "sign-in"), "the thief has the key of the proof");
    // Days later the thief proves it, for requests of its own. `proven` stands for a client with that key.
    world.clock.advance(8 * DAY);
    let request = desk.proven("sign-in", "ada", &one, device());
    let given = desk.ask(&Value::Map(request.clone()), None).unwrap();
    let auth = auth_of_sign_in("ada", &one, &request);
    assert!(is_proven(&one.stored(), &auth, &bytes("proof", &Value::Map(request)).try_into().unwrap()));
    for answer in [&seen, &given] {
        // Nothing in clear is a token, and each other key leaves it sealed.
        for (name, value) in answer.as_map().unwrap() {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                _ => continue,
            };
            assert!(desk.bearer(&text).is_none(), "{name} opens the org");
        }
        for known in [[0; 32], one.stored(), key.clone().try_into().unwrap(), private_of(2)] {
            assert_eq!(token_of(known, answer, &auth), None);
        }
    }
    assert!(token_of(private_of(1), &given, &auth).is_some_and(|token| desk.bearer(&token).is_some()));
    // The other requests with a proof need a token.
    for name in ["wraps", "close"] {
        let request = desk.proven(name, "ada", &one, Map::new());
        assert_eq!(code(desk.ask(&Value::Map(request), None)), Code::Unauthorized, "{name}");
    }
}

/// A public key is known to others. It makes an account for the owner of the private key alone.
#[test]
fn r72_a_known_key_makes_an_account_for_its_owner_alone() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let (one, eve) = (Secret::passphrase("one"), Secret::passphrase("eve"));
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let ask = |org: &str, request: Map| answer(&world.engine, org, SignUp::Open, &Value::Map(request), None);
    let started = |org: &str, login: &str| {
        let request = [("p", Value::from(1)), ("do", Value::from("start")), ("login", Value::from(login))];
        ask(org, request.map(|(name, value)| (name.to_owned(), value)).into()).unwrap()
    };
    let made = |org: &str, login: &str, private: [u8; 32]| {
        let keys = (private, public_of(1));
        desk.signing_up_with(&started(org, login), (org, login), keys, vec![eve.wrap()], None)
    };
    // In another org, and in this one by a stranger who chooses another login.
    for (org, login) in [(OTHER_ORG, "ada"), (OTHER_ORG, "eve"), (ORG, "eve")] {
        for private in [private_of(2), [0; 32], one.stored()] {
            assert_eq!(code(ask(org, made(org, login, private))), Code::BadValue, "{org}/{login}");
        }
        let mut without = made(org, login, private_of(2));
        without.remove("proof");
        assert_eq!(code(ask(org, without)), Code::Malformed, "{org}/{login}");
    }
    // A key that everybody owns is nobody's.
    let low = desk.signing_up_with(
        &started(OTHER_ORG, "eve"),
        (OTHER_ORG, "eve"),
        ([3; 32], [0; 32]),
        vec![eve.wrap()],
        None,
    );
    assert_eq!(code(ask(OTHER_ORG, low)), Code::BadValue);
    // The owner makes one of the same key in another org.
    let fine = made(OTHER_ORG, "ada", private_of(1));
    assert_eq!(text("account", &ask(OTHER_ORG, fine).unwrap()).len(), 22);
}

/// The proof of a sign-up, as somebody on the way sees it, makes nothing but that account.
#[test]
fn r72_a_recorded_sign_up_makes_no_other_account() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let (one, eve) = (Secret::passphrase("one"), Secret::passphrase("eve"));
    let recorded = desk.signing_up("ada", 1, vec![one.wrap()], None).unwrap();
    let altered = |name: &str, value: Value| {
        let mut request = recorded.clone();
        request.insert(name.into(), value);
        code(desk.ask(&Value::Map(request), None))
    };
    assert_eq!(altered("wraps", Value::Array(vec![eve.wrap()])), Code::BadValue);
    assert_eq!(altered("invite", Value::from("made-up")), Code::BadValue);
    assert_eq!(altered("pub", Value::Bytes(public_of(2).to_vec())), Code::BadValue);
    assert_eq!(altered("nonce", Value::Bytes(vec![0; 32])), Code::BadValue);
    assert_eq!(altered("proof", Value::Bytes(vec![0; 32])), Code::BadValue);
    assert_eq!(altered("login", Value::from("eve")), Code::Contention);
    assert_eq!(altered("challenge", Value::Bytes(desk.challenge("ada", "passphrase").0)), Code::Contention);
    let elsewhere = answer(&world.engine, OTHER_ORG, SignUp::Open, &Value::Map(recorded.clone()), None);
    assert_eq!(code(elsewhere), Code::Contention);
    // The owner's is taken, and a repeat within the minute has the same answer. Later it is nothing.
    let taken = desk.ask(&Value::Map(recorded.clone()), None).unwrap();
    assert_eq!(desk.ask(&Value::Map(recorded.clone()), None).unwrap(), taken);
    world.clock.advance(60_000);
    assert_eq!(code(desk.ask(&Value::Map(recorded), None)), Code::Contention);
}

/// Spellings of one symbol each, which the profile maps together.
const SYMBOLS: [&[&str]; 9] = [
    &["a", "A", "\u{ff41}", "\u{ff21}"],
    &["\u{e9}", "e\u{301}", "E\u{301}", "\u{c9}", "\u{ff45}\u{301}"],
    &["\u{e5}", "\u{c5}", "a\u{30a}", "A\u{30a}"],
    &["\u{444}", "\u{424}"],
    &["7", "\u{ff17}"],
    &["-", "\u{ff0d}"],
    &["@", "\u{ff20}"],
    &["\u{3ce}", "\u{3c9}\u{301}", "\u{38f}", "\u{3a9}\u{301}"],
    &["\u{30ab}", "\u{ff76}"],
];

/// Of all spellings of a login one is taken, and the others are refused. `ESCALE_CASES=n` makes n logins.
#[test]
fn r72_logins_that_the_profile_maps_together_are_one_account() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let one = Secret::passphrase("one");
    let mut chance = Chance::new();
    let mut made = BTreeSet::new();
    for _ in 0..seeds::cases(300) {
        let symbols: Vec<_> = (0..=chance.below(5)).map(|_| chance.pick(&SYMBOLS)).collect();
        let mut spell = || symbols.iter().map(|spellings| chance.pick(spellings)).collect::<String>();
        let spellings: Vec<String> = (0..6).map(|_| spell()).collect();
        let login = login_of(&spellings[0]).unwrap();
        assert_eq!(login_of(&login).as_ref(), Ok(&login), "the form of a form");
        for spelling in spellings.iter().chain([&login]) {
            assert_eq!(login_of(spelling).as_ref(), Ok(&login), "{spelling:?}");
            let tried = desk.sign_up(spelling, 1, &[&one], None).map_err(|refused| refused.code());
            let expected = match spelling == &login {
                false => Err(Code::BadLogin),
                // The key belongs to the first of all these logins.
                true if made.is_empty() || made.contains(&login) => Ok(()),
                true => Err(Code::LoginTaken),
            };
            assert_eq!(tried.map(drop), expected, "{spelling:?}");
            if expected.is_ok() {
                made.insert(login.clone());
            }
        }
    }
    assert_eq!(made.len(), 1);
}

/// Characters that nobody sees, or that are seen as others.
const NEVER: [&str; 26] = [
    "\0",
    "\n",
    "\r",
    "\t",
    "\u{7f}",
    "\u{85}",
    " ",
    "\u{a0}",
    "\u{2003}",
    "\u{3000}",
    "\u{ad}",
    "\u{200b}",
    "\u{200c}",
    "\u{200d}",
    "\u{200e}",
    "\u{200f}",
    "\u{202a}",
    "\u{202e}",
    "\u{2028}",
    "\u{2060}",
    "\u{2066}",
    "\u{feff}",
    "\u{fe0f}",
    "\u{e0041}",
    "\u{115f}",
    "\u{fffd}",
];

#[test]
fn r72_no_login_has_a_space_a_control_or_a_character_without_a_shape() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let one = Secret::passphrase("one");
    let refused = |login: &str| {
        let asked: Result<Map> = desk.signing_up(login, 1, vec![one.wrap()], None);
        assert_eq!(code(asked), Code::BadLogin, "{login:?}");
        // The request itself, without the start that a client has to make.
        let request = [
            ("pub", Value::Bytes(public_of(1).to_vec())),
            ("challenge", Value::Bytes(vec![0; 32])),
            ("nonce", Value::Bytes(vec![0; 32])),
            ("proof", Value::Bytes(vec![0; 32])),
            ("do", Value::from("sign-up")),
            ("login", Value::from(login)),
            ("wraps", Value::Array(vec![one.wrap()])),
            ("p", Value::from(1)),
        ];
        assert_eq!(code(desk.ask(&map(request), None)), Code::BadLogin, "{login:?}");
    };
    for never in NEVER {
        for login in [never.to_owned(), format!("a{never}b"), format!("{never}ada"), format!("ada{never}")] {
            refused(&login);
        }
    }
    // Compatibility forms, symbols, and letters of both directions in one word.
    for login in
        ["\u{fb01}n", "\u{212b}", "\u{2460}", "\u{1f600}", "a\u{5d0}", "\u{5d0}a", "Ada", "\u{1d41a}da"]
    {
        refused(login);
    }
    for (n, login) in
        ["ada", "ada@example.org", "o'neil+1", "\u{5d0}\u{5d1}", "\u{430}\u{434}\u{430}", "zo\u{eb}"]
            .iter()
            .enumerate()
    {
        desk.sign_up(login, n as u8, &[&one], None).unwrap();
    }
}

/// An account of an earlier version may have any login. It signs in as before, and nobody makes another one like it.
#[test]
fn r72_an_account_whose_login_has_another_form_still_signs_in() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let one = Secret::passphrase("one");
    let wanted = "Ada Lovelace";
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    // As an earlier version stored it.
    let moved = world.engine.write(ORG, |w| {
        let mut account: Account = w.record(&sha_s("ada"))?.unwrap();
        wanted.clone_into(&mut account.login);
        w.put_record(&sha_s(wanted), &account)
    });
    moved.unwrap();
    let (token, _) = desk.sign_in(wanted, &one, None).unwrap();
    assert_eq!(desk.bearer(&token).unwrap().login, wanted);
    escale_server::accounts::set_role(&world.engine, ORG, wanted, "read").unwrap();
    // An operator may type a login as a user does.
    escale_server::accounts::set_role(&world.engine, ORG, "ADA", "admin").unwrap();
    let (token, _) = desk.sign_in("ada", &one, None).unwrap();
    assert!(desk.bearer(&token).unwrap().caller.is_admin);
}
