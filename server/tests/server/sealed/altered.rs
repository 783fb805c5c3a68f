//! Random alterations of a sealed database. After each, every answer of the server is that of before, an error that tells of
//! it, or lacks no more than docs/security.md names.

use escale_server::engine::{Engine, first_site};
use escale_server::mark::Mark;
use escale_server::provider::{MemoryDatabase, MemoryProvider};
use escale_server::seal::Seal;
use escale_testkit::seeds;

use super::answers::{Answers, KEY, ask_all, fill, opening, wrong_answer};
use super::thief::{Kind, Tables, alter};
use crate::support::base::Base;
use crate::support::chance::Chance;

/// The first wrong answer in that many alterations.
fn wrong_answers(engine: &Engine, rounds: u32) -> Option<String> {
    let filled = fill(engine);
    let tables = Tables::of(engine);
    let before = ask_all(engine, &filled);
    assert_eq!(ask_all(engine, &filled), before, "to ask changes nothing");
    let mut chance = Chance::new();
    let (mut noticed, mut lacking) = (0_u32, 0_u32);
    for _ in 0..rounds {
        let altered = alter(engine, &tables, &mut chance);
        let after = ask_all(engine, &filled);
        if let Some(wrong) = wrong_answer(&before, &after, &altered.kinds) {
            return Some(format!("{:?}: {wrong}", altered.words));
        }
        let differs = after != before;
        noticed += u32::from(differs && tells(&after));
        lacking += u32::from(differs && altered.kinds.iter().any(|kind| *kind != Kind::Noticed));
        altered.take_back(engine);
    }
    assert_eq!(ask_all(engine, &filled), before, "each alteration was taken back");
    eprintln!("{rounds} alterations: {noticed} noticed, {lacking} of kinds that may not be");
    assert!(
        rounds < 100 || (noticed * 4 > rounds && lacking * 20 > rounds),
        "each is tried: {noticed}, {lacking}"
    );
    None
}

/// Whether an answer says that the storage failed.
fn tells(answers: &Answers) -> bool {
    let text = format!("{:?}", answers.values());
    text.contains("server_error") || text.contains("storage_failed")
}

fn sealed_in_memory() -> Engine {
    let provider = MemoryProvider::open(&MemoryDatabase::new(first_site(1).unwrap()));
    Engine::over(Box::new(provider), Mark::none(), opening(Seal::with_key(&KEY)), 7).unwrap()
}

/// `ESCALE_CASES=n` makes n alterations.
#[test]
fn no_alteration_of_a_sealed_database_shows_a_caller_more() {
    assert_eq!(wrong_answers(&sealed_in_memory(), seeds::cases(200)), None);
}

#[test]
fn no_alteration_of_a_sealed_folder_shows_a_caller_more() {
    let base = Base::folder();
    let engine = base.open(opening(Seal::with_key(&KEY))).unwrap();
    assert_eq!(wrong_answers(&engine, seeds::cases(30)), None);
}

#[cfg(feature = "postgres")]
#[test]
fn no_alteration_of_a_sealed_database_on_postgres_shows_a_caller_more() {
    let base = Base::postgres(crate::support::postgres::server(), Some(crate::support::world::NOON));
    let engine = base.open(opening(Seal::with_key(&KEY))).unwrap();
    assert_eq!(wrong_answers(&engine, seeds::cases(6)), None);
}

/// Without a site key nothing is noticed, and the same answers are wrong.
#[test]
fn alterations_of_a_database_in_clear_show_callers_more() {
    let provider = MemoryProvider::open(&MemoryDatabase::new(first_site(1).unwrap()));
    let engine = Engine::over(Box::new(provider), Mark::none(), opening(Seal::clear()), 7).unwrap();
    assert!(wrong_answers(&engine, 300).is_some());
}
