//! Estimates the memory that a request takes once it is decoded. One byte of a message can become two hundred
//! in memory: an empty map is one byte, and a node of a tree. So a limit on the body's length says little.
//!
//! The estimate is made without decoding. Light requests proceed at once, heavy ones run one after another,
//! and those above the bound for any request are refused.

use std::sync::mpsc;

use escale::codec::Format;
use escale::{Code, Error, Result};
use tokio::sync::oneshot;

/// Bytes of memory that a request may take. One operation of the greatest size, made only of the smallest
/// maps, is allowed.
pub(in crate::http) const HEAVY_BYTES_MAX: usize = 512 << 20;

/// Bytes up to which a request is light. Even the largest permitted number of light requests fits into the
/// memory.
pub(in crate::http) const LIGHT_BYTES_MAX: usize = 2 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// The thread that decodes and answers heavy requests. It is a single thread, not a lock for many threads:
/// memory that it frees serves the next request, whereas an allocator keeps the freed memory of each thread
/// apart.
pub(in crate::http) struct HeavyLane(mpsc::Sender<Job>);

impl HeavyLane {
    /// Starts the thread. It ends when the last handle is dropped.
    pub(in crate::http) fn new() -> Result<Self> {
        let (jobs, coming) = mpsc::channel::<Job>();
        let lane = std::thread::Builder::new().name("heavy requests".into());
        let spawned = lane.spawn(move || coming.into_iter().for_each(|job| job()));
        spawned.map_err(|error| Error::new(Code::Internal, error.to_string()))?;
        Ok(HeavyLane(jobs))
    }

    /// Runs a job when its turn comes, unless its caller has stopped waiting. Errors: `server_error` if the
    /// job panicked.
    pub(in crate::http) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let (done, result) = oneshot::channel();
        let job = Box::new(move || {
            if !done.is_closed() {
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                // The send fails if nobody waits any more.
                drop(ended.map(|value| done.send(value)));
            }
        });
        let failed = || Error::new(Code::ServerError, "a request ended by a panic");
        self.0.send(job).map_err(|_| failed())?;
        result.await.map_err(|_| failed())
    }
}

/// Memory of a value besides its bytes: its own size, twice, because lists grow by doubling.
const VALUE_BYTES: usize = 64;

/// Additional memory of a list or map that is not empty: room for four values, or the rest of a tree node,
/// whose first key and value are counted as values.
const LIST_BYTES: usize = 128;
const MAP_BYTES: usize = 512;

/// Estimates the memory of a decoded message, its own bytes included. The estimate is usually too high, and never
/// much too low. Bytes that are no message count, too.
pub(in crate::http) fn memory_of(format: Format, bytes: &[u8]) -> usize {
    bytes.len() + if format == Format::Json { json(bytes) } else { msgpack(bytes) }
}

fn json(bytes: &[u8]) -> usize {
    let (mut memory, mut is_text, mut is_escaped) = (0, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b':' if !is_text => memory += VALUE_BYTES,
            b'[' if !is_text => memory += LIST_BYTES,
            b'{' if !is_text => memory += MAP_BYTES,
            _ => {}
        }
    }
    memory
}

fn msgpack(bytes: &[u8]) -> usize {
    let number = |at: usize, width: usize| {
        let digits = bytes.get(at..at + width).unwrap_or_default();
        digits.iter().fold(0_usize, |n, digit| n << 8 | usize::from(*digit))
    };
    let (mut memory, mut at) = (0_usize, 0);
    while let Some(marker) = bytes.get(at).copied() {
        memory += VALUE_BYTES;
        // The bytes after the marker: those of a number or of a length, then those that the length announces.
        let (width, content) = match marker {
            0xa0..=0xbf => (0, usize::from(marker & 0x1f)),
            0xc4 | 0xd9 => (1, number(at + 1, 1)),
            0xc5 | 0xda => (2, number(at + 1, 2)),
            0xc6 | 0xdb => (4, number(at + 1, 4)),
            0xc7..=0xc9 => (1 << (marker - 0xc7), 1 + number(at + 1, 1 << (marker - 0xc7))),
            0xcc | 0xd0 => (1, 0),
            0xcd | 0xd1 | 0xdc | 0xde => (2, 0),
            0xca | 0xce | 0xd2 | 0xdd | 0xdf => (4, 0),
            0xcb | 0xcf | 0xd3 => (8, 0),
            0xd4..=0xd8 => (0, 1 + (1 << (marker - 0xd4))),
            _ => (0, 0),
        };
        let is_list = matches!(marker, 0x91..=0x9f | 0xdc | 0xdd);
        let is_map = matches!(marker, 0x81..=0x8f | 0xde | 0xdf);
        memory += usize::from(is_list) * LIST_BYTES + usize::from(is_map) * MAP_BYTES;
        at = at.saturating_add(1 + width).saturating_add(content);
    }
    memory
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use escale::codec::encode;
    use escale::model::Value;

    use super::*;

    fn nested(depth: usize, leaf: &Value) -> Value {
        (0..depth).fold(leaf.clone(), |inner, _| [("", inner)].into())
    }

    #[test]
    fn a_message_weighs_its_values_and_not_its_text() {
        let texts = Value::Array(vec![Value::from("{[,:\\\"{["); 1_000]);
        let bytes = Value::Array(vec![Value::Bytes(vec![0x81; 1_000]); 1_000]);
        let maps = Value::Array(vec![nested(3, &Value::Null); 1_000]);
        for format in [Format::Json, Format::Msgpack] {
            let of = |value: &Value| memory_of(format, &encode(format, value).unwrap());
            let lengths = |value: &Value| encode(format, value).unwrap().len();
            assert!(of(&texts) < 1_000 * 80 + lengths(&texts) + 1_000, "{}", of(&texts));
            assert!(of(&maps) > 3_000 * MAP_BYTES, "{}", of(&maps));
            assert!(of(&Value::Array(vec![Value::Null; 1_000])) >= 999 * VALUE_BYTES);
            let each = if format == Format::Json { MAP_BYTES + 3 * VALUE_BYTES } else { VALUE_BYTES };
            assert!(of(&bytes) <= 1_001 * each + LIST_BYTES + lengths(&bytes), "{}", of(&bytes));
        }
    }

    #[test]
    fn bytes_that_are_no_message_are_weighed_too() {
        for marker in 0..=255 {
            for tail in [&[][..], &[0xff; 3], &[0xff; 9]] {
                let bytes = [&[marker], tail].concat();
                for format in [Format::Json, Format::Msgpack] {
                    assert!(memory_of(format, &bytes) >= bytes.len());
                }
            }
        }
    }

    #[tokio::test]
    async fn heavy_ones_come_one_after_another_on_one_thread() {
        let lane = HeavyLane::new().unwrap();
        let (end, ends) = mpsc::channel::<()>();
        let first = lane.run(move || {
            ends.recv().unwrap();
            std::thread::current().id()
        });
        let panics = lane.run(|| panic!("as asked"));
        let second = lane.run(|| std::thread::current().id());
        let abandoned = async {
            let run = lane.run(|| unreachable!("nobody waits for it"));
            assert!(tokio::time::timeout(Duration::ZERO, run).await.is_err());
            end.send(()).unwrap();
        };
        let (first, panics, second, ()) = tokio::join!(first, panics, second, abandoned);
        assert_eq!(first.unwrap(), second.unwrap());
        let panics: Result<()> = panics;
        assert_eq!(panics.unwrap_err().code(), Code::ServerError);
    }
}
