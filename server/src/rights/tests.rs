use std::collections::BTreeMap;

use escale::model::schema::Schema;
use escale::model::{Name, Value, sha_s};
use escale::{Code, Result};

use super::*;

const MEMBER: &str = r#""Member": { "key": ["group", "account"], "collections": { "account": { "key": ["account"] } },
    "rights": { "create": "admin", "update": "admin", "delete": "admin" } }"#;

fn schema(note: &str) -> Schema {
    Schema::from_json(&format!(r#"{{ {MEMBER}, "Note": {note} }}"#)).unwrap()
}

/// The class `Note` with this rule for `read`.
fn note(rule: &str) -> String {
    format!(
        r#"{{ "key": ["group", "id"], "rights": {{ "read": {rule} }}, "properties": {{ "size": "number" }},
            "collections": {{ "group": {{ "key": ["group"] }}, "two": {{ "key": ["group", "shelf"] }},
                              "tags": {{ "key": ["tags"], "list": true }} }} }}"#
    )
}

fn refusal(note: &str) -> String {
    let error = Rights::of(&schema(note)).unwrap_err();
    assert_eq!(error.code(), Code::BadSchema);
    error.detail().to_owned()
}

#[test]
fn r86_a_rule_that_no_decision_could_follow_is_bad_schema() {
    let deep = r#"[[[["org"]]]]"#;
    assert!(Rights::of(&schema(&note(deep))).is_ok(), "four levels");
    let many = format!("[{}]", vec![r#""admin""#; 16].join(","));
    assert!(Rights::of(&schema(&note(&many))).is_ok(), "sixteen rules");
    for (rule, part) in [
        (r#""orgs""#, "no rule is called \"orgs\""),
        ("7", "a rule is a word, a map or a list"),
        ("[]", "a list of rules has at least one"),
        (r#"{"all":[]}"#, "a list of rules has at least one"),
        (r#"{"own":7}"#, "the name of a property expected"),
        (r#"{"own":"a b"}"#, "no property can be called"),
        (r#"{"own":"a","unset":"b"}"#, "a rule has one word"),
        (r#"{"mine":"a"}"#, "no rule is called \"mine\""),
        (&format!("[{deep}]"), "more than 4 levels"),
        (&format!(r#"[{},"org"]"#, &many[1..many.len() - 1]), "more than 16 rules"),
        (r#"{"in":"Nobody","by":"group"}"#, "no such class"),
        (r#"{"in":"Member"}"#, "`by` is missing"),
        (r#"{"in":"Member","by":"size"}"#, "property size must be a string"),
        (r#"{"in":"Member","by":"tags"}"#, "property tags must be a string"),
        (r#"{"in":"Member","by":"group","were":{}}"#, "no word is called \"were\""),
        (r#"{"in":"Member","by":"group","where":{"role":[]}}"#, "a list of strings"),
        (r#"{"in":"Member","by":"group","where":{"role":"x"}}"#, "a list of strings"),
        (r#"{"in":"Note","by":"group"}"#, "a collection of its second key property"),
    ] {
        let found = refusal(&note(rule));
        assert!(found.starts_with("class Note: rights.read: ") && found.contains(part), "{rule}: {found}");
    }
    assert!(refusal(r#"{"key":["id"],"rights":{"write":"org"}}"#).contains("no right is called \"write\""));
    assert!(refusal(r#"{"key":["id"],"rights":"org"}"#).contains("rights: a map expected"));
    assert!(refusal(r#"{"key":["id"],"quota":"id"}"#).contains("quota: { by: property } expected"));
    assert!(refusal(r#"{"key":["id"],"quota":{"by":"n"},"properties":{"n":"number"}}"#).contains("a string"));
    assert!(refusal(r#"{"key":["group","id"],"in":"Member","quota":{"by":"id"}}"#).contains("not counted"));
}

/// Under `org`, any account could make itself a member.
#[test]
fn r86_a_class_of_memberships_declares_its_writes() {
    for missing in ["create", "update", "delete"] {
        let open = MEMBER.replace(&format!(r#""{missing}": "admin""#), r#""read": "org""#);
        let text = format!(r#"{{ {open}, "Note": {} }}"#, note(r#"{"in":"Member","by":"group"}"#));
        let error = Rights::of(&Schema::from_json(&text).unwrap()).unwrap_err();
        let what = format!("class Member: rights.{missing}: ");
        assert!(error.code() == Code::BadSchema && error.detail().starts_with(&what), "{error}");
    }
    // The class must be one that a session can follow.
    let offline = MEMBER.replace(r#""key": ["group"#, r#""sync": false, "key": ["group"#);
    let text = format!(r#"{{ {offline}, "Note": {} }}"#, note(r#"{"in":"Member","by":"group"}"#));
    assert!(Rights::of(&Schema::from_json(&text).unwrap()).is_err());
}

#[test]
fn r86_defs_that_nobody_may_ever_read_are_reported() {
    let dead = |rule: &str| {
        let schema = schema(&note(rule));
        Rights::of(&schema).unwrap().dead_collections(&schema)
    };
    let member = r#"{"in":"Member","by":"group"}"#;
    assert_eq!(dead(member), ["Note/tags", "Note/two"]);
    assert_eq!(dead(&format!(r#"[{member},"admin"]"#)), [""; 0]);
    assert_eq!(dead(&format!(r#"{{"all":[{member},{{"unset":"only"}}]}}"#)).len(), 3);
    assert_eq!(dead(r#"{"own":"tags"}"#), ["Note/group", "Note/two"]);
    assert_eq!(dead(r#""none""#), [""; 0], "on purpose");
    assert_eq!(dead(r#""org""#), [""; 0]);
}

/// The memberships of `ada`: a writer of `g`, a reader of `h`.
struct Held;

impl Held {
    fn role(group: &str) -> Option<BTreeMap<String, Value>> {
        let role = match group {
            "g" => "write",
            "h" => "read",
            _ => return None,
        };
        Some([("role".to_owned(), Value::from(role))].into())
    }
}

impl Related for Held {
    fn has(&mut self, rule: &Membership, group: &str) -> Result<bool> {
        Ok(Held::role(group).is_some_and(|map| rule.is_met_by(&map)))
    }

    fn has_hashed(&mut self, rule: &Membership, hash: &str) -> Result<bool> {
        let group = ["g", "h"].into_iter().find(|group| sha_s(group) == hash);
        Ok(group.and_then(Held::role).is_some_and(|map| rule.is_met_by(&map)))
    }

    /// Case 1 may be read, and case 2 changed.
    fn allows_parent(&mut self, parent: &Parent, items: Subject) -> Result<bool> {
        let allowed = if parent.right == Right::Read { "1" } else { "2" };
        let found = parent.of(&Schema::from_json(CASES).unwrap(), items)?;
        Ok(found.is_some_and(|(pk, _)| pk.as_str() == sha_s(allowed)))
    }
}

fn holds(rule: &str, account: &str, subject: Subject) -> bool {
    let rights = Rights::of(&schema(&note(rule))).unwrap();
    let rule = rights.class("Note").unwrap().rule(Right::Read);
    rule.holds(Asker { account, is_admin: account == "root" }, subject, &mut Held).unwrap()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, Value> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
}

#[test]
fn r86_each_rule_holds_for_the_documents_it_says() {
    let mut note = map(&[("group", "g"), ("owner", "ada")]);
    note.insert("seen".into(), Value::Array(vec!["bob".into(), "ada".into()]));
    note.insert("count".into(), Value::from(3));
    let of = |rule: &str, account: &str| holds(rule, account, Subject::Document(&note));
    for (rule, allowed) in [
        (r#""org""#, &["ada", "bob", "root", ""][..]),
        (r#""none""#, &[]),
        (r#""admin""#, &["root"]),
        (r#"{"own":"owner"}"#, &["ada"]),
        (r#"{"own":"seen"}"#, &["ada", "bob"]),
        (r#"{"own":"count"}"#, &[]),
        (r#"{"own":"absent"}"#, &[]),
        (r#"{"unset":"absent"}"#, &["ada", "bob", "root", ""]),
        (r#"{"unset":"owner"}"#, &[]),
        (r#"{"in":"Member","by":"owner"}"#, &[]),
        (r#"{"in":"Member","by":"count"}"#, &[]),
        (r#"[{"own":"owner"},"admin"]"#, &["ada", "root"]),
        (r#"{"all":[{"own":"seen"},{"own":"owner"}]}"#, &["ada"]),
        (r#"{"all":[{"own":"seen"},["none",{"unset":"absent"}]]}"#, &["ada", "bob"]),
    ] {
        let found: Vec<&str> =
            ["ada", "bob", "root", ""].into_iter().filter(|account| of(rule, account)).collect();
        assert_eq!(found, allowed, "{rule}");
    }
    // `Held` answers for everybody but an account without a name.
    let member = |rest: &str| format!(r#"{{"in":"Member","by":"group"{rest}}}"#);
    assert!(of(&member(""), "ada") && !of(&member(""), ""));
    assert!(of(&member(r#","where":{"role":["admin","write"]}"#), "ada"));
    assert!(!of(&member(r#","where":{"role":["read"]}"#), "ada"));
    assert!(!of(&member(r#","where":{"level":[1]}"#), "ada"), "a property that the membership lacks");
}

#[test]
fn r86_a_rule_that_a_def_does_not_decide_does_not_hold() {
    let (owner, group): (Name, Name) = ("owner".parse().unwrap(), "group".parse().unwrap());
    let (ada, g, nobody) = (sha_s("ada"), sha_s("g"), sha_s(""));
    let hash = |property, hash, is_of_list| Subject::Hash { property, hash, is_of_list };
    let own = r#"{"own":"owner"}"#;
    assert!(holds(own, "ada", hash(&owner, &ada, false)) && holds(own, "ada", hash(&owner, &ada, true)));
    assert!(!holds(own, "bob", hash(&owner, &ada, false)) && !holds(own, "ada", hash(&group, &ada, false)));
    assert!(!holds(own, "ada", Subject::Class) && !holds(own, "", hash(&owner, &nobody, false)));
    let member = r#"{"in":"Member","by":"group"}"#;
    assert!(holds(member, "ada", hash(&group, &g, false)) && !holds(member, "ada", hash(&group, &g, true)));
    assert!(!holds(member, "ada", hash(&owner, &g, false)) && !holds(member, "ada", Subject::Class));
    // Of a key, only its own properties are known.
    let key = map(&[("group", "g")]);
    assert!(holds(member, "ada", Subject::Shared(&key)) && !holds(own, "ada", Subject::Shared(&key)));
    let unset = r#"{"unset":"owner"}"#;
    assert!(holds(unset, "ada", Subject::Document(&key)) && !holds(unset, "ada", Subject::Shared(&key)));
    assert!(!holds(unset, "ada", hash(&group, &g, false)) && !holds(unset, "ada", Subject::Class));
    assert!(holds(r#""org""#, "", Subject::Class) && holds(r#""admin""#, "root", hash(&group, &g, true)));
}

const CASES: &str = r#"{
    "Case": { "key": ["id"] },
    "Step": { "in": "Case", "key": ["case", "n"],
        "rights": { "read": "parent", "create": "parent", "update": ["none", "parent"], "delete": "none" } }
}"#;

#[test]
fn r97_a_rule_of_items_asks_for_a_right_to_their_parent() {
    let schema = Schema::from_json(CASES).unwrap();
    let rights = Rights::of(&schema).unwrap();
    let rule = |right| rights.class("Step").unwrap().rule(right);
    let holds = |right, subject| {
        rule(right).holds(Asker { account: "ada", is_admin: false }, subject, &mut Held).unwrap()
    };
    let [one, two] = ["1", "2"].map(|case| map(&[("case", case), ("n", "7")]));
    let (key, other) = (map(&[("case", "1")]), map(&[("n", "1")]));
    let of = |right| [&one, &two].map(|item| holds(right, Subject::Document(item)));
    assert_eq!(
        [Right::Read, Right::Create, Right::Update].map(of),
        [[true, false], [false, true], [false, true]]
    );
    assert_eq!(of(Right::Delete), [false, false]);
    // A def of items names their parent by its hash; that of a class, of another property or of a list names none.
    let (case, n, hash): (Name, Name, String) = ("case".parse().unwrap(), "n".parse().unwrap(), sha_s("1"));
    let hashed = |property, is_of_list| Subject::Hash { property, hash: &hash, is_of_list };
    assert!(holds(Right::Read, hashed(&case, false)) && holds(Right::Read, Subject::Shared(&key)));
    assert!(!holds(Right::Read, hashed(&n, false)) && !holds(Right::Read, hashed(&case, true)));
    assert!(!holds(Right::Read, Subject::Class) && !holds(Right::Read, Subject::Shared(&other)));
    assert!(rights.read_asks_parent("Step") && !rights.read_asks_parent("Case"));
    assert_eq!(rights.dead_collections(&schema), [""; 0]);
    assert!(refusal(&note(r#"["admin","parent"]"#)).contains("parent: only a class with `in` has parents"));
}

#[test]
fn r89_an_exemption_is_a_level_and_the_class_of_accounts_is_the_server_s() {
    let rights = Rights::of(&schema(r#"{"key":["id"],"exempt":1}"#)).unwrap();
    assert_eq!([1, 2].map(|level| rights.is_exempt("Note", level)), [true, false]);
    assert!(!rights.is_exempt("Member", 1));
    for wrong in ["0", "3", "true", r#""1""#] {
        assert!(refusal(&format!(r#"{{"key":["id"],"exempt":{wrong}}}"#)).contains("exempt: 1 or 2"));
    }
    let of = |name: &str, class: &str| {
        let schema = Schema::from_json(&format!(r#"{{ "{name}": {class} }}"#)).unwrap();
        Rights::of(&schema).map(drop).map_err(|error| error.code())
    };
    let closed = r#""create": "none", "update": "none", "delete": "none""#;
    let rights = |read: &str| format!(r#"{{ "key": ["id"], "rights": {{ {read} {closed} }} }}"#);
    assert_eq!(of("EscaleAccount", &rights(r#""read": "admin","#)), Ok(()));
    let bad = Err(Code::BadSchema);
    assert_eq!(of("EscaleAccount", &rights("")), bad, "nobody says who reads it");
    assert_eq!(of("EscaleAccount", r#"{ "key": ["id"], "rights": { "read": "admin" } }"#), bad);
    assert_eq!(of("EscaleAccount", &rights(r#""read": "admin","#).replace("[\"id\"]", "[\"login\"]")), bad);
    assert_eq!(of("EscaleOther", &rights(r#""read": "admin","#)), bad);
}
