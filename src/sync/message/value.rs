//! The values in events and effects.

use crate::codec::Data;
use crate::error::{Code, Error};
use crate::journal::OpId;
use crate::memory::DocKey;
use crate::model::{Epoch, Pk, Value};

/// The time as the driver knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Milliseconds since 1970 by the device's clock, which may be wrong and may jump.
    pub wall_ms: u64,
    /// Milliseconds since an arbitrary start. It never goes back; delays are counted in it.
    pub mono_ms: u64,
}

/// Which of the server and the device a session uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Server and device.
    Synced,
    /// Server only: nothing is ever written to the device.
    Incognito,
    /// Device only: the server is never contacted.
    Avion,
}

impl Mode {
    /// The name that the application uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Synced => "synced",
            Mode::Incognito => "incognito",
            Mode::Avion => "avion",
        }
    }
}

/// Why a request has no reply.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The error.
    pub error: Error,
    /// How many milliseconds the server asked the session to wait.
    pub retry_after_ms: Option<u64>,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal { error, retry_after_ms: None }
    }
}

/// The word of the module that holds the bytes of files, on some of their objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileWord {
    /// The server confirmed them in this epoch.
    There(Epoch),
    /// The device does not hold them: the server decides.
    Absent,
    /// They can never be there, for this reason: their operations are parked.
    Failed(Code),
}

/// An operation to be issued.
#[derive(Clone, Debug)]
pub struct Write {
    /// Its id, a UUID v7 made by the driver.
    pub id: OpId,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub args: Value,
    /// The documents that it touches, if it has no optimistic part.
    pub touches: Vec<DocKey>,
    /// Operations that it waits for.
    pub after: Vec<OpId>,
}

/// A document's data, for the application.
#[derive(Clone, Debug)]
pub struct ReadRow {
    /// The id in the request.
    pub id: u32,
    /// The document's pk.
    pub pk: Pk,
    /// Its version.
    pub v: u64,
    /// The release of its class.
    pub release: u64,
    /// Its data.
    pub data: Data,
}

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// The numbers of the actions that it removes.
    pub rowids: Vec<i64>,
}
