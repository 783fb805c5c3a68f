//! JSON into nodes, and the strings and numbers of JSON. Total: any bytes give a tree or say why not.

use std::borrow::Cow;
use std::io::Write;

use super::{Node, NodeError};
use crate::decimal;

/// How many lists and maps may be in each other. The reader calls itself for each, so this bounds its stack.
const DEPTH_MAX: usize = 127;

/// Reads the only value of a text.
pub fn parse(bytes: &[u8]) -> Result<Node<'_>, NodeError> {
    let mut input = Input { bytes, at: 0 };
    let node = input.node(DEPTH_MAX)?;
    if input.peek().is_some() { Err(input.wrong()) } else { Ok(node) }
}

struct Input<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Input<'b> {
    /// The place of the fault. The text around it may be a value of the message.
    #[cold]
    #[inline(never)]
    fn wrong(&self) -> NodeError {
        let before = &self.bytes[..self.at.min(self.bytes.len())];
        let lines = before.split(|byte| *byte == b'\n');
        let column = 1 + lines.clone().next_back().map_or(0, <[u8]>::len);
        let line = lines.count();
        NodeError::Words(format!("at line {line} column {column}"))
    }

    fn byte(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.byte() {
            self.at += 1;
        }
        self.byte()
    }

    /// Takes that byte, if it is the next one.
    fn takes(&mut self, wanted: u8) -> bool {
        let is_it = self.byte() == Some(wanted);
        self.at += usize::from(is_it);
        is_it
    }

    fn node(&mut self, depth: usize) -> Result<Node<'b>, NodeError> {
        match self.peek() {
            Some(b'{') => self.entries(depth),
            Some(b'[') => self.items(depth),
            Some(b'"') => self.text().map(Node::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'n') => self.word(b"null", Node::Null),
            Some(b't') => self.word(b"true", Node::Bool(true)),
            Some(b'f') => self.word(b"false", Node::Bool(false)),
            _ => Err(self.wrong()),
        }
    }

    fn word(&mut self, word: &[u8], node: Node<'b>) -> Result<Node<'b>, NodeError> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(self.wrong());
        }
        self.at += word.len();
        Ok(node)
    }

    fn items(&mut self, depth: usize) -> Result<Node<'b>, NodeError> {
        let depth = depth.checked_sub(1).ok_or(NodeError::TooDeep)?;
        self.at += 1;
        let mut items = Vec::new();
        if self.peek() != Some(b']') {
            loop {
                items.push(self.node(depth)?);
                if !self.is_followed(b']')? {
                    break;
                }
            }
        }
        self.at += 1;
        Ok(Node::Array(items))
    }

    fn entries(&mut self, depth: usize) -> Result<Node<'b>, NodeError> {
        let depth = depth.checked_sub(1).ok_or(NodeError::TooDeep)?;
        self.at += 1;
        let mut entries = Vec::new();
        if self.peek() != Some(b'}') {
            loop {
                if self.peek() != Some(b'"') {
                    return Err(self.wrong());
                }
                let key = self.text()?;
                if self.peek() != Some(b':') {
                    return Err(self.wrong());
                }
                self.at += 1;
                entries.push((Node::Text(key), self.node(depth)?));
                if !self.is_followed(b'}')? {
                    break;
                }
            }
        }
        self.at += 1;
        Ok(Node::Map(entries))
    }

    /// Whether a comma follows, which is taken; false before the closing bracket.
    fn is_followed(&mut self, closing: u8) -> Result<bool, NodeError> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == closing => Ok(false),
            _ => Err(self.wrong()),
        }
    }

    fn digits(&mut self) -> Result<(), NodeError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.byte() {
            self.at += 1;
        }
        if self.at == start { Err(self.wrong()) } else { Ok(()) }
    }

    /// A number: a whole one if it is written as one and 64 bits hold it, the nearest double otherwise.
    fn number(&mut self) -> Result<Node<'b>, NodeError> {
        let start = self.at;
        let is_negative = self.takes(b'-');
        if !self.takes(b'0') {
            self.digits()?;
        } else if let Some(b'0'..=b'9') = self.byte() {
            return Err(self.wrong());
        }
        let mut is_whole = true;
        if self.takes(b'.') {
            is_whole = false;
            self.digits()?;
        }
        if self.takes(b'e') || self.takes(b'E') {
            is_whole = false;
            let _ = self.takes(b'+') || self.takes(b'-');
            self.digits()?;
        }
        // Digits and signs are ASCII.
        let text = std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or_default();
        if is_whole && !is_negative {
            if let Ok(n) = text.parse() {
                return Ok(Node::Unsigned(n));
            }
        } else if is_whole {
            // There is no whole number -0.
            if let Some(n) = text.parse().ok().filter(|n| *n < 0) {
                return Ok(Node::Signed(n));
            }
        }
        let f = decimal::parse(text);
        if f.is_finite() { Ok(Node::Float(f)) } else { Err(self.wrong()) }
    }

    fn text(&mut self) -> Result<Cow<'b, str>, NodeError> {
        self.at += 1;
        let start = self.at;
        let mut read = Vec::new();
        let mut piece = start;
        loop {
            match self.byte() {
                Some(b'"') => break,
                Some(b'\\') => {
                    read.extend(&self.bytes[piece..self.at]);
                    self.at += 1;
                    self.escaped(&mut read)?;
                    piece = self.at;
                }
                Some(byte) if byte >= b' ' => self.at += 1,
                _ => return Err(self.wrong()),
            }
        }
        let rest = &self.bytes[piece..self.at];
        let text = if piece == start {
            std::str::from_utf8(rest).ok().map(Cow::Borrowed)
        } else {
            read.extend(rest);
            String::from_utf8(read).ok().map(Cow::Owned)
        };
        let text = text.ok_or_else(|| self.wrong());
        self.at += 1;
        text
    }

    fn escaped(&mut self, read: &mut Vec<u8>) -> Result<(), NodeError> {
        let byte = self.byte();
        self.at += 1;
        read.push(match byte {
            Some(b'"' | b'\\' | b'/') => byte.unwrap_or_default(),
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                let mut code = self.unit()?;
                if (0xd800..0xdc00).contains(&code) && self.takes(b'\\') && self.takes(b'u') {
                    let low = self.unit()?;
                    // Without its second half, the first one stays: it is no character.
                    if (0xdc00..0xe000).contains(&low) {
                        code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                    }
                }
                let found = char::from_u32(code).ok_or_else(|| self.wrong())?;
                read.extend(found.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(self.wrong()),
        });
        Ok(())
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Result<u32, NodeError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.byte().and_then(|byte| char::from(byte).to_digit(16));
            code = code << 4 | digit.ok_or_else(|| self.wrong())?;
            self.at += 1;
        }
        Ok(code)
    }
}

/// Writes a string.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut written = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' | b'\\' => *byte,
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0..b' ' => b'u',
            _ => continue,
        };
        out.extend(&bytes[written..at]);
        out.extend([b'\\', short]);
        if short == b'u' {
            let _ = write!(out, "{byte:04x}");
        }
        written = at + 1;
    }
    out.extend(&bytes[written..]);
    out.push(b'"');
}

/// Writes a finite number that is no whole number below 2^53, so that it reads back as the same double.
pub fn write_float(f: f64, out: &mut Vec<u8>) {
    if f.is_sign_negative() {
        out.push(b'-');
    }
    let text = decimal::exponential(f.abs());
    let (figures, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-5..16).contains(&exponent) {
        let _ = write!(out, "{figures}e{exponent:+}");
        return;
    }
    let digits = figures.bytes().filter(u8::is_ascii_digit);
    if exponent < 0 {
        out.extend(b"0.");
        out.extend(std::iter::repeat_n(b'0', exponent.unsigned_abs() as usize - 1).chain(digits));
        return;
    }
    let mut digits = digits.fuse();
    out.extend((0..=exponent).map(|_| digits.next().unwrap_or(b'0')));
    out.push(b'.');
    out.push(digits.next().unwrap_or(b'0'));
    out.extend(digits);
}
