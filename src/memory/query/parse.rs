//! Queries of the documents of one class: conditions on indexes, an order, and how many (R30, R31).

use super::column::{Column, joined};
use super::index::Cursor;
use super::span::Span;
use crate::codec::read_json;
use crate::error::{Code, Result, fail};
use crate::model::schema::{Class, IndexType};
use crate::model::{Def, Value, order};

/// One condition of a query: the document has a value in one of these spans.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicate {
    /// The properties that it reads.
    pub column: Column,
    /// Ascending, and none overlaps another.
    pub spans: Vec<Span>,
}

impl Predicate {
    /// The condition `index operator operand`; the operand of `in` is a list. Errors: `unknown_index`; `bad_option`
    /// if the index cannot answer it.
    pub fn new(class: &Class, index: &str, operator: &str, operand: &Value) -> Result<Self> {
        let index = class.index(index)?;
        let answers = match index.kind() {
            IndexType::Hash => &["=", "==", "in"][..],
            IndexType::List => &["contains"],
            IndexType::String => &["=", "==", "<", "<=", ">", ">=", "startsWith", "in"],
            IndexType::Int | IndexType::Float => &["=", "==", "<", "<=", ">", ">="],
            IndexType::Bool => &["=", "=="],
        };
        if !answers.contains(&operator) {
            return fail(Code::BadOption, format!("index {} does not answer {operator}", index.name()));
        }
        let column = Column::of(index);
        let entered = |value: &Value| match column.entered(value) {
            Some(value) => Ok(value),
            None => {
                fail(Code::BadOption, format!("index {} compares with another type of value", index.name()))
            }
        };
        if let ("in", Some(values)) = (operator, operand.as_array()) {
            let mut spans = Vec::with_capacity(values.len());
            for value in values {
                spans.push(Span::only(entered(value)?));
            }
            order::sort(&mut spans);
            spans.dedup();
            return Ok(Predicate { column, spans });
        }
        let value = entered(operand)?;
        let span = match operator {
            "<" => Span::below(value, false),
            "<=" => Span::below(value, true),
            ">" => Span::above(value, false),
            ">=" => Span::above(value, true),
            "startsWith" => Span::prefix(value),
            _ => Span::only(value),
        };
        Ok(Predicate { column, spans: vec![span] })
    }
}

/// The order of a query's documents: by value, then by pk.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The properties whose values order the documents.
    pub column: Column,
    /// Exactly the reverse.
    pub descending: bool,
    /// The query lists the documents behind this position.
    pub after: Option<Cursor>,
}

/// A query of the documents of one class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// The documents satisfy all of these.
    pub predicates: Vec<Predicate>,
    /// The documents are members of this def.
    pub within: Option<Def>,
    /// `None`: the caller orders them.
    pub order: Option<Order>,
    /// The number of documents to list at most.
    pub limit: Option<usize>,
}

impl Query {
    /// Reads a query of that class. It is a list as JSON: `[[[index, operator, operand], ...], def or null, [index,
    /// descending] or null, limit or null, [value, [key property, ...]] or null]`. With a limit or a cursor alone, the
    /// order is that of the keys. Errors: `unknown_index`, `unknown_def`, `bad_option`, `bad_key`.
    pub fn from_json(class: &Class, text: &str) -> Result<Self> {
        let parts: Value = read_json(text, Code::BadOption)?;
        let Some([Value::Array(conditions), within, order, limit, after]) = parts.as_array() else {
            return fail(Code::BadOption, "a query has five parts");
        };
        let mut query = Query { limit: limit.as_u64().map(|limit| limit as usize), ..Query::default() };
        for condition in conditions {
            let Some([Value::String(index), Value::String(operator), operand]) = condition.as_array() else {
                return fail(Code::BadOption, "where: [index, operator, operand]");
            };
            query.predicates.push(Predicate::new(class, index, operator, operand)?);
        }
        if let Value::String(def) = within {
            query.within = Some(def.parse()?);
        }
        let after = after.as_array();
        let (column, descending) = match order.as_array() {
            Some([Value::String(index), Value::Bool(descending)]) => (ordered(class, index)?, *descending),
            _ if after.is_none() && query.limit.is_none() => return Ok(query),
            _ => (Column::key(class), false),
        };
        let after = match after {
            Some([value, Value::Array(key)]) => Some(cursor(class, &column, value, key)?),
            _ => None,
        };
        query.order = Some(Order { column, descending, after });
        Ok(query)
    }

    /// The columns that its answer needs an index of.
    pub fn columns(&self) -> Vec<&Column> {
        let mut columns: Vec<&Column> = self.order.iter().map(|order| &order.column).collect();
        for predicate in &self.predicates {
            columns.push(&predicate.column);
        }
        columns
    }
}

/// The column that an order names: an index, or `key`.
fn ordered(class: &Class, index: &str) -> Result<Column> {
    match class.index(index) {
        Ok(index) if matches!(index.kind(), IndexType::Hash | IndexType::List) => {
            fail(Code::BadOption, format!("orderBy: a {} has no order", index.kind().as_str()))
        }
        Ok(index) => Ok(Column::of(index)),
        Err(_) if index == "key" => Ok(Column::key(class)),
        Err(error) => Err(error),
    }
}

/// The position of a document with this value of the order's index, and these key properties.
fn cursor(class: &Class, column: &Column, value: &Value, key: &[Value]) -> Result<Cursor> {
    let parts: Vec<&str> = key.iter().filter_map(Value::as_str).collect();
    let pk = class.pk_of(&parts)?;
    if *column == Column::key(class) {
        return Ok((joined(&parts), pk));
    }
    match column.entered(value) {
        Some(value) => Ok((value, pk)),
        None => fail(Code::BadOption, "after: the document has no value of the index that orders the query"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::query::Index;
    use crate::model::Pk;
    use crate::model::schema::Schema;

    const SCHEMA: &str = r#"{"Doc":{"key":["book","page"],
        "indexes":{"h":"hash","s":"string","i":"integer","f":"number","l":"string[]","b":"boolean"}}}"#;

    /// Whether a document with this value satisfies the condition.
    fn holds(predicate: &Predicate, index: &str, found: &Value) -> bool {
        let mut entries = Index::new(predicate.column.clone());
        entries.add(&[(index.to_owned(), found.clone())].into(), &Pk::lowest(), 1);
        let count = predicate.spans.iter().map(|span| entries.range(span, None, None).count()).sum::<usize>();
        assert!(count <= 1, "no span overlaps another");
        count == 1
    }

    /// Each operator on each index: which ones are answered, and the answer, compared with the plain comparison.
    #[test]
    fn r30_each_operator_compares_as_its_sign_says() {
        let schema = Schema::from_json(SCHEMA).unwrap();
        let class = schema.class("Doc").unwrap();
        let texts =
            ["", "a", "a\0", "ab", "b", "\u{d7ff}", "\u{e000}", "\u{ffff}", "\u{10ffff}", "\u{10ffff}b"]
                .map(Value::from);
        let numbers = [
            f64::MIN,
            -2.5,
            -1.0,
            -f64::MIN_POSITIVE,
            -0.0,
            0.0,
            5e-324,
            1.0,
            1.5,
            9_007_199_254_740_993.0,
            f64::MAX,
        ];
        let numbers = numbers.map(|number| Value::Number(crate::model::Number::new(number).unwrap()));
        let truths = [false, true].map(Value::from);
        let wrong = [Value::Null, Value::from(true), Value::Array(texts.to_vec())];
        let compared = ["=", "==", "<", "<=", ">", ">="];
        let texted = ["=", "==", "<", "<=", ">", ">=", "startsWith", "in"];
        for (index, operands, answered) in [
            ("h", &texts[..], &["=", "==", "in"][..]),
            ("s", &texts, &texted),
            ("i", &numbers, &compared),
            ("f", &numbers, &compared),
            ("l", &texts, &["contains"]),
            ("b", &truths, &["=", "=="]),
        ] {
            for sign in ["=", "==", "<", "<=", ">", ">=", "contains", "startsWith", "in", "!="] {
                for (place, value) in operands.iter().enumerate() {
                    let operand = if sign == "in" {
                        Value::Array(vec![value.clone(), value.clone()])
                    } else {
                        value.clone()
                    };
                    let predicate = Predicate::new(class, index, sign, &operand);
                    assert_eq!(predicate.is_ok(), answered.contains(&sign), "{index} {sign}");
                    let Ok(predicate) = predicate else { continue };
                    for (at, found) in operands.iter().enumerate() {
                        let is_same =
                            at == place || found.as_f64().is_some_and(|n| Some(n) == value.as_f64());
                        let wanted = match sign {
                            "<" => at < place && !is_same,
                            "<=" => at <= place || is_same,
                            ">" => at > place && !is_same,
                            ">=" => at >= place || is_same,
                            "startsWith" => found.as_str().unwrap().starts_with(value.as_str().unwrap()),
                            "contains" => false,
                            _ => is_same,
                        };
                        assert_eq!(
                            holds(&predicate, index, found),
                            wanted,
                            "{index}: {found:?} {sign} {value:?}"
                        );
                    }
                    let list = Value::Array(texts.to_vec());
                    assert_eq!(holds(&predicate, index, &list), sign == "contains", "{index} {sign}");
                    assert!(!holds(&predicate, "other", &texts[1]), "no such property");
                    assert!(
                        !holds(&predicate, index, &Value::Null)
                            && (index == "b" || !holds(&predicate, index, &Value::from(true)))
                    );
                }
                let others = if index == "i" || index == "f" { &texts[..] } else { &numbers };
                for wrong in wrong.iter().chain(others).filter(|wrong| index != "b" || **wrong != truths[1]) {
                    // A list of texts, or one text alone.
                    let is_list = sign == "in"
                        && !matches!(index, "i" | "f" | "l")
                        && *wrong == Value::Array(texts.to_vec());
                    assert!(
                        is_list || Predicate::new(class, index, sign, wrong).is_err(),
                        "{index} {sign} {wrong:?}"
                    );
                }
            }
        }
        assert_eq!(Predicate::new(class, "none", "=", &texts[0]).unwrap_err().code(), Code::UnknownIndex);
    }

    /// Each wrong query is refused by name.
    #[test]
    fn r31_a_wrong_query_is_refused_by_name() {
        let schema = Schema::from_json(SCHEMA).unwrap();
        let class = schema.class("Doc").unwrap();
        for (text, code) in [
            ("[[],null,null,null,null]", None),
            (r#"[[["s",">","a"],["l","contains","b"]],null,["i",true],10000,null]"#, None),
            (r#"[[],null,["key",false],null,[null,["a","b/c"]]]"#, None),
            ("[[],null,null,3,null]", None),
            (r#"[[],null,["i",false],null,[3,["a","b"]]]"#, None),
            (r#"[[["s",">"]],null,null,null,null]"#, Some(Code::BadOption)),
            (r#"[[["none","==","a"]],null,null,null,null]"#, Some(Code::UnknownIndex)),
            (r#"[[["s","in",["a",1]]],null,null,null,null]"#, Some(Code::BadOption)),
            (r#"[[],null,["none",false],null,null]"#, Some(Code::UnknownIndex)),
            (r#"[[],null,["l",false],null,null]"#, Some(Code::BadOption)),
            (r#"[[],null,["h",false],null,null]"#, Some(Code::BadOption)),
            (r#"[[],null,["i",false],null,["3",["a","b"]]]"#, Some(Code::BadOption)),
            (r#"[[],null,["i",false],null,[3,["a"]]]"#, Some(Code::BadKey)),
            (r#"[[],null,["i",false],null,[3,["a/b","c"]]]"#, Some(Code::BadKey)),
            (r#"[[],"not a def",null,null,null]"#, Some(Code::UnknownDef)),
            (r#"[[["b","==",true]],null,["b",false],null,[false,["a","b"]]]"#, None),
            (r#"[[["b","==",1]],null,null,null,null]"#, Some(Code::BadOption)),
            (r#"[[["b","<",true]],null,null,null,null]"#, Some(Code::BadOption)),
            ("[]", Some(Code::BadOption)),
            ("[", Some(Code::BadOption)),
        ] {
            let found = Query::from_json(class, text);
            assert_eq!(found.as_ref().err().map(crate::Error::code), code, "{text}");
        }
        let by_key = Query::from_json(class, "[[],null,null,3,null]").unwrap();
        assert_eq!(
            by_key.order.map(|order| order.column),
            Some(Column::key(class)),
            "a limit needs an order"
        );
    }
}
