//! The channel by which a server tells of changes: a socket, or an adapter's `listen`.

use std::rc::Rc;

use super::adapter::Listening;
use super::server::Server;
use super::socket::{CLOSED_ABNORMALLY, Frame, Socket, SocketEvent};
use crate::codec::{Format, LiveRequest, ServerFrame, decode, encode};
use crate::error::Result;
use crate::limits::REPLY_BYTES_MAX;
use crate::sync::Event;

/// What happens on a channel.
pub enum ChannelEvent {
    /// It can be spoken to.
    Opened,
    /// The server said something.
    Frame(Result<ServerFrame>),
    /// It is over: the close code, and the reason that came with it.
    Closed(u16, String),
}

/// The end of a channel that could not be opened or spoken to.
pub fn closed_abnormally(socket: u64) -> Event {
    Event::SocketClosed { socket, code: CLOSED_ABNORMALLY, reason: String::new() }
}

type On = Rc<dyn Fn(ChannelEvent)>;

/// An open channel; dropping it closes it, and no event follows.
pub enum Channel {
    /// A socket.
    Socket(Socket, Format),
    /// An adapter, listened to anew each time the subscriptions change.
    Adapter(Rc<super::adapter::Adapter>, Option<Listening>, On),
}

impl Channel {
    /// Opens a channel. Events come later, never during this call, but for an adapter's `Opened`, which is the
    /// caller's to tell.
    pub fn open(server: &Server, on: impl Fn(ChannelEvent) + 'static) -> Result<Self> {
        let on: On = Rc::new(on);
        match server {
            Server::Address(address, format) => {
                let socket = Socket::open(&address.live, move |event| match event {
                    SocketEvent::Opened => on(ChannelEvent::Opened),
                    SocketEvent::Message(frame) => {
                        let (format, bytes) = frame.parts();
                        on(ChannelEvent::Frame(decode(format, bytes, REPLY_BYTES_MAX)));
                    }
                    SocketEvent::Closed { code, reason } => on(ChannelEvent::Closed(code, reason)),
                })?;
                Ok(Channel::Socket(socket, *format))
            }
            Server::Adapter(adapter) => Ok(Channel::Adapter(adapter.clone(), None, on)),
        }
    }

    /// Whether it is open from the start.
    pub fn is_adapter(&self) -> bool {
        matches!(self, Channel::Adapter(..))
    }

    /// Says which defs are subscribed to. Gives the confirmation where the channel itself gives it: an adapter
    /// listens from the moment that its `listen` has returned.
    pub fn say(&mut self, request: &LiveRequest) -> Result<Option<ServerFrame>> {
        match self {
            Channel::Socket(socket, format) => {
                socket.send(&Frame::new(*format, encode(*format, request)?)?)?;
                Ok(None)
            }
            Channel::Adapter(adapter, listening, on) => {
                // The new one is in force before the old one stops: nothing is missed between the two.
                let on = on.clone();
                let next = adapter.listen(&request.subs, move |frame| on(ChannelEvent::Frame(frame)));
                *listening = next.map_err(|refusal| refusal.error)?;
                Ok(Some(ServerFrame::Live { live: request.subs.clone(), refused: Vec::new() }))
            }
        }
    }
}
