//! Opens an account's store, from its name to the memory: the same steps on every device.

use super::inbox::Requests;
use super::journal::JournalAtRest;
use super::layout::Layout;
use super::mark::{Copied, HighWater, RolledBack};
use super::open::{Damage, Opened, SKIPPED, open};
use crate::crypto::{AccountKey, DerivedKey, Header, Random, StoreKeys, WrapKind, store_name};
use crate::error::{Code, Error, Result};
use crate::memory::Memory;
use crate::model::{SortedMap, schema::Schema};
use crate::store::{BackupHeader, Batch, Device, Durability, Store, Table};

/// The name of a store, and the way to open it.
pub struct AccountOptions<'a> {
    /// The org.
    pub org: &'a str,
    /// The account in it.
    pub account: &'a str,
    /// The source of X.
    pub by: WrapKind,
    /// Rounds of PBKDF2 for a new store; 0 for a key.
    pub rounds: u32,
    /// Whether to make a store if there is none.
    pub create: bool,
}

/// An open store with its content.
pub struct Account<S> {
    /// The store.
    pub store: S,
    /// Its header, to wrap K again.
    pub header: Header,
    /// K.
    pub key: AccountKey,
    /// The memory, as storage holds it.
    pub memory: Memory,
    /// The layout.
    pub layout: Layout,
    /// The operations and actions.
    pub journal: JournalAtRest,
    /// The damage that the opening found.
    pub damage: Damage,
    /// The commands of followers.
    pub inbox: Requests,
    /// The latest generation that had begun.
    pub generation: u64,
}

/// Opens an account's store, or makes it. `derive` gives X for a number of rounds.
///
/// Errors: `no_store`, `wrong_passphrase`, `store_damaged`, `store_in_use`, `store_too_new`,
/// `schema_mismatch`, `storage_full`, `storage_failed`. None of the first six has written anything.
pub async fn open_account<D: Device>(
    device: &D,
    options: &AccountOptions<'_>,
    schema: Schema,
    derive: impl AsyncFn(u32) -> Result<DerivedKey>,
    random: &mut dyn Random,
) -> Result<Account<D::Store>> {
    let name = store_name(options.org, options.account);
    let no_store = || Error::new(Code::NoStore, "nothing rests on this device for this org and account");
    let store = device.open(&name, options.create).await?.ok_or_else(no_store)?;
    let opened = loop {
        // The generation is read no later than the header: a session that makes the store in between begins a
        // generation first.
        let found = store.peek().await;
        let made = match found {
            Ok((_, Some(bytes), backup_header)) => {
                break existing(&store, &bytes, &backup_header, options, schema, &derive, random).await;
            }
            // The store was made and never written, or all of it is gone. The backup database tells which.
            Ok((seen, None, backup_header)) => {
                let schema = schema.clone();
                match backup_header.header.as_deref().map(Header::from_bytes) {
                    Some(Ok(header)) => {
                        vanished(&store, seen, header, &backup_header, options, schema, &derive, random).await
                    }
                    _ if options.create => fresh(&store, seen, options, schema, &derive, random).await,
                    _ => Err(no_store()),
                }
            }
            Err(error) => Err(error),
        };
        match made {
            // Another session makes the store at the same time.
            Err(error) if error.code() == Code::Deposed => {}
            made => break made,
        }
    };
    match opened {
        Ok((header, key, Opened { memory, mut layout, journal, damage, inbox, generation })) => {
            layout.set_header(header.to_bytes());
            Ok(Account { store, header, key, memory, layout, journal, damage, inbox, generation })
        }
        Err(error) => {
            store.close().await;
            Err(error)
        }
    }
}

/// K, and the keys of the store.
async fn unlock(
    header: &Header,
    options: &AccountOptions<'_>,
    derive: &impl AsyncFn(u32) -> Result<DerivedKey>,
) -> Result<(AccountKey, StoreKeys)> {
    let x = derive(header.rounds(options.by)?).await?;
    let key = header.unwrap(options.by, &x)?;
    let keys = StoreKeys::derive(&key, header.store_id());
    Ok((key, keys))
}

async fn existing<S: Store>(
    store: &S,
    bytes: &[u8],
    backup_header: &BackupHeader,
    options: &AccountOptions<'_>,
    schema: Schema,
    derive: &impl AsyncFn(u32) -> Result<DerivedKey>,
    random: &mut dyn Random,
) -> Result<(Header, AccountKey, Opened)> {
    let header = Header::from_bytes(bytes)?;
    let (key, keys) = unlock(&header, options, derive).await?;
    let mut opened = open(store, keys, schema, random.text()?, backup_header.mark.as_deref()).await?;
    opened.layout.is_backup_due |= backup_header.header.as_deref() != Some(bytes);
    Ok((header, key, opened))
}

/// Makes a store. The header and the first checkpoint are one batch: a store has both or neither. If two
/// sessions make the store at the same time, one of them begins the later generation. The batch of the other
/// is not written.
async fn fresh<S: Store>(
    store: &S,
    seen: u64,
    options: &AccountOptions<'_>,
    schema: Schema,
    derive: &impl AsyncFn(u32) -> Result<DerivedKey>,
    random: &mut dyn Random,
) -> Result<(Header, AccountKey, Opened)> {
    let x = derive(options.rounds).await?;
    let (header, key) = Header::make(options.by, &x, options.rounds, random)?;
    let keys = StoreKeys::derive(&key, header.store_id());
    let layout = Layout::new(keys, random.text()?);
    let opened = first(store, seen, layout, Memory::new(schema), &header, random).await?;
    Ok((header, key, opened))
}

/// Makes a store again of which only the backup database is left. It keeps K and takes the journal from the
/// copy. Its numbers continue, and the opening reports the loss.
#[allow(clippy::too_many_arguments)] // all that the two other ways to open take
async fn vanished<S: Store>(
    store: &S,
    seen: u64,
    header: Header,
    backup_header: &BackupHeader,
    options: &AccountOptions<'_>,
    schema: Schema,
    derive: &impl AsyncFn(u32) -> Result<DerivedKey>,
    random: &mut dyn Random,
) -> Result<(Header, AccountKey, Opened)> {
    let (key, keys) = unlock(&header, options, derive).await?;
    let mark = backup_header.mark.as_deref().and_then(|sealed| HighWater::open(&keys, sealed));
    let mut rolled_back = RolledBack { records: 0, pending: 0, lost: 0 };
    let mut journal = JournalAtRest::default();
    let mut memory = Memory::new(schema);
    let mut layout = Layout::new(keys, random.text()?);
    if let Some(mark) = mark {
        rolled_back = mark.lost(&journal);
        (layout.next_record, layout.pages.next) = (mark.next_record, mark.next_page);
        layout.journal.next_record = mark.journal.next_record;
        if let Some(copied) = Copied::read(store, &layout.keys, &mark).await? {
            rolled_back.lost = 0;
            let restoring = copied.replace(&SortedMap::new());
            (journal, layout.restored) = (restoring.journal, restoring.records);
            (layout.journal, layout.session) = (mark.journal, mark.session);
            memory.set_epoch(mark.epoch.0, mark.epoch.1);
        }
    }
    layout.next_record += SKIPPED;
    layout.base = layout.next_record;
    layout.pages.next += SKIPPED;
    layout.journal.next_record += SKIPPED;
    layout.is_rewrite_due = true;
    let mut opened = first(store, seen, layout, memory, &header, random).await?;
    opened.damage.rolled_back = Some(rolled_back);
    opened.journal = journal;
    Ok((header, key, opened))
}

/// Writes a store's first batch, unless another session has begun a generation since `seen`.
async fn first<S: Store>(
    store: &S,
    seen: u64,
    mut layout: Layout,
    mut memory: Memory,
    header: &Header,
    random: &mut dyn Random,
) -> Result<Opened> {
    let internal = || Error::new(Code::Internal, "a new store has nothing to write");
    let (mut batch, receipt) = layout.batch(&mut memory, None, true, random)?.ok_or_else(internal)?;
    batch.header = Some(header.to_bytes());
    // Commands that only the copy has are then in both databases again, for any leader at any time.
    let copies = store.copies(Table::Inbox).await?;
    batch.puts.extend(copies.iter().map(|(key, sealed)| (Table::Inbox, *key, sealed.clone())));
    let inbox: Requests = copies.into_iter().map(|(key, sealed)| (key, sealed.into_bytes())).collect();
    let Some(generation) = store.take_over(seen).await? else {
        return Err(Error::new(Code::Deposed, "somebody else makes the store"));
    };
    batch.generation = Some(generation);
    store.commit(batch).await?;
    layout.committed(&mut memory, receipt);
    let (journal, damage) = (JournalAtRest::default(), Damage::default());
    Ok(Opened { memory, layout, journal, damage, inbox, generation })
}

/// Wraps K under another X, on the device and in `header`. Errors: `wrong_passphrase` if `old` is not the
/// present X, `storage_full`, `storage_failed`; after an error the old X stays valid.
pub async fn rewrap<S: Store>(
    store: &S,
    header: &Header,
    by: WrapKind,
    old: &DerivedKey,
    next: &DerivedKey,
    rounds: u32,
    random: &mut dyn Random,
) -> Result<Header> {
    let key = header.unwrap(by, old)?;
    let header = header.rewrap(&key, by, next, rounds, random)?;
    let batch = Batch { header: Some(header.to_bytes()), durability: Durability::Strict, ..Batch::default() };
    store.commit(batch).await?;
    Ok(header)
}
