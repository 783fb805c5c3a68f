//! R18: neighbours of one tree are answered together, or not at all.

use escale::codec::Sub;
use escale::model::Def;
use escale_server::settings::Settings;
use proptest::prelude::*;

use crate::support::items::*;
use crate::support::world::*;

fn filled(page_bytes: usize) -> World {
    let world = items_with(Settings { page_bytes, ..Settings::default() });
    for id in ["p", "q"] {
        write(&world.engine, |w| {
            w.put("Asso", asso(id))?;
            w.put("Sta", sta(id))?;
            (0..4).try_for_each(|num| w.put("Adh", adh(id, &num.to_string())).map(drop))
        });
    }
    world
}

/// The defs that a reply answers, and whether the last one is whole.
fn answered(world: &World, defs: &[Def]) -> (Vec<Def>, bool) {
    let reply = ask(&world.engine, defs.iter().map(|def| sub(def, 1)).collect());
    let is_whole = reply.parts.last().is_none_or(|part| part.next.is_none());
    (reply.parts.into_iter().map(|part| part.def).collect(), is_whole)
}

#[test]
fn r18_neighbours_of_a_tree_are_answered_all_or_none() {
    let (one, two) = (tree_defs("p"), tree_defs("q"));
    let both = [one.clone(), two.clone()].concat();
    let all = answered(&filled(1 << 20), &both);
    assert_eq!(all, (both.clone(), true));
    // Room for the first tree, and for some of the second.
    for page_bytes in [600, 700, 800] {
        assert_eq!(answered(&filled(page_bytes), &both), (one.to_vec(), true), "{page_bytes} bytes");
    }
    // In any order, if they are neighbours.
    let turned = [&one[..], &[two[2].clone(), two[0].clone(), two[1].clone()]].concat();
    assert_eq!(answered(&filled(800), &turned), (one.to_vec(), true));
    // A request for the rest goes on.
    assert_eq!(answered(&filled(800), &two), (two.to_vec(), true));
}

#[test]
fn r18_a_tree_that_is_first_comes_page_by_page() {
    let [parent, members, statutes] = tree_defs("p");
    let world = filled(300);
    let defs = [parent.clone(), members.clone(), statutes.clone()];
    assert_eq!(answered(&world, &defs), (vec![parent.clone(), members.clone()], false));
    // A tree that is not first, and larger than a page.
    let asked = [vec![def("Asso")], defs.to_vec()].concat();
    assert_eq!(answered(&world, &asked), (vec![def("Asso")], true));
    // Alone, a def pages as any other does.
    assert_eq!(answered(&world, &[def("Asso"), members.clone()]), (vec![def("Asso"), members], false));
}

/// Two trees whose first defs have no changes took turns for ever, if a page had no room for a row.
#[test]
fn r18_a_def_behind_parts_without_changes_gets_its_row() {
    let [parent, members, _] = tree_defs("p");
    let world = filled(1);
    let now = ask(&world.engine, Vec::new()).now + 1;
    let reply = ask(&world.engine, vec![sub(&parent, now), sub(&members, 1)]);
    let rows: Vec<usize> = reply.parts.iter().map(|part| part.rows.len()).collect();
    assert_eq!((rows, reply.parts[1].next.is_some()), (vec![0, 1], true));
}

#[test]
fn r18_only_neighbours_belong_together() {
    let ([_, members, statutes], world) = (tree_defs("p"), filled(300));
    let others = tree_defs("q");
    let asked = [statutes.clone(), others[2].clone(), members.clone()];
    let (answers, is_whole) = answered(&world, &asked);
    assert_eq!((answers, is_whole), (asked.to_vec(), false));
    // A single item is of no group: its parent is not known from its pk.
    let asked = [statutes, single("p", "1"), members];
    assert_eq!(answered(&world, &asked).0.len(), 3);
}

proptest! {
    #![proptest_config(cases(60))]

    /// A session that asks again for the rest gets everything, for any page size. No reply splits a tree, except one
    /// that is first.
    #[test]
    fn r18_every_tree_comes_in_one_reply(page_bytes in 1..2_000_usize, turns in prop::collection::vec(0..3_usize, 2)) {
        let world = filled(page_bytes);
        let group = |id: &str, turn: usize| {
            let mut defs = tree_defs(id).to_vec();
            defs.rotate_left(turn);
            defs
        };
        let trees = [group("p", turns[0]), group("q", turns[1])];
        let mut waiting: Vec<Sub> = trees.concat().iter().map(|def| sub(def, 1)).collect();
        waiting.insert(0, sub(&def("Asso"), 1));
        for _ in 0..100 {
            if waiting.is_empty() {
                break;
            }
            let reply = ask(&world.engine, waiting.clone());
            prop_assert!(!reply.parts.is_empty());
            for tree in &trees {
                let own = reply.parts.iter().filter(|part| tree.contains(&part.def)).count();
                let asked = waiting.iter().filter(|sub| tree.contains(&sub.def)).count();
                let is_first = tree.contains(&waiting[0].def);
                prop_assert!(own == 0 || own == asked || is_first, "{own} of {asked}");
            }
            for part in &reply.parts {
                let place = waiting.iter().position(|sub| sub.def == part.def).unwrap();
                match &part.next {
                    Some(next) => waiting[place].cursor = Some(next.clone()),
                    None => drop(waiting.remove(place)),
                }
            }
        }
        prop_assert!(waiting.is_empty());
    }
}
