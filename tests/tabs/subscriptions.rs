//! One tab at a time, which subscribes and unsubscribes while it opens, follows, begins to lead and leads. Its
//! last command about a def must hold in the end, although earlier commands are still in the inbox.

use std::collections::BTreeMap;

use escale::crypto::{Random, SeededRandom};
use escale::journal::Policy;
use escale::model::Def;
use escale::storage::Limits;
use escale::store::MemoryDevice;
use escale::sync::Event;

use super::regressions::{NOW, open};
use super::tab::{Tab, Task};
use escale_testkit::schema::{key, name};
use escale_testkit::seeds;

fn defs() -> Vec<Def> {
    let documents = (0..2).map(|number| Def::document(&name("Doc"), &key(number).1));
    documents.chain([Def::class_of(&name("Doc"))]).collect()
}

/// A tab, and the last command of its application about each def.
struct Play {
    device: MemoryDevice,
    tab: Tab,
    last: BTreeMap<Def, bool>,
    random: SeededRandom,
    is_taking_over: bool,
    now: u64,
}

impl Play {
    fn new(seed: u64) -> Self {
        let device = MemoryDevice::shared();
        let tab = Tab::open(&device, seed, Policy::Overwrite, Limits::default());
        let random = SeededRandom::new(seed);
        Play { device, tab, last: BTreeMap::new(), random, is_taking_over: false, now: NOW }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n).expect("random")
    }

    fn step(&mut self) {
        self.now += 10;
        match self.below(24) {
            0..=7 => {
                let def = defs().swap_remove(self.below(3) as usize);
                let is_wanted = self.below(2) == 0;
                let command =
                    if is_wanted { Event::Subscribe(def.clone()) } else { Event::Unsubscribe(def.clone()) };
                self.tab.feed(command, self.now);
                self.last.insert(def, is_wanted);
            }
            8..=14 => drop(self.tab.work(None)),
            15..=21 => {
                if let Some(event) = self.tab.arrived.pop_front() {
                    self.tab.feed(event, self.now);
                }
            }
            22 => self.take_over(),
            _ => {
                // The page is loaded again. The commands in the inbox stay there.
                let seed = self.below(1 << 40);
                self.tab = Tab::open(&self.device, seed, Policy::Overwrite, Limits::default());
                (self.last, self.is_taking_over) = (BTreeMap::new(), false);
            }
        }
    }

    fn take_over(&mut self) {
        if !self.is_taking_over {
            self.is_taking_over = true;
            self.tab.tasks.push_back(Task::TakeOver);
        }
    }

    fn check(&mut self) {
        self.take_over();
        while !(self.tab.tasks.is_empty() && self.tab.arrived.is_empty()) {
            while self.tab.work(None) {}
            self.tab.arrived.pop_front().into_iter().for_each(|event| self.tab.feed(event, self.now));
        }
        assert!(!self.tab.machine.is_following());
        let reader = open(&self.device, 1);
        for (def, is_wanted) in &self.last {
            for tab in [&self.tab, &reader] {
                let is_there = tab.machine.memory().collection(def).is_some();
                assert_eq!(is_there, *is_wanted, "{def}: the last command was {is_wanted}");
            }
        }
    }
}

/// A tab subscribed, unsubscribed and subscribed again while it began to lead. The earlier commands came back
/// from the inbox after the last one, and ended the subscription: its documents never came.
#[test]
fn the_last_command_about_a_subscription_holds_whatever_the_inbox_has() {
    for seed in seeds::each(3_000) {
        let played = std::panic::catch_unwind(|| {
            let mut play = Play::new(seed);
            for _ in 0..60 {
                play.step();
            }
            play.check();
        });
        if let Err(panic) = played {
            eprintln!("ESCALE_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
