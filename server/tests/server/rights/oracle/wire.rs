//! R99 and R100 on open sockets: the oracle says of each hint whether it may be said, and which must be.

use std::collections::BTreeMap;

use escale::codec::{Format, ServerFrame};
use escale::model::{Def, Version};
use escale_server::http::{Running, Tokens};
use escale_server::settings::Settings;

use super::model::{ACCOUNTS, Asked, At, Model, is_in, parent_of};
use super::{CLASSES, pass, some_def, some_document};
use crate::rights::support::*;
use crate::support::chance::Chance;
use crate::support::client::*;
use crate::support::items::world_of;
use crate::support::proof::times;
use crate::support::world::*;

/// The class whose hint is the last one of a step.
const LAST: &str = "Open";

/// A socket, and the defs that the server has confirmed to it.
struct Listener {
    who: &'static str,
    socket: Socket,
    live: BTreeMap<Def, (&'static str, Asked)>,
}

/// The changes of a step.
#[derive(Debug, Default)]
struct Changed {
    /// Documents: how they were, and how they are.
    documents: Vec<(At, Vec<Map>)>,
    /// A parent that was deleted. The defs of its items get hints, whether there are any or not, and so do those of
    /// singletons, which have its pk.
    ended: Option<At>,
}

impl Changed {
    fn is_in(&self, (class, asked): &(&'static str, Asked)) -> bool {
        let parent = match asked {
            Asked::Collection("in", key) => parent_of(&(*class, key.clone())),
            Asked::Document(key) => parent_of(&(*class, key.clone())).filter(|parent| parent.1 == *key),
            _ => None,
        };
        let is_of_ended = parent.is_some() && parent == self.ended;
        let mut documents = self.documents.iter();
        is_of_ended
            || documents.any(|((of, key), states)| {
                of == class && states.iter().any(|map| is_in(class, asked, key, map))
            })
    }
}

impl Listener {
    fn may_read(&self, model: &Model, (class, asked): &(&'static str, Asked)) -> bool {
        model.orgs["o"].may_read(model.now, class, asked, self.who)
    }

    /// Subscribes to other defs. The server must refuse those that the account may not read, and no others.
    async fn subscribe(&mut self, model: &Model, chance: &mut Chance) -> Result<(), String> {
        let mut asked = BTreeMap::from([(def(LAST), (LAST, Asked::Class))]);
        for _ in 0..12 {
            let class = chance.pick(&CLASSES);
            let (of, text) = some_def(chance, class, self.who);
            asked.insert(def(&text), (class, of));
        }
        let defs: Vec<Def> = asked.keys().cloned().collect();
        say(&mut self.socket, Format::Msgpack, Some(&format!("tok-{}", self.who)), &defs).await;
        let live = loop {
            match hear(&mut self.socket).await.unwrap().1 {
                ServerFrame::Live { live, .. } => break live,
                ServerFrame::Alive => {}
                ServerFrame::Hints(hints) => {
                    // Time has ended rights since the last step.
                    let is_last = |def: &Def| !self.live.get(def).is_some_and(|of| self.may_read(model, of));
                    if !hints.iter().all(|(def, _)| is_last(def)) {
                        return Err(format!("{}: {hints:?} without a change", self.who));
                    }
                }
                other @ ServerFrame::Parts(_) => panic!("{other:?}"),
            }
        };
        let expected: Vec<&Def> =
            asked.iter().filter(|(_, of)| self.may_read(model, of)).map(|(def, _)| def).collect();
        if !live.iter().eq(expected.iter().copied()) {
            return Err(format!("{}: {live:?} are live, {expected:?} expected of {asked:?}", self.who));
        }
        asked.retain(|def, _| live.contains(def));
        self.live = asked;
        Ok(())
    }

    /// Hears the hints of a step, which end with one of [`LAST`] at that version.
    async fn hear(&mut self, model: &Model, changed: &Changed, v: Version) -> Result<(), String> {
        let mut heard: BTreeMap<Def, usize> = BTreeMap::new();
        loop {
            let hints = hints(&mut self.socket).await;
            for (def, _) in &hints {
                *heard.entry(def.clone()).or_default() += 1;
            }
            if hints.contains(&(def(LAST), v)) {
                break;
            }
        }
        heard.remove(&def(LAST));
        if let Some(def) = heard.keys().find(|def| !self.live.contains_key(*def)) {
            return Err(format!("{} hears of {def}", self.who));
        }
        let mut lost = Vec::new();
        for (def, of) in self.live.iter().filter(|(def, _)| *def != &self::def(LAST)) {
            let count = heard.get(def).copied().unwrap_or(0);
            let is_right = if self.may_read(model, of) {
                (count > 0) == changed.is_in(of)
            } else {
                lost.push(def.clone());
                count == 1
            };
            if !is_right {
                return Err(format!("{}: {count} hints of {of:?}, after {changed:?}", self.who));
            }
        }
        self.live.retain(|def, _| !lost.contains(def));
        Ok(())
    }
}

/// Changes a random document, without asking the rules. Returns the changes.
fn change(world: &World, model: &mut Model, chance: &mut Chance) -> Changed {
    let class = chance.pick(&CLASSES);
    let who = chance.pick(&ACCOUNTS);
    let (at, map) = some_document(chance, class, who, model.now);
    let held = model.orgs.get_mut("o").unwrap();
    let is_orphan = parent_of(&at).is_some_and(|parent| !held.docs.contains_key(&parent));
    let before = held.docs.get(&at).cloned();
    let after = (before.is_none() || chance.is(60)).then_some(&map);
    if class == LAST || is_orphan || before.as_ref() == after {
        return Changed::default();
    }
    let last = held.gone.get(&at).map(|gone| gone.last().clone());
    let states = before.into_iter().chain(last).chain(after.cloned()).collect();
    let mut changed =
        Changed { documents: vec![(at.clone(), states)], ended: after.is_none().then(|| at.clone()) };
    if after.is_none() {
        // Its items end, and those that had ended do so later.
        let gone = held.gone.iter().map(|(item, gone)| (item, gone.last()));
        let items = held.docs.iter().chain(gone).filter(|(item, _)| parent_of(item).as_ref() == Some(&at));
        changed.documents.extend(items.map(|(item, map)| (item.clone(), vec![map.clone()])));
    }
    let written = world.engine.write("o", |w| match after {
        Some(map) => w.put(class, map.clone()).map(drop),
        None => w.delete(class, &map),
    });
    assert!(written.unwrap().v.is_some());
    held.set(&at, after);
    changed
}

async fn play(chance: &mut Chance, steps: usize) -> Result<(), String> {
    let world = world_of(Settings::default(), RIGHTS);
    let running = started(&world).await;
    let mut model = Model::at(NOON);
    let mut listeners = Vec::new();
    for who in ACCOUNTS {
        let socket = connect(&running, "/o/live", &[]).await;
        listeners.push(Listener { who, socket, live: BTreeMap::new() });
    }
    for listener in &mut listeners {
        listener.subscribe(&model, chance).await?;
    }
    for n in 0..steps {
        world.clock.advance(1);
        model.now += 1;
        world.clock.advance(pass(&mut model, chance));
        if chance.is(20) {
            let listener = chance.below(listeners.len() as u64) as usize;
            listeners[listener].subscribe(&model, chance).await?;
        }
        let changed = change(&world, &mut model, chance);
        let mut last = doc(&[("id", "last")]);
        last.insert("n".into(), escale::model::Value::from(n as i64));
        let v = world.engine.write("o", |w| w.put(LAST, last.clone())).unwrap().v.unwrap();
        for listener in &mut listeners {
            listener.hear(&model, &changed, v).await.map_err(|what| format!("{n}: {what}"))?;
        }
    }
    running.stop().await;
    Ok(())
}

async fn started(world: &World) -> Running {
    let access = |who: &str| {
        let role = if who == "root" { "admin" } else { "write" };
        format!(r#""tok-{who}": {{ "account": "{who}", "orgs": ["o"], "role": "{role}" }}"#)
    };
    let path = world.folder.path().join("tokens.json");
    std::fs::write(&path, format!("{{{}}}", ACCOUNTS.map(access).join(","))).unwrap();
    serve(world, |options| {
        options.tokens = Tokens::from_file(path).unwrap();
        options.pulls = 1_000_000;
    })
    .await
}

/// `ESCALE_RIGHTS` sets the number of requests of the oracle; this takes a step for each forty.
#[tokio::test]
async fn r99_every_hint_is_one_that_the_oracle_allows() {
    let requests = times("ESCALE_RIGHTS", 6_000) as usize;
    let mut chance = Chance::new();
    // A session says little in ten seconds.
    for first in (0..requests / 40).step_by(150) {
        let steps = (requests / 40 - first).min(150);
        play(&mut chance, steps).await.unwrap_or_else(|difference| panic!("{difference}"));
    }
}
