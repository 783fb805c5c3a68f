use sha2::{Digest, Sha256};

use super::*;
use crate::memory::{CollectionAtRest, Load};
use crate::model::Epoch;
use crate::storage::delta::{Head, JournalNumbers};
use crate::storage::journal::JournalMark;

/// Numbers from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn is(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    /// A realistic version: near the others, or anywhere.
    fn version(&mut self) -> (u32, u64) {
        let v = if self.is(20) { u64::MAX - self.below(9) } else { 1_700_000_000_000 + self.below(3) };
        (self.below(2) as u32, v)
    }
}

fn pk(n: u64) -> Pk {
    if n.is_multiple_of(17) {
        Pk::parse(&format!("org-{n}")).unwrap()
    } else {
        Pk::from_key(&[&n.to_string()]).unwrap()
    }
}

fn pks(numbers: &mut Numbers, count: u64) -> Vec<Pk> {
    let mut pks: Vec<Pk> = (0..count).map(|_| pk(numbers.below(200))).collect();
    pks.sort_unstable();
    pks.dedup();
    pks
}

fn at_rest((era, v): Version, max_life: Option<u64>, (page, slot, bytes): (u64, u32, u32)) -> DocumentAtRest {
    DocumentAtRest { at: Stamp::new(era, v), max_life, place: PageRef { page, slot, bytes } }
}

fn record(seed: u64) -> StateRecord {
    let numbers = &mut Numbers(seed);
    let names = ["Article", "Package"].map(|name| Name::new(name).unwrap());
    let defs =
        ["Article", "Article/tags@BTziUq_SSySPM1Z0dmeokg", "Gone@1"].map(|def| def.parse::<Def>().unwrap());
    let documents = names.map(|name| {
        let count = numbers.below(60);
        let mut page = 7;
        let states = pks(numbers, count).into_iter().enumerate().map(|(slot, pk)| {
            let (era, v) = numbers.version();
            page += u64::from(numbers.is(9));
            let slot = if numbers.is(9) { u32::MAX } else { slot as u32 };
            let life = numbers.is(5).then(|| numbers.below(1 << 40));
            (
                pk,
                (!numbers.is(6))
                    .then(|| at_rest((era, v), life, (page, slot, numbers.below(1 << 22) as u32))),
            )
        });
        (name, states.collect::<Vec<_>>())
    });
    let links = defs.clone().map(|def| {
        let class = def.class().clone();
        let count = numbers.below(60);
        let states = pks(numbers, count).into_iter().map(|pk| {
            let listed = documents.iter().find(|(name, _)| *name == class);
            let state = listed.and_then(|(_, states)| states.iter().find(|(of, _)| *of == pk)?.1);
            let (era, v) = state.map_or_else(|| numbers.version(), |state| (state.at.era, state.at.v));
            let at = Stamp::new(era, v);
            let member = (!numbers.is(5)).then(|| Member { at, confirmed: !numbers.is(4) });
            let mark = numbers.is(4).then(|| numbers.version()).map(|(era, v)| Stamp::new(era, v));
            LinkAtRest { pk, member, mark }
        });
        (def, states.collect::<Vec<_>>())
    });
    let load = Load { cursor: "c".into(), since: 1, settle: 2, received: 3, total: Some(4) };
    let state = CollectionAtRest { v: Stamp::new(1, 2), ready: true, load: Some(load), lease: None };
    let head =
        Head { session: "s".into(), epoch: Some(Epoch::new(5, "e").unwrap()), era: 1, schema: "{}".into() };
    let [first, .., last] = defs;
    StateRecord {
        number: seed,
        base: 1,
        chunks: 2,
        next_page: u64::MAX,
        journal: JournalMark { records: 1, pending: 1, next_record: 9, last_seq: 3, name: 0 },
        delta: Delta {
            head: numbers.is(2).then_some(head),
            collections: vec![(first, Some(state)), (last, None)],
            documents: documents.into(),
            links: links.into(),
        },
        along: numbers.is(2).then(|| JournalNumbers { puts: vec![1], deletes: vec![2, 3] }),
    }
}

#[test]
fn columns_are_read_as_written() {
    for seed in 0..2_000 {
        let record = record(seed);
        assert_eq!(decode(&encode(&record).unwrap()).as_ref(), Some(&record), "seed {seed}");
    }
}

/// A digest of all bytes, and of all records that altered bytes give: stores of this format keep them for ever.
#[test]
fn the_bytes_of_rows_are_those_of_the_format() {
    let mut digest = Sha256::new();
    for seed in 0..300 {
        let bytes = encode(&record(seed)).unwrap();
        digest.update(&bytes);
        for place in (0..bytes.len()).step_by(1 + seed as usize) {
            let mut altered = bytes.clone();
            altered[place] ^= 1 << (seed % 8);
            let read = decode(&altered).map(|record| encode(&record).unwrap());
            digest.update(read.unwrap_or_default());
        }
    }
    let digest = digest.finalize().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    assert_eq!(digest, "d48e02516019eb0ff49eb0342ac905bfa43e8e75b7651d5c22b82e01662c092f");
}

#[test]
fn what_is_cut_short_or_altered_is_a_record_or_none_never_a_panic() {
    for seed in 0..3 {
        let bytes = encode(&record(seed)).unwrap();
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), None, "seed {seed}, cut at {end}");
        }
        for place in 0..bytes.len() {
            for flip in [1, 0x10, 0x80, 0xff] {
                let mut altered = bytes.clone();
                altered[place] ^= flip;
                if let Some(read) = decode(&altered) {
                    // A record that decodes can be encoded.
                    assert_eq!(decode(&encode(&read).unwrap()), Some(read));
                }
            }
        }
    }
}

#[test]
fn a_document_in_two_collections_costs_little_more_than_its_pk() {
    let pks: Vec<Pk> = {
        let mut pks: Vec<Pk> = (0..1_000).map(|n: u64| Pk::from_key(&[&n.to_string()]).unwrap()).collect();
        pks.sort_unstable();
        pks
    };
    let mut record = record(1);
    let rows = pks.iter().enumerate();
    let rows = rows.map(|(slot, pk)| (pk.clone(), Some(at_rest((0, 9), None, (3, slot as u32, 1_000)))));
    record.delta.documents = vec![(Name::new("Article").unwrap(), rows.collect())];
    let links = ["Article", "Article/tags@BTziUq_SSySPM1Z0dmeokg"].map(|def| {
        let member = Some(Member { at: Stamp::new(0, 9), confirmed: true });
        let states = pks.iter().map(|pk| LinkAtRest { pk: pk.clone(), member, mark: None }).collect();
        (def.parse().unwrap(), states)
    });
    record.delta.links = links.into();
    let bytes = encode(&record).unwrap().len();
    assert!(bytes < 22 * pks.len(), "{bytes} bytes");
}
