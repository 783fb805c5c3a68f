//! R22: the right to a def ends, for all tabs of the account, and comes back.

use super::*;

impl World {
    pub(super) fn change_right(&mut self, def: Def) {
        if !self.withdrawn.remove(&def) {
            self.withdrawn.insert(def);
        }
    }

    /// No tab is subscribed to a def that was withdrawn, whether it leads or follows, and nothing else is refused.
    pub(super) fn compare_rights(&mut self, number: usize) {
        let tab = self.tabs[number].as_ref().expect("an open tab");
        let left = tab.machine.memory().collections().find(|(def, _)| self.withdrawn.contains(*def));
        assert!(left.is_none(), "R22: tab {number} is still subscribed to {left:?}");
        let faults = tab.machine.status().faults;
        let other = faults.iter().find(|(_, error)| error.code() != Code::Withdrawn);
        assert_eq!(other, None, "tab {number}");
    }
}
