//! Ranges of the values of an index.

use smol_str::SmolStr;

use super::column::joined;

/// A range of values: from the first one up to the second one, which it does not contain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub(super) from: SmolStr,
    pub(super) until: Option<SmolStr>,
}

impl Span {
    /// All values.
    pub fn all() -> Self {
        Span { from: SmolStr::default(), until: None }
    }

    /// The values from this one on, with it or without it.
    pub fn above(value: SmolStr, with: bool) -> Self {
        Span { from: if with { value } else { next(&value) }, until: None }
    }

    /// The values up to this one, with it or without it.
    pub fn below(value: SmolStr, with: bool) -> Self {
        Span { from: SmolStr::default(), until: Some(if with { next(&value) } else { value }) }
    }

    /// One value.
    pub fn only(value: SmolStr) -> Self {
        Span { until: Some(next(&value)), from: value }
    }

    /// The texts that start with this one.
    pub fn prefix(text: SmolStr) -> Self {
        let mut head = text.to_string();
        let mut until = None;
        while let Some(last) = head.pop() {
            // The next code point: there is none after the last one, and none between the halves of surrogates.
            let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(last as u32 + 1) };
            if let Some(next) = next {
                head.push(next);
                until = Some(head.into());
                break;
            }
        }
        Span { from: text, until }
    }

    /// The values of both.
    pub fn and(&self, other: &Span) -> Span {
        let from = if self.from > other.from { &self.from } else { &other.from };
        let until = match (&self.until, &other.until) {
            (Some(one), Some(two)) => Some(if one < two { one } else { two }),
            (one, two) => one.as_ref().or(two.as_ref()),
        };
        Span { from: from.clone(), until: until.cloned() }
    }
}

/// The text that comes directly after this one.
fn next(text: &str) -> SmolStr {
    joined(&[text, ""])
}
