//! The documents that changed since the indexes of their class were last brought up to date (R30).

/// The ids that documents got since, by the position of their class. Only classes that are followed are noted.
#[derive(Default)]
pub struct NewIds(Vec<(u16, Vec<u32>)>);

impl NewIds {
    /// From now on, notes the new ids of a class.
    pub fn follow(&mut self, class: u16) {
        if !self.follows(class) {
            self.0.push((class, Vec::new()));
        }
    }

    /// From now on, notes no ids of a class.
    pub fn leave(&mut self, class: u16) {
        self.0.retain(|(of, _)| *of != class);
    }

    /// Whether the new ids of a class are noted.
    pub fn follows(&self, class: u16) -> bool {
        self.0.iter().any(|(of, _)| *of == class)
    }

    /// A document got a new id.
    pub(in crate::memory) fn add(&mut self, class: u16, id: u32) {
        for (of, ids) in &mut self.0 {
            if *of == class {
                ids.push(id);
            }
        }
    }

    /// The ids that documents of a class have got since the last call.
    pub fn take(&mut self, class: u16) -> Vec<u32> {
        let own = self.0.iter_mut().find(|(of, _)| *of == class);
        own.map(|(_, ids)| std::mem::take(ids)).unwrap_or_default()
    }
}
