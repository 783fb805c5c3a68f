//! Words between the tabs of an origin: a BroadcastChannel, where there is one. They say when to look, never what there
//! is to see.

use wasm_bindgen::prelude::*;
use web_sys::{BroadcastChannel, MessageEvent};

use super::global::global;

/// A channel that is listened to. Dropping it closes it.
pub struct Words {
    channel: BroadcastChannel,
    // Keeps what the browser calls.
    _heard: Closure<dyn FnMut(MessageEvent)>,
}

impl Words {
    /// Listens; `None` where there are no channels.
    pub fn listen(name: &str, on: impl Fn(&str) + 'static) -> Option<Self> {
        global("BroadcastChannel")?;
        let channel = BroadcastChannel::new(name).ok()?;
        let heard = Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| {
            if let Some(word) = event.data().as_string() {
                on(&word);
            }
        });
        channel.set_onmessage(Some(heard.as_ref().unchecked_ref()));
        Some(Words { channel, _heard: heard })
    }

    /// Says a word to every other tab.
    pub fn say(&self, word: &str) {
        // Where it cannot be said, everybody looks by himself now and then.
        let _ = self.channel.post_message(&JsValue::from_str(word));
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        self.channel.set_onmessage(None);
        self.channel.close();
    }
}
