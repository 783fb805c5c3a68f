//! Quotas (R88): counters of documents and bytes, kept in the transaction of each write.

use escale::Result;
use escale::model::Version;
use escale::model::schema::Class;

use crate::engine::records::counter::{Counted, Counter, OF_ORG, put_counter, read_counter};
use crate::engine::records::opened::Opened;
use crate::engine::tx::budget::Growth;
use crate::engine::tx::write_tx::{Counters, WriteTx};
use crate::provider::{Snapshot, Transaction};
use crate::seal::Seal;

/// About the bytes of a counter's row, without its name.
const COUNTER_BYTES: usize = 160;

/// The place that counters are read from.
pub(in crate::engine) type Reads<'r> = (&'r dyn Snapshot, &'r Seal, &'r str);

impl Counters {
    /// A counter, as the write has left it. In that of the org, the bytes of results and journal count.
    fn read(&mut self, (snapshot, seal, org): Reads, of: &str) -> Result<Counter> {
        let kept = if of == OF_ORG { self.kept } else { 0 };
        if let Some((counter, _)) = self.held.get(of) {
            return Ok(Counter { kept, ..counter.clone() });
        }
        let counter = read_counter(snapshot, seal, (org, of))?;
        if counter == Counter::default() {
            self.new_bytes += COUNTER_BYTES + of.len();
        }
        self.held.insert(of.to_owned(), (counter.clone(), false));
        Ok(Counter { kept, ..counter })
    }

    /// Counts a change of a document. Errors: `quota_exceeded`.
    pub(in crate::engine) fn count(
        &mut self,
        reads: Reads,
        before: Option<&Counted>,
        after: Option<&Counted>,
    ) -> Result<()> {
        let mut names: Vec<&str> = before.into_iter().chain(after).flat_map(Counted::names).collect();
        names.sort_unstable();
        names.dedup();
        let mut changed = Vec::new();
        for name in names {
            let is_in = |counted: &&Counted| counted.names().any(|of| of == name);
            let old = self.read(reads, name)?;
            let mut new = old.clone();
            before.filter(is_in).into_iter().for_each(|counted| new.subtract(counted));
            after.filter(is_in).into_iter().for_each(|counted| new.add(counted));
            new.check(&old)?;
            changed.push((name.to_owned(), (new, true)));
        }
        // Only now: a refused change counts nothing.
        self.held.extend(changed);
        Ok(())
    }

    /// Stores those that have changed. Called once, after everything else.
    pub(in crate::engine) fn finish(
        &self,
        (tx, seal): (&mut dyn Transaction, &Seal),
        (org, now): (&str, Version),
        growth: &mut Growth,
    ) -> Result<()> {
        growth.add_at_end(self.new_bytes as i64)?;
        for (of, (counter, _)) in self.held.iter().filter(|(_, (_, is_changed))| *is_changed) {
            put_counter(tx, seal, (org, of, now), counter)?;
        }
        Ok(())
    }
}

impl WriteTx<'_> {
    /// A counter, as this write has left it.
    pub(in crate::engine) fn counter(&mut self, of: &str) -> Result<Counter> {
        self.counters.read((self.tx.snapshot(), &self.instance.seal, self.org), of)
    }

    /// The quota of a class, and a stored document of it as counters see it.
    pub(in crate::engine) fn counted(&self, class: &Class, document: &Opened) -> Result<Option<Counted>> {
        let quota = self.instance.rights.quota(class.name().as_str());
        quota.map(|quota| Counted::stored((class, quota), document)).transpose()
    }
}
