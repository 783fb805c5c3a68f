//! Queries of the application, each answered a second time by reading every document that the session shows (R30, R31).

use std::cmp::Ordering;

use escale::memory::Content;
use escale::memory::query::Query;
use escale::model::{Def, DefKind, Pk, Value};
use escale::sync::Event;

use super::World;
use crate::backend::Backend;
use crate::schema::{IDS, Map, SECTIONS, TAGS, def, defs_of, name, with};

/// The class of the queries.
const CLASS: &str = "Doc";

/// A query in plain terms, and as the application writes it.
#[derive(Clone, Debug)]
pub struct Asked {
    conditions: Vec<(&'static str, &'static str, Value)>,
    within: Option<Def>,
    order: Option<(&'static str, bool)>,
    after: Option<(Value, String)>,
    limit: Option<usize>,
    /// `within` was not subscribed to when the application asked, but its class was loaded.
    is_of_class: bool,
}

impl Asked {
    /// One of many queries, by two bytes.
    pub fn of(size: u8, shape: u8) -> Self {
        let number = Value::from(i64::from(size % 12));
        let section = |n: u8| Value::from(SECTIONS[usize::from(n) % 3]);
        let prefix = Value::from(["", "g", "a", "x1", "z"][usize::from(size) % 5]);
        let either = Value::Array(vec![section(size), section(size / 3)]);
        let conditions = match shape % 12 {
            0 => vec![("size", ">=", number.clone())],
            1 => vec![("size", "<", number.clone()), ("size", ">", Value::from(2_i64))],
            2 => vec![("size", "==", number.clone())],
            3 => vec![("section", "startsWith", prefix)],
            4 => vec![("section", "in", either)],
            5 => vec![("section", "<=", section(size)), ("size", ">", number.clone())],
            6 => vec![("tags", "contains", Value::from(TAGS[usize::from(size) % 3]))],
            7 => vec![("tags", "contains", Value::from(TAGS[0])), ("section", "==", section(size))],
            8 => vec![("origin", "==", Value::from("debian")), ("size", "<=", number.clone())],
            _ => vec![],
        };
        let order = match size / 12 % 8 {
            0 => Some(("size", false)),
            1 => Some(("size", true)),
            2 => Some(("section", false)),
            3 => Some(("section", true)),
            4 => Some(("key", false)),
            5 => Some(("key", true)),
            _ => None,
        };
        let after = order.filter(|_| shape & 16 != 0).map(|(index, _)| {
            let value = if index == "section" { section(shape) } else { number };
            (value, format!("id{}", usize::from(shape) % IDS))
        });
        let limit = (shape & 32 != 0 && order.is_some()).then(|| usize::from(size % 4) + 1);
        let within = (shape & 64 != 0).then(|| def(usize::from(size)));
        Asked {
            conditions,
            within: within.filter(|def| def.class().as_str() == CLASS),
            order,
            after,
            limit,
            is_of_class: false,
        }
    }

    /// The JSON of the package.
    fn json(&self) -> String {
        let text = |value: &Value| escale::codec::write_json(value).expect("a value");
        let conditions = self.conditions.iter();
        let conditions: Vec<String> = conditions
            .map(|(index, operator, value)| format!(r#"["{index}","{operator}",{}]"#, text(value)))
            .collect();
        let conditions = conditions.join(",");
        let or_null = |part: Option<String>| part.unwrap_or_else(|| "null".into());
        let within = or_null(self.within.as_ref().map(|def| format!("\"{def}\"")));
        let order = or_null(self.order.map(|(index, descending)| format!(r#"["{index}",{descending}]"#)));
        let limit = or_null(self.limit.map(|limit| limit.to_string()));
        let after =
            or_null(self.after.as_ref().map(|(value, key)| format!(r#"[{},["{key}"]]"#, text(value))));
        format!("[[{conditions}],{within},{order},{limit},{after}]")
    }

    fn query(&self) -> Query {
        with(|schema| Query::from_json(schema.class(CLASS).expect("a class"), &self.json()).expect("a query"))
    }

    fn is_satisfied(&self, data: &Map) -> bool {
        self.conditions.iter().all(|(index, operator, operand)| {
            let Some(value) = data.get(*index) else { return false };
            match *operator {
                "contains" => value.as_array().is_some_and(|items| items.contains(operand)),
                "in" => operand.as_array().is_some_and(|values| values.contains(value)),
                "startsWith" => {
                    value.as_str().expect("a text").starts_with(operand.as_str().expect("a text"))
                }
                _ => {
                    let order = compare(value, operand);
                    match *operator {
                        "<" => order.is_lt(),
                        "<=" => order.is_le(),
                        ">" => order.is_gt(),
                        ">=" => order.is_ge(),
                        _ => order.is_eq(),
                    }
                }
            }
        })
    }

    /// Filters and sorts the documents that a session shows, and gives the ids of those that the query lists.
    fn answer(&self, shown: &[(u32, Pk, Map)]) -> Vec<u32> {
        let mut found: Vec<(Option<Value>, &Pk, u32)> = shown
            .iter()
            .filter(|(_, _, data)| self.is_satisfied(data))
            .map(|(id, pk, data)| (self.order.and_then(|(index, _)| value_of(data, index)), pk, *id))
            .filter(|(value, _, _)| self.order.is_none() || value.is_some())
            .collect();
        let Some((index, descending)) = self.order else {
            return found.into_iter().map(|(_, _, id)| id).collect();
        };
        let place = |a: &Option<Value>, b: &Option<Value>| {
            compare(a.as_ref().expect("a value"), b.as_ref().expect("a value"))
        };
        found.sort_by(|a, b| place(&a.0, &b.0).then_with(|| a.1.cmp(b.1)));
        if descending {
            found.reverse();
        }
        if let Some((value, key)) = &self.after {
            let pk = Pk::from_key(&[key]).expect("a pk");
            let value = if index == "key" { Value::from(key.as_str()) } else { value.clone() };
            found.retain(|(own, own_pk, _)| {
                let order = compare(own.as_ref().expect("a value"), &value).then_with(|| (*own_pk).cmp(&pk));
                if descending { order.is_lt() } else { order.is_gt() }
            });
        }
        found.truncate(self.limit.unwrap_or(usize::MAX));
        found.into_iter().map(|(_, _, id)| id).collect()
    }
}

fn value_of(data: &Map, index: &str) -> Option<Value> {
    data.get(if index == "key" { "id" } else { index }).cloned()
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.chars().cmp(b.chars()),
        _ => a.as_f64().expect("a number").total_cmp(&b.as_f64().expect("a number")),
    }
}

impl<S: Backend> World<S> {
    /// The application of a client queries.
    pub(super) fn query(&mut self, client: usize, mut asked: Asked) {
        let state = &mut self.clients[client];
        let Some(machine) = &state.machine else { return };
        let memory = machine.memory();
        let unknown = asked.within.as_ref().filter(|def| memory.collection(def).is_none());
        asked.is_of_class = unknown.is_some_and(|def| {
            let class = memory.collection(&Def::class_of(def.class()));
            matches!(def.kind(), DefKind::Collection(..)) && class.is_some_and(|class| class.ready)
        });
        let is_refused = unknown.is_some() && !asked.is_of_class;
        state.last_ticket += 2;
        let ticket = state.last_ticket;
        state.awaited.insert(ticket);
        let query = asked.query();
        if !is_refused {
            state.asked.insert(ticket, asked);
        }
        self.feed(client, Event::Query { ticket, class: name(CLASS), query });
    }

    /// An answer names the documents that a filter and a sort of all shown documents name.
    pub(super) fn check_answer(&mut self, client: usize, ticket: u64, mut ids: Vec<u32>) {
        let Some(asked) = self.clients[client].asked.remove(&ticket) else { return };
        let Some(shown) = self.shown(client, &asked) else { return };
        let mut wanted = asked.answer(&shown);
        if asked.order.is_none() {
            ids.sort_unstable();
            wanted.sort_unstable();
        }
        assert_eq!(ids, wanted, "R30, R31: {asked:?}, of {shown:?}");
        self.figures.answers += 1;
    }

    /// The documents that a client shows; `None` if the data of one is ambiguous.
    fn shown(&self, client: usize, asked: &Asked) -> Option<Vec<(u32, Pk, Map)>> {
        let machine = self.clients[client].machine.as_ref()?;
        let memory = machine.memory();
        let keys = (0..IDS).map(|number| crate::schema::key(number).1);
        // Without a subscription, the members are the documents of the class whose data says so. There are none if the
        // subscription ended while the query waited.
        let of_class = asked.within.as_ref().filter(|_| asked.is_of_class);
        let listed = of_class.map(|def| Def::class_of(def.class())).or_else(|| asked.within.clone());
        let members = listed.map(|def| machine.list(&def).map(|(ids, _, _)| ids).unwrap_or_default());
        let mut shown = Vec::new();
        for pk in keys {
            let Some(id) = machine.find(&name(CLASS), &pk) else { continue };
            if members.as_ref().is_some_and(|members| !members.contains(&id)) {
                continue;
            }
            let data = match memory.shown_by_id(id) {
                Some((_, shown)) => shown.data.as_ref()?.to_map().ok()?,
                None => {
                    let (_, document) = memory.by_id(id)?;
                    match &document.content {
                        Content::Resident(data) => data.to_map().ok()?,
                        Content::AtRest => self.written(client, &pk, document.at.v)?,
                        Content::Lost => continue,
                    }
                }
            };
            let class = memory.schema().class(CLASS).ok()?;
            if of_class.is_none_or(|def| defs_of(class, &pk, &data).contains(def)) {
                shown.push((id, pk, data));
            }
        }
        Some(shown)
    }

    /// The data that the server gave a document at a version; `None` if two epochs differ in it.
    fn written(&self, client: usize, pk: &Pk, v: u64) -> Option<Map> {
        let org = self.clients[client].setup.tenant.org;
        let epochs = self.server.epochs();
        let entries = epochs.iter().filter_map(|epoch| self.server.history(org, epoch)).flatten();
        let mut found: Vec<&Map> =
            entries.filter(|entry| entry.key.1 == *pk && entry.v == v).map(|entry| &entry.data).collect();
        found.dedup();
        (found.len() == 1).then(|| found[0].clone())
    }
}
