//! How many bytes of rows a session asks for. The first page of a load is small, so that it shows early on a slow line.

use crate::limits::{FIRST_PAGE_BYTES, PAGE_BYTES};

/// The size of the next page.
#[derive(Debug, Default)]
pub struct PageSize {
    /// How many replies in a row had no room for all that was asked for.
    full: u32,
}

impl PageSize {
    /// The bytes to ask for; `None` leaves them to the server.
    pub fn bytes(&self) -> Option<u64> {
        let bytes = FIRST_PAGE_BYTES << (2 * self.full);
        (bytes < PAGE_BYTES).then_some(bytes as u64)
    }

    /// A reply has arrived. If it had no room for all, the next one may be larger; else a new load begins small.
    pub fn note_reply(&mut self, is_full: bool) {
        self.full = if is_full { (self.full + 1).min(2) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_grow_while_replies_are_full_and_begin_small_again() {
        let mut size = PageSize::default();
        let mut asked = Vec::new();
        for is_full in [true, true, true, true, false, true] {
            asked.push(size.bytes());
            size.note_reply(is_full);
        }
        assert_eq!(asked, [Some(64 << 10), Some(256 << 10), None, None, None, Some(64 << 10)]);
    }
}
