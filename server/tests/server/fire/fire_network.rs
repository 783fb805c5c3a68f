//! Under fire: three orgs over real HTTP and WebSocket, with tokens of every role. Every hint and every
//! answer is searched as in `fire_orgs`. `ESCALE_REQUESTS` sets the number of requests; here it is divided by
//! ten.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use escale::codec::{Format, ServerFrame, SyncReply, decode, encode};
use escale::model::{Def, Pk};
use escale_server::http::{ServeOptions, Tokens, start};

use crate::fire::fire_orgs::{ORGS, Town, foreign_mark, marked_shelf};
use crate::support::chance::Chance;
use crate::support::client::*;
use crate::support::proof::{shown, times};
use crate::support::world::*;

const ROLES: [&str; 3] = ["read", "write", "admin"];

/// A token for each org and role, one token for two orgs, and one for none.
fn tokens() -> String {
    let one = |token: &str, orgs: &str, role: &str| {
        format!(r#""{token}": {{"account": "acc-{role}", "orgs": [{orgs}], "role": "{role}"}}"#)
    };
    let mut lines = vec![one("both", r#""red","green""#, "write"), one("none", "", "admin")];
    for org in ORGS {
        lines.extend(ROLES.map(|role| one(&format!("{org}-{role}"), &format!("\"{org}\""), role)));
    }
    format!("{{{}}}", lines.join(","))
}

/// Whether a token opens an org: `None`, or the status of the refusal.
fn opens(token: &str, org: &str) -> Option<u16> {
    match token {
        "both" => (org == "blue").then_some(403),
        "none" => Some(403),
        "nobody" => Some(401),
        token => (!token.starts_with(&format!("{org}-"))).then_some(403),
    }
}

fn defs(org: &str) -> Vec<Def> {
    let other = ORGS.iter().find(|other| **other != org).unwrap();
    let common = Pk::from_key(&["common-1"]).unwrap();
    vec![
        def("Note"),
        def(&format!("Note@{common}")),
        marked_shelf(org, 0),
        marked_shelf(org, 1),
        marked_shelf(other, 0),
        marked_shelf(other, 1),
    ]
}

#[tokio::test]
async fn no_answer_and_no_frame_bears_anything_of_another_org() {
    let since = Instant::now();
    let folder = quick_folder();
    let mut town = Town::new(folder.path());
    std::fs::write(folder.path().join("tokens.json"), tokens()).unwrap();
    let mut options = ServeOptions::new(Arc::clone(&town.engine), "127.0.0.1:0");
    options.tokens = Tokens::from_file(folder.path().join("tokens.json")).unwrap();
    let running = start(options).await.unwrap();
    let mut chance = Chance::new();

    let mut listeners = Vec::new();
    for org in ORGS {
        for token in ["read", "write", "admin"].map(|role| format!("{org}-{role}")) {
            let mut socket = connect(&running, &format!("/{org}/live"), &[]).await;
            say(&mut socket, Format::Msgpack, Some(&token), &defs(org)).await;
            assert!(matches!(hear(&mut socket).await.unwrap().1, ServerFrame::Live { .. }));
            listeners.push((org, socket));
        }
        // A token of another org opens nothing, and so does no token.
        for token in [Some("none"), None, Some(if org == "red" { "blue-admin" } else { "red-admin" })] {
            let mut socket = connect(&running, &format!("/{org}/live"), &[]).await;
            say(&mut socket, Format::Json, token, &defs(org)).await;
            assert_eq!(hear(&mut socket).await.unwrap_err().0, 4401);
        }
    }

    let requests = times("ESCALE_REQUESTS", 8_000) / 10;
    let mut statuses: HashMap<u16, u64> = HashMap::new();
    for n in 0..requests {
        let org = chance.pick(&ORGS);
        let token = match chance.below(10) {
            0 => chance.pick(&["both", "none", "nobody"]).to_owned(),
            1 => format!("{}-{}", chance.pick(&ORGS), chance.pick(&ROLES)),
            _ => format!("{org}-{}", chance.pick(&ROLES)),
        };
        let account = match token.split_once('-') {
            Some((_, role)) => format!("acc-{role}"),
            None => "acc-write".to_owned(),
        };
        let request = town.request(&mut chance, org, &account);
        let format = chance.pick(&[Format::Msgpack, Format::Json]);
        let body = encode(format, &request).unwrap();
        let authorization = format!("Bearer {token}");
        let headers = [("Content-Type", format.content_type()), ("Authorization", &*authorization)];
        let answer =
            crate::support::client::request(&running, "POST", &format!("/{org}/sync"), &headers, &body).await;
        *statuses.entry(answer.status).or_default() += 1;
        assert_eq!(answer.status, opens(&token, org).unwrap_or(200), "{token} in {org}");
        if answer.status == 200 {
            foreign_mark(org, &answer.body).unwrap();
            let reply: SyncReply = decode(format, &answer.body, usize::MAX).unwrap();
            town.check(org, &account, &request, &reply).unwrap_or_else(|why| panic!("{why}\n{request:?}"));
        } else {
            foreign_mark("", &answer.body).unwrap();
        }
        if n % 5 == 0 {
            let (org, salt) = (chance.pick(&ORGS), chance.next() >> 12);
            town.write(org, chance.below(24), salt);
        }
    }
    assert!([200, 401, 403].iter().all(|status| statuses.contains_key(status)), "{statuses:?}");

    // A last write in each org shows that all hints before it have arrived.
    let last: HashMap<&str, u64> =
        ORGS.iter().map(|org| (*org, town.write(org, 1, 1 << 60).expect("it is new"))).collect();
    let mut frames = 0;
    for (org, mut socket) in listeners {
        let subscribed: HashSet<Def> = defs(org).into_iter().collect();
        loop {
            let hints = hints(&mut socket).await;
            frames += 1;
            for (def, v) in &hints {
                assert!(subscribed.contains(def), "{org} hears of {def}");
                assert_eq!(town.versions.get(v), Some(&org), "{org} hears of {def} at {v}");
            }
            if hints.contains(&(def("Note"), last[org])) {
                break;
            }
        }
    }
    running.stop().await;
    eprintln!("{statuses:?}, {frames} frames of hints");
    let unit = "requests and pushed frames";
    shown(
        "server-orgs-network",
        "no byte of one org reaches another, HTTP and sockets",
        requests + frames,
        unit,
        since,
    );
}
