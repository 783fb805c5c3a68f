//! R92, written from docs/rules.md alone: the pending writes of a device, and their documents on a server. One
//! conflict at a time, each write is judged on the result of the one before it.

use std::collections::{BTreeMap, BTreeSet};

use escale::journal::Policy;
use escale::model::Value;

use super::schema::Map;

/// A document, or none.
pub type Doc = Option<Map>;

/// A change to a document.
#[derive(Clone, Debug)]
pub enum Kind {
    Put(Map),
    /// Properties to set, and properties to remove.
    Patch(Map, Vec<String>),
    Delete,
}

impl Kind {
    /// The document after the change. A patch of no document has no effect.
    pub fn on(&self, before: Doc) -> Doc {
        match self {
            Kind::Put(map) => Some(map.clone()),
            Kind::Delete => None,
            Kind::Patch(set, unset) => {
                let mut map = before?;
                map.retain(|name, _| !unset.contains(name));
                map.extend(set.clone());
                Some(map)
            }
        }
    }
}

/// The version that a write expects of a document.
#[derive(Clone, Debug)]
pub enum Expected {
    At(u64),
    /// The version that an earlier write of the device gave, once that one was accepted.
    Given(u64),
    /// The version that a pending write of the device will give.
    By(usize),
}

/// The part of a write that concerns one document.
#[derive(Clone, Debug)]
pub struct Step {
    pub kinds: Vec<Kind>,
    /// The document on which the write was made, and the one that it intends.
    pub base: Doc,
    pub mine: Doc,
    pub expected: Expected,
}

/// A pending write. Its steps are in the order in which the server looks at them.
#[derive(Clone, Debug)]
pub struct Pending {
    pub number: usize,
    /// How often another operation has taken its place.
    pub amended: usize,
    pub steps: Vec<(usize, Step)>,
}

/// The server's answer to a write.
#[derive(Clone, Debug)]
pub enum Answer {
    Accepted(u64),
    /// A document has another version, and this state.
    Refused(usize, u64, Doc),
    /// It depends on a write that was not accepted.
    Held,
}

/// The server: each document with its version, 0 if there never was one.
#[derive(Clone, Debug, Default)]
pub struct Site {
    pub docs: BTreeMap<usize, (u64, Doc)>,
    answers: BTreeMap<(usize, usize, usize), Answer>,
}

impl Site {
    pub fn doc(&self, doc: usize) -> (u64, Doc) {
        self.docs.get(&doc).cloned().unwrap_or_default()
    }

    pub fn put(&mut self, doc: usize, v: u64, state: Doc) {
        self.docs.insert(doc, (v, state));
    }

    /// Executes a write of a device, once, at that time.
    pub fn execute(&mut self, device: usize, write: &Pending, now: u64) -> Answer {
        let name = |number: usize, amended: usize| (device, number, amended);
        if let Some(answer) = self.answers.get(&name(write.number, write.amended)) {
            return answer.clone();
        }
        let mut by = BTreeMap::new();
        for (_, step) in &write.steps {
            let Expected::By(other) = step.expected else { continue };
            let mut of_it = self.answers.range(name(other, 0)..=name(other, usize::MAX));
            let Some((_, Answer::Accepted(v))) = of_it.next_back() else { return Answer::Held };
            by.insert(other, *v);
        }
        for (doc, step) in &write.steps {
            let (v, state) = self.doc(*doc);
            let holds = match step.expected {
                Expected::At(wanted) | Expected::Given(wanted) => {
                    v == wanted || (wanted == 0 && state.is_none())
                }
                Expected::By(other) => (v > 0 && v <= by[&other]) || (by[&other] == 0 && state.is_none()),
            };
            if !holds {
                let answer = Answer::Refused(*doc, v, state);
                self.answers.insert(name(write.number, write.amended), answer.clone());
                return answer;
            }
        }
        let after = |doc: &usize, step: &Step| {
            let (v, before) = self.doc(*doc);
            let state = step.kinds.iter().fold(before.clone(), |state, kind| kind.on(state));
            (state != before).then_some((*doc, v, state))
        };
        let changed: Vec<(usize, u64, Doc)> =
            write.steps.iter().filter_map(|(doc, step)| after(doc, step)).collect();
        let kept = write.steps.iter().map(|(doc, _)| self.doc(*doc).0).max().unwrap_or(0);
        let v = changed.iter().map(|(_, v, _)| v + 1).max().map_or(0, |v| v.max(now));
        let given = v.max(kept);
        for (doc, _, state) in changed {
            self.put(doc, v, state);
        }
        let answer = Answer::Accepted(given);
        self.answers.insert(name(write.number, write.amended), answer.clone());
        answer
    }
}

/// A function of the application: the document, or none for the server's.
pub type Function<'f> = dyn FnMut(&Doc, &Doc, &Doc) -> Option<Doc> + 'f;

/// The pending writes of a device, in their order.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    pub writes: Vec<Pending>,
    /// Writes that ended without being executed: discarded, or without an effect.
    pub discarded: Vec<usize>,
    pub idle: Vec<usize>,
}

/// A document that a write meets. If the write before deletes it, `deleted` has its base and the document that it met.
#[derive(Clone)]
struct Met {
    doc: Doc,
    deleted: Option<(Doc, Doc)>,
    expected: Expected,
}

impl Chain {
    /// Takes the server's answer to a write.
    pub fn take(&mut self, number: usize, answer: Answer, policy: Policy, function: &mut Function<'_>) {
        let Some(place) = self.writes.iter().position(|write| write.number == number) else { return };
        match answer {
            Answer::Held => {}
            Answer::Accepted(v) => {
                self.writes.remove(place);
                for (_, step) in self.writes.iter_mut().flat_map(|write| &mut write.steps) {
                    if matches!(step.expected, Expected::By(other) if other == number) {
                        step.expected = Expected::Given(v);
                    }
                }
            }
            Answer::Refused(doc, v, theirs) => {
                let write = &mut self.writes[place];
                let (_, step) = write.steps.iter_mut().find(|(of, _)| *of == doc).expect("a document of it");
                // Nobody else wrote: the write goes out again for the version that is there.
                let is_unwritten = matches!(step.expected, Expected::Given(given) if v < given);
                if (step.base.is_some() && step.base == theirs) || is_unwritten {
                    step.expected = Expected::At(v);
                    write.amended += 1;
                    return;
                }
                let met = Met { doc: theirs, deleted: None, expected: Expected::At(v) };
                self.rebase(place, doc, met, policy, function);
            }
        }
    }

    /// The rule. The write at that place meets `found`. From then on, each write meets the result of the one before.
    fn rebase(&mut self, place: usize, of: usize, found: Met, policy: Policy, function: &mut Function<'_>) {
        let server = found.doc.clone();
        let mut changed: BTreeSet<String> = BTreeSet::new();
        let mut met: BTreeMap<usize, Met> = BTreeMap::from([(of, found)]);
        let mut kept = Vec::new();
        for (index, mut write) in std::mem::take(&mut self.writes).into_iter().enumerate() {
            if index < place || !write.steps.iter().any(|(doc, _)| met.contains_key(doc)) {
                kept.push(write);
                continue;
            }
            let mut results: BTreeMap<usize, Option<Doc>> = BTreeMap::new();
            for (doc, step) in &mut write.steps {
                let Some(Met { doc: theirs, deleted, expected }) = met.get(doc).cloned() else { continue };
                step.expected = expected;
                let (base, mine) = (&step.base, &step.mine);
                let (whole, onto) = deleted.as_ref().map_or((base, &theirs), |(base, theirs)| (base, theirs));
                let result = match policy {
                    Policy::Server => None,
                    Policy::Client => Some(mine.clone()),
                    Policy::Merge => Some(merge(whole, mine, onto)),
                    Policy::Custom | Policy::Ask | Policy::Overwrite => function(base, mine, &theirs),
                };
                if *doc == of && mine.is_some() {
                    changed.extend(names(whole, mine).filter(|name| value(whole, name) != value(mine, name)));
                }
                results.insert(*doc, result);
            }
            if results.values().any(Option::is_none) {
                // Those after it meet the same documents.
                for (doc, step) in &write.steps {
                    let (doc, own, expected) = (*doc, step.base.clone(), step.expected.clone());
                    met.entry(doc).or_insert(Met { doc: own, deleted: None, expected });
                }
                self.discarded.push(write.number);
                continue;
            }
            for (doc, result) in results {
                let result = result.expect("looked at above");
                let theirs = met[&doc].doc.clone();
                let at = write.steps.iter().position(|(own, _)| *own == doc).expect("a document of it");
                let step = &mut write.steps[at].1;
                // It may have been deleted before.
                let before = met[&doc].deleted.clone();
                let deleted =
                    result.is_none().then(|| before.clone().unwrap_or((step.base.clone(), theirs.clone())));
                let mut expected = Expected::By(write.number);
                if theirs.is_none() && result.is_none() {
                    // Both sides have deleted it.
                    expected = step.expected.clone();
                    write.steps.remove(at);
                    write.amended += 1;
                } else {
                    let as_it_is = step.kinds.iter().fold(theirs.clone(), |state, kind| kind.on(state));
                    // A patch of no document would be refused.
                    let is_possible = theirs.is_some() || matches!(step.kinds[0], Kind::Put(_));
                    if index == place || !is_possible || as_it_is != result {
                        step.kinds = vec![result.clone().map_or(Kind::Delete, Kind::Put)];
                        write.amended += 1;
                    }
                    let kept = before.filter(|_| policy == Policy::Merge);
                    let (from, onto) = kept.unwrap_or((step.base.clone(), theirs.clone()));
                    // Who brings a document back has changed no more of it than before.
                    let is_back = policy == Policy::Merge && onto.is_none();
                    (step.base, step.mine) = (if is_back { from } else { theirs }, result.clone());
                }
                met.insert(doc, Met { doc: result, deleted, expected });
            }
            if write.steps.is_empty() {
                self.idle.push(write.number);
            } else {
                kept.push(write);
            }
        }
        self.writes = kept;
        let end = &met[&of].doc;
        if policy == Policy::Merge && server.is_some() && end.is_some() {
            for name in names(&server, end).filter(|name| !changed.contains(name)) {
                assert_eq!(value(end, &name), value(&server, &name), "R92: nobody here changes {name}");
            }
        }
    }
}

fn names<'d>(one: &'d Doc, other: &'d Doc) -> impl Iterator<Item = String> + 'd {
    one.iter().chain(other).flat_map(BTreeMap::keys).cloned()
}

fn value<'d>(doc: &'d Doc, name: &str) -> Option<&'d Value> {
    doc.as_ref()?.get(name)
}

/// The changes of `mine` are kept; the rest is as it is in `theirs`.
fn merge(base: &Doc, mine: &Doc, theirs: &Doc) -> Doc {
    if mine.is_none() || theirs.is_none() {
        return mine.clone();
    }
    let pick = |name: String| {
        let is_changed = value(base, &name) != value(mine, &name);
        let picked = value(if is_changed { mine } else { theirs }, &name).cloned();
        picked.map(|value| (name, value))
    };
    Some(names(mine, theirs).chain(names(base, base)).filter_map(pick).collect())
}
