//! A request with operations, as those who execute them see it.

use escale::codec::SyncRequest;
use escale::model::Epoch;

use crate::engine::caller::Caller;
use crate::engine::instance::work::Work;

/// The phase of a fault that arose while the result was committed.
pub(in crate::engine) const COMMITTING: u8 = 2;

/// The sender of the operations, and the org.
#[derive(Clone, Copy)]
pub(in crate::engine) struct RequestContext<'a> {
    pub(in crate::engine) org: &'a str,
    pub(in crate::engine) caller: &'a Caller,
    pub(in crate::engine) session: &'a str,
    /// The epoch that the operations are for; `None` if the request names none.
    pub(in crate::engine) epoch: Option<&'a Epoch>,
    /// The work that the request may still cause.
    pub(in crate::engine) work: &'a Work<'a>,
    /// Whether no operation of the request has a result yet.
    pub(in crate::engine) is_first: bool,
    /// Whether the session has used the operation's number: it is judged, and not executed.
    pub(in crate::engine) is_used: bool,
}

impl<'a> RequestContext<'a> {
    /// The context of a request of which nothing was executed yet.
    pub(in crate::engine) fn of(
        (org, caller): (&'a str, &'a Caller),
        request: &'a SyncRequest,
        work: &'a Work<'a>,
    ) -> Self {
        let SyncRequest { session, epoch, .. } = request;
        RequestContext { org, caller, session, epoch: epoch.as_ref(), work, is_first: true, is_used: false }
    }
}
