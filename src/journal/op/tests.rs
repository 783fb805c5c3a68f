//! An operation as a list of its parts: all questions to it have the answers that a reader of the list gives.
#![allow(clippy::print_stdout)] // the seed of an operation that fails

use super::*;
use crate::codec::Data;
use crate::crypto::SeededRandom;
use crate::error::Code;
use crate::journal::ChangeKind;

/// Applications sort by ids, and servers take UUIDs of version 7: each has its time, version and variant in place, and
/// all else is random.
#[test]
fn an_id_is_a_uuid_of_version_7_that_sorts_by_its_time() {
    let random = &mut SeededRandom::new(3);
    let mut last = String::new();
    let mut random_bits = (u128::MAX, 0_u128);
    let mut differences = (0, 0);
    for now in (0..200).map(|step| 1_700_000_000_000 + step * 77_777) {
        let id = make_id(now, random).expect("an id");
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
        let bits = u128::from_str_radix(&id.replace('-', ""), 16).expect("hexadecimal");
        assert_eq!((bits >> 80) as u64, now, "{id}: its time");
        assert_eq!(((bits >> 76) & 0xf, (bits >> 62) & 0b11), (7, 0b10), "{id}: version and variant");
        assert!(id > last, "{id} comes after {last}");
        random_bits = (random_bits.0 & bits, random_bits.1 | bits);
        // The random bits next to the version and to the variant are no copies of others.
        differences.0 |= (bits >> 72 ^ bits >> 64) & 0xf;
        differences.1 |= (bits >> 56 ^ bits >> 48) & 0x3f;
        last = id;
    }
    let mask = (1_u128 << 76) - 1 - (0b11 << 62);
    assert_eq!((random_bits.0 & mask, random_bits.1 & mask), (0, mask), "every other bit is drawn");
    assert_eq!(differences, (0xf, 0x3f));
}

/// One part of an operation; its document is of class 0 or 1.
#[derive(Clone)]
struct Part {
    is_own: bool,
    key: DocKey,
    expected: Option<IfVersion>,
}

impl Part {
    fn name(&self) -> &'static str {
        if self.is_own { "own" } else { "doc.delete" }
    }

    fn args(&self) -> Value {
        let mut args = BTreeMap::from([("key".to_owned(), Value::Array(vec![self.key.1.as_str().into()]))]);
        match &self.expected {
            None => {}
            Some(IfVersion::At(v)) => drop(args.insert("ifVersion".to_owned(), Value::from(*v as i64))),
            Some(IfVersion::Of(id)) => {
                args.insert("ifVersion".to_owned(), Value::from([("op", Value::from(id.as_str()))]));
            }
        }
        Value::Map(args)
    }

    fn change(&self) -> Option<Change> {
        let change = Change {
            key: self.key.clone(),
            kind: ChangeKind::Delete,
            if_version: self.expected.clone(),
            tree: None,
        };
        (!self.is_own).then_some(change)
    }

    fn names(&self, id: &str) -> bool {
        self.expected.as_ref().and_then(IfVersion::of).is_some_and(|of| of == id)
    }
}

fn class(number: u16) -> Name {
    Name::new(if number == 0 { "Doc" } else { "Note" }).unwrap()
}

fn document(number: u64) -> DocKey {
    ((number % 2) as u16, Pk::from_key(&[&(number / 2).to_string()]).unwrap())
}

const DOCUMENTS: u64 = 6;

/// An operation of these parts; `is_batch` if it is a batch even of one.
struct Listed {
    parts: Vec<Part>,
    is_batch: bool,
    has_run: bool,
}

impl Listed {
    fn some(random: &mut SeededRandom) -> Self {
        let mut below = |bound: u64| random.below(bound).unwrap();
        let is_batch = below(3) > 0;
        let (count, owns) = (if is_batch { below(5) } else { 1 }, below(2));
        let parts = (0..count).map(|_| {
            let expected = match below(4) {
                0 => None,
                1 => Some(IfVersion::At(below(3))),
                _ => Some(IfVersion::Of(format!("op{}", below(3)))),
            };
            Part { is_own: owns == 1 && below(3) == 0, key: document(below(DOCUMENTS)), expected }
        });
        Listed { parts: parts.collect(), is_batch, has_run: below(6) > 0 }
    }

    fn args(&self) -> Value {
        if !self.is_batch {
            return self.parts[0].args();
        }
        let part = |part: &Part| Value::from([("name", Value::from(part.name())), ("args", part.args())]);
        Value::from([("ops", Value::Array(self.parts.iter().map(part).collect()))])
    }

    fn changes(&self) -> Option<Vec<Change>> {
        self.has_run.then(|| self.parts.iter().filter_map(Part::change).collect())
    }

    fn op(&self) -> PendingOp {
        let name = if self.is_batch { "batch" } else { self.parts[0].name() };
        let mut op = PendingOp::new(state(name, self.args()), Vec::new());
        op.changes = self.changes();
        op
    }

    fn has_own(&self) -> bool {
        self.parts.iter().any(|part| part.is_own)
    }

    /// The parts whose effects are known to the end.
    fn plain(&self) -> &[Part] {
        if self.has_own() || !self.has_run { &[] } else { &self.parts }
    }

    /// The parts whose expected versions only the arguments have.
    fn mixed(&self) -> Vec<&Part> {
        let is_mixed = self.is_batch && self.has_own();
        self.parts.iter().filter(|part| is_mixed && !part.is_own).collect()
    }

    fn named(&self) -> Vec<&str> {
        let parts = self.plain().iter().chain(self.mixed());
        parts.filter_map(|part| Some(part.expected.as_ref()?.of()?.as_str())).collect()
    }
}

fn state(name: &str, args: Value) -> OpState {
    let mut state = OpState::new(1, "id".to_owned(), (name.to_owned(), args), 1);
    state.issued.after = vec!["before".to_owned()];
    state
}

/// Plays each operation of a range of seeds.
fn each(play: impl Fn(&mut SeededRandom, Listed, PendingOp)) {
    for seed in 0..800 {
        println!("ESCALE_SEED={seed}");
        let random = &mut SeededRandom::new(seed);
        let listed = Listed::some(random);
        let mut op = listed.op();
        let own = random.below(8).unwrap() as u32;
        op.insist(|change| own >> change.key.0 & 1 == 1);
        let insists = (0..).zip(listed.plain());
        let insists = insists.filter(|(_, part)| part.expected.is_some() && own >> part.key.0 & 1 == 1);
        assert_eq!(op.state.issued.insists, insists.map(|(place, _)| place).collect::<Vec<u32>>());
        play(random, listed, op);
    }
}

#[test]
fn an_operation_knows_its_documents_and_the_versions_that_it_expects() {
    each(|random, listed, mut op| {
        let expected: Vec<_> =
            listed.plain().iter().filter_map(|part| Some((&part.key, part.expected.as_ref()?))).collect();
        assert_eq!(op.expected().collect::<Vec<_>>(), expected);
        assert_eq!(op.named().collect::<Vec<_>>(), listed.named());
        assert_eq!(op.waits_for().collect::<Vec<_>>(), [vec!["before"], listed.named()].concat());
        let insisted: Vec<&Part> =
            op.state.issued.insists.iter().map(|place| &listed.plain()[*place as usize]).collect();
        for id in ["op0", "op1", "op2"] {
            assert_eq!(op.expects(id), listed.named().contains(&id));
            let instead = |key: &DocKey| key.0 == 0;
            let is_mixed = listed.mixed().iter().any(|part| part.names(id));
            let is_insisted = insisted.iter().any(|part| part.names(id) && part.key.0 == 1);
            assert_eq!(op.insists_on_version_of(id, instead), is_mixed || is_insisted);
        }
        op.is_blind = random.below(5).unwrap() == 0;
        for number in 0..DOCUMENTS {
            let key = document(number);
            assert_eq!(
                op.expected_of(&key),
                expected.iter().find(|(own, _)| **own == key).map(|found| found.1)
            );
            assert_eq!(op.insists_on(&key), insisted.iter().any(|part| part.key == key));
            let writes = listed.parts.iter().any(|part| !part.is_own && part.key == key);
            assert_eq!(op.may_write(&key), op.is_blind || !listed.has_run || writes);
            let of_pk: std::collections::BTreeSet<&DocKey> =
                expected.iter().map(|found| found.0).filter(|own| own.1 == key.1).collect();
            assert_eq!(op.expected_at(&key.1), of_pk.first().copied().filter(|_| of_pk.len() == 1));
        }
        let (name, args) = (op.state.issued.name.clone(), op.state.issued.args.clone());
        assert_eq!(op.sent(), (name.clone(), args));
        for is_id_known in [true, false] {
            op.unsendable = Some(Unsendable { fault: Fault::new(Code::TooLarge, "large"), is_id_known });
            let sent = if is_id_known || !listed.has_own() { name.as_str() } else { "batch" };
            assert_eq!(op.sent(), (sent.to_owned(), Value::Map(BTreeMap::new())), "nothing but the id");
        }
    });
}

#[test]
fn another_expected_version_is_written_into_the_arguments_and_the_changes() {
    each(|random, mut listed, mut op| {
        let mut below = |bound: u64| random.below(bound).unwrap();
        let expected = [None, Some(IfVersion::At(9)), Some(IfVersion::Of("op9".to_owned()))];
        let mut expected = expected.into_iter().cycle().skip(below(3) as usize);
        let mut some = || expected.next().unwrap();
        let is_plain = !listed.plain().is_empty();
        match below(3) {
            0 => {
                let (place, some) = (below(5) as usize, some());
                op.expect(place, some.clone());
                let part = listed.parts.iter_mut().filter(|_| is_plain).nth(place);
                if let Some(part) = part {
                    part.expected = some;
                }
            }
            1 => {
                let key = document(below(DOCUMENTS));
                op.expect_of(&key, &IfVersion::At(7));
                let mut of_key: Vec<_> =
                    listed.parts.iter_mut().filter(|part| is_plain && part.key == key).collect();
                // A write that meets a document always expects a version of it: the first change, if none did.
                if of_key.iter().any(|part| part.expected.is_some()) {
                    of_key.retain(|part| part.expected.is_some());
                } else {
                    of_key.truncate(1);
                }
                for part in of_key {
                    part.expected = Some(IfVersion::At(7));
                }
            }
            _ => {
                let mut given = |era| some().map(|expected| (expected, era));
                let (first, other, unknown) = (given(Some(4)), given(None), given(Some(5)));
                let by = |key: Option<&DocKey>| match key {
                    None => unknown.clone(),
                    Some(key) if key.0 == 0 => first.clone(),
                    Some(_) => other.clone(),
                };
                op.expect_instead("op1", &by);
                if is_plain {
                    let parts = (0..).zip(&mut listed.parts).filter(|(_, part)| part.names("op1"));
                    let mut eras = Vec::new();
                    for (place, part) in parts {
                        let (expected, era) = by(Some(&part.key)).unzip();
                        eras.extend(era.flatten().map(|era| (place, era)));
                        part.expected = expected;
                    }
                    assert_eq!(op.state.given, eras);
                } else if listed.is_batch && listed.has_own() {
                    let changes = op.changes.clone();
                    assert_eq!(changes, listed.changes(), "only the arguments have it");
                    let parts = listed.parts.iter_mut().filter(|part| !part.is_own && part.names("op1"));
                    parts.for_each(|part| part.expected = by(None).map(|(expected, _)| expected));
                    op.changes = listed.changes();
                }
            }
        }
        assert_eq!((op.state.issued.args.clone(), op.changes.clone()), (listed.args(), listed.changes()));
    });
}

#[test]
fn an_operation_takes_over_which_of_its_expected_versions_were_given() {
    each(|random, listed, mut op| {
        let mut below = |bound: u64| random.below(bound).unwrap();
        let given = |place: u32| place.is_multiple_of(2).then_some(place);
        let places = 0..listed.plain().len() as u32;
        op.state.given = places.filter_map(|place| Some((place, given(place)?))).collect();
        let expectation_of = |key: &DocKey| {
            let mut parts = (0..).zip(listed.plain()).filter(|(_, part)| part.key == *key);
            parts.find_map(|(place, part)| Some((part.expected.clone()?, given(place))))
        };
        let mut next = op.clone();
        next.state.given.clear();
        let changed = below(3) as usize;
        next.expect(changed, Some(IfVersion::At(99)));
        next.take_given(&op);
        for number in 0..DOCUMENTS {
            let key = document(number);
            let expected = expectation_of(&key);
            assert_eq!(op.expectation(&key), expected);
            let (version, era) = next.expectation(&key).unzip();
            let is_same = version == expected.clone().map(|(version, _)| version);
            assert_eq!(era.flatten(), expected.and_then(|(_, era)| era).filter(|_| is_same));
        }
    });
}

#[test]
fn a_settled_conflict_replaces_the_parts_of_its_document() {
    each(|random, listed, op| {
        let key = document(random.below(DOCUMENTS).unwrap());
        let put = ("doc.put", Value::from([("data", Value::from(1_i64))]));
        for settled in [None, Some(put)] {
            let found = op.with_settled(&key, settled.clone());
            let whole = settled.map(|(name, args)| (name.to_owned(), args));
            if !listed.is_batch {
                assert_eq!(found, whole);
                continue;
            }
            let mut by =
                whole.map(|(name, args)| Value::from([("name", Value::String(name)), ("args", args)]));
            let part = |part: &Part| Value::from([("name", Value::from(part.name())), ("args", part.args())]);
            let mut left = Vec::new();
            for one in listed.plain() {
                left.extend(if one.key == key { by.take() } else { Some(part(one)) });
            }
            let batch = ("batch".to_owned(), Value::from([("ops", Value::Array(left.clone()))]));
            assert_eq!(found, (!left.is_empty()).then_some(batch));
        }
    });
}

#[test]
fn the_first_known_state_of_each_document_is_kept() {
    each(|random, listed, mut op| {
        let data =
            |number: u64| Data::from_map(&[("n".to_owned(), Value::from(number as i64))].into()).unwrap();
        let mut first: BTreeMap<u64, u64> = BTreeMap::new();
        for n in 0..8 {
            let number = random.below(DOCUMENTS).unwrap();
            let ((of, pk), is_there) = (document(number), random.below(3).unwrap() > 0);
            op.keep_base(class(of), &pk, is_there.then(|| data(n)));
            // An operation on one document has one place for it.
            let place = if listed.is_batch { number } else { 0 };
            if is_there {
                first.entry(place).or_insert(n);
            }
        }
        for number in 0..DOCUMENTS {
            let (of, pk) = document(number);
            let place = if listed.is_batch { number } else { 0 };
            assert_eq!(op.base_of(&class(of), &pk), first.get(&place).map(|n| data(*n)).as_ref());
        }
        assert_eq!(op.state.issued.bases.len(), if listed.is_batch { first.len() } else { 0 });
        assert_eq!(op.state.issued.base.is_some(), !listed.is_batch && !first.is_empty());
    });
}

/// An effect is shown until it is refused, or until the data of the document contains it.
#[test]
fn an_effect_is_shown_until_the_data_has_it() {
    let key = document(0);
    let stamps = (0..3).flat_map(|era| (0..4).map(move |v| Some(Stamp::new(era, v)))).chain([None]);
    let eras = [None, Some(0), Some(1), Some(2)];
    let mut op = PendingOp::new(state("own", Value::Null), Vec::new());
    for base in stamps {
        for (accepted, seen, seen_on) in [None, Some(0), Some(1), Some(2), Some(3)]
            .into_iter()
            .flat_map(|v| eras.into_iter().flat_map(move |seen| eras.map(|on| (v, seen, on))))
        {
            (op.state.accepted, op.state.seen) = (accepted, seen);
            op.seen_on = seen_on.map(|era| (key.clone(), era)).into_iter().collect();
            let (of, v) = base.map_or((1, 0), |base| (base.era, base.v));
            let given = accepted.filter(|v| *v > 0);
            let has_version = matches!(accepted, Some(own @ 1..) if of == 1 && own <= v);
            let is_shown = !has_version && ![seen, seen_on].contains(&Some(of));
            assert_eq!(
                op.is_shown_on(&key, base, (given, 1)),
                is_shown,
                "{base:?} {accepted:?} {seen:?} {seen_on:?}"
            );
            assert!(op.is_waiting() == accepted.is_none());
            op.state.refused = Some(Fault::new(Code::TooLarge, "large"));
            assert!(!op.is_shown_on(&key, base, (given, 1)) && !op.is_waiting(), "refused");
            op.state.refused = None;
        }
    }
}
