//! The messages of a socket: their bounds, and the turns of the large ones.

use axum::body::Bytes;
use escale::codec::{Format, LiveRequest, decode};
use escale::limits::{SUBS_MAX, TEXT_CHARS_MAX};
use escale::model::{Def, DefKind};
use escale::{Code, Error, Result};
use tokio::sync::SemaphorePermit;

use crate::http::state::Server;

/// Further bytes of a message: its token and its session, and the marks between the defs.
const MESSAGE_BYTES_MORE: usize = 32 << 10;

/// Bytes of a message above which it waits for its turn. To take up a thousand names takes milliseconds of a thread on which
/// requests are answered: messages of a few sockets would keep all of them busy.
const SMALL_MESSAGE_BYTES: usize = 4 << 10;

/// Bytes of a message or frame. There is room for some more defs than a socket may have, so that a session that asks for
/// too many learns why.
pub(in crate::http) fn message_bytes_max(defs_bytes_max: usize) -> usize {
    2 * defs_bytes_max + MESSAGE_BYTES_MORE
}

/// Bytes of the names of these defs. Names differ in length by a factor of fifty, so a number of defs bounds no memory.
fn bytes_of(defs: &[Def]) -> usize {
    let of = |def: &Def| match def.kind() {
        DefKind::Class => 0,
        DefKind::Document(pk) => "@".len() + pk.as_str().len(),
        DefKind::Collection(name, hash) => "/@".len() + name.as_str().len() + hash.len(),
    };
    defs.iter().map(|def| def.class().as_str().len() + of(def)).sum()
}

/// Waits until no other large message is being taken up. A small one has its turn at once.
pub(in crate::http) async fn turn_of_message<'s>(
    server: &'s Server,
    (_, bytes): &(Format, Bytes),
) -> Option<SemaphorePermit<'s>> {
    if bytes.len() <= SMALL_MESSAGE_BYTES {
        return None;
    }
    server.large_messages.acquire().await.ok()
}

/// Decodes a message. Errors: those of the decoder; `too_large`, `malformed`.
pub(in crate::http) fn read_message(
    server: &Server,
    (format, bytes): (Format, Bytes),
) -> Result<LiveRequest> {
    let bytes_max = message_bytes_max(server.defs_bytes_max);
    let message: LiveRequest = decode(format, &bytes, bytes_max)?;
    if message.subs.len() > SUBS_MAX || bytes_of(&message.subs) > server.defs_bytes_max {
        return Err(Error::new(Code::TooLarge, "too many subscriptions"));
    }
    if message.session.is_empty() || message.session.len() > TEXT_CHARS_MAX {
        return Err(Error::new(Code::Malformed, "a session's name"));
    }
    Ok(message)
}
