//! The end of the server, for those who wait for it.

use tokio::sync::watch;

/// Resolves once the server stops.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error says that the sender is gone, and the server with it.
    drop(stop.wait_for(|stop| *stop).await);
}
