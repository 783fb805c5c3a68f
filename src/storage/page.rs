//! Pages: rows sealed together, compressed first.

use crate::codec::{Data, pack, record, unpack};
use crate::error::{Code, Error, Result};
use crate::memory::Stamp;
use crate::model::{Name, Pk};

/// Bytes of rows after which a page is full: large enough that records are few, small enough that reading one
/// document does not read much.
pub const PAGE_ROWS_BYTES: usize = 64 << 10;

/// Bytes that a page can hold once decompressed: a full page, one document of the greatest size, and room.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

const PLAIN: u8 = 0;
/// Snappy refers to nearby bytes in two bytes, and documents of one class repeat the same words.
const SNAPPY: u8 = 1;

/// A row of a page. Its fields identify it without the state records.
#[derive(Clone, Debug, PartialEq)]
pub struct PageRow {
    /// The document's class.
    pub class: Name,
    /// Its pk.
    pub pk: Pk,
    /// The version of the data.
    pub at: Stamp,
    /// The data.
    pub data: Data,
}

record!(PageRow { class, pk, at, data });

/// A page that a device returned.
#[derive(Clone, Debug)]
pub enum FoundPage {
    /// The sealed record.
    Sealed(Vec<u8>),
    /// The plain bytes: the device has its own cipher.
    Opened(Vec<u8>),
}

impl FoundPage {
    /// Pages of a device that has no cipher.
    pub fn sealed(pages: Result<Vec<Option<Vec<u8>>>>) -> Result<Vec<Option<Self>>> {
        Ok(pages?.into_iter().map(|page| page.map(FoundPage::Sealed)).collect())
    }
}

/// The plain bytes of a page.
pub fn encode_page(rows: &[PageRow]) -> Result<Vec<u8>> {
    let body = pack(rows)?;
    let packed = snap::raw::Encoder::new().compress_vec(&body);
    let packed = packed.map_err(|_| Error::new(Code::TooLarge, "a page beyond the bound of snappy"))?;
    let (kind, shorter) = if packed.len() < body.len() { (SNAPPY, packed) } else { (PLAIN, body) };
    Ok([&[kind], shorter.as_slice()].concat())
}

/// Reads a page. Errors: `record_damaged` if the bytes are not one.
pub fn decode_page(bytes: &[u8]) -> Result<Vec<PageRow>> {
    let damaged = || Error::new(Code::RecordDamaged, "not a page");
    let (kind, rest) = bytes.split_first().ok_or_else(damaged)?;
    let unpacked = match *kind {
        PLAIN => None,
        SNAPPY if is_in_proportion(rest) => {
            Some(snap::raw::Decoder::new().decompress_vec(rest).map_err(|_| damaged())?)
        }
        _ => return Err(damaged()),
    };
    unpack(unpacked.as_deref().unwrap_or(rest)).ok_or_else(damaged)
}

/// Whether a page may have the size that the compressed bytes claim. Snappy expands 22 times at most: a greater
/// size is a lie, and is refused before it is allocated.
fn is_in_proportion(packed: &[u8]) -> bool {
    let size = snap::raw::decompress_len(packed).unwrap_or(usize::MAX);
    size <= PAGE_BYTES_MAX.min(packed.len().saturating_mul(24))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::SeededRandom;

    fn row(n: u64, bytes: usize) -> PageRow {
        let text = "all work and no play ".repeat(bytes / 21);
        let map = [("s".to_owned(), crate::model::Value::String(text))].into();
        PageRow {
            class: Name::new("A").unwrap(),
            pk: Pk::from_key(&[&n.to_string()]).unwrap(),
            at: Stamp::new(0, n),
            data: Data::from_map(&map).unwrap(),
        }
    }

    #[test]
    fn a_page_reads_back_and_is_smaller_than_its_rows() {
        let rows: Vec<PageRow> = (0..60).map(|n| row(n, 1000)).collect();
        let bytes = encode_page(&rows).unwrap();
        assert!(bytes.len() < 10_000, "{} bytes", bytes.len());
        assert_eq!(bytes[0], SNAPPY);
        assert_eq!(decode_page(&bytes).unwrap(), rows);
        let empty = encode_page(&[]).unwrap();
        assert_eq!((empty[0], decode_page(&empty).unwrap().len()), (PLAIN, 0), "no shorter when compressed");
    }

    /// A page takes one byte more than the shorter form, for any rows.
    #[test]
    fn a_page_is_stored_in_its_shorter_form() {
        let mut random = SeededRandom::new(1);
        let mut forms = [0; 2];
        for same in 0..80 {
            let mut row = row(1, 0);
            let noise: String = (0..40).map(|_| char::from(b'0' + (random.next_u64() % 70) as u8)).collect();
            let text = crate::model::Value::String(noise + &"x".repeat(same));
            row.data = Data::from_map(&[("s".to_owned(), text)].into()).unwrap();
            let body = pack(std::slice::from_ref(&row)).unwrap();
            let packed = snap::raw::Encoder::new().compress_vec(&body).unwrap();
            let bytes = encode_page(std::slice::from_ref(&row)).unwrap();
            assert_eq!(bytes.len(), 1 + body.len().min(packed.len()));
            assert_eq!(decode_page(&bytes).unwrap(), [row]);
            forms[usize::from(bytes[0])] += 1;
        }
        assert!(forms[0] > 0 && forms[1] > 0, "{forms:?}");
    }

    /// A head that claims `size`, with `more` bytes behind it.
    fn claims(size: usize, more: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = size;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        bytes.resize(bytes.len() + more, 0);
        bytes
    }

    #[test]
    fn a_page_is_at_most_four_mebibytes_and_24_times_its_bytes() {
        for (size, more, is_fine) in [
            (PAGE_BYTES_MAX, PAGE_BYTES_MAX, true),
            (PAGE_BYTES_MAX + 1, PAGE_BYTES_MAX, false),
            (24 * 102, 100, true),
            (24 * 102 + 1, 100, false),
        ] {
            assert_eq!(is_in_proportion(&claims(size, more)), is_fine, "{size} in {more} bytes");
        }
        assert!(!is_in_proportion(&[0xff; 12]), "no size at all");
    }

    #[test]
    fn a_size_out_of_proportion_is_refused() {
        let bytes = [SNAPPY, 0xff, 0xff, 0x7f, 0, 0];
        assert_eq!(decode_page(&bytes).unwrap_err().code(), Code::RecordDamaged);
    }
}
