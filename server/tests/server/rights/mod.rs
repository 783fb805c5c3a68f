//! Access rights: R86 and R88 decided by the server, next to an oracle that knows the rules in another form.

mod decided;
mod guide;
mod hooks;
mod oracle;
mod quotas;
mod sockets;
mod support;
