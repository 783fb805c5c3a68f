//! Short text messages between the tabs of an origin, over a BroadcastChannel if there is one. They never
//! carry data: most say only that the store has changed.

use wasm_bindgen::prelude::*;
use web_sys::{BroadcastChannel, MessageEvent};

use crate::web::platform::global::global;

/// A channel that this tab listens to. Dropping it closes it.
pub struct Messages {
    channel: BroadcastChannel,
    // Keeps the callback alive for the browser.
    _heard: Closure<dyn FnMut(MessageEvent)>,
}

impl Messages {
    /// Starts to listen; `None` if there are no BroadcastChannels.
    pub fn listen(name: &str, on: impl Fn(&str) + 'static) -> Option<Self> {
        global("BroadcastChannel")?;
        let channel = BroadcastChannel::new(name).ok()?;
        let heard = Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| {
            if let Some(word) = event.data().as_string() {
                on(&word);
            }
        });
        channel.set_onmessage(Some(heard.as_ref().unchecked_ref()));
        Some(Messages { channel, _heard: heard })
    }

    /// Sends a message to every other tab.
    pub fn say(&self, word: &str) {
        // If it cannot be sent, the other tabs find out when they next poll the store.
        let _ = self.channel.post_message(&JsValue::from_str(word));
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.channel.set_onmessage(None);
        self.channel.close();
    }
}
