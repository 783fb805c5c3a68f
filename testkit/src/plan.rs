//! The contents of a history: actions, and plans that say how often each occurs.

/// One thing that happens. Numbers are reduced to the existing range when it happens, so that any list of
/// actions is a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A transaction writes a document. Section 3 means none. `life` 0 means for ever, otherwise minutes from
    /// now.
    Write {
        doc: u8,
        section: u8,
        tags: u8,
        life: u8,
    },
    /// A transaction deletes a document.
    Delete {
        doc: u8,
    },
    /// A transaction writes and deletes several documents.
    WriteMany {
        from: u8,
        count: u8,
        section: u8,
        tags: u8,
    },
    Subscribe {
        client: u8,
        def: u8,
    },
    Unsubscribe {
        client: u8,
        def: u8,
    },
    /// The application reads all documents of a def.
    Read {
        client: u8,
        def: u8,
    },
    /// The application queries.
    Query {
        client: u8,
        size: u8,
        shape: u8,
    },
    /// Time passes: `ticks` times 50 ms.
    Wait {
        ticks: u8,
    },
    /// Time passes: that many seconds.
    WaitLong {
        seconds: u8,
    },
    /// The client stops at once.
    Crash {
        client: u8,
    },
    /// The client stops before it carries out its nth effect from now.
    CrashAt {
        client: u8,
        effects: u8,
    },
    /// The client is opened again, if it is closed.
    Reopen {
        client: u8,
    },
    /// A record on a closed client's device is altered, cut or deleted.
    Damage {
        client: u8,
        record: u8,
        how: u8,
    },
    /// The client goes to avion, or back.
    Mode {
        client: u8,
    },
    /// The device's network is lost, or returns.
    Network {
        client: u8,
    },
    Visible {
        client: u8,
    },
    /// The socket is cut. The client is informed of it, or not.
    CutSocket {
        client: u8,
        silent: bool,
    },
    /// The next batches cannot be written.
    FailCommits {
        client: u8,
        count: u8,
        full: bool,
    },
    /// From now on, these shares of 255 messages are lost, arrive twice, or arrive late.
    Faults {
        loss: u8,
        twice: u8,
        late: u8,
    },
    /// The server refuses the next requests.
    Refuse {
        count: u8,
        how: u8,
    },
    /// The server's cursors become invalid.
    CursorKey,
    /// An instance's clock is that far ahead, within the skew.
    Skew {
        instance: u8,
        ahead: u8,
    },
    /// The server's clocks are set back by so many seconds, or set right.
    SetBack {
        seconds: u8,
    },
    /// Changes are pushed as whole documents instead of hints.
    Push {
        on: bool,
    },
    /// Tombstones and departures are forgotten, except those of the last seconds.
    Forget {
        seconds: u8,
    },
    /// Days pass while all clients are closed, and with them the retention time.
    Days {
        days: u8,
    },
    BackUp,
    Restore,
    Renew,
    /// The process of an instance ends, and another one starts.
    RestartServer {
        instance: u8,
    },
    /// The server's disk is full for its next commit.
    FailServer,
    /// All clients sleep for so many hours, with their messages in transit. Then the server forgets as much
    /// as it may.
    Sleep {
        hours: u8,
    },
    /// A client stops with its device. The device loses so many of the batches that it had not synced.
    PowerLoss {
        client: u8,
        batches: u8,
    },
    /// A client stops, and its device is then empty.
    Wipe {
        client: u8,
    },
    /// A client's device is copied.
    CopyDevice {
        client: u8,
    },
    /// A client stops, and its device is replaced by the copy.
    PutBackDevice {
        client: u8,
    },
    /// Messages from a client are lost, or messages to it, or neither any more.
    OneWay {
        client: u8,
        mute: bool,
        deaf: bool,
    },
    /// The application of a client issues an operation.
    Op {
        client: u8,
        what: u8,
        doc: u8,
        arg: u8,
    },
    /// The application amends or discards its first refused operation.
    Resolve {
        client: u8,
        amends: bool,
    },
    /// The application sweeps the journal.
    Sweep {
        client: u8,
        how: u8,
        apply: bool,
    },
    /// The application reads a document's history.
    History {
        client: u8,
        doc: u8,
    },
    /// From now on, `of_255` of 255 operations meet contention.
    Contention {
        of_255: u8,
    },
    /// The right of a client's account to a def ends, or is back.
    Right {
        client: u8,
        def: u8,
        ends: bool,
    },
    /// The application of a client adds files to the device, and writes a document that references them.
    AddFile {
        client: u8,
        doc: u8,
        files: u8,
    },
    /// The device of a client gives up the bytes of a file, if nothing needs them.
    DropFile {
        client: u8,
        file: u8,
    },
    /// The browser of a client loses a chunk.
    LoseChunk {
        client: u8,
        file: u8,
    },
    /// The bytes of the server's next upload come so many minutes late.
    PutLate {
        minutes: u8,
        twice: bool,
    },
    /// The next object that the server removes goes so many minutes late.
    DeleteLate {
        minutes: u8,
        twice: bool,
    },
    /// The server's store of objects fails for so many calls.
    FilesDown {
        calls: u8,
    },
    /// An instance removes all that is past its time, while others work.
    Collect {
        instance: u8,
    },
    /// The database and the store of objects are restored from copies of one moment.
    RestoreFiles,
}

/// The kinds of actions, which a plan weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Write,
    Delete,
    WriteMany,
    Subscribe,
    Unsubscribe,
    Read,
    Query,
    /// A subscription to the whole class begins or ends.
    Whole,
    Wait,
    WaitLong,
    Crash,
    CrashAt,
    Reopen,
    Damage,
    Mode,
    Network,
    Cut,
    FailCommits,
    Faults,
    Refuse,
    CursorKey,
    Skew,
    SetBack,
    Push,
    Forget,
    Days,
    BackUp,
    Restore,
    Renew,
    RestartServer,
    FailServer,
    Sleep,
    PowerLoss,
    Wipe,
    CopyDevice,
    PutBackDevice,
    OneWay,
    Op,
    /// Only operations that add to counters.
    Add,
    Resolve,
    Sweep,
    Past,
    Contention,
    Right,
    /// The same kinds on documents in trees.
    TreeWrite,
    TreeWriteMany,
    TreeDelete,
    TreeSubscribe,
    TreeUnsubscribe,
    TreeOp,
    /// An application deletes a parent.
    TreeEnd,
    /// The same kinds on documents that reference files.
    PhotoWrite,
    PhotoDelete,
    PhotoSubscribe,
    PhotoOp,
    AddFile,
    DropFile,
    LoseChunk,
    PutLate,
    DeleteLate,
    FilesDown,
    Collect,
    RestoreFiles,
}

/// The properties of a plan's histories.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub name: &'static str,
    pub clients: usize,
    /// The last client is in incognito.
    pub incognito: bool,
    pub instances: usize,
    pub actions: usize,
    /// Only the clients write, only to counters, and a value that they see must never go back.
    pub watches_flicker: bool,
    /// The org and the account of each client. Further clients each have an account in org 0.
    pub tenants: &'static [(usize, usize)],
    pub weights: &'static [(Kind, u16)],
}

impl Plan {
    /// Makes an action from five bytes.
    pub fn action(&self, raw: [u8; 5]) -> Action {
        let [pick, a, b, c, d] = raw;
        let all: u32 = self.weights.iter().map(|(_, weight)| u32::from(*weight)).sum();
        let mut place = u32::from(pick) * all / 256;
        for (kind, weight) in self.weights {
            if place < u32::from(*weight) {
                return action(*kind, a, b, c, d);
            }
            place -= u32::from(*weight);
        }
        Action::Wait { ticks: a }
    }
}

fn action(kind: Kind, a: u8, b: u8, c: u8, d: u8) -> Action {
    match kind {
        Kind::Write => {
            let life = if d < 160 { 0 } else { d % 6 };
            Action::Write { doc: a % 9, section: b % 4, tags: c % 8, life }
        }
        Kind::Delete => Action::Delete { doc: a % 9 },
        Kind::WriteMany => Action::WriteMany { from: a % 9, count: b % 9 + 1, section: c % 4, tags: d % 8 },
        Kind::Subscribe => Action::Subscribe { client: a % 3, def: b % 13 },
        Kind::Unsubscribe => Action::Unsubscribe { client: a % 3, def: b % 13 },
        Kind::Read if c & 1 == 0 => Action::Read { client: a % 3, def: b % 13 },
        Kind::Read | Kind::Query => Action::Query { client: a % 3, size: b, shape: d },
        Kind::Whole if b & 1 == 0 => Action::Subscribe { client: a % 3, def: 0 },
        Kind::Whole => Action::Unsubscribe { client: a % 3, def: 0 },
        Kind::Wait => Action::Wait { ticks: a },
        Kind::WaitLong => Action::WaitLong { seconds: a },
        Kind::Crash => Action::Crash { client: a % 3 },
        Kind::CrashAt => Action::CrashAt { client: a % 3, effects: b % 24 },
        Kind::Reopen => Action::Reopen { client: a % 3 },
        Kind::Damage => Action::Damage { client: a % 3, record: b, how: c % 4 },
        Kind::Mode => Action::Mode { client: a % 3 },
        Kind::Network if b & 1 == 0 => Action::Network { client: a % 3 },
        Kind::Network => Action::Visible { client: a % 3 },
        Kind::Cut => Action::CutSocket { client: a % 3, silent: b & 1 == 0 },
        Kind::FailCommits => Action::FailCommits { client: a % 3, count: b % 4 + 1, full: c & 1 == 0 },
        Kind::Faults => Action::Faults { loss: a / 2, twice: b, late: c },
        Kind::Refuse => Action::Refuse { count: a % 3 + 1, how: b % 6 },
        Kind::CursorKey => Action::CursorKey,
        Kind::Skew => Action::Skew { instance: a, ahead: b },
        Kind::SetBack => Action::SetBack { seconds: if a < 128 { 0 } else { b } },
        Kind::Push => Action::Push { on: a & 1 == 0 },
        Kind::Forget => Action::Forget { seconds: a },
        Kind::Days => Action::Days { days: a },
        Kind::BackUp => Action::BackUp,
        Kind::Restore => Action::Restore,
        Kind::Renew => Action::Renew,
        Kind::RestartServer => Action::RestartServer { instance: a },
        Kind::FailServer => Action::FailServer,
        Kind::Sleep => Action::Sleep { hours: a },
        Kind::PowerLoss => Action::PowerLoss { client: a % 3, batches: b % 8 },
        Kind::Wipe => Action::Wipe { client: a % 3 },
        Kind::CopyDevice => Action::CopyDevice { client: a % 3 },
        Kind::PutBackDevice => Action::PutBackDevice { client: a % 3 },
        Kind::OneWay => {
            Action::OneWay { client: a % 3, mute: b.is_multiple_of(3), deaf: c.is_multiple_of(3) }
        }
        Kind::Op => Action::Op { client: a % 3, what: b, doc: c % 9, arg: d },
        Kind::Add => Action::Op { client: a % 3, what: b % 5, doc: c % 3, arg: d },
        Kind::Resolve => Action::Resolve { client: a % 3, amends: b & 1 == 0 },
        Kind::Sweep => Action::Sweep { client: a % 3, how: b, apply: c & 1 == 0 },
        Kind::Past => Action::History { client: a % 3, doc: b % 9 },
        Kind::TreeWrite => Action::Write { doc: 9 + a % 16, section: b % 4, tags: c % 8, life: 0 },
        Kind::TreeWriteMany => {
            Action::WriteMany { from: 9 + a % 16, count: b % 9 + 1, section: c % 4, tags: d % 8 }
        }
        // Half of them delete a parent.
        Kind::TreeDelete => {
            Action::Delete { doc: 9 + if b & 1 == 0 { a % 2 + a / 2 % 2 * 8 } else { a % 16 } }
        }
        Kind::TreeSubscribe => Action::Subscribe { client: a % 3, def: 13 + b % 14 },
        Kind::TreeUnsubscribe => Action::Unsubscribe { client: a % 3, def: 13 + b % 14 },
        Kind::TreeOp => Action::Op { client: a % 3, what: b, doc: 9 + c % 16, arg: d },
        Kind::TreeEnd => Action::Op { client: a % 3, what: 13, doc: 9 + b % 2 + b / 2 % 2 * 8, arg: d },
        Kind::PhotoWrite => Action::Write { doc: 25 + a % 3, section: 3, tags: c, life: 0 },
        Kind::PhotoDelete => Action::Delete { doc: 25 + a % 3 },
        Kind::PhotoSubscribe => Action::Subscribe { client: a % 3, def: 27 + b % 2 },
        Kind::PhotoOp => Action::Op { client: a % 3, what: b, doc: 25 + c % 3, arg: d },
        Kind::AddFile => Action::AddFile { client: a % 3, doc: 25 + b % 3, files: c },
        Kind::DropFile => Action::DropFile { client: a % 3, file: b % 5 },
        Kind::LoseChunk => Action::LoseChunk { client: a % 3, file: b % 5 },
        Kind::PutLate => Action::PutLate { minutes: a, twice: b & 1 == 0 },
        Kind::DeleteLate => Action::DeleteLate { minutes: a, twice: b & 1 == 0 },
        Kind::FilesDown => Action::FilesDown { calls: a % 8 + 1 },
        Kind::Collect => Action::Collect { instance: a },
        Kind::RestoreFiles => Action::RestoreFiles,
        Kind::Right => Action::Right { client: a % 3, def: b % 27, ends: c < 160 },
        Kind::Contention => Action::Contention { of_255: if a < 128 { 0 } else { b } },
    }
}
