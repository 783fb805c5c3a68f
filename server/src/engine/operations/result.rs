//! Results as they are stored. None holds a document: a refused write of a few bytes would keep all of a large one. A
//! conflict keeps the place of its document, and the row is read again when the result is repeated.

use escale::codec::{Data, Fault, Format, OpOk, OpResult, Row, decode, encode};
use escale::model::{Def, Pk, Value};
use escale::{Code, Error, Result};

use crate::engine::instance::context::Instance;
use crate::engine::operations::context::RequestContext;
use crate::engine::operations::order::past_operation::PastOperation;
use crate::engine::records::opened::{Opened, read_document};
use crate::engine::records::record::{result_pk, result_place};
use crate::engine::rights::read::Reads;
use crate::engine::tx::trees::floor_of;
use crate::engine::tx::write_tx::Actor;
use crate::provider::{DocumentReads, Operation, Place};
use crate::seal::Seal;

/// Bytes of a result for which there is always room.
const RESULT_BYTES: i64 = 1 << 10;

/// The stored form of a result, for which there is so much room: the result alone, or a list that begins with it. The list of
/// a conflict goes on with the class and the pk of its document. Another one means that there was no room for the value or
/// the words of the result.
pub(in crate::engine) fn stored_form(result: &OpResult, met: Option<&Actor>, room: i64) -> Result<Vec<u8>> {
    let fault = result.fault.as_ref().map(|fault| Fault { doc: None, ..fault.clone() });
    let plain = OpResult { fault, ..result.clone() };
    let bytes = encode(Format::Msgpack, &plain)?;
    let is_conflict = plain.fault.as_ref().is_some_and(|fault| fault.code == Code::VersionConflict.as_str());
    let parts = if bytes.len() as i64 > room.max(RESULT_BYTES) {
        let ok = plain.ok.map(|ok| OpOk { value: None, ..ok });
        let fault = plain.fault.map(|fault| Fault { message: String::new(), files: Vec::new(), ..fault });
        vec![Value::Bytes(encode(Format::Msgpack, &OpResult { ok, fault, ..plain })?)]
    } else if let Some((class, pk)) = met.filter(|_| is_conflict) {
        vec![Value::Bytes(bytes), Value::from(class.as_str()), Value::from(pk.as_str())]
    } else {
        return Ok(bytes);
    };
    encode(Format::Msgpack, &Value::Array(parts))
}

/// The rest of a stored form.
enum Stored {
    Nothing,
    /// The result had more than there was room for.
    Gone,
    /// The place of the document that a conflict met.
    Met(Actor),
}

fn from_stored(bytes: &[u8]) -> Result<(OpResult, Stored)> {
    let result_of = |bytes: &[u8]| {
        decode(Format::Msgpack, bytes, usize::MAX)
            .map_err(|error| Error::new(Code::StorageFailed, error.detail()).at("a stored result"))
    };
    // A result is a map.
    let Ok(Value::Array(parts)) = decode(Format::Msgpack, bytes, usize::MAX) else {
        return Ok((result_of(bytes)?, Stored::Nothing));
    };
    match parts.as_slice() {
        [Value::Bytes(bytes)] => Ok((result_of(bytes)?, Stored::Gone)),
        [Value::Bytes(bytes), Value::String(class), Value::String(pk)] => {
            Ok((result_of(bytes)?, Stored::Met((class.as_str().into(), pk.as_str().into()))))
        }
        _ => Err(Error::new(Code::StorageFailed, "in no known form").at("a stored result")),
    }
}

/// The result that an operation got. If the stored result is purged or unreadable, it will not be
/// readable next time either. The operation was executed or refused all the same. So the answer says
/// that, and the session proceeds.
pub(in crate::engine) fn past_result(
    instance: &Instance,
    documents: &dyn DocumentReads,
    context: RequestContext,
    (id, past): (&str, &PastOperation),
) -> OpResult {
    if let PastOperation::Kept(operation) = past {
        match repeated(instance, documents, context, operation) {
            Ok(Some(result)) => return result,
            Ok(None) => {}
            Err(error) => tracing::error!(org = context.org, %error, "a stored result cannot be read"),
        }
    }
    let fault = match past.v() {
        Some(_) => Fault::new(Code::Forgotten, "the operation was executed; its result is gone"),
        None => Fault::new(Code::Internal, "the operation was refused; why is not known any more"),
    };
    OpResult { id: id.to_owned(), ok: None, fault: Some(fault) }
}

fn repeated(
    instance: &Instance,
    documents: &dyn DocumentReads,
    context: RequestContext,
    operation: &Operation,
) -> Result<Option<OpResult>> {
    let opened = opened(&instance.seal, (context.org, &context.caller.account), operation)?;
    let (mut result, stored) = from_stored(&opened)?;
    if let Some(fault) = &mut result.fault {
        // A result that an earlier program stored has its document.
        if let Stored::Met((class, pk)) = &stored {
            fault.doc = shown_row(instance, documents, context, (class, pk));
        }
    }
    Ok(Some(result).filter(|result| result.fault.is_some() || !matches!(stored, Stored::Gone)))
}

/// The row that the caller may read now. A document that cannot be read is left out: the answer to the operation stays.
fn shown_row(
    instance: &Instance,
    documents: &dyn DocumentReads,
    context: RequestContext,
    (class, pk): (&str, &str),
) -> Option<Row> {
    let class = instance.schema.class(class).ok()?;
    let pk = Pk::parse(pk).ok()?;
    let at = Place { org: context.org, class: class.name().as_str(), pk: pk.as_str() };
    let who = (context.org, context.caller);
    Reads::of(instance, documents, who, instance.clock.now_ms())
        .check(&Def::document(class.name(), &pk))
        .ok()?;
    let gone = |v| Row { pk: pk.clone(), v, deleted: true, max_life: None, data: None };
    let found = read_document(documents, &instance.seal, at).ok()?;
    let Some(stored) = found else { return Some(gone(0)) };
    if let Some(floor) = floor_of(documents, class, (context.org, &stored)).ok()? {
        return Some(gone(floor));
    }
    let Opened { document, data } = stored;
    if document.deleted {
        return Some(gone(document.v));
    }
    let data = Data::from_bytes(&data).ok()?;
    Some(Row { deleted: false, max_life: document.max_life, data: Some(data), ..gone(document.v) })
}

/// The stored result of an operation of that org and account.
pub fn read_result(seal: &Seal, of: (&str, &str), operation: &Operation) -> Result<OpResult> {
    Ok(from_stored(&opened(seal, of, operation)?)?.0)
}

fn opened(seal: &Seal, (org, account): (&str, &str), operation: &Operation) -> Result<Vec<u8>> {
    let pk = result_pk(account, &operation.id);
    seal.open(result_place(org, &pk), operation.seq, &operation.result)
}
