//! Local documents (R29). Each slot of tabs writes one of its own, so that a naive record says how it must end. All slots
//! write another one together: there, all tabs must agree.

use super::*;

/// The document that all slots write.
const SHARED: &str = "shared";
const PROPERTIES: [&str; 2] = ["a", "b"];

/// A write of a slot's own document: the new value of each property, if it changes.
struct Written {
    id: String,
    values: [Option<Option<i64>>; 2],
    is_saved: bool,
    is_ended: bool,
    /// The first write that no tab knew to be accepted when this one was issued. A leader may take it in later than this
    /// one: another tab of the slot, which ended, had left it in the inbox.
    first_open: usize,
}

/// All writes of the slots' own documents, in order.
#[derive(Default)]
pub struct Locals {
    own: BTreeMap<usize, Vec<Written>>,
    /// Operations of which nothing must reach the server.
    pub ids: BTreeSet<String>,
    /// All operations of the application.
    pub issued: BTreeSet<String>,
}

impl Locals {
    /// Whether nothing of an operation must reach the server.
    pub fn is_here_only(&self, id: &str) -> bool {
        // A part of a batch has an id that no application knows.
        self.ids.contains(id) || (!self.ids.is_empty() && !self.issued.contains(id))
    }
}

/// A local document as a tab shows it.
fn seen(tab: &Tab, id: &str) -> Option<BTreeMap<String, Value>> {
    let key = tab.machine.key_of(LOCAL, &[id]).expect("a key");
    let found = tab.machine.find(&name(LOCAL), &key.1)?;
    let (_, shown) = tab.machine.memory().shown_by_id(found).expect("a local document is an overlay");
    Some(shown.data.as_ref().expect("a living document").to_map().expect("a map"))
}

fn value_of(seen: Option<&BTreeMap<String, Value>>, property: &str) -> Option<i64> {
    seen?.get(property)?.as_f64().map(|n| n as i64)
}

impl World {
    /// A tab puts, patches or deletes its slot's document or the shared one. Sometimes it does so in a batch that also adds to
    /// a counter.
    pub(super) fn act_local(&mut self, number: usize) {
        let is_own = self.below(4) > 0;
        let doc = if is_own { format!("own{number}") } else { SHARED.to_owned() };
        self.editions += 1;
        let n = self.editions as i64;
        let key = ("key", Value::Array(vec![doc.as_str().into()]));
        let (op, what, values) = match self.below(8) {
            0..=2 => {
                let data = Value::from([("id", doc.as_str().into()), ("a", n.into()), ("b", n.into())]);
                ("doc.put", vec![("data", data)], [Some(Some(n)); 2])
            }
            3..=5 => {
                let which = self.below(2) as usize;
                let set = Value::from([(PROPERTIES[which], Value::from(n))]);
                let mut values = [None; 2];
                values[which] = Some(Some(n));
                ("doc.patch", vec![key, ("set", set)], values)
            }
            _ => ("doc.delete", vec![key], [Some(None); 2]),
        };
        let mut args: BTreeMap<String, Value> = what.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        args.insert("class".into(), LOCAL.into());
        let part = |name: &str, args: Value| Value::from([("name", name.into()), ("args", args)]);
        let is_mixed = self.below(4) == 0 && !self.plan.is_wild;
        let (op, args) = if is_mixed {
            let add = Value::from([
                ("class", "Doc".into()),
                ("key", id(0)),
                ("property", "n".into()),
                ("by", Value::from(1)),
            ]);
            let ops = vec![part(op, Value::Map(args)), part("add", add)];
            ("batch", Value::from([("ops", Value::Array(ops))]))
        } else {
            (op, Value::Map(args))
        };
        let Some(issued) = self.issue(number, op, args) else { return };
        if !is_mixed {
            self.locals.ids.insert(issued.clone());
        }
        if is_own {
            let writes = self.locals.own.entry(number).or_default();
            let first_open = writes.iter().position(|written| !written.is_ended).unwrap_or(writes.len());
            writes.push(Written { id: issued, values, is_saved: false, is_ended: false, first_open });
        }
    }

    /// Notes which writes a tab reported as saved, and which the leader refused: another tab of the slot, which ended
    /// meanwhile, had deleted the document.
    pub(super) fn note_locals(&mut self, number: usize) {
        let Some(tab) = &mut self.tabs[number] else { return };
        // With such a write goes its addition to a counter.
        let is_undone =
            |end: &escale::Result<u64>| end.as_ref().is_err_and(|error| error.code() == Code::NotFound);
        if self.plan.has_locals && tab.ended.values().any(is_undone) {
            tab.counters.clear();
        }
        for writes in self.locals.own.values_mut() {
            let is_failed =
                |written: &Written| tab.ended.get(&written.id).is_some_and(|end| end.as_ref().is_err());
            writes.retain(|written| !is_failed(written));
            for written in writes.iter_mut() {
                written.is_saved |= tab.saved.contains(&written.id);
                written.is_ended |= tab.ended.contains_key(&written.id);
            }
        }
    }

    /// All tabs show the local documents that the device has. No write of a slot that a tab reported as saved is missing
    /// (R10, R29).
    pub(super) fn compare_locals(&mut self) {
        let (reopened, _) = self.reopened(0);
        for doc in (0..self.tabs.len()).map(|n| format!("own{n}")).chain([SHARED.to_owned()]) {
            let stored = seen(&reopened, &doc);
            for (number, tab) in self.tabs.iter().enumerate() {
                let Some(tab) = tab else { continue };
                assert_eq!(
                    seen(tab, &doc),
                    stored,
                    "R29: tab {number} shows another {doc} than the device has"
                );
            }
        }
        for (number, writes) in &self.locals.own {
            let stored = seen(&reopened, &format!("own{number}"));
            for (place, property) in PROPERTIES.iter().enumerate() {
                let last_saved = writes.iter().rposition(|w| w.is_saved && w.values[place].is_some());
                let first = last_saved.map_or(0, |last| writes[last].first_open.min(last));
                let mut allowed: Vec<Option<i64>> =
                    writes[first..].iter().filter_map(|written| written.values[place]).collect();
                allowed.extend(last_saved.is_none().then_some(None));
                let found = value_of(stored.as_ref(), property);
                assert!(
                    allowed.contains(&found),
                    "R29: own{number}.{property} is {found:?}, not of {allowed:?}"
                );
            }
        }
    }
}
