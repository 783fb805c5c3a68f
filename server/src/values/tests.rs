use std::collections::BTreeMap;

use escale::Code;
use escale::codec::{Format, decode};
use escale::model::Value;
use escale::model::schema::Schema;

use super::Values;

/// The class `Task` with these fields, next to its key.
fn values(fields: &str) -> Result<Values, String> {
    let schema = Schema::from_json(&format!(r#"{{ "Task": {{ "key": ["id"], {fields} }} }}"#)).unwrap();
    Values::of(&schema).map_err(|error| {
        assert_eq!(error.code(), Code::BadSchema);
        error.detail().to_owned()
    })
}

fn document(json: &str) -> BTreeMap<String, Value> {
    decode::<Value>(Format::Json, json.as_bytes(), usize::MAX).unwrap().as_map().unwrap().clone()
}

/// The refusal of a task.
fn refusal(values: &Values, json: &str) -> Option<String> {
    let error = values.check("Task", &document(json)).err()?;
    assert_eq!(error.code(), Code::BadValue);
    Some(error.detail().to_owned())
}

#[test]
fn r98_each_word_refuses_with_its_place() {
    let values = values(
        r#""indexes": { "due": "integer" }, "required": ["title", "due"], "additionalProperties": false,
           "properties": {
               "title": { "type": "string", "minLength": 1, "maxLength": 4 },
               "state": { "type": "string", "enum": ["open", "done"] },
               "size": { "type": "integer", "minimum": -1, "maximum": 9 },
               "marks": { "type": "number[]", "maxItems": 2, "items": { "maximum": 1.5 } },
               "photo": "file", "bytes": "bytes", "rest": "any", "seen": "boolean"
           }"#,
    )
    .unwrap();
    let of = |rest: &str| refusal(&values, &format!(r#"{{ "id": "1", "title": "Milk", "due": 5 {rest} }}"#));
    for fine in [
        "",
        r#", "release": 1, "maxLife": 5, "size": 9, "marks": [1, 1.5], "seen": true, "state": "done""#,
        r#", "size": null, "state": null, "rest": [{"a": 1}], "bytes": {"$bytes": "AQI"}"#,
        r#", "size": 3.0, "marks": []"#,
    ] {
        assert_eq!(of(fine), None, "{fine}");
    }
    for (rest, expected) in [
        (r#", "size": 9.5"#, "Task.size: type is integer"),
        (r#", "size": 10"#, "Task.size: maximum is 9"),
        (r#", "size": -2"#, "Task.size: minimum is -1"),
        (r#", "size": 9007199254740992"#, "Task.size: type is integer"),
        (r#", "state": "late""#, "Task.state: enum"),
        (r#", "marks": [1, 2]"#, "Task.marks[1]: maximum is 1.5"),
        (r#", "marks": [0, 0, 0]"#, "Task.marks: maxItems is 2"),
        (r#", "marks": [0, "0"]"#, "Task.marks: type is number[]"),
        (r#", "marks": 7"#, "Task.marks: type is number[]"),
        (r#", "seen": 1"#, "Task.seen: type is boolean"),
        (r#", "bytes": "AQI""#, "Task.bytes: type is bytes"),
        (r#", "photo": "cat""#, "Task.photo: type is file"),
        (r#", "colour": "red""#, "Task.*: additionalProperties is false"),
    ] {
        assert_eq!(of(rest).as_deref(), Some(expected), "{rest}");
    }
    for (json, expected) in [
        (r#"{ "id": "1", "due": 5 }"#, "Task.title: required"),
        (r#"{ "id": "1", "due": null, "title": "Milk" }"#, "Task.due: required"),
        (r#"{ "id": "1", "due": 5, "title": "" }"#, "Task.title: minLength is 1"),
        // Characters are counted, not bytes.
        (
            r#"{ "id": "1", "due": 5, "title": "\ud83d\ude00\ud83d\ude00\u00e9\u00e9\u00e9" }"#,
            "Task.title: maxLength is 4",
        ),
    ] {
        assert_eq!(refusal(&values, json).as_deref(), Some(expected), "{json}");
    }
    assert_eq!(
        refusal(&values, r#"{ "id": "1", "due": 5, "title": "\ud83d\ude00\ud83d\ude00\u00e9\u00e9" }"#),
        None
    );
    assert_eq!(values.check("Note", &document("{}")), Ok(()), "a class without rules");
}

#[test]
fn r98_a_word_that_no_value_could_keep_is_bad_schema() {
    for (fields, part) in [
        (
            r#""properties": { "p": { "type": "string", "maximum": 1 } }"#,
            "property p: maximum is for integer, number",
        ),
        (r#""properties": { "p": { "type": "bytes", "maxLength": 1 } }"#, "maxLength is for string"),
        (r#""properties": { "p": { "type": "string", "pattern": "a" } }"#, "no word is called \"pattern\""),
        (r#""properties": { "p": { "type": "string", "enum": [] } }"#, "enum: a list of 1 to 256 values"),
        (r#""properties": { "p": { "type": "string", "enum": [1] } }"#, "enum: a list of 1 to 256 values"),
        (
            r#""properties": { "p": { "type": "string", "minLength": 2, "maxLength": 1 } }"#,
            "the least is above the most",
        ),
        (r#""properties": { "p": { "type": "number", "minimum": "1" } }"#, "minimum: a number expected"),
        (
            r#""properties": { "p": { "type": "string", "maxLength": -1 } }"#,
            "maxLength: a number of 0 or more expected",
        ),
        (
            r#""properties": { "p": { "type": "string[]", "items": { "type": "number" } } }"#,
            "items: the type is string",
        ),
        (
            r#""properties": { "p": { "type": "string[]", "items": { "maxItems": 1 } } }"#,
            "items: maxItems is for",
        ),
        (r#""properties": { "p": { "type": "string[]", "items": 7 } }"#, "items: a map expected"),
        (r#""required": ["tilte"]"#, "required: each name must be that of a declared property"),
        (r#""required": "title""#, "required: a list of names of properties expected"),
        (r#""additionalProperties": 1"#, "additionalProperties: true or false expected"),
    ] {
        let found = values(fields).unwrap_err();
        assert!(found.starts_with("class Task: ") && found.contains(part), "{fields}: {found}");
    }
}
