//! What a request will weigh once it is decoded. A byte of a message can become two hundred in memory (an empty map is
//! one byte, and a node of a tree), so that the limit of a body says little. It is weighed before, without decoding it:
//! light requests go on at once, heavy ones one after another, those heavier than all that may be sent are refused.

use std::sync::mpsc;

use escale::codec::Format;
use escale::{Code, Error, Result};
use tokio::sync::oneshot;

/// Bytes of memory that a request may take: one operation of the greatest size, made of nothing but the smallest maps, may
/// come.
pub(super) const HEAVY_BYTES_MAX: usize = 512 << 20;

/// Bytes up to which a request is light: as many as may be under way at once have room anyway.
pub(super) const LIGHT_BYTES_MAX: usize = 2 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// The thread where heavy requests are decoded and answered. One thread, and not one at a time on any: what it frees is
/// there for the next one, whereas an allocator keeps what each of many threads has freed.
pub(super) struct HeavyLane(mpsc::Sender<Job>);

impl HeavyLane {
    /// The thread ends with the last one who could ask it.
    pub(super) fn new() -> Result<Self> {
        let (jobs, coming) = mpsc::channel::<Job>();
        let lane = std::thread::Builder::new().name("heavy requests".into());
        let spawned = lane.spawn(move || coming.into_iter().for_each(|job| job()));
        spawned.map_err(|error| Error::new(Code::Internal, error.to_string()))?;
        Ok(HeavyLane(jobs))
    }

    /// Runs that when its turn comes, unless nobody waits for it any more. Errors: `server_error` where it panicked.
    pub(super) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let (done, result) = oneshot::channel();
        let job = Box::new(move || {
            if !done.is_closed() {
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                // An error says that nobody waits any more.
                drop(ended.map(|value| done.send(value)));
            }
        });
        let failed = || Error::new(Code::ServerError, "a request ended by a panic");
        self.0.send(job).map_err(|_| failed())?;
        result.await.map_err(|_| failed())
    }
}

/// What a value takes beside its bytes: its own size, twice, since lists grow by doubling.
const VALUE_BYTES: usize = 64;

/// What a list or map that is not empty takes besides: room for four values, or the rest of a node of a tree, whose first
/// key and value are counted as values.
const LIST_BYTES: usize = 128;
const MAP_BYTES: usize = 512;

/// Bytes of memory that a message takes when it is decoded, its own included; more than it does, and not much less. Bytes
/// that are no message have some weight as well.
pub(super) fn weight(format: Format, bytes: &[u8]) -> usize {
    bytes.len() + if format == Format::Json { json(bytes) } else { msgpack(bytes) }
}

fn json(bytes: &[u8]) -> usize {
    let (mut weight, mut is_text, mut is_escaped) = (0, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b':' if !is_text => weight += VALUE_BYTES,
            b'[' if !is_text => weight += LIST_BYTES,
            b'{' if !is_text => weight += MAP_BYTES,
            _ => {}
        }
    }
    weight
}

fn msgpack(bytes: &[u8]) -> usize {
    let number = |at: usize, width: usize| {
        let digits = bytes.get(at..at + width).unwrap_or_default();
        digits.iter().fold(0_usize, |n, digit| n << 8 | usize::from(*digit))
    };
    let (mut weight, mut at) = (0_usize, 0);
    while let Some(marker) = bytes.get(at).copied() {
        weight += VALUE_BYTES;
        // What follows the marker: the bytes of a number or of a length, then those that the length announces.
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
        weight += usize::from(is_list) * LIST_BYTES + usize::from(is_map) * MAP_BYTES;
        at = at.saturating_add(1 + width).saturating_add(content);
    }
    weight
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
            let of = |value: &Value| weight(format, &encode(format, value).unwrap());
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
                    assert!(weight(format, &bytes) >= bytes.len());
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
