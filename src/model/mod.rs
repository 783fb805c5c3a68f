//! The vocabulary of the core: identity, values, the schema, defs and the names of stored records. Also the sorted maps and the short hash
//! that all modules use. Plain data, without state, input or output.

mod clock;
mod def;
mod hash;
mod name;
pub(crate) mod order;
mod pk;
mod quick;
mod record;
pub mod schema;
mod sorted;
mod value;

pub use clock::{Epoch, Version};
pub use def::{Def, DefKind};
pub use hash::{sha_s, sha32};
pub use name::Name;
pub use pk::Pk;
pub(crate) use pk::join_key;
pub(crate) use quick::{QuickHasher, QuickMap, QuickSet};
pub use record::{Copying, PerTable, RecordKey, TABLES_VERSION, Table};
pub use sorted::{SortedMap, SortedSet};
pub use value::{Number, Value};
