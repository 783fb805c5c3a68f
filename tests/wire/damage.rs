//! Invalid bytes: cut, altered, made up. Decoders are total: any bytes give a value or a named error.

use escale::codec::{Data, Decode, Encode, LiveRequest, ServerFrame, SyncReply, SyncRequest, decode, encode};
use escale::model::schema::Schema;
use escale::model::{Def, Pk, Value};
use escale::storage::decoders::{StateRecord, decode_page};
use proptest::prelude::*;

use crate::messages::FORMATS;
use escale_testkit::seeds::config;
use escale_testkit::strategies::{frame, live, reply, request};

const MAX: usize = 1 << 20;

/// Reads the bytes as every kind of message.
fn read_all(bytes: &[u8]) {
    for format in FORMATS {
        if let Ok(message) = decode::<SyncReply>(format, bytes, MAX) {
            let _ = message.check();
            for row in message.parts.iter().flat_map(|part| &part.rows) {
                let _ = row.data.as_ref().map(Data::to_map);
            }
        }
        if let Ok(message) = decode::<SyncRequest>(format, bytes, MAX) {
            let _ = message.check();
        }
        let _ = decode::<ServerFrame>(format, bytes, MAX);
        let _ = decode::<LiveRequest>(format, bytes, MAX);
        let _ = decode::<Value>(format, bytes, MAX);
    }
    let _ = Data::from_bytes(bytes).map(|data| data.to_map());
    let _ = StateRecord::decode(bytes);
    let _ = decode_page(bytes);
    let _ = escale::crypto::Header::from_bytes(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = text.parse::<Def>();
        let _ = Pk::parse(text);
        let _ = Schema::from_json(text);
    }
}

/// Cuts a message at every byte: each piece is an error, and no piece is a message.
fn cut<T: Encode + Decode>(message: &T) -> Result<(), TestCaseError> {
    for format in FORMATS {
        let bytes = encode(format, message).expect("written");
        for len in 0..bytes.len() {
            prop_assert!(decode::<T>(format, &bytes[..len], MAX).is_err(), "{format:?} cut at {len}");
        }
        prop_assert!(decode::<T>(format, &bytes, MAX).is_ok());
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn a_message_cut_at_any_byte_is_none(
        request in request(), reply in reply(), frame in frame(), live in live()
    ) {
        cut(&request)?;
        cut(&reply)?;
        cut(&frame)?;
        cut(&live)?;
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn altered_messages_never_panic(
        reply in reply(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        for format in FORMATS {
            let mut bytes = encode(format, &reply).expect("written");
            for (place, byte) in &changes {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            read_all(&bytes);
        }
    }

    #[test]
    fn made_up_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
    }

    #[test]
    fn made_up_msgpack_never_panics(
        bytes in prop::collection::vec(prop::sample::select(
            vec![0x80u8, 0x81, 0x82, 0x8f, 0x90, 0x91, 0x92, 0xa0, 0xa1, 0xa3, 0xc0, 0xc1, 0xc2, 0xc4, 0xc6, 0xc7,
                 0xc9, 0xca, 0xcb, 0xcf, 0xd3, 0xd4, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf, 0xff, 0, 1, b'p', b'v']
        ), 0..60)
    ) {
        read_all(&bytes);
    }

    #[test]
    fn made_up_json_never_panics(text in r#"[\[\]{}",:0-9a-z$.\\ -]{0,80}"#) {
        read_all(text.as_bytes());
    }
}
