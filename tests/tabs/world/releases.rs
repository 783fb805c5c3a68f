//! Two releases of an application, in the tabs of one browser. They differ in classes,
//! items, local classes, a collection, the type of an index, a raised release, and functions. The server knows all.

use super::*;

use escale::model::schema::Schema;
use escale::sync::{Application, NoApplication};
use escale_testkit::world::writes::Counters;

/// A release of the application.
#[derive(Clone)]
pub struct Release {
    pub schema: Schema,
    pub policy: Policy,
    /// Whether it has the optimistic parts of its operations.
    pub has_functions: bool,
}

thread_local! {
    static NEWEST: Schema = schema_of(&[true; FEATURES]);
}

/// The number of features that a release may have or lack.
pub const FEATURES: usize = 8;

fn schema_of(has: &[bool; FEATURES]) -> Schema {
    let [note, twig, photo, local, kind, int, wall, raised] = has;
    let or = |is: bool, yes: &str, no: &str| if is { yes.to_owned() } else { no.to_owned() };
    let when = |is: bool, text: &str| or(is, text, "");
    let kind = when(*kind, r#", "kind": { "key": ["kind", "origin"] }"#);
    let size = or(*int, "integer", "string");
    let release = when(*raised, r#", "release": 2"#);
    let text = [
        format!(
            r#"{{ "Doc": {{ "key": ["id"], "collections": {{
                "section": {{ "key": ["section"], "mutable": true }},
                "tags": {{ "key": ["tags"], "list": true, "mutable": true }}{kind} }},
                "indexes": {{ "size": "{size}", "section": "string", "tags": "string[]", "origin": "hash" }} }}"#
        ),
        format!(
            r#", "Tree": {{ "key": ["id"]{release}, "collections": {{
                "section": {{ "key": ["section"], "mutable": true }} }} }}"#
        ),
        when(*note, r#", "Note": { "key": ["book", "page"] }"#),
        when(
            *twig,
            r#", "Twig": { "in": "Tree", "key": ["tree", "twig"], "indexes": { "size": "integer" } }"#,
        ),
        when(*photo, r#", "Photo": { "key": ["id"], "properties": { "files": "file[]" } }"#),
        when(*wall, r#", "Wall": { "key": ["id"], "clock": "sequence" }"#),
        when(
            *wall,
            r#", "WallBrick": { "in": "Wall", "key": ["wall", "brick"], "indexes": { "size": "integer" } }"#,
        ),
        when(*local, &format!(r#", "{LOCAL}": {{ "key": ["id"], "local": true }}"#)),
        "}".to_owned(),
    ];
    Schema::from_json(&text.concat()).expect("a schema")
}

impl Release {
    /// The release that knows all.
    pub fn newest() -> Self {
        Release { schema: NEWEST.with(Schema::clone), policy: Policy::Overwrite, has_functions: true }
    }

    /// The release with these features.
    pub fn of(has: &[bool; FEATURES], policy: Policy, has_functions: bool) -> Self {
        Release { schema: schema_of(has), policy, has_functions }
    }

    /// A release that has some of the features. One of two has all.
    pub fn any(pick: &mut impl FnMut(u64) -> u64) -> Self {
        let is_newest = pick(2) == 0;
        let has = [(); FEATURES].map(|()| is_newest || pick(2) == 0);
        let policies = [Policy::Overwrite, Policy::Ask, Policy::Merge, Policy::Custom];
        Release::of(&has, policies[pick(4) as usize], pick(2) == 0)
    }

    pub fn application(&self) -> Box<dyn Application> {
        if self.has_functions { Box::new(Counters { policy: self.policy }) } else { Box::new(NoApplication) }
    }
}

impl World {
    /// A session that is opened at that moment, of the release of that slot.
    pub(super) fn reopened(&self, number: usize) -> (Tab, escale::storage::Damage) {
        Tab::open_as(&self.device, 1, &self.releases[number], self.limits).expect("a store")
    }

    /// A tab writes or subscribes to documents that the other release may not know. Some writes depend on the one before.
    pub(super) fn act_of_release(&mut self, number: usize) {
        self.editions += 1;
        let n = Value::from(self.editions as i64);
        let of = self.below(3);
        let id = |what: &str| Value::String(format!("{what}{of}"));
        let put = |class: &str, data: &[(&str, Value)]| {
            Value::from([
                ("class", class.into()),
                ("data", Value::Map(data.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect())),
            ])
        };
        let part = |name: &str, args: Value| Value::from([("name", name.into()), ("args", args)]);
        let tree = put("Tree", &[("id", id("tree")), ("size", n.clone())]);
        let twig = put("Twig", &[("tree", id("tree")), ("twig", "a".into()), ("size", n.clone())]);
        let note = put("Note", &[("book", id("book")), ("page", "1".into()), ("size", n.clone())]);
        let sized = Value::from([
            ("class", "Doc".into()),
            ("key", Value::Array(vec![id("id")])),
            ("set", Value::from([("size", n.clone())])),
        ]);
        let wall = put("Wall", &[("id", id("wall")), ("size", n.clone())]);
        let batch = |ops: Vec<Value>| Value::from([("ops", Value::Array(ops))]);
        let (name, args) = match self.below(9) {
            0 => ("doc.put", note),
            1 => ("doc.put", tree),
            2 => ("batch", batch(vec![part("doc.put", tree), part("doc.put", twig)])),
            3 => ("batch", batch(vec![part("doc.put", note), part("doc.patch", sized)])),
            4 => ("doc.put", put("Photo", &[("id", id("photo")), ("files", Value::Array(Vec::new()))])),
            5 => ("doc.patch", sized),
            6 => ("doc.put", wall),
            7 => {
                let local = put(LOCAL, &[("id", id("both")), ("a", n)]);
                ("batch", batch(vec![part("doc.put", note), part("doc.put", local)]))
            }
            _ => {
                let class = ["Note", "Photo", "Wall"][of as usize];
                let def = Def::class_of(&escale_testkit::schema::name(class));
                let now = self.now;
                let tab = self.tab(number);
                if tab.machine.memory().schema().check_def(&def).is_ok() {
                    tab.feed(Event::Subscribe(def), now);
                }
                return;
            }
        };
        let after = self.tab(number).issued.last().cloned().into_iter().collect();
        let is_after = self.below(3) == 0;
        drop(self.issue_after(number, name, args, if is_after { after } else { Vec::new() }));
    }

    /// The tabs of all releases come to rest, and end. One of the newest release opens: it knows all that they wrote.
    pub(super) fn end_with_the_newest_release(&mut self) {
        for _ in 0..4 {
            let next = self.below(self.tabs.len() as u64) as usize;
            if self.tabs[next].is_some() && self.tabs.iter().flatten().all(|tab| tab.machine.is_following()) {
                self.take_over(next);
            }
            self.settle();
            self.now += 31_000;
        }
        (0..self.tabs.len())
            .filter(|slot| self.tabs[*slot].is_some())
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|slot| {
                self.note(slot);
                self.kill(slot);
            });
        self.releases.fill(Release::newest());
        self.open(0);
        self.take_over(0);
        self.settle();
    }
}
