//! An account's store, from its name to an open memory: the same steps on every device.

use super::journal::JournalAtRest;
use super::open::{Damage, Opened, open};
use super::writer::Rest;
use crate::crypto::{AccountKey, DerivedKey, Header, Random, StoreKeys, WrapKind, store_name};
use crate::error::{Code, Error, Result};
use crate::model::schema::Schema;
use crate::session::Memory;
use crate::store::{Batch, Device, Durability, Store};

/// What names a store and opens it.
pub struct AccountOptions<'a> {
    /// The org.
    pub org: &'a str,
    /// The account in it.
    pub account: &'a str,
    /// What X is made from.
    pub by: WrapKind,
    /// Rounds of PBKDF2 for a new store; 0 for a key.
    pub rounds: u32,
    /// Whether a store is made where there is none.
    pub create: bool,
}

/// An open store with what it holds.
pub struct Account<S> {
    /// The store.
    pub store: S,
    /// Its header, to wrap K anew.
    pub header: Header,
    /// K.
    pub key: AccountKey,
    /// The memory as it rests.
    pub memory: Memory,
    /// The layout.
    pub rest: Rest,
    /// The operations and actions.
    pub journal: JournalAtRest,
    /// What was found damaged.
    pub damage: Damage,
}

/// Opens an account's store, or makes it. `derive` gives X for a number of rounds.
///
/// Errors: `no_store`, `wrong_passphrase`, `store_damaged`, `store_in_use`, `store_too_new`, `schema_mismatch`,
/// `storage_full`, `storage_failed`. None of the first six has written anything.
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
    let opened = match store.header().await {
        Ok(Some(bytes)) => existing(&store, &bytes, options, schema, derive, random).await,
        // The store was made and never written: as good as none.
        Ok(None) if options.create => fresh(&store, options, schema, derive, random).await,
        Ok(None) => Err(no_store()),
        Err(error) => Err(error),
    };
    match opened {
        Ok((header, key, Opened { memory, rest, journal, damage })) => {
            Ok(Account { store, header, key, memory, rest, journal, damage })
        }
        Err(error) => {
            store.close().await;
            Err(error)
        }
    }
}

async fn existing<S: Store>(
    store: &S,
    bytes: &[u8],
    options: &AccountOptions<'_>,
    schema: Schema,
    derive: impl AsyncFn(u32) -> Result<DerivedKey>,
    random: &mut dyn Random,
) -> Result<(Header, AccountKey, Opened)> {
    let header = Header::from_bytes(bytes)?;
    let x = derive(header.rounds(options.by)?).await?;
    let key = header.unwrap(options.by, &x)?;
    let keys = StoreKeys::derive(&key, header.store_id());
    let opened = open(store, keys, schema, random.text()?).await?;
    Ok((header, key, opened))
}

/// The header and the first checkpoint go in one batch: a store has both or neither.
async fn fresh<S: Store>(
    store: &S,
    options: &AccountOptions<'_>,
    schema: Schema,
    derive: impl AsyncFn(u32) -> Result<DerivedKey>,
    random: &mut dyn Random,
) -> Result<(Header, AccountKey, Opened)> {
    let x = derive(options.rounds).await?;
    let (header, key) = Header::make(options.by, &x, options.rounds, random)?;
    let keys = StoreKeys::derive(&key, header.store_id());
    let mut memory = Memory::new(schema);
    let mut rest = Rest::new(keys, random.text()?);
    let internal = || Error::new(Code::Internal, "a new store has nothing to write");
    let (mut batch, receipt) = rest.batch(&mut memory, None, random)?.ok_or_else(internal)?;
    batch.header = Some(header.to_bytes());
    store.commit(batch).await?;
    rest.committed(&mut memory, receipt);
    Ok((header, key, Opened { memory, rest, journal: JournalAtRest::default(), damage: Damage::default() }))
}

/// Wraps K under another X, on the device and in `header`. Errors: `wrong_passphrase` where `old` is not the one in
/// force, `storage_full`, `storage_failed`; the old one stays in force then.
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
