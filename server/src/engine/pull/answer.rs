//! Replies: the changes of each def, from one snapshot, page by page (R4, R6, docs/protocol.md). Pushes are made of the
//! same changes (R41).

use std::collections::{HashMap, HashSet};

use escale::codec::{Data, Fault, OpResult, Part, Row, Sub, SyncReply, SyncRequest};
use escale::model::schema::Schema;
use escale::model::{Def, DefKind, Epoch, Pk, Version};
use escale::{Code, Result};
use smol_str::SmolStr;

use crate::engine::caller::Caller;
use crate::engine::instance::context::Instance;
use crate::engine::instance::refusals::level_of;
use crate::engine::instance::work::{Watched, Work};
use crate::engine::pull::cursor::{Bound, Cursor};
use crate::engine::records::opened::read_document;
use crate::engine::rights::read::{Access, Reads};
use crate::engine::tx::now::TimedSnapshot;
use crate::engine::tx::trees::{floor_of, tree_of};
use crate::provider::{Change, ChangeState, DocumentReads, Head, Place, Site, Tree};

/// Weight of a row or departure without its data: its pk, its version, the names of its fields.
const ROW_BYTES: usize = 48;

/// Weight of a pk in `present`.
const PRESENT_BYTES: usize = 25;

/// Bytes of rows in a push. Larger changes are only hinted.
const PUSH_BYTES_MAX: usize = 64 << 10;

/// A session that follows a def over a socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Follower {
    /// The session's name, as its socket gave it.
    pub session: String,
    /// The account of its token; empty without tokens.
    pub account: String,
}

/// The changes of a def, of one snapshot.
#[derive(Debug)]
pub struct Pushed {
    /// The epoch of the snapshot.
    pub epoch: Epoch,
    /// As in a reply.
    pub now: Version,
    /// As in a reply.
    pub delta: u64,
    /// Rows and departures.
    pub part: Part,
    /// As in a reply to each follower, in their order.
    pub seqs: Vec<u64>,
}

/// A reply under construction.
struct Answer<'a> {
    instance: &'a Instance,
    documents: &'a dyn DocumentReads,
    site: Site,
    head: Head,
    org: &'a str,
    now: Version,
    /// Bytes that may still be added.
    room: usize,
    /// By how many bytes the room would be larger if the session had not asked for a small page.
    spare: usize,
    /// The rows with data in the finished parts, if the session takes references to them (R90).
    sent: Option<Sent>,
    /// Decides each def, unless nothing can refuse one (R86).
    reads: Option<Reads<'a>>,
    /// The work that the request may still cause. No further def begins without any.
    work: &'a Work<'a>,
}

/// The rest of a request, once its operations are executed.
pub(in crate::engine) struct Rest<'r> {
    /// The caller, and its org.
    pub(in crate::engine) who: (&'r str, &'r Caller),
    pub(in crate::engine) request: &'r SyncRequest,
    pub(in crate::engine) work: &'r Work<'r>,
    pub(in crate::engine) results: Vec<OpResult>,
    /// The highest number of an operation of which nothing was kept.
    pub(in crate::engine) passed: u64,
}

/// Answers the defs of a request from one snapshot, until the reply is full.
pub(in crate::engine) fn reply(
    instance: &Instance,
    timed: &TimedSnapshot<'_>,
    documents: &Watched<'_>,
    rest: Rest<'_>,
) -> Result<SyncReply> {
    let Rest { who: (org, caller), request, work, results, passed } = rest;
    let TimedSnapshot { now, time, snapshot, site, head } = timed;
    let (now, time, site, head) = (*now, *time, site.clone(), head.clone());
    let asked = request.page.and_then(|bytes| usize::try_from(bytes).ok());
    let room = asked.unwrap_or(usize::MAX).min(instance.settings.page_bytes);
    let mut answer = Answer {
        instance,
        documents,
        org,
        now,
        room,
        spare: instance.settings.page_bytes - room,
        sent: request.refs.then(Sent::default),
        reads: Access::of(instance)
            .is_decided_for_caller(org, caller)
            .then(|| Reads::of(instance, documents, (org, caller), time)),
        work,
        site,
        head,
    };
    let mut parts = Vec::new();
    let mut named = HashSet::new();
    // Each naming would take as much work as a def of its own.
    let subs: Vec<&Sub> = request.subs.iter().filter(|sub| named.insert(&sub.def)).collect();
    for group in groups(&instance.schema, &subs) {
        // Defs for which no room is left get no part, and the session asks for them again.
        if !answer.group(group, &mut parts)? {
            break;
        }
    }
    let epoch = answer.head.epoch;
    // Only for the session's own account: another account must learn nothing of it.
    let session = snapshot.session(org, &request.session)?;
    let seq = session.filter(|session| session.account == caller.account).map_or(0, |session| session.seq);
    // Nothing is kept of operations of a caller that may not write. Their numbers are used in this reply all the same.
    let seq = seq.max(passed);
    let level = level_of(instance, org, caller);
    let restriction = (level > 0).then(|| u64::from(level));
    let role = caller.role().map(str::to_owned);
    Ok(SyncReply {
        p: 1,
        epoch,
        now,
        delta: instance.settings.delta_ms,
        seq,
        results,
        parts,
        restriction,
        role,
    })
}

impl Instance {
    /// The changes of a def from `v` on. None if they cannot be pushed: they are too many, or older than the horizon, or
    /// the def is of a tree. Sessions show a tree as one state, which takes a reply. Errors: those of the database.
    pub fn push(&self, org: &str, def: &Def, v: Version, followers: &[Follower]) -> Result<Option<Pushed>> {
        let class = self.schema.class(def.class().as_str())?;
        let is_of_tree = class.parent().is_some() || tree_of(&self.schema, def).is_some();
        // A push is the same for all followers. A decision is not.
        if is_of_tree || class.is_sequence() || Access::of(self).is_decided_for(class) {
            return Ok(None);
        }
        let timed = self.tell_now(org)?;
        let Some(part) = recent(self, &timed, (org, def), v)? else { return Ok(None) };
        let names: Vec<&str> = followers.iter().map(|follower| &*follower.session).collect();
        let sessions = timed.snapshot.sessions(org, &names)?;
        // Another account must learn nothing of a session.
        let seq = |follower: &Follower| {
            let session = sessions.get(&follower.session);
            session.filter(|session| session.account == follower.account).map_or(0, |session| session.seq)
        };
        Ok(Some(Pushed {
            epoch: timed.head.epoch,
            now: timed.now,
            delta: self.settings.delta_ms,
            part,
            seqs: followers.iter().map(seq).collect(),
        }))
    }
}

/// The part of a def with its changes from `v` on, as of a snapshot. None if a push has no room for it, or if it takes
/// more than rows and departures.
fn recent(
    instance: &Instance,
    timed: &TimedSnapshot<'_>,
    (org, def): (&str, &Def),
    v: Version,
) -> Result<Option<Part>> {
    let (site, head) = (timed.site.clone(), timed.head.clone());
    let (documents, room, now): (&dyn DocumentReads, _, _) =
        (timed.snapshot.as_ref(), PUSH_BYTES_MAX, timed.now);
    let work = &Work::of(instance.settings.request_rows);
    let mut answer =
        Answer { instance, documents, org, now, room, spare: 0, sent: None, reads: None, work, site, head };
    let sub = Sub { def: def.clone(), v, cursor: None };
    let Some(mut part) = answer.part(&sub, false)? else { return Ok(None) };
    let is_plain = part.next.is_none() && part.present.is_none() && part.fault.is_none();
    part.total = None;
    Ok(Some(part).filter(|part| is_plain && !(part.rows.is_empty() && part.left.is_empty())))
}

/// The defs in the order of the request. Neighbours of one tree are together (R18).
fn groups<'g, 's>(schema: &Schema, subs: &'g [&'s Sub]) -> impl Iterator<Item = &'g [&'s Sub]> {
    subs.chunk_by(|one, next| {
        let tree = tree_of(schema, &one.def);
        tree.is_some() && tree == tree_of(schema, &next.def)
    })
}

impl Answer<'_> {
    /// Adds the parts of neighbours. Returns whether all of them are whole. A tree is shown as one state of the server
    /// only if one reply has all of it. So its parts are all taken back if others came first: the next
    /// request begins with them.
    fn group(&mut self, group: &[&Sub], parts: &mut Vec<Part>) -> Result<bool> {
        let (before, is_tree) = (parts.len(), group.len() > 1);
        // A small page would cut the tree, and the session would show its first part only.
        let spare = if is_tree && before == 0 { self.spare } else { 0 };
        self.room += spare;
        for sub in group {
            // As long as the reply brings nothing, a def gets a row for any room: every reply makes progress. Otherwise
            // two trees that each begin with a def without changes would take turns for ever.
            let brings_nothing = parts.iter().all(|part| part.rows.is_empty() && part.left.is_empty());
            self.work.check_caller()?;
            // A part that is whole is progress, too.
            let has_begun = self.work.is_used_up() && !parts.is_empty();
            let part = if has_begun { None } else { self.part(sub, brings_nothing)? };
            let is_whole = part.as_ref().is_some_and(|part| part.next.is_none());
            parts.extend(part);
            if !is_whole {
                if is_tree && before > 0 {
                    parts.truncate(before);
                }
                return Ok(false);
            }
        }
        self.room = self.room.saturating_sub(spare);
        // Only now: parts that are taken back send nothing.
        if let Some(sent) = &mut self.sent {
            parts[before..].iter().for_each(|part| sent.add(part));
        }
        Ok(true)
    }

    /// The part of a def. An error that concerns only this def becomes the part's fault; an error of the
    /// database fails the reply. `None` if the reply has no room for the part.
    fn part(&mut self, sub: &Sub, first: bool) -> Result<Option<Part>> {
        let faulty = |fault| Ok(Some(Part { fault: Some(fault), ..Part::empty(sub.def.clone()) }));
        if self.room == 0 && !first {
            return Ok(None);
        }
        match self.changes(sub, first) {
            Ok(part) => Ok(part),
            Err(error) => match error.code() {
                Code::UnknownDef | Code::UnknownClass | Code::BadCursor | Code::Withdrawn | Code::Blocked => {
                    faulty(Fault::from(&error))
                }
                Code::StorageFailed | Code::BadValue => {
                    tracing::error!(org = self.org, %error, "a def cannot be told");
                    let fault = Fault::new(Code::ServerError, "a stored document cannot be read");
                    faulty(fault)
                }
                _ => Err(error),
            },
        }
    }

    fn changes(&mut self, sub: &Sub, first: bool) -> Result<Option<Part>> {
        let is_sequence = self.instance.schema.check_def(&sub.def)?.is_sequence();
        if let Some(reads) = &mut self.reads {
            reads.check(&sub.def)?;
        }
        let epoch = self.head.epoch.clone();
        let bound = Bound { epoch: &epoch, org: self.org, def: &sub.def, asked: sub.v };
        let minute = self.now / 60_000;
        let tree = self.tree_of_def(&sub.def)?;
        let n = is_sequence.then_some(tree.n);
        // A number is exact: the session knows all up to it. Of a time, it may lack some changes (R4).
        let since = sub.v + u64::from(is_sequence);
        let from = match &sub.cursor {
            Some(text) => Cursor::verify(text, &self.site.cursor_key, bound)?,
            None => Cursor { first: n.unwrap_or(self.now), v: since, pk: String::new(), total: 0 },
        };
        // A pull from 0 ends with `present`, so earlier deletions and departures need not be listed. The
        // exception is a document that an earlier page sent and that has changed since.
        let gone_from = match sub.v {
            0 if is_sequence => from.first + 1,
            0 => from.first.saturating_sub(self.instance.settings.delta_ms),
            _ => 0,
        };
        if let Some(floor) = self.end_of_item(&sub.def)? {
            let is_told = floor >= sub.v.max(gone_from);
            if is_told && ROW_BYTES > self.room && !first {
                return Ok(None);
            }
            return Ok(Some(self.ended_item(sub, is_told.then_some(floor))));
        }
        let is_items = matches!(sub.def.kind(), DefKind::Collection(..));
        let floor = if is_items { tree.floor } else { 0 };
        let total = match &sub.cursor {
            Some(_) => from.total,
            None => self.documents.count(self.org, &sub.def, since.max(floor), gone_from, minute)?.found,
        };
        // Below the floor nothing exists.
        let after = (from.v, from.pk.as_str()).max((floor, ""));
        let mut part = Part { total: Some(total), n, ..Part::empty(sub.def.clone()) };
        part.floor = (floor > 0 && sub.v <= floor).then_some(floor);
        let mut last: Option<(Version, String)> = None;
        let mut is_full = false;
        let (room, mut used) = (self.room, 0);
        self.documents.changes(self.org, &sub.def, after, gone_from, &mut |change| {
            let data = self.opened(sub, &change)?;
            let bytes = ROW_BYTES + data.as_ref().map_or(0, Vec::len);
            if used + bytes > room && (last.is_some() || !first) {
                is_full = true;
                return Ok(false);
            }
            used += bytes;
            let position = (change.v, change.pk.clone());
            self.push(&mut part, gone_from, change, data)?;
            last = Some(position);
            Ok(true)
        })?;
        self.room = self.room.saturating_sub(used);
        if is_full {
            let Some((v, pk)) = last else { return Ok(None) };
            let cursor = Cursor { first: from.first, v, pk, total };
            part.next = Some(cursor.sign(&self.site.cursor_key, bound)?);
            self.room = 0;
        } else if since < self.horizon_of(&tree, (is_sequence, is_items)) || sub.v == 0 {
            let members = self.documents.members(self.org, &sub.def, floor, minute)?.found;
            self.room = self.room.saturating_sub(members.len() * PRESENT_BYTES);
            let pks: Result<Vec<Pk>> = members.iter().map(|pk| Pk::parse(pk)).collect();
            part.present = Some(pks?);
        }
        Ok(Some(part))
    }

    /// Below it, changes of the def may be missing (R6). The org's horizon is a time, which no number is compared with.
    fn horizon_of(&self, tree: &Tree, (is_sequence, is_items): (bool, bool)) -> Version {
        let org = if is_sequence { 0 } else { self.head.horizon };
        if is_sequence || is_items { org.max(tree.horizon) } else { org }
    }

    /// The tree of a parent or of all its items; of any other def, an empty one.
    fn tree_of_def(&self, def: &Def) -> Result<Tree> {
        let Some((class, pk)) = tree_of(&self.instance.schema, def) else { return Ok(Tree::default()) };
        Ok(self.documents.tree(Place { org: self.org, class: &class, pk: &pk })?.unwrap_or_default())
    }

    /// The floor above a stored item, if this def is that single item.
    fn end_of_item(&self, def: &Def) -> Result<Option<Version>> {
        let DefKind::Document(pk) = def.kind() else { return Ok(None) };
        let class = self.instance.schema.class(def.class().as_str())?;
        if class.parent().is_none() {
            return Ok(None);
        }
        let at = Place { org: self.org, class: class.name().as_str(), pk: pk.as_str() };
        let Some(stored) = read_document(self.documents, &self.instance.seal, at)? else { return Ok(None) };
        floor_of(self.documents, class, (self.org, &stored))
    }

    /// The part of a single item that ended with its parent: deleted at the floor, for any version of its own. Without a
    /// row if the session knows that, or needs no deletion.
    fn ended_item(&mut self, sub: &Sub, floor: Option<Version>) -> Part {
        let mut part = Part { total: Some(0), ..Part::empty(sub.def.clone()) };
        if let (DefKind::Document(pk), Some(v)) = (sub.def.kind(), floor) {
            part.total = Some(1);
            part.rows.push(Row { pk: pk.clone(), v, deleted: true, max_life: None, data: None });
            self.room = self.room.saturating_sub(ROW_BYTES);
        }
        if sub.v < self.head.horizon || sub.v == 0 {
            part.present = Some(Vec::new());
        }
        part
    }

    /// Whether an earlier part has this version of the document, with its data.
    fn has_sent(&self, sub: &Sub, change: &Change) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.has(sub.def.class().as_str(), &change.pk, change.v))
    }

    /// The data of a living member, unless an earlier part has it. With a seal, a forged row or membership may also say that
    /// there is none, so it is opened in each case.
    fn opened(&self, sub: &Sub, change: &Change) -> Result<Option<Vec<u8>>> {
        let has_data = change.state == ChangeState::Alive && !self.has_sent(sub, change);
        if !has_data && (change.state == ChangeState::Left || !self.instance.is_sealing()) {
            return Ok(None);
        }
        let data = self.instance.seal.open_change((self.org, &sub.def), change)?;
        Ok(has_data.then_some(data))
    }

    fn push(&self, part: &mut Part, gone_from: Version, change: Change, data: Option<Vec<u8>>) -> Result<()> {
        let pk = Pk::parse(&change.pk)?;
        let v = change.v;
        let gone = |pk| Row { pk, v, deleted: true, max_life: None, data: None };
        match change.state {
            ChangeState::Left => part.left.push((pk, v)),
            ChangeState::Deleted => part.rows.push(gone(pk)),
            ChangeState::Alive if change.max_life.is_some_and(|minute| minute * 60_000 <= self.now) => {
                // Its life has ended, so the document is not sent any more. But a session that holds an older
                // version without this end must learn of it. To that session it is sent as a deletion.
                if v >= gone_from {
                    part.rows.push(gone(pk));
                }
            }
            ChangeState::Alive => {
                let data = data.map(|data| Data::from_bytes(&data)).transpose()?;
                part.rows.push(Row { pk, v, deleted: false, max_life: change.max_life, data });
            }
        }
        Ok(())
    }
}

/// The rows with data in the parts of a reply: by class and pk, their versions. They come from one snapshot, so a
/// document has one version.
#[derive(Debug, Default)]
struct Sent {
    classes: HashMap<SmolStr, HashMap<SmolStr, Version>>,
}

impl Sent {
    /// Notes the rows of a finished part.
    fn add(&mut self, part: &Part) {
        let class = part.def.class().as_str();
        if !self.classes.contains_key(class) {
            self.classes.insert(class.into(), HashMap::new());
        }
        let Some(rows) = self.classes.get_mut(class) else { return };
        let with_data = part.rows.iter().filter(|row| row.data.is_some() && !row.deleted);
        rows.extend(with_data.map(|row| (SmolStr::from(row.pk.as_str()), row.v)));
    }

    /// Whether that version of a document is among them.
    fn has(&self, class: &str, pk: &str, v: Version) -> bool {
        self.classes.get(class).and_then(|rows| rows.get(pk)) == Some(&v)
    }
}
