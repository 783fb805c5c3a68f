//! Access rights: R86, R88 and R89 decided by the server, next to an oracle that knows the rules in another form.

mod decided;
mod ends;
mod guide;
mod hooks;
mod oracle;
mod quotas;
mod restricted;
mod restricted_sockets;
mod sockets;
pub mod support;
