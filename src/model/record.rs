//! The names of stored records, and the list of the tables that they are in. They are below `crypto`, because the
//! seal of a record is bound to its name (R14), and a store takes sealed records only.

use std::ops::{Index, IndexMut};

/// The name of a record: the output of a keyed pseudo-random function (R15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey(pub [u8; 16]);

/// The version of the tables, which is that of the browser's database. The content of the records has its own
/// version, in the header.
pub const TABLES_VERSION: u32 = 1;

/// How the backup copies a table. It has one table for each of the two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// It has no copy: the server can send the content again.
    Never,
    /// The copy gets the changes of each batch that carries a high-water mark.
    WithMark,
    /// The copy gets records when they are handed in. It loses those that a batch deletes.
    HandedIn,
}

/// The facts about a table.
struct Facts {
    name: &'static str,
    is_shared: bool,
    is_read_whole: bool,
    copying: Copying,
}

/// Makes the tables from one list, so that none is missing in a part of the code.
macro_rules! tables {
    ($($(#[$doc:meta])+ $table:ident { $($fact:ident: $value:expr),+ })+) => {
        /// The tables of a store.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Table {
            $($(#[$doc])+ $table,)+
        }

        impl Table {
            /// Every table, in the order of their discriminants.
            pub const ALL: [Table; [$(Table::$table),+].len()] = [$(Table::$table),+];

            const fn facts(self) -> Facts {
                match self {
                    $(Table::$table => Facts { $($fact: $value),+ },)+
                }
            }
        }
    };
}

tables! {
    /// The records that say which documents and collections exist.
    State { name: "s", is_shared: false, is_read_whole: true, copying: Copying::Never }
    /// Documents' data. Read on demand.
    Pages { name: "p", is_shared: false, is_read_whole: false, copying: Copying::Never }
    /// Operations and actions (R10).
    Journal { name: "j", is_shared: false, is_read_whole: true, copying: Copying::WithMark }
    /// Requests of followers to the leader.
    Inbox { name: "i", is_shared: true, is_read_whole: true, copying: Copying::HandedIn }
}

impl Table {
    /// The table's name in the browser's database: one letter, so that nothing of the application shows
    /// (R13).
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Whether every session writes the table, and not the leader alone. A batch that clears the store leaves it
    /// as it is. A device with one holder at a time does not use it.
    pub fn is_shared(self) -> bool {
        self.facts().is_shared
    }

    /// Whether an opening reads the whole table.
    pub fn is_read_whole(self) -> bool {
        self.facts().is_read_whole
    }

    /// How the backup copies the table.
    pub fn copying(self) -> Copying {
        self.facts().copying
    }
}

/// A value for each table.
#[derive(Clone, Debug, Default)]
pub struct PerTable<T>([T; Table::ALL.len()]);

impl<T> PerTable<T> {
    /// Makes the value of each table.
    pub fn of(make: impl FnMut(Table) -> T) -> Self {
        PerTable(Table::ALL.map(make))
    }
}

impl<T> Index<Table> for PerTable<T> {
    type Output = T;

    fn index(&self, table: Table) -> &T {
        &self.0[table as usize]
    }
}

impl<T> IndexMut<Table> for PerTable<T> {
    fn index_mut(&mut self, table: Table) -> &mut T {
        &mut self.0[table as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores of an earlier version lack a new table. Nothing makes it in them, except an upgrade.
    #[test]
    fn a_version_has_its_tables() {
        let names = Table::ALL.map(Table::name).concat();
        let cure = "raise the version, and let src/web/idb/connect.rs upgrade stores of the one before";
        assert_eq!((TABLES_VERSION, names.as_str()), (1, "spji"), "{cure}");
    }

    /// The backup has one table for each way to copy.
    #[test]
    fn each_copy_is_of_one_table() {
        for copying in [Copying::WithMark, Copying::HandedIn] {
            let copied = Table::ALL.into_iter().filter(|table| table.copying() == copying).count();
            assert_eq!(copied, 1, "{copying:?}");
        }
    }

    #[test]
    fn a_rehearsal_has_the_same_version() {
        let databases = include_str!("../../js/src/wasm/memory-databases.ts");
        assert!(databases.contains(&format!("\nconst VERSION = {TABLES_VERSION};\n")));
    }

    #[test]
    fn the_format_lists_every_table() {
        let format = include_str!("../../docs/format.md");
        for name in Table::ALL.map(Table::name) {
            assert!(format.contains(&format!("\n| `{name}` | 16 bytes |")), "{name}");
        }
        assert!(format.contains(&format!("of that name, version {TABLES_VERSION}, with")));
    }
}
