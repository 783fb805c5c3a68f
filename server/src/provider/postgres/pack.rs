//! Values of indexes as bytes, whose order is that of the values. The order needs no collation of the database,
//! which another version of its libraries may change.

use sha2::{Digest, Sha256};

use crate::provider::EntryValue;

/// The first byte of a number, and of a text. Numbers come first.
const NUMBER: u8 = 1;
const TEXT: u8 = 2;

/// The bytes of a text that are stored. A hash stands for the rest, because an entry of an index must be small.
const TEXT_BYTES_MAX: usize = 256;

/// The bytes of a value. Equal values have equal bytes, whether an integer or a number.
pub(super) fn pack(value: &EntryValue) -> Vec<u8> {
    match value {
        EntryValue::Int(int) => {
            let near = *int as f64;
            // At most 512, half the distance between two numbers of that size.
            let rest = i128::from(*int) - near as i128;
            number(near, rest as i16)
        }
        EntryValue::Float(float) => number(*float, 0),
        EntryValue::Text(text) => {
            let bytes = text.as_bytes();
            let mut packed = vec![TEXT];
            packed.extend_from_slice(&bytes[..bytes.len().min(TEXT_BYTES_MAX)]);
            if bytes.len() > TEXT_BYTES_MAX {
                packed.extend_from_slice(&Sha256::digest(bytes));
            }
            packed
        }
    }
}

/// A number, and the distance of the integer that it stands for.
fn number(near: f64, rest: i16) -> Vec<u8> {
    // There are two zeros, which are equal.
    let bits = if near == 0.0 { 0 } else { near.to_bits() };
    // Negative numbers descend in their bits, and come first.
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    let mut packed = vec![NUMBER];
    packed.extend_from_slice(&ordered.to_be_bytes());
    packed.extend_from_slice(&(rest as u16 ^ 0x8000).to_be_bytes());
    packed
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;

    /// The order of the rules: numbers by value, then texts by their bytes.
    fn order(a: &EntryValue, b: &EntryValue) -> Ordering {
        match (a, b) {
            (EntryValue::Int(a), EntryValue::Int(b)) => a.cmp(b),
            (EntryValue::Float(a), EntryValue::Float(b)) => a.partial_cmp(b).expect("finite"),
            (EntryValue::Text(a), EntryValue::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (EntryValue::Text(_), _) => Ordering::Greater,
            (_, EntryValue::Text(_)) => Ordering::Less,
            (EntryValue::Int(a), EntryValue::Float(b)) => mixed(*a, *b),
            (EntryValue::Float(a), EntryValue::Int(b)) => mixed(*b, *a).reverse(),
        }
    }

    fn mixed(int: i64, float: f64) -> Ordering {
        if float.abs() > 1e20 {
            return 0.0_f64.partial_cmp(&float).expect("finite");
        }
        let whole = float.floor();
        i128::from(int).cmp(&(whole as i128)).then(if float > whole {
            Ordering::Less
        } else {
            Ordering::Equal
        })
    }

    fn value() -> impl Strategy<Value = EntryValue> {
        let near = prop_oneof![Just(0), Just(1 << 53), Just(i64::MAX), Just(i64::MIN), Just(-(1 << 60))];
        let int = (near, -600_i64..600).prop_map(|(near, by)| near.saturating_add(by));
        let float = prop_oneof![any::<f64>(), int.clone().prop_map(|int| int as f64), -9.0..9.0];
        prop_oneof![
            int.prop_map(EntryValue::Int),
            float.prop_filter("finite", |f| f.is_finite()).prop_map(EntryValue::Float),
            "[a\u{0}\u{e9}\u{10fff}]{0,3}".prop_map(EntryValue::Text),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

        #[test]
        fn bytes_are_in_the_order_of_their_values(a in value(), b in value()) {
            prop_assert_eq!(pack(&a).cmp(&pack(&b)), order(&a, &b));
        }
    }

    #[test]
    fn long_texts_differ_at_their_ends_and_stay_small() {
        let text = |end: &str| pack(&EntryValue::Text("x".repeat(5_000) + end));
        assert_ne!(text("a"), text("b"));
        assert_eq!(text("a"), text("a"));
        assert_eq!(text("a").len(), 1 + TEXT_BYTES_MAX + 32);
    }
}
