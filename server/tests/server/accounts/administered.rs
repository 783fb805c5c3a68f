//! R89 for accounts: roles and schedules by operations, the documents that show accounts, the last administrator, and the
//! application's own functions at a sign-up and at an end.
// A fault is as large as the information that the session needs.
#![allow(clippy::result_large_err)]

use std::sync::Arc;

use escale::Code;
use escale::codec::{Fault, Op, OpResult, SyncReply, SyncRequest};
use escale::model::Value;
use escale_server::accounts::{SignUp, invite};
use escale_server::clock::ManualClock;
use escale_server::engine::{Engine, Hooks, Restrictions};
use escale_server::settings::Settings;

use super::support::*;
use crate::support::items::{open_schema, world_of};
use crate::support::schedules::*;
use crate::support::world::*;

const SCHEMA: &str = r#"{
    "Note": { "key": ["id"] },
    "EscaleAccount": { "key": ["id"],
        "rights": { "read": [{ "own": "id" }, "admin"], "create": "none", "update": "none", "delete": "none" } }
}"#;

fn office() -> World {
    world_of(Settings::default(), SCHEMA)
}

/// A member: the id of the account, and a token.
fn member(desk: &Desk, login: &str, n: u8, role: Option<&str>) -> (String, String) {
    let secret = Secret::passphrase(login);
    let invitation = role.map(|role| invite(desk.engine, ORG, role).unwrap());
    let id = desk.sign_up(login, n, &[&secret], invitation.as_deref()).unwrap();
    let (token, _) = desk.sign_in(login, &secret, None).unwrap();
    (id, token)
}

/// Sends a request in the name of a token's bearer, as a transport does.
fn sync(desk: &Desk, token: &str, request: &SyncRequest) -> escale::Result<SyncReply> {
    let caller = desk.bearer(token).expect("a valid token").caller;
    let caller = Restrictions::of(desk.engine).restricted(ORG, caller).unwrap();
    desk.engine.sync(ORG, &caller, request)
}

fn run(desk: &Desk, token: &str, name: &str, args: Value) -> OpResult {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let session = format!("s{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let op = Op { id: session.clone(), seq: 1, name: name.into(), args, at: 0, after: None };
    let request = SyncRequest { ops: vec![op], ..SyncRequest::of(&session) };
    sync(desk, token, &request).unwrap().results.remove(0)
}

fn code_of(desk: &Desk, token: &str, name: &str, args: Value) -> String {
    run(desk, token, name, args).fault.map_or("ok".into(), |fault| fault.code)
}

/// The documents that a token's bearer reads: logins with their roles and their schedules.
fn shown(desk: &Desk, token: &str, of: &str) -> Result<Vec<(String, String, usize)>, String> {
    let request = SyncRequest { subs: vec![sub(&def(of), 0)], ..SyncRequest::of("look") };
    let part = sync(desk, token, &request).unwrap().parts.remove(0);
    if let Some(fault) = part.fault {
        return Err(fault.code);
    }
    let rows = part.rows.into_iter().filter(|row| !row.deleted).map(|row| {
        let map = Value::Map(row.data.unwrap().to_map().unwrap());
        let schedule = map.as_map().unwrap().get("schedule");
        let entries = schedule.map_or(0, |schedule| schedule.as_array().unwrap().len());
        assert_eq!(bytes("pub", &map).len(), 32);
        (text("login", &map), text("role", &map), entries)
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    Ok(rows)
}

fn row(login: &str, role: &str, entries: usize) -> (String, String, usize) {
    (login.to_owned(), role.to_owned(), entries)
}

const LEVEL_1: &[(u64, u8)] = &[(NOON, 1)];
const LEVEL_3: &[(u64, u8)] = &[(NOON, 3)];

#[test]
fn r89_an_administrator_sees_and_sets_accounts() {
    let office = office();
    let desk = Desk::new(&office.engine);
    let (root, boss) = member(&desk, "root", 1, Some("admin"));
    let (bob, worker) = member(&desk, "bob", 2, None);
    assert_eq!(
        shown(&desk, &boss, "EscaleAccount"),
        Ok(vec![row("bob", "write", 0), row("root", "admin", 0)])
    );
    assert_eq!(shown(&desk, &worker, "EscaleAccount"), Err("withdrawn".into()));
    let own = |id: &str| format!("EscaleAccount@{}", escale::model::Pk::from_key(&[id]).unwrap());
    assert_eq!(shown(&desk, &worker, &own(&bob)), Ok(vec![row("bob", "write", 0)]));
    assert_eq!(shown(&desk, &worker, &own(&root)), Err("withdrawn".into()));
    // Nobody writes these documents by hand.
    let forged =
        Value::Map(Map::from([("id".to_owned(), bob.as_str().into()), ("role".to_owned(), "admin".into())]));
    for token in [&boss, &worker] {
        let args = Value::from([("class", "EscaleAccount".into()), ("data", forged.clone())]);
        assert_eq!(code_of(&desk, token, "doc.put", args), "forbidden");
    }
    // The record and the document change together.
    assert_eq!(code_of(&desk, &worker, "account.set", set(&bob, Some("admin"), None)), "forbidden");
    assert_eq!(code_of(&desk, &boss, "account.set", set(&bob, Some("read"), Some(LEVEL_1))), "ok");
    assert_eq!(
        shown(&desk, &boss, "EscaleAccount"),
        Ok(vec![row("bob", "read", 1), row("root", "admin", 0)])
    );
    assert!(!desk.bearer(&worker).unwrap().caller.may_write);
    assert_eq!(code_of(&desk, &boss, "account.set", set(&bob, Some("write"), Some(&[]))), "ok");
    assert_eq!(
        shown(&desk, &boss, "EscaleAccount"),
        Ok(vec![row("bob", "write", 0), row("root", "admin", 0)])
    );
    // A login is no id, and an unknown id has no role.
    assert_eq!(code_of(&desk, &boss, "account.set", set("bob", None, Some(LEVEL_1))), "not_found");
    assert_eq!(code_of(&desk, &boss, "account.set", set("nobody", Some("read"), None)), "not_found");
    // A closed account is shown no more.
    desk.close(("bob", &worker), &Secret::passphrase("bob")).unwrap();
    assert_eq!(shown(&desk, &boss, "EscaleAccount"), Ok(vec![row("root", "admin", 0)]));
    assert_eq!(code_of(&desk, &boss, "account.set", set(&bob, Some("admin"), None)), "not_found");
}

#[test]
fn r89_nobody_signs_in_at_level_3_but_administrators_when_it_is_the_org_s() {
    let office = office();
    let desk = Desk::new(&office.engine);
    let (_, boss) = member(&desk, "root", 1, Some("admin"));
    let (bob, worker) = member(&desk, "bob", 2, None);
    let secret = |login: &str| Secret::passphrase(login);
    assert_eq!(code_of(&desk, &boss, "account.set", set(&bob, None, Some(LEVEL_3))), "ok");
    assert_eq!(code(desk.sign_in("bob", &secret("bob"), None)), Code::AccountClosed);
    assert_eq!(code(desk.sign_in("bob", &secret("wrong"), None)), Code::WrongPassphrase);
    for request in ["devices", "wraps", "sign-out"] {
        assert_eq!(code(desk.simple(request, &worker)), Code::AccountClosed);
    }
    assert_eq!(code(sync(&desk, &worker, &SyncRequest::of("s"))), Code::AccountClosed);
    assert_eq!(code_of(&desk, &boss, "account.set", set(&bob, None, Some(&[]))), "ok");
    desk.sign_in("bob", &secret("bob"), None).unwrap();
    desk.simple("devices", &worker).unwrap();
    assert_eq!(code_of(&desk, &boss, "org.set", of_org(LEVEL_3)), "ok");
    assert_eq!(code(desk.sign_in("bob", &secret("bob"), None)), Code::AccountClosed);
    assert_eq!(code(desk.sign_up("eve", 3, &[&secret("eve")], None)), Code::AccountClosed);
    let (boss, _) = desk.sign_in("root", &secret("root"), None).unwrap();
    assert_eq!(code_of(&desk, &boss, "org.set", of_org(&[])), "ok");
    desk.sign_in("bob", &secret("bob"), None).unwrap();
}

#[test]
fn r89_the_last_administrator_stays() {
    let office = office();
    let desk = Desk::new(&office.engine);
    let (root, boss) = member(&desk, "root", 1, Some("admin"));
    let (bob, _) = member(&desk, "bob", 2, None);
    let give_up = || code_of(&desk, &boss, "account.set", set(&root, Some("write"), None));
    let restrict = || code_of(&desk, &boss, "account.set", set(&root, None, Some(LEVEL_1)));
    assert_eq!((give_up(), restrict()), ("last_admin".into(), "last_admin".into()));
    let close = |force: bool| {
        let other = Map::from([("force".to_owned(), Value::Bool(force))]);
        desk.ask(&Value::Map(desk.proven("close", "root", &Secret::passphrase("root"), other)), Some(&boss))
    };
    assert_eq!(code(close(false)), Code::LastAdmin);
    // An administrator who may not write is none.
    let both = set(&bob, Some("admin"), Some(LEVEL_1));
    assert_eq!(code_of(&desk, &boss, "account.set", both), "ok");
    assert_eq!((give_up(), code(close(false))), ("last_admin".into(), Code::LastAdmin));
    assert_eq!(code_of(&desk, &boss, "account.set", set(&bob, None, Some(&[]))), "ok");
    assert_eq!(give_up(), "ok");
    // The instance of this caller does not know yet that the role has ended.
    let stale = escale_server::engine::Caller { is_admin: true, ..desk.bearer(&boss).unwrap().caller };
    let op = Op {
        id: "x".into(),
        seq: 1,
        name: "account.set".into(),
        args: set(&bob, Some("read"), None),
        at: 0,
        after: None,
    };
    let request = SyncRequest { ops: vec![op], ..SyncRequest::of("stale") };
    let result = office.engine.sync(ORG, &stale, &request).unwrap().results.remove(0);
    assert_eq!(result.fault.unwrap().code, "forbidden");
    // The only administrator may close the account all the same.
    let (bobs, _) = desk.sign_in("bob", &Secret::passphrase("bob"), None).unwrap();
    let forced = Map::from([("force".to_owned(), Value::Bool(true))]);
    let forced = desk.proven("close", "bob", &Secret::passphrase("bob"), forced);
    assert_eq!(code(desk.close(("bob", &bobs), &Secret::passphrase("bob"))), Code::LastAdmin);
    desk.ask(&Value::Map(forced), Some(&bobs)).unwrap();
}

/// A database that has accounts gets the class: each account is shown from its next sign-in on.
#[test]
fn r89_accounts_from_before_the_class_are_shown_at_their_next_sign_in() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOON);
    let engine = open_schema(folder.path(), &clock, Settings::default(), r#"{ "Note": { "key": ["id"] } }"#);
    let (_, boss) = member(&Desk::new(&engine), "root", 1, Some("admin"));
    drop(engine);
    let engine = open_schema(folder.path(), &clock, Settings::default(), SCHEMA);
    let desk = Desk::new(&engine);
    assert_eq!(shown(&desk, &boss, "EscaleAccount"), Ok(Vec::new()));
    desk.sign_in("root", &Secret::passphrase("root"), None).unwrap();
    assert_eq!(shown(&desk, &boss, "EscaleAccount"), Ok(vec![row("root", "admin", 0)]));
}

#[test]
fn functions_of_the_application_see_a_sign_up_and_an_end() {
    let office = office();
    let hooks = Hooks::default()
        .on_sign_up(|tx, account| {
            if account.login == "eve" {
                return Err(Fault::new(Code::TooMany, "not you"));
            }
            let role = account.invitation.and_then(|found| found.get("role")).and_then(Value::as_str);
            assert_eq!(account.role, role.unwrap_or("write"));
            tx.put(
                "Note",
                Map::from([("id".to_owned(), account.id.into()), ("of".to_owned(), account.login.into())]),
            )?;
            Ok(None)
        })
        .on_close(|tx, account| match tx.get("Note", &[account])? {
            Some(note) if note.contains_key("kept") => Err(Fault::new(Code::Forbidden, "it is kept")),
            _ => tx.delete("Note", &[account]).map(|()| None),
        });
    let World { engine, clock, folder: _folder } = office;
    let engine = Arc::into_inner(engine).unwrap().hooked(hooks).unwrap();
    let desk = Desk::new(&engine);
    let (bob, token) = member(&desk, "bob", 2, None);
    let (root, _) = member(&desk, "root", 1, Some("admin"));
    let notes = || {
        let mut ids: Vec<String> = pull_of(&engine).into_iter().map(|(_, of)| of).collect();
        ids.sort();
        ids
    };
    assert_eq!(notes(), ["bob", "root"]);
    assert_eq!(code(desk.sign_up("eve", 3, &[&Secret::passphrase("eve")], None)), Code::TooMany);
    assert_eq!(notes(), ["bob", "root"]);
    // The repeat of a sign-up is none.
    clock.advance(1);
    assert_eq!(desk.sign_up("bob", 2, &[&Secret::passphrase("bob")], None).unwrap(), bob);
    let kept = |is_kept: bool| {
        let mut map =
            Map::from([("id".to_owned(), Value::from(bob.as_str())), ("of".to_owned(), "bob".into())]);
        map.extend(is_kept.then(|| ("kept".to_owned(), Value::from(true))));
        clock.advance(1);
        put(&engine, map).unwrap();
    };
    kept(true);
    assert_eq!(code(desk.close(("bob", &token), &Secret::passphrase("bob"))), Code::Forbidden);
    desk.sign_in("bob", &Secret::passphrase("bob"), None).unwrap();
    let (token, _) = desk.sign_in("bob", &Secret::passphrase("bob"), None).unwrap();
    kept(false);
    desk.close(("bob", &token), &Secret::passphrase("bob")).unwrap();
    assert_eq!(notes(), ["root"]);
    assert!(pull_of(&engine).iter().all(|(id, _)| *id == root));
    assert_eq!(desk.sign_up, SignUp::Open);
}

/// The notes: id, and login.
fn pull_of(engine: &Engine) -> Vec<(String, String)> {
    let rows = pull(engine, &def("Note"), 0).rows.into_iter().filter(|row| !row.deleted);
    rows.map(|row| {
        let map = Value::Map(row.data.unwrap().to_map().unwrap());
        (text("id", &map), text("of", &map))
    })
    .collect()
}
