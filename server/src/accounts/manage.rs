//! The requests of an owner who has signed in: wraps, devices, closing (R76, R77). Also the commands of an operator:
//! invitations and roles.

use escale::model::{Value, sha_s};
use escale::{Code, Error, Result};

use super::enter::{Proof, Proven, stored};
use super::formulas::b64;
use super::key::random;
use super::login::login_of;
use super::message::{Fields, Request, Service};
use super::record::bad;
use super::tokens::SignedIn;
use crate::engine::{
    Account, Engine, Invitation, Properties, ROLES, Wrap, WriteTx, entries_of, map_of, number,
    read_system_record, write_system_record,
};

/// How long an invitation stays open, in milliseconds: 14 days.
const INVITATION_MS: u64 = 14 * 86_400_000;

/// A change of the wraps of an account.
pub(super) struct ChangeForm<'m> {
    pub(super) proof: Proof<'m>,
    put: Vec<Wrap>,
    remove: Vec<String>,
    ends_others: bool,
}

impl Service<'_> {
    /// `wraps` without a proof: lists them.
    pub(super) fn wraps(&self, signed_in: &SignedIn) -> Result<Fields> {
        self.own(signed_in).map(|account| list_of(&account))
    }

    /// The form of `wraps` with a proof.
    pub(super) fn change_form<'m>(
        &self,
        request: &Request<'m>,
        signed_in: &'m SignedIn,
    ) -> Result<ChangeForm<'m>> {
        let ends_others = match request.optional_text("revoke")? {
            None => false,
            Some("others") => true,
            Some(_) => return Err(bad("`revoke` is `others`")),
        };
        Ok(ChangeForm {
            put: request.wraps("put", self.now_ms)?,
            remove: request.texts("remove")?,
            ends_others,
            proof: self.proof(request, &signed_in.login)?,
        })
    }

    /// `wraps` with a proof: changes them.
    pub(super) fn change(&self, form: &ChangeForm<'_>, signed_in: &SignedIn) -> Result<Fields> {
        self.check_proof(&form.proof)?;
        write_system_record(self.engine, self.org, |tx| {
            let write = &mut tx.write;
            let Proven { mut account, .. } = self.prove(write, &form.proof)?;
            account.change_wraps(form.put.clone(), &form.remove)?;
            if form.ends_others {
                for device in account.devices.iter_mut().filter(|device| device.id != signed_in.device) {
                    device.end_token(write)?;
                }
            }
            account.store(write)?;
            Ok(list_of(&account))
        })
    }

    /// `devices`: those that have signed in.
    pub(super) fn devices(&self, signed_in: &SignedIn) -> Result<Fields> {
        let account = self.own(signed_in)?;
        let devices = account.devices.iter().map(|device| {
            let last = device.last_use(|token| read_system_record(self.engine, self.org, token))?;
            Ok(map_of([
                ("id", Value::from(device.id.as_str())),
                ("label", Value::from(device.label.as_str())),
                ("first", number(device.first)),
                ("last", number(last)),
                ("here", Value::Bool(device.id == signed_in.device)),
            ]))
        });
        Ok(entries_of([("devices", Value::Array(devices.collect::<Result<_>>()?))]))
    }

    /// `revoke`: ends a device, or all others. Its next sign-in is `device_revoked`.
    pub(super) fn revoke(&self, id: &str, signed_in: &SignedIn) -> Result<Fields> {
        self.end_devices(
            signed_in,
            |device| if id == "others" { device != signed_in.device } else { device == id },
        )
    }

    /// `sign-out`: ends this device.
    pub(super) fn sign_out(&self, signed_in: &SignedIn) -> Result<Fields> {
        self.end_devices(signed_in, |device| device == signed_in.device)
    }

    /// The account of a caller, to read.
    fn own(&self, signed_in: &SignedIn) -> Result<Account> {
        open_one(read_system_record(self.engine, self.org, &sha_s(&signed_in.login))?)
    }

    fn end_devices(&self, signed_in: &SignedIn, ends: impl Fn(&str) -> bool) -> Result<Fields> {
        write_system_record(self.engine, self.org, |tx| {
            let write = &mut tx.write;
            let mut account = own(write, signed_in)?;
            let (ended, stay) = account.devices.into_iter().partition(|device| ends(&device.id));
            account.devices = stay;
            let ended: Vec<_> = ended;
            for mut device in ended {
                device.end_token(write)?;
            }
            account.store(write)?;
            Ok(Fields::new())
        })
    }

    /// `close`: removes the account's wraps, devices and tokens. Its login and its id stay taken.
    pub(super) fn close(&self, proof: &Proof<'_>, forces: bool) -> Result<Fields> {
        self.check_proof(proof)?;
        write_system_record(self.engine, self.org, |tx| {
            let write = &mut tx.write;
            let Proven { mut account, .. } = self.prove(write, proof)?;
            for mut device in std::mem::take(&mut account.devices) {
                device.end_token(write)?;
            }
            tx.closes(&account.id)?;
            let write = &mut tx.write;
            let was_admin = account.role == "admin";
            account.is_closed = true;
            account.wraps.clear();
            account.used.clear();
            let has_other_admin = account.store(write)?;
            if was_admin && !has_other_admin && !forces {
                return Err(Error::new(
                    Code::LastAdmin,
                    "the org would have no administrator: `force` closes it all the same",
                ));
            }
            Ok(Fields::new())
        })
    }
}

/// The account of a caller, in the transaction.
fn own(write: &WriteTx<'_>, signed_in: &SignedIn) -> Result<Account> {
    open_one(stored(write, &signed_in.login)?)
}

fn open_one(account: Option<Account>) -> Result<Account> {
    let gone = || Error::new(Code::Unauthorized, "the token is no longer valid");
    account.filter(|account| !account.is_closed).ok_or_else(gone)
}

fn list_of(account: &Account) -> Fields {
    let wraps = account.wraps.iter().map(|wrap| {
        map_of([
            ("id", Value::from(wrap.id.as_str())),
            ("by", Value::from(wrap.by.as_str())),
            ("rounds", number(wrap.rounds.into())),
            ("at", number(wrap.at)),
        ])
    });
    entries_of([("wraps", Value::Array(wraps.collect()))])
}

/// Makes an invitation to an org, and returns its id. Errors: `bad_option` for an unknown role.
pub fn invite(engine: &Engine, org: &str, role: &str) -> Result<String> {
    check_role(role)?;
    let id = b64(&random::<16>()?);
    let until = engine.clock_ms() + INVITATION_MS;
    let invitation = Invitation { role: Some(role.to_owned()), until, others: Properties::new() };
    write_system_record(engine, org, |tx| tx.write.put_record(&sha_s(&id), &invitation))?;
    Ok(id)
}

/// Gives an account another role. Errors: `not_found`, `bad_option`.
pub fn set_role(engine: &Engine, org: &str, login: &str, role: &str) -> Result<()> {
    check_role(role)?;
    write_system_record(engine, org, |tx| {
        let write = &mut tx.write;
        // As typed first: an account of an earlier version may have a login in another form.
        let as_typed = stored(write, login)?;
        let found = match (as_typed, login_of(login)) {
            (None, Ok(login)) => stored(write, &login)?,
            (found, _) => found,
        };
        let found = found.filter(|account| !account.is_closed);
        let mut account =
            found.ok_or_else(|| Error::new(Code::NotFound, "no open account of the org has this login"))?;
        role.clone_into(&mut account.role);
        account.store(write).map(drop)
    })
}

fn check_role(role: &str) -> Result<()> {
    if ROLES.contains(&role) {
        return Ok(());
    }
    Err(Error::new(Code::BadOption, format!("--role: one of {}", ROLES.join(", "))))
}
