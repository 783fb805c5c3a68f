//! Limits how often the session asks the server, regardless of the answers: ten requests at once, then one a
//! second, until a request has brought something. Delays after a failure are added (`backoff`). The socket
//! limits its openings in the same way.

/// Requests that may follow each other at once.
const BURST: u64 = 10;

/// Milliseconds for one more.
const EVERY_MS: u64 = 1_000;

/// The requests that brought nothing, as the time at which they are paid off.
#[derive(Debug, Default)]
pub(super) struct Pace {
    paid_off_ms: u64,
}

impl Pace {
    /// When the next request may be sent.
    pub fn free_at_ms(&self) -> u64 {
        self.paid_off_ms.saturating_sub((BURST - 1) * EVERY_MS)
    }

    /// Counts a request that is sent.
    pub fn take(&mut self, now_ms: u64) {
        self.paid_off_ms = self.paid_off_ms.max(now_ms) + EVERY_MS;
    }

    /// Starts over: a request brought something, or the application asks for something else.
    pub fn reset(&mut self) {
        *self = Pace::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_go_at_once_then_one_a_second() {
        let mut pace = Pace::default();
        let start_ms = 50_000;
        let mut went: Vec<u64> = Vec::new();
        for now_ms in start_ms..start_ms + 5_000 {
            while now_ms >= pace.free_at_ms() {
                pace.take(now_ms);
                went.push(now_ms - start_ms);
            }
        }
        let expected = [0; 10].into_iter().chain([1_000, 2_000, 3_000, 4_000]).collect::<Vec<u64>>();
        assert_eq!(went, expected);
        pace.reset();
        assert!(pace.free_at_ms() <= start_ms);
    }
}
