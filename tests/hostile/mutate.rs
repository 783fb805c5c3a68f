//! Alters bytes like damage and attackers do, so that the result looks valid for a while.

use escale::crypto::SeededRandom;

/// Bytes with a meaning: markers of msgpack at the edges of their kinds, and the signs of JSON.
const TELLING: [u8; 40] = [
    0x00, 0x01, 0x1f, 0x7f, 0x80, 0x81, 0x8f, 0x90, 0x91, 0x9f, 0xa0, 0xa1, 0xbf, 0xc0, 0xc1, 0xc2, 0xc4,
    0xc6, 0xc7, 0xc9, 0xca, 0xcb, 0xcf, 0xd3, 0xd4, 0xd8, 0xd9, 0xdb, 0xdc, 0xdd, 0xde, 0xdf, 0xff, b'{',
    b'[', b'"', b'\\', b'-', b'e', b'}',
];

/// False lengths, in both byte orders.
const LENGTHS: [&[u8]; 5] = [&[0xff; 4], &[0x7f, 0xff, 0xff, 0xff], &[0, 0, 0x10, 0], &[0xff, 0xff], &[0; 4]];

/// Longer than any real input; growth by doubling stops there.
const BYTES_MAX: usize = 64 << 10;

/// Changes the bytes in one to six places. `other` is another valid input: pieces of it are inserted.
pub fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut SeededRandom) {
    for _ in 0..=below(random, 6) {
        change(bytes, other, random);
        bytes.truncate(BYTES_MAX);
    }
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut SeededRandom) {
    let at = below(random, bytes.len() + 1);
    match below(random, 9) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, random.next_u64() as u8),
        2 => bytes.insert(at, TELLING[below(random, TELLING.len())]),
        3 => drop(bytes.splice(at..at, LENGTHS[below(random, LENGTHS.len())].iter().copied())),
        4 => {
            let piece = piece(bytes, random);
            bytes.splice(at..at, piece);
        }
        5 => drop(bytes.splice(at..at, piece(other, random))),
        6 => {
            let len = below(random, bytes.len() - at + 1).min(16);
            bytes.drain(at..at + len);
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = match below(random, 3) {
                    0 => *byte ^ (1 << below(random, 8)),
                    1 => TELLING[below(random, TELLING.len())],
                    _ => random.next_u64() as u8,
                };
            }
        }
    }
}

/// A random piece of the bytes.
fn piece(bytes: &[u8], random: &mut SeededRandom) -> Vec<u8> {
    let from = below(random, bytes.len() + 1);
    let len = below(random, bytes.len() - from + 1);
    bytes[from..from + len].to_vec()
}

/// A random number below `bound`, which is at least 1.
pub fn below(random: &mut SeededRandom, bound: usize) -> usize {
    (random.next_u64() % bound as u64) as usize
}
