//! The bytes of state records: documents and links as short rows, which hold only differences from the row
//! before.
//!
//! An opening reads all state records, so unsealing and decoding their bytes is the cost of a cold opening.
//! The pk takes most of a document's row, 16 bytes. A link names its document by its index in the same
//! record, and costs a byte. Any bytes decode to a record or to nothing, and a row never decodes to more than
//! its bytes justify.

use super::delta::{Delta, StateRecord};
use crate::codec::{pack, unpack};
use crate::error::Result;
use crate::memory::{ClassAtRest, DocumentAtRest, LinkAtRest, Member, PageRef, Stamp};
use crate::model::{Def, Name, Pk};

/// In a document's row: it is there, and did not leave.
const HELD: u8 = 1;
/// Its pk is a hash, 16 bytes; text otherwise.
const HASHED: u8 = 1 << 1;
/// Its version is that of the row before.
const SAME_VERSION: u8 = 1 << 2;
/// Its life ends.
const MORTAL: u8 = 1 << 3;
/// Its data follows that of the row before, on the same page.
const NEXT_SLOT: u8 = 1 << 4;

/// In a link's row: its document is in this record.
const LISTED: u8 = 1;
/// The document after that of the row before.
const NEXT: u8 = 1 << 1;
/// Its document is not in this record, and its pk is a hash.
const HASHED_LINK: u8 = 1 << 2;
/// The pk is in the def.
const MEMBER: u8 = 1 << 3;
/// The running whole load has confirmed it.
const CONFIRMED: u8 = 1 << 4;
/// It has the version of its document; if that is not in this record, the version of the row before.
const AS_EXPECTED: u8 = 1 << 5;
/// It has a removal tombstone.
const MARKED: u8 = 1 << 6;

type Version = (u32, u64);

/// The plain bytes of a record.
pub fn encode(record: &StateRecord) -> Result<Vec<u8>> {
    let Delta { documents, links, .. } = &record.delta;
    let mut out = Writer(Vec::new());
    out.block(&pack(record)?);
    out.number(documents.len() as u64);
    for (class, states) in documents {
        out.block(class.as_str().as_bytes());
        out.number(states.len() as u64);
        let mut before = Before::default();
        for (pk, state) in states {
            out.document(pk, state.as_ref(), &mut before);
        }
    }
    out.number(links.len() as u64);
    for (def, states) in links {
        out.block(def.to_string().as_bytes());
        out.number(states.len() as u64);
        let listed = of_class(documents, def);
        let (mut next, mut version) = (0, Version::default());
        for state in states {
            out.link(state, listed, &mut next, &mut version);
        }
    }
    Ok(out.0)
}

/// Decodes the bytes of [`encode`].
pub fn decode(bytes: &[u8]) -> Option<StateRecord> {
    let mut input = Input(bytes);
    let mut record: StateRecord = unpack(input.block()?)?;
    let mut documents = Vec::new();
    for _ in 0..input.number()? {
        let class = Name::new(std::str::from_utf8(input.block()?).ok()?).ok()?;
        let (count, mut before) = (input.count()?, Before::default());
        let mut states = Vec::with_capacity(count);
        for _ in 0..count {
            states.push(input.document(&mut before)?);
        }
        documents.push((class, states));
    }
    let mut links = Vec::new();
    for _ in 0..input.number()? {
        let def: Def = std::str::from_utf8(input.block()?).ok()?.parse().ok()?;
        let (count, listed) = (input.count()?, of_class(&documents, &def));
        let (mut next, mut version) = (0, Version::default());
        let mut states = Vec::with_capacity(count);
        for _ in 0..count {
            states.push(input.link(listed, &mut next, &mut version)?);
        }
        links.push((def, states));
    }
    record.delta.documents = documents;
    record.delta.links = links;
    input.0.is_empty().then_some(record)
}

/// The documents of the record that links of the def can name by an index.
fn of_class<'d>(documents: &'d [ClassAtRest], def: &Def) -> &'d [(Pk, Option<DocumentAtRest>)] {
    documents.iter().find(|(class, _)| class == def.class()).map_or(&[], |(_, states)| states)
}

/// The values before a document's row.
#[derive(Default)]
struct Before {
    version: Version,
    page: u64,
    slot: u32,
}

/// A difference of either sign as a small number.
fn zigzag(from: u64, to: u64) -> u64 {
    let difference = to.wrapping_sub(from) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

fn unzigzag(from: u64, encoded: u64) -> u64 {
    from.wrapping_add((encoded >> 1) ^ (encoded & 1).wrapping_neg())
}

struct Writer(Vec<u8>);

impl Writer {
    /// Seven bits a byte, the lowest first; the highest bit of a byte says that more follow.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn block(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn version(&mut self, before: &mut Version, now: Version) {
        self.number(now.0.into());
        self.number(zigzag(before.1, now.1));
        *before = now;
    }

    fn pk(&mut self, pk: &Pk, hash: Option<[u8; 16]>) {
        match hash {
            Some(hash) => self.0.extend_from_slice(&hash),
            None => self.block(pk.as_str().as_bytes()),
        }
    }

    fn document(&mut self, pk: &Pk, state: Option<&DocumentAtRest>, before: &mut Before) {
        let hash = pk.to_hash();
        let mut tag = if hash.is_some() { HASHED } else { 0 };
        let Some(&DocumentAtRest { at: Stamp { era, v }, max_life, place }) = state else {
            self.0.push(tag);
            return self.pk(pk, hash);
        };
        let PageRef { page, slot, bytes } = place;
        let (is_same, is_next) =
            (before.version == (era, v), (before.page, before.slot.wrapping_add(1)) == (page, slot));
        tag |= HELD;
        tag |= if is_same { SAME_VERSION } else { 0 };
        tag |= if max_life.is_some() { MORTAL } else { 0 };
        tag |= if is_next { NEXT_SLOT } else { 0 };
        self.0.push(tag);
        self.pk(pk, hash);
        if !is_same {
            self.version(&mut before.version, (era, v));
        }
        if let Some(minutes) = max_life {
            self.number(minutes);
        }
        if !is_next {
            self.number(zigzag(before.page, page));
            self.number(slot.into());
        }
        (before.page, before.slot) = (page, slot);
        self.number(bytes.into());
    }

    fn link(
        &mut self,
        LinkAtRest { pk, member, mark }: &LinkAtRest,
        listed: &[(Pk, Option<DocumentAtRest>)],
        next: &mut usize,
        version: &mut Version,
    ) {
        // Both lists are sorted: mostly it is the next document, and a search finds the others.
        let is_next = listed.get(*next).is_some_and(|(document, _)| document == pk);
        let search = || listed.binary_search_by(|(document, _)| document.cmp(pk)).ok();
        let place = if is_next { Some(*next) } else { search() };
        let hash = if place.is_none() { pk.to_hash() } else { None };
        let expected =
            place.and_then(|place| listed[place].1).map_or(*version, |state| (state.at.era, state.at.v));
        let member = member.map(|Member { at, confirmed }| (at.era, at.v, confirmed));
        let mut tag = match (place, hash) {
            (Some(_), _) if is_next => LISTED | NEXT,
            (Some(_), _) => LISTED,
            (None, Some(_)) => HASHED_LINK,
            (None, None) => 0,
        };
        if let Some((era, v, confirmed)) = member {
            tag |= MEMBER;
            tag |= if confirmed { CONFIRMED } else { 0 };
            tag |= if expected == (era, v) { AS_EXPECTED } else { 0 };
        }
        tag |= if mark.is_some() { MARKED } else { 0 };
        self.0.push(tag);
        match place {
            Some(place) => {
                if !is_next {
                    self.number(place as u64);
                }
                *next = place + 1;
            }
            None => self.pk(pk, hash),
        }
        match member {
            Some((era, v, _)) if expected == (era, v) => *version = expected,
            Some((era, v, _)) => self.version(version, (era, v)),
            None => {}
        }
        if let Some(Stamp { era, v }) = *mark {
            self.version(version, (era, v));
        }
    }
}

struct Input<'b>(&'b [u8]);

impl<'b> Input<'b> {
    fn byte(&mut self) -> Option<u8> {
        let (first, layout) = self.0.split_first()?;
        self.0 = layout;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // More than 64 bits are not a number.
            if (bits << shift) >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    /// How many rows follow: each has at least one byte.
    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok().filter(|count| *count <= self.0.len())
    }

    fn block(&mut self) -> Option<&'b [u8]> {
        let len = self.count()?;
        let (taken, layout) = self.0.split_at_checked(len)?;
        self.0 = layout;
        Some(taken)
    }

    fn version(&mut self, before: &mut Version) -> Option<Version> {
        *before = (self.small()?, unzigzag(before.1, self.number()?));
        Some(*before)
    }

    fn pk(&mut self, is_hashed: bool) -> Option<Pk> {
        if !is_hashed {
            return Pk::parse(std::str::from_utf8(self.block()?).ok()?).ok();
        }
        let (hash, layout) = self.0.split_first_chunk::<16>()?;
        self.0 = layout;
        Some(Pk::from_hash(hash))
    }

    fn document(&mut self, before: &mut Before) -> Option<(Pk, Option<DocumentAtRest>)> {
        let tag = self.byte()?;
        let has = |flag| tag & flag != 0;
        if tag >= NEXT_SLOT << 1 || (!has(HELD) && tag & !HASHED != 0) {
            return None;
        }
        let pk = self.pk(has(HASHED))?;
        if !has(HELD) {
            return Some((pk, None));
        }
        let (era, v) = if has(SAME_VERSION) { before.version } else { self.version(&mut before.version)? };
        let max_life = if has(MORTAL) { Some(self.number()?) } else { None };
        if has(NEXT_SLOT) {
            before.slot = before.slot.wrapping_add(1);
        } else {
            (before.page, before.slot) = (unzigzag(before.page, self.number()?), self.small()?);
        }
        let place = PageRef { page: before.page, slot: before.slot, bytes: self.small()? };
        Some((pk, Some(DocumentAtRest { at: Stamp { era, v }, max_life, place })))
    }

    fn link(
        &mut self,
        listed: &[(Pk, Option<DocumentAtRest>)],
        next: &mut usize,
        version: &mut Version,
    ) -> Option<LinkAtRest> {
        let tag = self.byte()?;
        let has = |flag| tag & flag != 0;
        let is_meant = match (has(LISTED), has(MEMBER)) {
            (true, _) if has(HASHED_LINK) => false,
            (false, _) if has(NEXT) => false,
            (_, false) => !has(CONFIRMED) && !has(AS_EXPECTED),
            _ => true,
        };
        if tag >= MARKED << 1 || !is_meant {
            return None;
        }
        let (pk, expected) = if has(LISTED) {
            let place = if has(NEXT) { *next } else { usize::try_from(self.number()?).ok()? };
            let (pk, state) = listed.get(place)?;
            *next = place + 1;
            (pk.clone(), state.map_or(*version, |state| (state.at.era, state.at.v)))
        } else {
            (self.pk(has(HASHED_LINK))?, *version)
        };
        let member = if has(AS_EXPECTED) {
            *version = expected;
            Some(expected)
        } else if has(MEMBER) {
            Some(self.version(version)?)
        } else {
            None
        };
        let mark = if has(MARKED) { Some(self.version(version)?) } else { None };
        let stamp = |(era, v)| Stamp { era, v };
        let member = member.map(|member| Member { at: stamp(member), confirmed: has(CONFIRMED) });
        Some(LinkAtRest { pk, member, mark: mark.map(stamp) })
    }
}

#[cfg(test)]
mod tests;
