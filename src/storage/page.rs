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
    let mut bytes = Vec::with_capacity(body.len() / 2);
    bytes.push(SNAPPY);
    let packed = snap::raw::Encoder::new().compress_vec(&body);
    bytes.extend_from_slice(&packed.map_err(|e| Error::new(Code::TooLarge, e.to_string()))?);
    if bytes.len() > body.len() {
        bytes.clear();
        bytes.push(PLAIN);
        bytes.extend_from_slice(&body);
    }
    Ok(bytes)
}

/// Reads a page. Errors: `record_damaged` if the bytes are not one.
pub fn decode_page(bytes: &[u8]) -> Result<Vec<PageRow>> {
    let damaged = || Error::new(Code::RecordDamaged, "not a page");
    let (kind, rest) = bytes.split_first().ok_or_else(damaged)?;
    let unpacked = match *kind {
        PLAIN => None,
        SNAPPY => {
            // Snappy expands 22 times at most: a greater size is a lie, and is refused before it is
            // allocated.
            let size = snap::raw::decompress_len(rest).map_err(|_| damaged())?;
            if size > PAGE_BYTES_MAX || size > rest.len().saturating_mul(24) {
                return Err(damaged());
            }
            Some(snap::raw::Decoder::new().decompress_vec(rest).map_err(|_| damaged())?)
        }
        _ => return Err(damaged()),
    };
    unpack(unpacked.as_deref().unwrap_or(rest)).ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_size_out_of_proportion_is_refused() {
        let bytes = [SNAPPY, 0xff, 0xff, 0x7f, 0, 0];
        assert_eq!(decode_page(&bytes).unwrap_err().code(), Code::RecordDamaged);
    }
}
