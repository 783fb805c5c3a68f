//! The stored part of an operation.

use super::OpId;
use crate::codec::{
    Data, Decode, Encode, Fault, FieldOut, Fields, Format, Node, NodeError, Presence, Writer,
};
use crate::journal::Issued;
use crate::model::{Name, Pk, Value};

/// The stored part of an operation until it is over.
#[derive(Clone, Debug, PartialEq)]
pub struct OpState {
    /// Its position among the others: they execute in ascending order (R12).
    pub order: u64,
    /// How its application issued it.
    pub issued: Issued,
    /// Positions of the changes whose expected version an earlier operation of the session gave, each with
    /// the era. If the document has a lower version in that era, nobody has written it since.
    pub given: Vec<(u32, u32)>,
    /// The version that the server gave when it accepted; the effect may not have been received yet.
    pub accepted: Option<u64>,
    /// The trees of the clock `sequence` that it wrote in, by class and pk of their parents, with its numbers there
    /// (R21).
    pub trees: Vec<(Name, Pk, u64)>,
    /// Its number in the session, kept until its effect has been received.
    pub seq: Option<u64>,
    /// Why the server refused it for good.
    pub refused: Option<Fault>,
    /// The era in which the data from the server contains its effect everywhere: the overlay is dropped, for
    /// good.
    pub seen: Option<u32>,
    /// Documents whose base contains its effect already, each with its era, while others' bases do not. An era is as wide
    /// as a number here, so that one decoder reads both lists.
    pub seen_on: Vec<(Name, Pk, u64)>,
    /// The value that the server returned.
    pub value: Option<Value>,
    /// The operations that it replaces, the first one first.
    pub replaces: Vec<OpId>,
    /// The local documents of its batch that nothing has written since, as they were before it. They are so again if it is
    /// discarded (R29).
    pub drafts: Vec<Draft>,
}

/// A local document as it was before a write: an empty map if there was none.
pub type Draft = (Name, Pk, Data);

impl Encode for OpState {
    fn encode(&self, out: &mut Writer) {
        use Presence::{Optional, Required};
        let mut fields: Vec<FieldOut<'_>> = vec![("order", Required, &self.order)];
        fields.extend(self.issued.fields(Optional));
        fields.extend::<[FieldOut<'_>; 10]>([
            ("given", Optional, &self.given),
            ("accepted", Required, &self.accepted),
            ("trees", Optional, &self.trees),
            ("seq", Required, &self.seq),
            ("refused", Required, &self.refused),
            ("seen", Required, &self.seen),
            ("seen_on", Required, &self.seen_on),
            ("value", Optional, &self.value),
            ("replaces", Optional, &self.replaces),
            ("drafts", Optional, &self.drafts),
        ]);
        out.record(&fields);
    }
}

impl Decode for OpState {
    fn decode(node: Node<'_>, format: Format) -> std::result::Result<Self, NodeError> {
        const NAMES: &[&str] = &[
            "order", "id", "name", "args", "at", "touches", "after", "base", "bases", "insists", "policies",
            "given", "accepted", "trees", "seq", "refused", "seen", "seen_on", "value", "replaces", "drafts",
        ];
        let mut fields = Fields::new(node, NAMES, format)?;
        Ok(OpState {
            order: fields.required()?,
            issued: Issued::read(&mut fields, Presence::Optional)?,
            given: fields.or_default()?,
            accepted: fields.required()?,
            trees: fields.or_default()?,
            seq: fields.required()?,
            refused: fields.required()?,
            seen: fields.required()?,
            seen_on: fields.required()?,
            value: fields.or_default()?,
            replaces: fields.or_default()?,
            drafts: fields.or_default()?,
        })
    }
}

impl OpState {
    /// An operation that was just issued: it has no result, and nothing is known of its effect.
    pub fn new(order: u64, id: OpId, (name, args): (String, Value), at: u64) -> Self {
        OpState {
            order,
            issued: Issued {
                id,
                name,
                args,
                at,
                touches: Vec::new(),
                after: Vec::new(),
                base: None,
                bases: Vec::new(),
                insists: Vec::new(),
                policies: None,
            },
            given: Vec::new(),
            accepted: None,
            trees: Vec::new(),
            seq: None,
            refused: None,
            seen: None,
            seen_on: Vec::new(),
            value: None,
            replaces: Vec::new(),
            drafts: Vec::new(),
        }
    }
}
