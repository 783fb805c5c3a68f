//! The state that a history leaves, as it is stored, against the reference's.

use std::collections::BTreeMap;

use escale::model::{Def, Name};
use escale_server::provider::Place;

use super::histories::{World, seal};
use super::reference::{Fed, Head, Line};
use crate::support::base::JournalLine;

impl World {
    /// The journal, the feed and the state, as they are stored. With a site key, nothing is in clear.
    pub fn check(&self) {
        let snapshot = self.engine.as_ref().unwrap().provider().read().unwrap();
        let reference = &self.reference;
        let head = |(org, head): (String, escale_server::provider::Head)| {
            let escale_server::provider::Head { commits, highest, promised_now, horizon, .. } = head;
            (org, Head { highest, promised_now, horizon, commits })
        };
        let heads: BTreeMap<String, Head> = snapshot.heads("", 9).unwrap().into_iter().map(head).collect();
        assert_eq!(
            (&heads, snapshot.site().unwrap().promised_now),
            (&reference.heads, reference.promised_now)
        );
        for ((org, name), (account, seq)) in &reference.sessions {
            let session = snapshot.session(org, name).unwrap().unwrap();
            assert_eq!((&session.account, session.seq), (account, *seq));
        }
        let mut feed = Vec::new();
        let mut visit = |row| {
            feed.push(row);
            Ok(())
        };
        let provider = self.engine.as_ref().unwrap().provider();
        let changed = provider.changed(self.fed_from.as_ref(), &mut visit).unwrap();
        assert!(changed.is_whole || !self.base.keeps_place_of_feed());
        let fed: Vec<Fed> = feed
            .into_iter()
            .map(|row| {
                let class = Name::new(&row.class).unwrap();
                let defs = row.links.iter().flat_map(|(name, hashes)| {
                    let name = Name::new(name).unwrap();
                    hashes.iter().map(move |hash| (name.clone(), hash)).collect::<Vec<_>>()
                });
                let defs = defs.map(|(name, hash)| Def::collection_hashed(&class, &name, hash)).collect();
                ((row.org, row.class, row.pk), row.v, defs)
            })
            .collect();
        assert_eq!(fed, reference.tables.feed);
        assert_eq!(self.journal(), reference.tables.journal);
        // Any other first byte than 0 names a form of seal.
        let is_sealed = |found: &u8| *found != 0;
        assert!(
            self.base.first_bytes().iter().all(|found| is_sealed(found) == self.is_sealed),
            "sealed, or not"
        );
    }

    fn journal(&self) -> Vec<Line> {
        let line = |([actor, commit, time, kind], state, v): JournalLine| {
            assert_eq!((kind.as_str(), time), ("persist", escale::journal::iso8601(v)));
            let state = state.map(|bytes| {
                let (org, document) = actor.split_once('/').unwrap();
                let (class, pk) = document.split_once('@').unwrap();
                let bytes = seal(self.is_sealed).open_state(Place { org, class, pk }, v, &bytes).unwrap();
                escale::codec::Data::from_bytes(&bytes).unwrap().to_map().unwrap()
            });
            (actor, state, v, commit)
        };
        self.base.journal().into_iter().map(line).collect()
    }
}
