//! R6 on the versioned set itself: upgrades applied and produced, and chains of copies, compared with a naive
//! model. Members of a collection and items of a document behave alike.

use std::collections::{BTreeMap, BTreeSet};

use escale::memory::VersionedSet;
use proptest::prelude::*;

use super::upgrades::{Copy, Upgrade};
use escale_testkit::seeds::config;

type Set = VersionedSet<u8, u64>;

/// A step of a reference. Time advances at each step.
#[derive(Clone, Debug)]
enum Step {
    /// The item is written.
    Write(u8),
    /// The item is deleted.
    Delete(u8),
    /// Departures older than so many steps are forgotten.
    Forget(u8),
    /// The reference, or another copy, brings a copy up to date.
    Upgrade { copy: u8, from: u8 },
    /// An upgrade is made now, and applied at the next upgrade of the copy: late, after another one.
    Delay { copy: u8, from: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12u8).prop_map(Step::Write),
        3 => (0..12u8).prop_map(Step::Delete),
        1 => (0..12u8).prop_map(Step::Forget),
        4 => (0..4u8, 0..5u8).prop_map(|(copy, from)| Step::Upgrade { copy, from }),
        1 => (0..4u8, 0..5u8).prop_map(|(copy, from)| Step::Delay { copy, from }),
    ]
}

/// A reference changes itself, with an upgrade of one change.
fn change(set: &mut Copy<u8>, row: Option<(u8, u64)>, left: Option<(u8, u64)>, v: u64) {
    let upgrade = Upgrade {
        rows: row.into_iter().collect(),
        left: left.into_iter().collect(),
        present: None,
        v,
        horizon: 0,
    };
    set.apply(&upgrade);
}

fn members(set: &Copy<u8>) -> BTreeMap<u8, u64> {
    set.members().map(|(key, member)| (*key, member.at)).collect()
}

/// The reference as a naive program would keep it: every state that ever existed.
#[derive(Default)]
struct Naive {
    now: BTreeMap<u8, u64>,
    /// When each key that is out left last.
    left: BTreeMap<u8, u64>,
    states: BTreeMap<u64, BTreeMap<u8, u64>>,
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn r6_copies_and_chains_of_copies_equal_a_state_of_the_reference(
        steps in prop::collection::vec(step(), 0..60)
    ) {
        let mut naive = Naive::default();
        naive.states.insert(0, BTreeMap::new());
        // Four copies, then the reference. Each copy may serve the others.
        let mut sets: Vec<Copy<u8>> = (0..5).map(|_| Copy::default()).collect();
        let mut late: BTreeMap<usize, Upgrade<u8>> = BTreeMap::new();
        let mut v = 0;
        for step in steps {
            match step {
                Step::Write(key) => {
                    v += 1;
                    naive.now.insert(key, v);
                    naive.left.remove(&key);
                    change(&mut sets[4], Some((key, v)), None, v);
                }
                Step::Delete(key) => {
                    if naive.now.remove(&key).is_some() {
                        v += 1;
                        naive.left.insert(key, v);
                        change(&mut sets[4], None, Some((key, v)), v);
                    }
                }
                Step::Forget(ago) => {
                    let horizon = v.saturating_sub(u64::from(ago));
                    sets[4].forget_before(horizon);
                }
                Step::Upgrade { copy, from } => {
                    let (copy, from) = (usize::from(copy), usize::from(from));
                    if copy == from {
                        continue;
                    }
                    let upgrade = sets[from].upgrade_since(sets[copy].v());
                    if upgrade.v >= sets[copy].v() {
                        let before = sets[copy].v();
                        prop_assert!(upgrade.rows.iter().all(|(_, at)| *at >= before), "only what changed");
                        sets[copy].apply(&upgrade);
                        let once = sets[copy].clone();
                        sets[copy].apply(&upgrade);
                        prop_assert_eq!(&sets[copy], &once, "twice changes nothing");
                    }
                    if let Some(upgrade) = late.remove(&copy) {
                        // An older upgrade that arrives after a later one changes nothing either.
                        if upgrade.v < sets[copy].v() {
                            let before = sets[copy].clone();
                            sets[copy].apply(&upgrade);
                            prop_assert_eq!(&sets[copy], &before, "an older upgrade came late");
                        }
                    }
                }
                Step::Delay { copy, from } => {
                    let (copy, from) = (usize::from(copy), usize::from(from));
                    if copy != from {
                        late.insert(copy, sets[from].upgrade_since(sets[copy].v()));
                    }
                }
            }
            naive.states.insert(v, naive.now.clone());
            prop_assert_eq!(members(&sets[4]), naive.now.clone());
            let horizon = sets[4].horizon();
            for (key, at) in &naive.left {
                prop_assert_eq!(sets[4].mark(key), (*at >= horizon).then_some(*at), "remembered from the horizon on");
            }
            for set in &sets {
                prop_assert_eq!(&members(set), &naive.states[&set.v()], "a copy at {}", set.v());
                prop_assert!(set.marks().all(|(key, mark)| set.member(key).is_none() && *mark >= set.horizon()));
            }
        }
    }

    /// After any history, one last upgrade from the reference makes any copy equal. `present` is sent exactly
    /// if departures may have been forgotten.
    #[test]
    fn r6_present_comes_where_departures_may_be_forgotten(
        changes in prop::collection::vec((0..8u8, any::<bool>()), 1..40),
        since in 0..40u64,
        horizon in 0..40u64,
    ) {
        let mut reference = Copy::default();
        let mut copy = Copy::default();
        let mut v = 0;
        for (key, is_write) in changes {
            v += 1;
            match is_write {
                true => change(&mut reference, Some((key, v)), None, v),
                false => change(&mut reference, None, Some((key, v)), v),
            }
            if v == since {
                let upgrade = reference.upgrade_since(0);
                copy.apply(&upgrade);
            }
        }
        reference.forget_before(horizon.min(v));
        let upgrade = reference.upgrade_since(copy.v());
        prop_assert_eq!(upgrade.present.is_some(), copy.v() < reference.horizon());
        if let Some(present) = &upgrade.present {
            let listed: BTreeSet<u8> = present.iter().copied().collect();
            prop_assert_eq!(listed, reference.keys().copied().collect(), "all members, changed or not");
        }
        copy.apply(&upgrade);
        prop_assert_eq!(members(&copy), members(&reference));
        prop_assert_eq!(copy.v(), reference.v());
    }
}

/// A session's action on a set.
#[derive(Clone, Debug)]
enum Deed {
    Link(u8, u64, bool),
    Unlink(u8, u64),
    Forget(u8),
    Restart(u64),
    Settle(u64),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (0..8u8, 0..20u64, any::<bool>()).prop_map(|(key, at, confirmed)| Deed::Link(key, at, confirmed)),
        3 => (0..8u8, 0..20u64).prop_map(|(key, at)| Deed::Unlink(key, at)),
        1 => (0..8u8).prop_map(Deed::Forget),
        1 => (0..20u64).prop_map(Deed::Restart),
        2 => (0..20u64).prop_map(Deed::Settle),
    ]
}

proptest! {
    #![proptest_config(config(400))]

    /// Storage holds a set's version, members and marks: a set restored from them is equal to the one that was stored.
    #[test]
    fn r7_a_set_is_restored_from_its_version_members_and_marks(deeds in prop::collection::vec(deed(), 0..40)) {
        let mut set = Set::default();
        for deed in deeds {
            match deed {
                Deed::Link(key, at, confirmed) => drop(set.link(&key, at, confirmed)),
                Deed::Unlink(key, at) => drop(set.unlink(&key, at)),
                Deed::Forget(key) => drop(set.forget(&key)),
                Deed::Restart(v) => set.restart(v),
                Deed::Settle(v) => drop(set.settle(v)),
            }
            let mut restored = Set::default();
            restored.restore_v(set.v());
            for key in 0..8 {
                restored.restore(key, set.member(&key), set.mark(&key));
            }
            let all = |set: &Set| (0..8).map(|key| (set.member(&key), set.mark(&key))).collect::<Vec<_>>();
            prop_assert_eq!((restored.v(), restored.len(), all(&restored)), (set.v(), set.len(), all(&set)));
        }
    }
}

/// Seed 004, case 1: the copy is not before the horizon. Destroyed items are named, and no list is sent.
#[test]
fn r6_items_of_a_document_case_1() {
    let mut document: Copy<&str> = Copy::default();
    let told = |rows: &[(&'static str, u64)], left: &[(&'static str, u64)], v| Upgrade {
        rows: rows.to_vec(),
        left: left.to_vec(),
        present: None,
        v,
        horizon: 0,
    };
    document.apply(&told(&[("title", 10), ("body", 10), ("note/1", 10)], &[], 10));
    let mut cache = document.clone();
    document.apply(&told(&[("body", 20)], &[("note/1", 20)], 20));
    let upgrade = document.upgrade_since(cache.v());
    assert_eq!(
        upgrade.rows,
        [("title", 10), ("body", 20)],
        "at the asked version too: it may have been told in part"
    );
    assert_eq!(upgrade.left, [("note/1", 20)]);
    assert_eq!(upgrade.present, None);
    cache.apply(&upgrade);
    assert_eq!(cache, document);
    // The cache can serve another copy that is further behind.
    let mut later = Copy::default();
    later.apply(&cache.upgrade_since(0));
    assert_eq!(later.keys().copied().collect::<BTreeSet<_>>(), ["body", "title"].into());
}

/// Seed 004, case 2: the copy is before the horizon. Every existing item is listed, and the cache purges the
/// others.
#[test]
fn r6_items_of_a_document_case_2() {
    let mut document: Copy<&str> = Copy::default();
    let told = |rows: &[(&'static str, u64)], left: &[(&'static str, u64)], v| Upgrade {
        rows: rows.to_vec(),
        left: left.to_vec(),
        present: None,
        v,
        horizon: 0,
    };
    document.apply(&told(&[("a", 10), ("b", 10), ("c", 10)], &[], 10));
    let mut cache = document.clone();
    document.apply(&told(&[], &[("a", 20)], 20));
    document.apply(&told(&[("d", 30)], &[("b", 30)], 30));
    document.forget_before(25);
    let upgrade = document.upgrade_since(cache.v());
    assert_eq!(upgrade.left, [("b", 30)], "a's end is forgotten");
    assert_eq!(upgrade.present, Some(vec!["c", "d"]));
    cache.apply(&upgrade);
    assert_eq!(cache.keys().copied().collect::<BTreeSet<_>>(), ["c", "d"].into());
    assert_eq!(cache.horizon(), 25, "what it can tell others begins there");
    assert_eq!(cache.mark(&"b"), Some(30));
}

/// The set by hand: versions of links and removal tombstones, and the result of each call.
#[test]
fn r5_a_mark_holds_older_rows_back() {
    let mut set: VersionedSet<u8, u64> = VersionedSet::default();
    assert!(set.link(&1, 4, true));
    assert!(!set.unlink(&1, 3), "an older departure than the link");
    assert!(set.unlink(&1, 4), "as new as the link");
    assert!(set.link(&1, 4, true) && set.unlink(&1, 5));
    assert!(!set.unlink(&1, 5), "twice changes nothing");
    assert!(!set.link(&1, 4, true), "an older row than the departure");
    assert_eq!((set.member(&1), set.mark(&1)), (None, Some(5)));
    assert!(set.link(&1, 5, true), "as new as the departure: both are of one write");
    assert_eq!(set.mark(&1), None);
    assert!(set.unlink(&2, 6), "of a key that never was in");
    assert_eq!(set.settle(6), Vec::<u8>::new(), "kept while not below v");
    assert_eq!(set.settle(7), [2]);
    assert!(!set.unlink(&3, 6), "below v nothing is remembered");
    assert_eq!(set.settle(3), Vec::<u8>::new());
    assert_eq!(set.v(), 7, "never backwards");
}

/// A whole load begins. Earlier answers no longer count, and a member that the load does not confirm is left over at its
/// end.
#[test]
fn r6_a_whole_load_confirms_each_member_or_drops_it() {
    let mut set: VersionedSet<u8, u64> = VersionedSet::default();
    for key in 1..=4 {
        assert!(set.link(&key, 10, true));
    }
    assert!(set.unlink(&5, 12));
    set.restart(3);
    assert_eq!((set.v(), set.mark(&5)), (3, None), "known from there on alone");
    assert!(set.members().all(|(_, member)| !member.confirmed && member.at == 10));
    assert!(set.link(&1, 10, true), "confirmed");
    assert!(!set.link(&1, 10, false), "once confirmed it stays so");
    assert!(set.link(&2, 11, false), "newer, and not of the load");
    assert!(set.forget(&4) && !set.forget(&4));
    assert_eq!((set.len(), set.is_empty(), set.mark(&4)), (3, false, None), "without a mark");
    let left = |present: Option<&[u8]>, keep_from| -> BTreeSet<u8> {
        let present = present.map(|keys| keys.iter().copied().collect());
        set.unaccounted(present.as_ref(), keep_from).into_iter().collect()
    };
    assert_eq!(left(None, 20), [2, 3].into());
    assert_eq!(left(None, 11), [3].into(), "what is as new as the load stays");
    assert_eq!(left(None, 10), [].into());
    assert_eq!(left(Some(&[3]), 20), [1, 2].into(), "the list counts, confirmed or not");
}
