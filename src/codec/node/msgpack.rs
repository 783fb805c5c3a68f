//! Msgpack into nodes. Total: any bytes give a tree or say why not; hardly anything is allocated that they do not fill.

use std::borrow::Cow;

use rmp::Marker;

use super::{Node, NodeError};

/// Room that a list has at first, at most. Its length is only a claim, and each of those that it is nested in can claim all
/// the bytes that follow: a longer list grows as its items come.
const RESERVED_MAX: usize = 64;

/// Reads one value of at most that depth. Returns the bytes after it as well.
pub fn parse(bytes: &[u8], depth: usize) -> Result<(Node<'_>, &[u8]), NodeError> {
    let mut input = Input { bytes };
    let node = input.node(depth)?;
    Ok((node, input.bytes))
}

struct Input<'b> {
    bytes: &'b [u8],
}

impl<'b> Input<'b> {
    fn take(&mut self, len: usize) -> Result<&'b [u8], NodeError> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(NodeError::CutShort)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], NodeError> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(NodeError::CutShort)?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// A number of that many bytes, big end first.
    fn number<const N: usize>(&mut self) -> Result<u64, NodeError> {
        let mut wide = [0; 8];
        wide[8 - N..].copy_from_slice(&self.array::<N>()?);
        Ok(u64::from_be_bytes(wide))
    }

    fn len<const N: usize>(&mut self) -> Result<usize, NodeError> {
        usize::try_from(self.number::<N>()?).map_err(|_| NodeError::CutShort)
    }

    fn node(&mut self, depth: usize) -> Result<Node<'b>, NodeError> {
        let [first] = self.array::<1>()?;
        let node = match Marker::from_u8(first) {
            Marker::Null => Node::Null,
            Marker::True => Node::Bool(true),
            Marker::False => Node::Bool(false),
            Marker::FixPos(n) => Node::Unsigned(n.into()),
            Marker::FixNeg(n) => Node::Signed(n.into()),
            Marker::U8 => Node::Unsigned(self.number::<1>()?),
            Marker::U16 => Node::Unsigned(self.number::<2>()?),
            Marker::U32 => Node::Unsigned(self.number::<4>()?),
            Marker::U64 => Node::Unsigned(self.number::<8>()?),
            Marker::I8 => signed(i8::from_be_bytes(self.array()?).into()),
            Marker::I16 => signed(i16::from_be_bytes(self.array()?).into()),
            Marker::I32 => signed(i32::from_be_bytes(self.array()?).into()),
            Marker::I64 => signed(i64::from_be_bytes(self.array()?)),
            Marker::F32 => Node::Float(f32::from_be_bytes(self.array()?).into()),
            Marker::F64 => Node::Float(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(len) => self.text(len.into())?,
            Marker::Str8 => self.len::<1>().and_then(|len| self.text(len))?,
            Marker::Str16 => self.len::<2>().and_then(|len| self.text(len))?,
            Marker::Str32 => self.len::<4>().and_then(|len| self.text(len))?,
            Marker::Bin8 => self.len::<1>().and_then(|len| self.take(len)).map(Node::Bytes)?,
            Marker::Bin16 => self.len::<2>().and_then(|len| self.take(len)).map(Node::Bytes)?,
            Marker::Bin32 => self.len::<4>().and_then(|len| self.take(len)).map(Node::Bytes)?,
            Marker::FixArray(len) => self.items(len.into(), depth)?,
            Marker::Array16 => self.len::<2>().and_then(|len| self.items(len, depth))?,
            Marker::Array32 => self.len::<4>().and_then(|len| self.items(len, depth))?,
            Marker::FixMap(len) => self.entries(len.into(), depth)?,
            Marker::Map16 => self.len::<2>().and_then(|len| self.entries(len, depth))?,
            Marker::Map32 => self.len::<4>().and_then(|len| self.entries(len, depth))?,
            Marker::FixExt1 => self.extension(1)?,
            Marker::FixExt2 => self.extension(2)?,
            Marker::FixExt4 => self.extension(4)?,
            Marker::FixExt8 => self.extension(8)?,
            Marker::FixExt16 => self.extension(16)?,
            Marker::Ext8 => self.len::<1>().and_then(|len| self.extension(len))?,
            Marker::Ext16 => self.len::<2>().and_then(|len| self.extension(len))?,
            Marker::Ext32 => self.len::<4>().and_then(|len| self.extension(len))?,
            Marker::Reserved => return Err(NodeError::Words("a marker that msgpack does not have".into())),
        };
        Ok(node)
    }

    /// A string; one that is not UTF-8 is bytes, as older writers of msgpack meant them.
    fn text(&mut self, len: usize) -> Result<Node<'b>, NodeError> {
        let bytes = self.take(len)?;
        Ok(std::str::from_utf8(bytes).map_or(Node::Bytes(bytes), |text| Node::Text(Cow::Borrowed(text))))
    }

    fn extension(&mut self, len: usize) -> Result<Node<'b>, NodeError> {
        // Its type, then its content.
        self.take(len.saturating_add(1)).map(|_| Node::Extension)
    }

    fn items(&mut self, len: usize, depth: usize) -> Result<Node<'b>, NodeError> {
        let depth = depth.checked_sub(1).ok_or(NodeError::TooDeep)?;
        // Each has a byte at least: a length that cannot be filled is refused at once.
        if len > self.bytes.len() {
            return Err(NodeError::CutShort);
        }
        let mut items = Vec::with_capacity(len.min(RESERVED_MAX));
        for _ in 0..len {
            items.push(self.node(depth)?);
        }
        Ok(Node::Array(items))
    }

    fn entries(&mut self, len: usize, depth: usize) -> Result<Node<'b>, NodeError> {
        let depth = depth.checked_sub(1).ok_or(NodeError::TooDeep)?;
        if len > self.bytes.len() / 2 {
            return Err(NodeError::CutShort);
        }
        let mut entries = Vec::with_capacity(len.min(RESERVED_MAX));
        for _ in 0..len {
            entries.push((self.node(depth)?, self.node(depth)?));
        }
        Ok(Node::Map(entries))
    }
}

fn signed(n: i64) -> Node<'static> {
    u64::try_from(n).map_or(Node::Signed(n), Node::Unsigned)
}
