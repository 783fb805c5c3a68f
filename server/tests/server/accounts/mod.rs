//! Accounts (R72 to R77): the formulas, each request, random histories against a model, and sockets.

mod administered;
mod devices;
mod formulas;
mod histories;
mod refusals;
mod requests;
pub mod support;
