//! The files that an operation references.

use crate::model::schema::FileRef;
use crate::model::{Value, order};

/// The objects of all files that these arguments reference, each once. Every map that has the form of a reference counts
/// as one, so that the application's own operations need not name theirs. A map that has it by chance does no harm: the
/// device holds no such file.
pub fn files_of(args: &Value) -> Vec<String> {
    let mut found = Vec::new();
    find(args, &mut found);
    order::sort(&mut found);
    found.dedup();
    found
}

fn find(value: &Value, found: &mut Vec<String>) {
    match (FileRef::read(value), value) {
        (Some(file), _) => found.push(file.sha.to_owned()),
        (None, Value::Map(map)) => map.values().for_each(|value| find(value, found)),
        (None, Value::Array(items)) => items.iter().for_each(|value| find(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_found_at_any_depth() {
        let sha = |last: char| format!("{}{last}", "a".repeat(42));
        let file =
            |last| Value::from([("sha", Value::from(sha(last).as_str())), ("size", Value::from(3_i64))]);
        let other = Value::from([("sha", Value::from("short")), ("size", Value::from(3_i64))]);
        let data =
            Value::from([("photo", file('E')), ("more", Value::Array(vec![file('A'), other, file('E')]))]);
        let args = Value::from([("ops", Value::Array(vec![Value::from([("args", data)])]))]);
        assert_eq!(files_of(&args), [sha('A'), sha('E')]);
        assert_eq!(files_of(&Value::Null), Vec::<String>::new());
    }
}
