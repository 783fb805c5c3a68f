//! The parts of a message from the server. Each is decoded as far as applying it needs before any is applied:
//! no part is applied in part.

use super::in_flight::InFlight;
use super::loads::Page;
use super::schedule::Pull;
use super::violations::bad_reply;
use crate::codec::{Fault, Part};
use crate::error::{Error, Result};
use crate::memory::{DocKey, Memory, PartContext, PartOutcome, PreparedPart, unready};
use crate::model::{Def, DefKind, Version};
use crate::sync::context::Ctx;
use crate::sync::facts::EffectsShown;
use crate::sync::message::error_of;

/// A part, decoded as far as applying it needs.
pub enum ReadPart {
    Prepared(PreparedPart),
    /// Refused by the server.
    Refused(Def, Fault),
    /// A document in it cannot be decoded.
    Unreadable(Def, Error),
}

impl ReadPart {
    pub fn def(&self) -> &Def {
        match self {
            ReadPart::Prepared(part) => part.def(),
            ReadPart::Refused(def, _) | ReadPart::Unreadable(def, _) => def,
        }
    }

    /// Whether it contains no change.
    pub fn is_empty(&self) -> bool {
        match self {
            ReadPart::Prepared(part) => part.ends().is_none(),
            ReadPart::Refused(..) | ReadPart::Unreadable(..) => true,
        }
    }

    /// The documents in it.
    pub fn keys(&self, memory: &Memory) -> Vec<DocKey> {
        let ReadPart::Prepared(part) = self else { return Vec::new() };
        part.rows().filter_map(|pk| memory.doc_key(part.def().class(), pk)).collect()
    }

    /// Its number of the tree, and the one above which a push has every change.
    pub fn numbers(&self) -> (Option<Version>, Option<Version>) {
        if let ReadPart::Prepared(part) = self { part.numbers() } else { (None, None) }
    }

    /// Whether it advances a load of several pages.
    pub fn is_page(&self) -> bool {
        matches!(self, ReadPart::Prepared(part) if part.next().is_some() && part.ends().is_some())
    }
}

/// Decodes parts as far as applying them needs.
pub fn prepare(memory: &Memory, parts: Vec<Part>) -> Vec<ReadPart> {
    let read = |mut part: Part| {
        let def = part.def.clone();
        match part.fault.take() {
            Some(fault) => ReadPart::Refused(def, fault),
            None => match memory.prepare(part) {
                Ok(part) => ReadPart::Prepared(part),
                Err(error) => ReadPart::Unreadable(def, error),
            },
        }
    };
    parts.into_iter().map(read).collect()
}

impl Pull {
    /// Refuses a page that does not advance its load: requested again at once, the load would never end. It
    /// begins again, at growing intervals. Returns whether the page is refused.
    pub fn refuse_endless(
        &mut self,
        ctx: &mut Ctx,
        (index, part): (usize, &ReadPart),
        request: &InFlight,
        is_alone: bool,
    ) -> Result<bool> {
        let ReadPart::Prepared(part) = part else { return Ok(false) };
        let Some(next) = part.next() else { return Ok(false) };
        let def = part.def();
        let load = ctx.memory.collection(def).and_then(|collection| collection.paged());
        let asked = load.map(|load| load.cursor.as_str()).filter(|_| request.has_cursor(def));
        let page = Page { asked, next, ends: part.ends() };
        if self.loads.goes_on(def, page, is_alone) {
            return Ok(false);
        }
        let words = format!("parts[{index}].next: the page does not go on from the one before it");
        let error = bad_reply("Pages", &words);
        ctx.memory.restart(def);
        self.retries.add(def, ctx.clock.mono_ms, &mut *ctx.random)?;
        self.faults.insert(def.clone(), error.clone());
        ctx.errors.report(error);
        Ok(true)
    }

    /// Applies one part of a reply to a pull. Returns which effects it shows, if the def needs no further
    /// page for now.
    pub fn apply_part(
        &mut self,
        ctx: &mut Ctx,
        part: ReadPart,
        request: &InFlight,
        settled: Version,
    ) -> Result<Option<EffectsShown>> {
        let def = &part.def().clone();
        let is_repair = request.repairs.contains(def);
        let part = match part {
            ReadPart::Prepared(part) => part,
            ReadPart::Refused(_, fault) if is_repair => {
                self.repair_refused(ctx, def, &fault)?;
                return Ok(None);
            }
            ReadPart::Refused(_, fault) => {
                self.part_refused(ctx, def, &fault, request.has_cursor(def))?;
                return Ok((!fault.kind.is_retryable()).then_some(EffectsShown::All));
            }
            // A document that cannot be decoded must not delay other defs. This def is requested again with
            // all the others.
            ReadPart::Unreadable(_, error) => {
                self.note_fault(ctx, def.clone(), error);
                return Ok(None);
            }
        };
        let era = ctx.memory.epoch().1;
        if is_repair {
            self.retries.remove(def);
            if !ctx.memory.apply_repair(part, era) {
                self.repairs.insert(def.clone());
            }
            return Ok(None);
        }
        self.faults.remove(def);
        let asked = request.asked.get(def);
        let is_first = asked.is_none_or(|asked| !asked.cursor);
        let asked = asked.map(|asked| asked.since);
        let highest = part.highest();
        match ctx.memory.apply(part, PartContext { era, settled, asked }) {
            PartOutcome::Whole => {
                self.retries.remove(def);
                self.lost.remove(def);
                let (behind, is_due) = self.loads.finish(def);
                if is_due {
                    self.needed.insert(def.clone());
                }
                Ok(Some(if is_first { EffectsShown::All } else { EffectsShown::But(behind) }))
            }
            PartOutcome::Unfinished => {
                self.loads.note_page(def, is_first, highest);
                self.needed.insert(def.clone());
                Ok(None)
            }
            PartOutcome::Outdated => {
                self.needed.insert(def.clone());
                Ok(None)
            }
            PartOutcome::Unknown => Ok(None),
        }
    }

    fn part_refused(&mut self, ctx: &mut Ctx, def: &Def, fault: &Fault, had_cursor: bool) -> Result<()> {
        if fault.kind.is_retryable() {
            self.retries.add(def, ctx.clock.mono_ms, &mut *ctx.random)?;
        } else if had_cursor {
            // The cursor is of no use any more: the load starts from scratch.
            ctx.memory.restart(def);
            if self.loads.restart(def) {
                self.needed.insert(def.clone());
            } else {
                self.retries.add(def, ctx.clock.mono_ms, &mut *ctx.random)?;
            }
        } else {
            unready(&mut ctx.memory, def);
        }
        self.note_fault(ctx, def.clone(), error_of(fault));
        Ok(())
    }

    /// The server refused a single damaged document: it is requested later, or with a collection that holds
    /// it (R14).
    fn repair_refused(&mut self, ctx: &mut Ctx, def: &Def, fault: &Fault) -> Result<()> {
        if fault.kind.is_retryable() {
            return self.retries.add(def, ctx.clock.mono_ms, &mut *ctx.random);
        }
        let DefKind::Document(pk) = def.kind() else { return Ok(()) };
        let key = ctx.memory.doc_key(def.class(), pk);
        let document = key.and_then(|key| ctx.memory.document(&key));
        let holder = document.and_then(|d| d.defs.iter().find(|def| !self.faults.contains_key(*def)));
        if let Some(holder) = holder.cloned() {
            self.reload(ctx, holder);
        }
        Ok(())
    }
}
