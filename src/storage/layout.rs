//! The layout's own state: the used numbers, and the content of the pages. The other files write it, read it and follow it.

use super::journal::JournalMark;
use super::page::{FoundPage, PAGE_ROWS_BYTES, PageRow, decode_page};
use super::pages::Pages;
use crate::crypto::{SealId, Sealed, StoreKeys};
use crate::error::Result;
use crate::model::SortedSet;
use crate::store::{RecordKey, Table};

/// Bytes of the log below which it is never folded into a checkpoint.
const LOG_BYTES_MIN: usize = 256 << 10;

/// The same, of changed documents.
const CHANGES_MIN: usize = 1_000;

/// Pages with at most this many bytes in use are worth rewriting, once there are this many of them. The
/// content of four fits in one, so that each rewriting leaves fewer pages.
const SPARSE_BYTES: usize = PAGE_ROWS_BYTES / 4;
const SPARSE_PAGES: usize = 64;

/// The layout's own state: the used numbers, and the content of the pages.
#[allow(clippy::struct_excessive_bools)] // independent facts
pub struct Layout {
    pub(super) keys: StoreKeys,
    pub(super) session: String,
    pub(super) next_record: u64,
    pub(super) base: u64,
    pub(super) chunks: u32,
    pub(super) log_bytes: usize,
    pub(super) checkpoint_bytes: usize,
    pub(super) pages: Pages,
    /// The journal summary.
    pub(super) journal: JournalMark,
    /// Damaged or useless records: the next checkpoint deletes them, and it is due at once.
    pub(super) strays: Vec<(Table, RecordKey)>,
    /// Records of failed batches, to delete: a batch may have been written although it reported a failure.
    pub(super) maybe_written: Vec<(Table, RecordKey)>,
    /// The stored header.
    pub(super) header: Vec<u8>,
    /// The backup database is not as of the last batch: the next batch writes all of it.
    pub(super) is_backup_due: bool,
    /// The mark is behind the store, but not behind its journal: it is written later.
    pub(super) is_mark_behind: bool,
    /// Sealed journal records that only the backup database has: the next batch writes them.
    pub(super) restored: Vec<(RecordKey, Sealed)>,
    /// Nothing is stored: the next batch writes the whole state.
    pub(super) is_rewrite_due: bool,
    pub(super) limits: Limits,
    /// The id of the seal of the newest record that it has read or written: for a follower.
    pub(super) newest: Option<SealId>,
    /// The generation that it writes under.
    pub(super) generation: Option<u64>,
    /// Whether the schema knew more than the stored one, when the state was read.
    pub(super) is_ahead: bool,
}

/// When the layout writes checkpoints and rewrites pages.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the log below which it is never folded into a checkpoint.
    pub log_bytes_min: usize,
    /// Changed documents up to which a batch is never a checkpoint because of their number.
    pub changes_min: usize,
    /// Sparse pages from which they are rewritten together.
    pub sparse_pages: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { log_bytes_min: LOG_BYTES_MIN, changes_min: CHANGES_MIN, sparse_pages: SPARSE_PAGES }
    }
}

impl Layout {
    /// The layout of a new store, with nothing in it.
    pub fn new(keys: StoreKeys, session: String) -> Self {
        Layout {
            keys,
            session,
            next_record: 0,
            base: 0,
            chunks: 0,
            log_bytes: 0,
            checkpoint_bytes: 0,
            pages: Pages::default(),
            journal: JournalMark::default(),
            strays: Vec::new(),
            maybe_written: Vec::new(),
            header: Vec::new(),
            is_backup_due: false,
            is_mark_behind: false,
            restored: Vec::new(),
            is_rewrite_due: false,
            limits: Limits::default(),
            newest: None,
            generation: None,
            is_ahead: false,
        }
    }

    /// Sets other limits than the product's, so that a short simulation meets checkpoints and rewritten
    /// pages.
    #[cfg(any(test, feature = "testing"))]
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// All later batches are of that generation.
    pub fn lead(&mut self, generation: Option<u64>) {
        self.generation = generation;
    }

    /// The generation that it writes under.
    pub fn generation(&self) -> Option<u64> {
        self.generation
    }

    /// Whether this session's schema knew all that the stored one knew, and more, when the state was read.
    pub fn is_ahead(&self) -> bool {
        self.is_ahead
    }

    /// The store's random name (R11).
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Gives the store another random name: the server knows the old one with other numbers (R11), or not at
    /// all (R8).
    pub fn rename(&mut self, session: String) {
        self.session = session;
    }

    /// The journal summary of the last batch.
    pub fn journal_summary(&self) -> JournalMark {
        self.journal
    }

    /// The name of a page.
    pub fn page_key(&self, page: u64) -> RecordKey {
        self.keys.record_key(Table::Pages, page)
    }

    /// Reads a stored page. Errors: `record_damaged` if it is not the page that was written.
    pub fn open_page(&self, page: u64, found: &FoundPage) -> Result<Vec<PageRow>> {
        match found {
            FoundPage::Sealed(sealed) => {
                decode_page(&self.keys.open(Table::Pages, self.page_key(page), sealed)?)
            }
            FoundPage::Opened(plain) => decode_page(plain),
        }
    }

    /// The key that pages are sealed with, for a device with its own cipher.
    pub fn key_of_pages(&self) -> &[u8; 32] {
        self.keys.seal_key(Table::Pages)
    }

    /// The keys of the store's files, for the module that holds their bytes.
    pub fn keys_of_files(&self) -> &[[u8; 32]; 2] {
        self.keys.of_files()
    }

    /// Pages with few bytes in use, once there are enough of them: rewriting them together saves records.
    /// Leaves out those in `but`.
    pub fn sparse_pages(&self, but: &SortedSet<u64>) -> Vec<u64> {
        let most = self.limits.sparse_pages;
        let sparse = self.pages.sparse(SPARSE_BYTES, most, but);
        if sparse.len() < most { Vec::new() } else { sparse }
    }

    /// How many pages there are, and how many documents have their data in them.
    pub fn page_counts(&self) -> (usize, u64) {
        (self.pages.len(), self.pages.rows())
    }
}
