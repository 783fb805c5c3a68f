//! Queries on indexed properties, evaluated on documents' data.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::codec::read_json;
use crate::error::{Code, Result, fail};
use crate::model::schema::{Class, IndexType};
use crate::model::{Name, Value};

/// How a property is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equal,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `contains`, on a list.
    Contains,
}

/// One condition of a query.
#[derive(Clone, Debug)]
pub struct Predicate {
    property: Name,
    operator: Operator,
    value: Value,
}

impl Predicate {
    /// The condition `index operator value`. Errors: `unknown_index`; `bad_option` if the index cannot answer
    /// it.
    pub fn new(class: &Class, index: &str, operator: &str, value: Value) -> Result<Self> {
        let index = class.index(index)?;
        let operator = match operator {
            "=" | "==" => Operator::Equal,
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterOrEqual,
            "contains" => Operator::Contains,
            _ => return fail(Code::BadOption, "an operator is one of == < <= > >= contains"),
        };
        let answers = match index.kind() {
            IndexType::Hash => operator == Operator::Equal,
            IndexType::List => operator == Operator::Contains,
            IndexType::String | IndexType::Int | IndexType::Float => operator != Operator::Contains,
        };
        if !answers {
            let detail = format!("index {} cannot answer that operator", index.name());
            return fail(Code::BadOption, detail);
        }
        let suits = match index.kind() {
            IndexType::Hash | IndexType::String | IndexType::List => matches!(value, Value::String(_)),
            IndexType::Int | IndexType::Float => matches!(value, Value::Number(_)),
        };
        if !suits {
            return fail(
                Code::BadOption,
                format!("index {} compares with another type of value", index.name()),
            );
        }
        Ok(Predicate { property: index.property().clone(), operator, value })
    }

    /// Parses `[[index, operator, value], ...]`.
    pub fn list(class: &Class, json: &str) -> Result<Vec<Self>> {
        let triples: Vec<(String, String, Value)> = read_json(json, Code::BadOption)?;
        triples
            .into_iter()
            .map(|(index, operator, value)| Predicate::new(class, &index, &operator, value))
            .collect()
    }

    /// The property that it reads.
    pub fn property(&self) -> &Name {
        &self.property
    }

    /// Whether a document with these properties satisfies it; one without the property never does.
    pub fn holds(&self, properties: &BTreeMap<String, Value>) -> bool {
        let Some(found) = properties.get(self.property.as_str()) else { return false };
        if self.operator == Operator::Contains {
            return found.as_array().is_some_and(|items| items.contains(&self.value));
        }
        let order = match (found, &self.value) {
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            _ => None,
        };
        let Some(order) = order else { return false };
        match self.operator {
            Operator::Equal => order == Ordering::Equal,
            Operator::Less => order == Ordering::Less,
            Operator::LessOrEqual => order != Ordering::Greater,
            Operator::Greater => order == Ordering::Greater,
            Operator::GreaterOrEqual => order != Ordering::Less,
            Operator::Contains => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::schema::Schema;

    const SCHEMA: &str =
        r#"{"Doc":{"key":["id"],"indexes":{"h":"hash","s":"string","i":"int","f":"float","l":"list"}}}"#;

    /// Each operator on each index: which ones are answered, and the answer, compared with the plain comparison.
    #[test]
    fn each_operator_compares_as_its_sign_says() {
        let schema = Schema::from_json(SCHEMA).unwrap();
        let class = schema.class("Doc").unwrap();
        let texts = ["", "a", "b"].map(Value::from);
        let numbers = [-1_i64, 2, 3].map(Value::from);
        let list = Value::Array(vec![texts[1].clone(), texts[2].clone()]);
        let others = [Value::Null, Value::from(true), list.clone()];
        for (index, kind, answered) in [
            ("h", &texts, &["=", "=="][..]),
            ("s", &texts, &["=", "==", "<", "<=", ">", ">="]),
            ("i", &numbers, &["=", "==", "<", "<=", ">", ">="]),
            ("f", &numbers, &["=", "==", "<", "<=", ">", ">="]),
            ("l", &texts, &["contains"]),
        ] {
            for sign in ["=", "==", "<", "<=", ">", ">=", "contains", "!="] {
                for (place, value) in kind.iter().enumerate() {
                    let predicate = Predicate::new(class, index, sign, value.clone());
                    assert_eq!(predicate.is_ok(), answered.contains(&sign), "{index} {sign}");
                    let Ok(predicate) = predicate else { continue };
                    assert_eq!(predicate.property().as_str(), index);
                    let holds = |found: &Value| predicate.holds(&[(index.to_owned(), found.clone())].into());
                    for (at, found) in kind.iter().enumerate() {
                        let wanted = match sign {
                            "<" => at < place,
                            "<=" => at <= place,
                            ">" => at > place,
                            ">=" => at >= place,
                            "contains" => false,
                            _ => at == place,
                        };
                        assert_eq!(holds(found), wanted, "{index}: {found:?} {sign} {value:?}");
                    }
                    assert_eq!(holds(&list), sign == "contains" && place > 0, "{index} {sign}");
                    assert!(!predicate.holds(&BTreeMap::new()), "no such property");
                    assert!(!holds(&others[0]) && !holds(&others[1]), "another type");
                }
                for wrong in others.iter().chain(if index == "i" || index == "f" { &texts } else { &numbers })
                {
                    assert!(
                        Predicate::new(class, index, sign, wrong.clone()).is_err(),
                        "{index} {sign} {wrong:?}"
                    );
                }
            }
        }
        assert!(Predicate::new(class, "none", "=", texts[0].clone()).is_err());
        let both = Predicate::list(class, r#"[["s",">","a"],["l","contains","b"]]"#).unwrap();
        assert_eq!(both.len(), 2);
    }
}
