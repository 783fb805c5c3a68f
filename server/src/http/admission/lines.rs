//! Bodies on their way, in or out: as slow as their callers' lines. All of one direction share a number of lines, and memory.
//!
//! If there is no room for a further one, the caller who takes most of it gives up the slowest of its own. So slow
//! callers, however many lines they hold, keep nobody out who holds fewer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::gate::Holder;

/// Bytes that a line is thought to have moved in its first second: a new one has not shown how fast it is.
const CREDIT: f64 = 16_384.0;

/// The lines of one direction.
pub(super) struct Lines {
    count_max: usize,
    bytes_max: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    last: u64,
    bytes: usize,
    lines: HashMap<u64, Progress>,
}

struct Progress {
    holder: Holder,
    since: Instant,
    moved: usize,
    /// Bytes in memory.
    held: usize,
    end: Arc<Notify>,
}

/// One body on its way; the line is free when this is dropped.
pub(super) struct Line {
    lines: Arc<Lines>,
    number: u64,
}

impl Lines {
    pub(super) fn new(count_max: usize, bytes_max: usize) -> Arc<Self> {
        Arc::new(Lines { count_max, bytes_max, known: Mutex::default() })
    }

    /// A line of a caller for a body that holds so many bytes. `end` is notified if it has to end, because others need the room.
    pub(super) fn enter(self: &Arc<Self>, holder: &Holder, held: usize, end: &Arc<Notify>) -> Line {
        let mut known = self.known();
        known.last += 1;
        let number = known.last;
        let (since, moved) = (Instant::now(), 0);
        known.bytes += held;
        known
            .lines
            .insert(number, Progress { holder: holder.clone(), since, moved, held, end: Arc::clone(end) });
        self.make_room(&mut known);
        Line { lines: Arc::clone(self), number }
    }

    fn make_room(&self, known: &mut Known) {
        while known.lines.len() > self.count_max {
            known.end_one(|_| 1);
        }
        while known.bytes > self.bytes_max && known.lines.len() > 1 {
            known.end_one(|line| line.held);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Ends the slowest line of the caller who has most.
    fn end_one(&mut self, share: impl Fn(&Progress) -> usize) {
        let mut shares: HashMap<&Holder, usize> = HashMap::new();
        for line in self.lines.values() {
            *shares.entry(&line.holder).or_default() += share(line);
        }
        let most = shares.values().copied().max().unwrap_or(0);
        let now = Instant::now();
        let of_most =
            self.lines.iter().filter(|(_, line)| shares.get(&line.holder) == Some(&most) && share(line) > 0);
        let slowest = of_most.min_by(|(a, one), (b, other)| {
            one.bytes_per_second(now).total_cmp(&other.bytes_per_second(now)).then(a.cmp(b))
        });
        if let Some(number) = slowest.map(|(number, _)| *number) {
            self.remove(number).inspect(|line| line.end.notify_one());
        }
    }

    fn remove(&mut self, number: u64) -> Option<Progress> {
        let line = self.lines.remove(&number)?;
        self.bytes -= line.held;
        Some(line)
    }
}

impl Progress {
    fn bytes_per_second(&self, now: Instant) -> f64 {
        (self.moved as f64 + CREDIT) / (now.duration_since(self.since).as_secs_f64() + 1.0)
    }
}

impl Line {
    /// So many bytes have left. The memory stays until the last of them.
    pub(super) fn sent(&self, bytes: usize) {
        let mut known = self.lines.known();
        if let Some(line) = known.lines.get_mut(&self.number) {
            line.moved += bytes;
        }
    }

    /// So many bytes have come, and so many are in memory now.
    pub(super) fn came(&self, bytes: usize, held: usize) {
        let mut known = self.lines.known();
        let Some(line) = known.lines.get_mut(&self.number) else { return };
        line.moved += bytes;
        let before = std::mem::replace(&mut line.held, held);
        known.bytes = known.bytes + held - before;
        if held > before {
            self.lines.make_room(&mut known);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.lines.known().remove(self.number);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct One {
        line: Line,
        end: Arc<Notify>,
    }

    impl One {
        fn of(lines: &Arc<Lines>, name: &str, held: usize) -> Self {
            let end = Arc::new(Notify::new());
            One { line: lines.enter(&Holder::Account(name.into()), held, &end), end }
        }

        async fn has_ended(&self) -> bool {
            tokio::time::timeout(Duration::ZERO, self.end.notified()).await.is_ok()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_most_lines_gives_up_the_slowest_of_its_own() {
        let lines = Lines::new(4, 1_000);
        let slow = One::of(&lines, "honest", 1);
        let greedy: Vec<One> = (0..3).map(|_| One::of(&lines, "greedy", 1)).collect();
        tokio::time::advance(Duration::from_secs(60)).await;
        // The honest line is the slowest of all, and stays.
        for (n, one) in greedy.iter().enumerate() {
            one.line.came([90_000, 30_000, 60_000][n], 1);
        }
        let other = One::of(&lines, "other", 1);
        assert!(greedy[1].has_ended().await);
        for one in [&slow, &other, &greedy[0], &greedy[2]] {
            assert!(!one.has_ended().await);
        }
        // A line that has ended counts for nothing more.
        greedy[1].line.came(1_000_000, 1_000);
        let another = One::of(&lines, "another", 1);
        assert!(greedy[2].has_ended().await && !another.has_ended().await);
        drop((slow, greedy, other, another));
        let known = lines.known();
        assert!(known.lines.is_empty() && known.bytes == 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_most_memory_gives_it_up() {
        let lines = Lines::new(100, 1_000);
        let honest = One::of(&lines, "honest", 300);
        let greedy = [One::of(&lines, "greedy", 300), One::of(&lines, "greedy", 300)];
        tokio::time::advance(Duration::from_secs(9)).await;
        greedy[0].line.came(9_000, 300);
        honest.line.came(1, 450);
        assert!(greedy[1].has_ended().await);
        assert!(!honest.has_ended().await && !greedy[0].has_ended().await);
        // One alone has all of it: no body is larger than the room.
        drop((greedy, honest));
        let alone = One::of(&lines, "alone", 5_000);
        assert!(!alone.has_ended().await);
    }
}
