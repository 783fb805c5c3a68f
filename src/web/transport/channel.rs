//! The channel on which a server announces changes: a WebSocket, or an adapter's `listen`. The driver opens
//! one when the machine requests it.

use std::rc::Rc;

use super::adapter::Listening;
use super::server::Server;
use super::socket::{CLOSED_ABNORMALLY, Frame, Socket, SocketEvent};
use crate::codec::{Format, LiveRequest, ServerFrame, decode, encode};
use crate::error::Result;
use crate::limits::REPLY_BYTES_MAX;
use crate::sync::Event;

/// An event on a channel.
pub enum ChannelEvent {
    /// The session can now send its subscriptions.
    Opened,
    /// The server sent a frame.
    Frame(Result<ServerFrame>),
    /// The channel is closed: the close code, and its reason.
    Closed(u16, String),
}

/// The event for a channel that could not be opened, or on which nothing could be sent.
pub fn closed_abnormally(socket: u64) -> Event {
    Event::SocketClosed { socket, code: CLOSED_ABNORMALLY, reason: String::new() }
}

type On = Rc<dyn Fn(ChannelEvent)>;

/// An open channel. Dropping it closes it, and no event follows.
pub enum Channel {
    /// A socket.
    Socket(Socket, Format),
    /// An adapter. Its `listen` is called again each time the subscriptions change.
    Adapter(Rc<super::adapter::Adapter>, Option<Listening>, On),
}

impl Channel {
    /// Opens a channel. Events come later, never during this call. An adapter never sends `Opened`: its
    /// channel is open once this call returns, and the caller reports that.
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

    /// Whether the channel is open as soon as it is made.
    pub fn is_adapter(&self) -> bool {
        matches!(self, Channel::Adapter(..))
    }

    /// Sends the list of subscribed defs. An adapter listens from the time that its `listen` has returned, so
    /// its confirmation is returned here; a socket's confirmation comes later, as a frame.
    pub fn say(&mut self, request: &LiveRequest) -> Result<Option<ServerFrame>> {
        match self {
            Channel::Socket(socket, format) => {
                socket.send(&Frame::new(*format, encode(*format, request)?)?)?;
                Ok(None)
            }
            Channel::Adapter(adapter, listening, on) => {
                // The new call is in force before the old one stops: no change is missed in between.
                let on = on.clone();
                let next = adapter.listen(&request.subs, move |frame| on(ChannelEvent::Frame(frame)));
                *listening = next.map_err(|refusal| refusal.error)?;
                Ok(Some(ServerFrame::confirm(request.subs.clone(), Vec::new())))
            }
        }
    }
}
