//! Each request, and its refusals.

use escale::Code;
use escale::model::Value;
use escale_server::accounts::{SignUp, invite, set_role};

use super::support::*;
use crate::support::world::*;

fn pair<'a>(login: &'a str, token: &'a str) -> (&'a str, &'a str) {
    (login, token)
}

#[test]
fn r74_a_sign_up_gives_no_token_and_a_repeat_the_same_answer() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let (one, two) = (Secret::passphrase("one"), Secret::passphrase("two"));
    let id = desk.sign_up("ada", 1, &[&one], None).unwrap();
    assert_eq!(id.len(), 22);
    assert_eq!(desk.sign_up("ada", 1, &[&one], None).unwrap(), id);
    // Another secret, another key, the key of another login: each is taken (R72).
    assert_eq!(code(desk.sign_up("ada", 1, &[&two], None)), Code::LoginTaken);
    assert_eq!(code(desk.sign_up("ada", 2, &[&one], None)), Code::LoginTaken);
    assert_eq!(code(desk.sign_up("bob", 1, &[&two], None)), Code::LoginTaken);
    assert_eq!(desk.sign_up("bob", 2, &[&two], None).unwrap().len(), 22);
    let (token, _) = desk.sign_in("ada", &one, None).unwrap();
    let entered = desk.bearer(&token).unwrap();
    assert_eq!(
        (entered.caller.account, entered.caller.may_write, entered.caller.is_admin),
        (id, true, false)
    );
}

#[test]
fn r74_a_recorded_sign_in_cannot_be_replayed_and_a_challenge_ends_after_a_minute() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let one = Secret::passphrase("one");
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let other = Map::from([("device".to_owned(), Value::Map(Map::new()))]);
    let recorded = Value::Map(desk.proven("sign-in", "ada", &one, other.clone()));
    desk.ask(&recorded, None).unwrap();
    assert_eq!(code(desk.ask(&recorded, None)), Code::Contention);
    let late = Value::Map(desk.proven("sign-in", "ada", &one, other.clone()));
    world.clock.advance(60_000);
    assert_eq!(code(desk.ask(&late, None)), Code::Contention);
    // The challenge of another login, or of another wrap.
    let foreign = desk.challenge("bob", "passphrase").0;
    let request = desk.proven_with("sign-in", "ada", &one, other, foreign);
    assert_eq!(code(desk.ask(&Value::Map(request), None)), Code::Contention);
}

#[test]
fn r73_the_database_holds_nothing_that_opens_an_account() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let (one, safe) = (Secret::passphrase("one"), Secret::code("c"));
    desk.sign_up("ada", 1, &[&one, &safe], None).unwrap();
    let (token, _) = desk.sign_in("ada", &one, None).unwrap();
    let files = std::fs::read_dir(world.folder.path()).unwrap();
    let files = files.map(|file| file.unwrap().path()).filter(|path| path.is_file());
    let stored: Vec<u8> = files.flat_map(|path| std::fs::read(path).unwrap()).collect();
    let holds = |needle: &[u8]| stored.windows(needle.len()).any(|window| window == needle);
    for secret in [&one, &safe] {
        assert!(holds(&secret.stored()) && holds(&secret.wrapped()), "the scan finds what is there");
        for key in [secret.x, derive(&secret.x, "sign-in"), derive(&secret.x, "server-wrap")] {
            assert!(!holds(&key));
        }
    }
    assert!(!holds(token.as_bytes()), "of a token, the digest is enough");
}

#[test]
fn r75_every_device_gets_the_key_of_the_account_by_each_secret() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let secrets = [Secret::passphrase("one"), Secret::code("c"), Secret::passkey("k")];
    desk.sign_up("ada", 1, &secrets.iter().collect::<Vec<_>>(), None).unwrap();
    for secret in secrets.iter().chain(&secrets) {
        // The helper compares the wrapped key, and checks the signature over it and the public key.
        desk.sign_in("ada", secret, None).unwrap();
    }
}

#[test]
fn r74_every_bit_of_a_proof_counts_and_so_does_each_field_that_it_covers() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let one = Secret::passphrase("one");
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let other = Map::from([("device".to_owned(), map([("label", Value::from("phone"))]))]);
    let fine = desk.proven("sign-in", "ada", &one, other);
    let flipped = |name: &str, bit: usize| {
        let mut request = fine.clone();
        let Some(Value::Bytes(bytes)) = request.get_mut(name) else { panic!("{name}") };
        bytes[bit / 8] ^= 1 << (bit % 8);
        Value::Map(request)
    };
    for bit in 0..256 {
        assert_eq!(code(desk.ask(&flipped("proof", bit), None)), Code::WrongPassphrase, "proof, bit {bit}");
        assert_eq!(code(desk.ask(&flipped("nonce", bit), None)), Code::WrongPassphrase, "nonce, bit {bit}");
        assert_eq!(
            code(desk.ask(&flipped("challenge", bit), None)),
            Code::Contention,
            "challenge, bit {bit}"
        );
    }
    let mut relabelled = fine.clone();
    relabelled.insert("device".into(), map([("label", Value::from("Phone"))]));
    assert_eq!(code(desk.ask(&Value::Map(relabelled), None)), Code::WrongPassphrase);
    desk.ask(&Value::Map(fine), None).unwrap();
}

#[test]
fn r74_an_unknown_login_is_answered_as_a_known_one() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let (one, wrong) = (Secret::passphrase("one"), Secret::passphrase("wrong"));
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    for wrap in ["passphrase", "code-x"] {
        let (_, known_kdf, known_rounds) = desk.challenge("ada", wrap);
        let (_, kdf, rounds) = desk.challenge("nobody", wrap);
        assert_eq!((kdf, rounds), (known_kdf, known_rounds));
    }
    for login in ["ada", "nobody"] {
        let error = desk.sign_in(login, &wrong, None).unwrap_err();
        assert_eq!(
            (error.code(), error.detail()),
            (Code::WrongPassphrase, "no account has this login and this secret")
        );
    }
}

#[test]
fn r74_wraps_of_other_parameters_are_refused() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let one = Secret::passphrase("one");
    let with = |change: &dyn Fn(&mut Map)| {
        let mut wrap = one.wrap();
        change(wrap.as_map_mut().unwrap());
        let request = desk.signing_up("ada", 1, vec![wrap], None).unwrap();
        code(desk.ask(&Value::Map(request), None))
    };
    let number = |n: i64| move |wrap: &mut Map| drop(wrap.insert("rounds".into(), Value::from(n)));
    for rounds in [0, 1, 599_999, 10_000_001, i64::from(u32::MAX) + 1] {
        assert_eq!(with(&number(rounds)), Code::Malformed, "{rounds} rounds");
    }
    for (name, value) in [
        ("by", Value::from("other")),
        ("kdf", Value::from("none")),
        ("id", Value::from("another")),
        ("wrapped", Value::Bytes(vec![0; 59])),
        ("stored", Value::Bytes(vec![0; 31])),
        ("server", Value::from("text")),
    ] {
        assert_eq!(with(&|wrap| drop(wrap.insert(name.into(), value.clone()))), Code::Malformed, "{name}");
    }
    assert_eq!(code(desk.sign_up("ada", 1, &[&Secret::passkey("only")], None)), Code::BadValue);
}

#[test]
fn r76_a_change_of_the_passphrase_ends_the_other_tokens() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let (one, two, safe) = (Secret::passphrase("one"), Secret::passphrase("two"), Secret::code("c"));
    desk.sign_up("ada", 1, &[&one, &safe], None).unwrap();
    let (here, id) = desk.sign_in("ada", &one, None).unwrap();
    let (there, other) = desk.sign_in("ada", &one, None).unwrap();
    desk.change(pair("ada", &here), &one, &[&two], &[], true).unwrap();
    assert!(desk.bearer(&here).is_some());
    assert!(desk.bearer(&there).is_none());
    assert_eq!(code(desk.sign_in("ada", &one, Some(&other))), Code::WrongPassphrase);
    // The device itself was not ended: the new secret signs it in.
    assert_eq!(desk.sign_in("ada", &two, Some(&other)).unwrap().1, other);
    assert_eq!(desk.sign_in("ada", &safe, Some(&id)).unwrap().1, id);
    // A renewal ends the token before it.
    assert!(desk.bearer(&here).is_none());
    // The last passphrase or code stays.
    let (token, _) = desk.sign_in("ada", &two, None).unwrap();
    let key = Secret::passkey("k");
    desk.change(pair("ada", &token), &two, &[&key], &[&safe.id], false).unwrap();
    let refused = desk.change(pair("ada", &token), &key, &[], &["passphrase"], false);
    assert_eq!(code(refused), Code::BadValue);
}

#[test]
fn r77_a_revoked_device_is_told_and_may_come_back_as_a_new_one() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let one = Secret::passphrase("one");
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let (here, _) = desk.sign_in("ada", &one, None).unwrap();
    let (there, lost) = desk.sign_in("ada", &one, None).unwrap();
    desk.revoke(&here, &lost).unwrap();
    assert!(desk.bearer(&there).is_none() && desk.bearer(&here).is_some());
    assert_eq!(code(desk.sign_in("ada", &one, Some(&lost))), Code::DeviceRevoked);
    let (again, fresh) = desk.sign_in("ada", &one, None).unwrap();
    assert_ne!(fresh, lost);
    desk.revoke(&again, "others").unwrap();
    assert!(desk.bearer(&here).is_none());
    desk.simple("sign-out", &again).unwrap();
    assert!(desk.bearer(&again).is_none());
    assert_eq!(code(desk.simple("devices", &again)), Code::Unauthorized);
}

#[test]
fn a_closed_account_keeps_its_login_and_its_key() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let one = Secret::passphrase("one");
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let (token, _) = desk.sign_in("ada", &one, None).unwrap();
    assert_eq!(code(desk.close(pair("ada", &token), &Secret::passphrase("two"))), Code::WrongPassphrase);
    desk.close(pair("ada", &token), &one).unwrap();
    assert!(desk.bearer(&token).is_none());
    assert_eq!(code(desk.sign_in("ada", &one, None)), Code::AccountClosed);
    assert_eq!(code(desk.sign_up("ada", 1, &[&one], None)), Code::LoginTaken);
    assert_eq!(code(desk.sign_up("eve", 1, &[&one], None)), Code::LoginTaken);
}

#[test]
fn an_invitation_makes_one_account_with_its_role() {
    let world = world();
    let mut desk = Desk::new(&world.engine);
    desk.sign_up = SignUp::Invited;
    let one = Secret::passphrase("one");
    assert_eq!(code(desk.sign_up("ada", 1, &[&one], None)), Code::InvitationNeeded);
    assert_eq!(code(desk.sign_up("ada", 1, &[&one], Some("made-up"))), Code::InvitationUnknown);
    let id = invite(&world.engine, ORG, "admin").unwrap();
    assert_eq!(code(invite(&world.engine, ORG, "owner").map(drop)), Code::BadOption);
    desk.sign_up("ada", 1, &[&one], Some(&id)).unwrap();
    // A repeat whose first answer was lost still has its answer; anybody else finds it used.
    desk.sign_up("ada", 1, &[&one], Some(&id)).unwrap();
    assert_eq!(code(desk.sign_up("bob", 2, &[&one], Some(&id))), Code::InvitationUnknown);
    let (token, _) = desk.sign_in("ada", &one, None).unwrap();
    assert!(desk.bearer(&token).unwrap().caller.is_admin);
    set_role(&world.engine, ORG, "ada", "read").unwrap();
    let caller = desk.bearer(&token).unwrap().caller;
    assert!(!caller.is_admin && !caller.may_write);
    assert_eq!(code(set_role(&world.engine, ORG, "nobody", "read")), Code::NotFound);
    // A server that is closed takes invitations no more, and says nothing of logins to strangers.
    let open = invite(&world.engine, ORG, "admin").unwrap();
    desk.sign_up = SignUp::Closed;
    assert_eq!(code(desk.sign_up("bob", 2, &[&one], Some(&open))), Code::InvitationNeeded);
    assert_eq!(code(desk.sign_up("ada", 2, &[&one], None)), Code::InvitationNeeded);
    desk.sign_up = SignUp::Invited;
    assert_eq!(code(desk.sign_up("ada", 2, &[&one], None)), Code::InvitationNeeded);
    desk.sign_up("bob", 2, &[&one], Some(&open)).unwrap();
    let late = invite(&world.engine, ORG, "write").unwrap();
    world.clock.advance(14 * DAY);
    assert_eq!(code(desk.sign_up("zoe", 3, &[&one], Some(&late))), Code::InvitationUnknown);
}

#[test]
fn a_request_that_is_no_message_is_refused_by_name() {
    let world = world();
    let desk = Desk::new(&world.engine);
    let p = || ("p", Value::from(1));
    for (request, expected) in [
        (Value::Null, Code::Malformed),
        (map([("do", Value::from("start"))]), Code::WrongProtocol),
        (map([p(), ("do", Value::from("open"))]), Code::Malformed),
        (map([p(), ("do", Value::from("start"))]), Code::Malformed),
        (map([p(), ("do", Value::from("start")), ("login", Value::from(""))]), Code::Malformed),
        (map([p(), ("do", Value::from("devices"))]), Code::Unauthorized),
        (map([p(), ("do", Value::from("close"))]), Code::Unauthorized),
    ] {
        assert_eq!(code(desk.ask(&request, None)), expected, "{request:?}");
    }
}
