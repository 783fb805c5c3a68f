//! The end of a history: all tabs thaw, and come to rest.

use super::*;

impl World {
    /// All tabs thaw, messages arrive, and time passes until nothing more happens.
    pub(super) fn heal(&mut self) {
        (self.plan.loses_words, self.plan.has_faults) = (false, false);
        self.open(0);
        for number in 0..self.tabs.len() {
            if let Some(tab) = &mut self.tabs[number] {
                tab.is_frozen = false;
            }
        }
        self.settle();
        if self.plan.releases {
            self.end_with_the_newest_release();
        }
        // A subscription is lost with its tab, if the tab had not sent it to the leader.
        self.tab(0).arrived.push_back(Event::Subscribe(Def::class_of(&name("Doc"))));
        // Past the longest delay, and a pull of everything.
        for _ in 0..16 {
            // A tab may have ended before it could lead. The tab that holds the lock tries until it leads.
            let next = self.tabs.iter().position(|tab| tab.as_ref().is_some_and(Tab::is_unfenced));
            if next.is_some() || self.tabs.iter().flatten().all(|tab| tab.machine.is_following()) {
                self.take_over(next.unwrap_or(0));
                self.settle();
            }
            // If messages are lost, each tab polls by itself from time to time.
            for tab in self.tabs.iter_mut().flatten() {
                tab.arrived.push_back(Event::Tab(TabEvent::Poll));
            }
            self.settle();
            for number in 0..self.tabs.len() {
                while (self.plan.is_wild || self.plan.releases)
                    && self.tabs[number].is_some()
                    && self.has_refused(number)
                {
                    self.decide(number);
                    self.settle();
                }
            }
            self.now += 31_000;
        }
        self.settle();
    }

    fn has_refused(&mut self, number: usize) -> bool {
        let tab = self.tab(number);
        tab.machine.operations().iter().any(|(op, _)| op.state.refused.is_some())
    }

    pub(super) fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 5_000, "the tabs never come to rest");
            let mut is_busy = false;
            for number in 0..self.tabs.len() {
                let now = self.now;
                if self.tabs[number].is_none() {
                    continue;
                }
                while !self.tab(number).tasks.is_empty() {
                    is_busy = true;
                    self.work(number);
                }
                if let Some((request_number, request)) = self.tab(number).sent.take() {
                    is_busy = true;
                    let reply = Ok(self.answer(&request, now));
                    self.tab(number).arrived.push_back(Event::Replied { number: request_number, reply });
                }
                while let Some(event) = self.tab(number).arrived.pop_front() {
                    is_busy = true;
                    self.tab(number).feed(event, now);
                    self.note(number);
                }
                self.wake(number);
            }
            if !is_busy {
                return;
            }
            self.now += 1;
        }
    }
}
