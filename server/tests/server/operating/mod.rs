//! Commands, imports, sweeps, kills and keys: the work of the person who operates a server.

mod backup;
mod cli;
#[cfg(feature = "postgres")]
mod drills;
mod health;
mod import;
#[cfg(feature = "postgres")]
mod instances;
pub mod journal;
mod kills;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod postgres_tls;
mod provider;
mod site_key;
mod sweep;
#[cfg(feature = "otlp")]
mod traces;
