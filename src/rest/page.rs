//! Pages: rows sealed together, compressed first.

use serde::{Deserialize, Serialize};

use crate::codec::{Data, pack, unpack};
use crate::error::{Code, Error, Result};
use crate::model::{Name, Pk};
use crate::session::Stamp;

/// Bytes of rows after which a page is full: large enough that records are few, small enough that reading one
/// document does not read much.
pub const PAGE_ROWS_BYTES: usize = 64 << 10;

/// Bytes that a page can hold once decompressed: one document of the greatest size over a full page, and room.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

const PLAIN: u8 = 0;
const LZ4: u8 = 1;

/// A row of a page: enough to be told apart from any other, whatever the state records say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// The plain bytes of a page.
pub fn encode_page(rows: &[PageRow]) -> Result<Vec<u8>> {
    let body = pack(&rows)?;
    let packed = lz4_flex::block::compress(&body);
    let (kind, content) = if packed.len() + 4 < body.len() { (LZ4, &packed) } else { (PLAIN, &body) };
    let mut bytes = Vec::with_capacity(content.len() + 5);
    bytes.push(kind);
    if kind == LZ4 {
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    }
    bytes.extend_from_slice(content);
    Ok(bytes)
}

/// Reads a page; `record_damaged` where the bytes are none.
pub fn decode_page(bytes: &[u8]) -> Result<Vec<PageRow>> {
    let damaged = || Error::new(Code::RecordDamaged, "not a page");
    match bytes.split_first().ok_or_else(damaged)? {
        (&PLAIN, body) => unpack(body).ok_or_else(damaged),
        (&LZ4, rest) => {
            let (size, packed) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
            let size = u32::from_le_bytes(*size) as usize;
            // LZ4 expands 255 times at most: a size out of proportion is a lie, refused before it is allocated.
            if size > PAGE_BYTES_MAX || size > packed.len().saturating_mul(256) {
                return Err(damaged());
            }
            let body = lz4_flex::block::decompress(packed, size).map_err(|_| damaged())?;
            unpack(&body).ok_or_else(damaged)
        }
        _ => Err(damaged()),
    }
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
        assert_eq!(decode_page(&bytes).unwrap(), rows);
        assert_eq!(decode_page(&encode_page(&[]).unwrap()).unwrap(), []);
    }

    #[test]
    fn a_size_out_of_proportion_is_refused() {
        let bytes = [&[LZ4][..], &u32::MAX.to_le_bytes(), &[0; 8]].concat();
        assert_eq!(decode_page(&bytes).unwrap_err().code(), Code::RecordDamaged);
    }
}
