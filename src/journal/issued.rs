//! An operation as its application issued it. A pending operation holds it, and a follower hands it to the leader.

use super::op::OpId;
use super::policy::{Policy, State};
use crate::codec::{Data, Decode, Encode, FieldOut, Fields, Format, Node, NodeError, Presence, Writer};
use crate::model::{Name, Pk, Value};

/// An operation as its application issued it.
#[derive(Clone, Debug, PartialEq)]
pub struct Issued {
    /// Its id.
    pub id: OpId,
    /// Its name.
    pub name: String,
    /// Its arguments, with the version that it expects if its class resolves conflicts.
    pub args: Value,
    /// Milliseconds since 1970 by the device's clock when it was issued: information.
    pub at: u64,
    /// The documents that it touches.
    pub touches: Vec<(Name, Pk)>,
    /// Operations that it waits for, as the application asked.
    pub after: Vec<OpId>,
    /// Its document's state when it was issued, for conflicts.
    pub base: Option<Data>,
    /// The same for each document of a batch.
    pub bases: Vec<(Name, Pk, Data)>,
    /// Positions of the changes whose expected version the application set itself: no policy resolves those.
    pub insists: Vec<u32>,
    /// By class, the names of the policies when it was issued, since another release of the application may send it. Without
    /// those that overwrite, which expect no version. Operations of older releases have none.
    pub policies: Option<State>,
}

impl Issued {
    /// The noted policy of a class. None if it overwrites, and in operations of older releases.
    pub fn policy(&self, class: &Name) -> Option<Policy> {
        Policy::parse(self.policies.as_ref()?.get(class.as_str())?.as_str()?)
    }

    /// The fields, for a record that has others too. A request always has `bases`, and a stored operation only those of
    /// a batch.
    pub(super) fn fields(&self, bases: Presence) -> [FieldOut<'_>; 10] {
        use Presence::{Optional, Required};
        [
            ("id", Required, &self.id),
            ("name", Required, &self.name),
            ("args", Required, &self.args),
            ("at", Required, &self.at),
            ("touches", Required, &self.touches),
            ("after", Required, &self.after),
            ("base", Required, &self.base),
            ("bases", bases, &self.bases),
            ("insists", Optional, &self.insists),
            ("policies", Optional, &self.policies),
        ]
    }

    /// Reads the same fields.
    pub(super) fn read(fields: &mut Fields<'_>, bases: Presence) -> Result<Self, NodeError> {
        Ok(Issued {
            id: fields.required()?,
            name: fields.required()?,
            args: fields.required()?,
            at: fields.required()?,
            touches: fields.required()?,
            after: fields.required()?,
            base: fields.required()?,
            bases: if bases == Presence::Required { fields.required()? } else { fields.or_default()? },
            insists: fields.or_default()?,
            policies: fields.or_default()?,
        })
    }
}

impl Encode for Issued {
    fn encode(&self, out: &mut Writer) {
        out.record(&self.fields(Presence::Required));
    }
}

impl Decode for Issued {
    fn decode(node: Node<'_>, format: Format) -> Result<Self, NodeError> {
        const NAMES: &[&str] =
            &["id", "name", "args", "at", "touches", "after", "base", "bases", "insists", "policies"];
        Issued::read(&mut Fields::new(node, NAMES, format)?, Presence::Required)
    }
}
