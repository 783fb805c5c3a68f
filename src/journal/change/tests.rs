use super::*;
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::model::Number;

fn code(name: &str, args: &Value) -> Option<Code> {
    let schema = Schema::from_json(r#"{"Doc":{"key":["id","part"]}}"#).unwrap();
    changes_of(&schema, name, args).err().map(|error| error.code())
}

fn with(args: &Value, name: &str, value: Value) -> Value {
    let mut args = args.clone();
    args.as_map_mut().unwrap().insert(name.to_owned(), value);
    args
}

fn list(texts: &[&str]) -> Value {
    Value::Array(texts.iter().map(|text| Value::from(*text)).collect())
}

fn id() -> Value {
    Value::from([("id", Value::from("a")), ("part", Value::from("b"))])
}

fn put(data: Value) -> Value {
    Value::from([("class", Value::from("Doc")), ("data", data)])
}

fn patch(set: Value) -> Value {
    Value::from([("class", Value::from("Doc")), ("key", list(&["a", "b"])), ("set", set)])
}

fn nothing() -> Value {
    Value::Map(BTreeMap::new())
}

fn batch(count: usize, name: &str) -> Value {
    let op = Value::from([("name", Value::from(name)), ("args", put(id()))]);
    Value::from([("ops", Value::Array(vec![op; count]))])
}

#[test]
fn arguments_that_no_server_takes_are_refused_each_by_its_code() {
    let texts = |name: &str| Value::from([(name, Value::from("x"))]);
    let cases = [
        ("doc.put", put(id()), None),
        ("doc.put", put(with(&id(), "x_y", Value::Null)), Some(Code::BadValue)),
        ("doc.put", put(Value::from("x")), Some(Code::BadValue)),
        ("doc.put", put(texts("id")), Some(Code::BadKey)),
        ("doc.put", with(&put(id()), "ifVersion", Value::from(-1_i64)), Some(Code::BadValue)),
        ("doc.put", with(&put(id()), "ifVersion", texts("of")), Some(Code::BadValue)),
        ("doc.put", with(&put(id()), "ifVersion", texts("op")), None),
        ("doc.put", with(&put(id()), "ifVersion", Value::Null), None),
        ("doc.patch", patch(nothing()), None),
        ("doc.patch", patch(Value::from([("id", Value::from("a")), ("part", Value::from("b"))])), None),
        ("doc.patch", patch(Value::from([("part", Value::from("c"))])), Some(Code::KeyMismatch)),
        ("doc.patch", patch(texts("_x")), Some(Code::BadValue)),
        ("doc.patch", patch(texts("maxLife")), Some(Code::BadValue)),
        ("doc.patch", patch(Value::Null), Some(Code::BadValue)),
        ("doc.patch", with(&patch(nothing()), "unset", list(&["x", "y"])), None),
        ("doc.patch", with(&patch(nothing()), "unset", list(&["x", "_y"])), Some(Code::BadValue)),
        ("doc.patch", with(&patch(nothing()), "unset", list(&["x", "part"])), Some(Code::KeyMismatch)),
        ("doc.patch", with(&patch(nothing()), "unset", Value::from("x")), Some(Code::BadValue)),
        ("doc.patch", with(&patch(nothing()), "key", list(&["a"])), Some(Code::BadKey)),
        ("doc.patch", with(&patch(nothing()), "key", Value::from("a")), Some(Code::BadKey)),
        ("doc.patch", with(&patch(nothing()), "class", Value::from("No")), Some(Code::UnknownClass)),
        ("doc.delete", patch(nothing()), None),
        ("doc.delete", put(id()), Some(Code::BadValue)),
        ("batch", batch(OPS_MAX, "doc.put"), None),
        ("batch", batch(OPS_MAX + 1, "doc.put"), Some(Code::TooLarge)),
        ("batch", batch(1, "batch"), Some(Code::BadValue)),
        ("batch", batch(1, "own"), None),
        ("batch", nothing(), Some(Code::BadValue)),
        ("own", Value::Number(Number::from_i64(1)), None),
    ];
    for (name, args, wanted) in cases {
        let shown = if name == "batch" { String::new() } else { format!("{args:?}") };
        assert_eq!(code(name, &args), wanted, "{name} {shown}");
    }
}

#[test]
fn data_and_patches_are_at_most_as_large_as_a_document() {
    for (bytes, wanted) in [(DOCUMENT_BYTES_MAX, None), (DOCUMENT_BYTES_MAX + 1, Some(Code::TooLarge))] {
        // The names, the key and the lengths take the other bytes.
        let data = with(&id(), "x", Value::String("x".repeat(bytes - 20)));
        let text = Value::from([("x", Value::String("x".repeat(bytes - 8)))]);
        assert_eq!(code("doc.put", &put(data)), wanted, "{bytes} bytes");
        assert_eq!(code("doc.patch", &patch(text)), wanted, "{bytes} bytes");
    }
}

#[test]
fn each_operation_of_a_batch_has_its_change() {
    let schema = Schema::from_json(r#"{"Doc":{"key":["id","part"]}}"#).unwrap();
    let ops = [("doc.put", put(id())), ("own", nothing()), ("doc.delete", patch(nothing()))];
    let ops = ops.map(|(name, args)| Value::from([("name", Value::from(name)), ("args", args)]));
    let batch = Value::from([("ops", Value::Array(ops.into()))]);
    let changes = changes_of(&schema, "batch", &batch).unwrap().unwrap();
    let key = key_of(&schema, "Doc", &["a", "b"]).unwrap();
    let put = ChangeKind::Put(id().as_map().unwrap().clone());
    let wanted =
        [put, ChangeKind::Delete].map(|kind| Change { key: key.clone(), kind, if_version: None, tree: None });
    assert_eq!(changes, wanted);
    assert!(
        !is_built_in("batch", &batch)
            && is_built_in("doc.patch", &nothing())
            && !is_built_in("own", &nothing())
    );
}
