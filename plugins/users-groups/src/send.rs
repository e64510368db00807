//! The values that users send.

use crate::account::{Account, Kind};
use crate::entity::AccountEntity;
use crate::error::AccountError;
use crate::images::{Images, Moment};
use crate::plan::{self, Step};
use bstr::BString;
use holo_plugin::{Host, Output};

/// The names of the values of users.
pub(crate) const SENDS: &[&str] = &["user#uid", "user#home"];

/// Sends the requested values of a user as it exists.
pub(crate) fn send(entity: &AccountEntity, host: &Host, names: &[BString], output: &mut Output<'_>) {
    if let Ok(Some(account)) = made(entity, host) {
        send_of(&account, names, output);
    }
}

/// Sends the requested values of a user as an apply would make it. Values that the system chooses are unknown before that.
pub(crate) fn foresee(entity: &AccountEntity, host: &Host, names: &[BString], output: &mut Output<'_>) {
    if let Ok(Some(account)) = intended(entity, host) {
        send_of(&account, names, output);
    }
}

/// Returns the account as it exists or, in test mode, as it would have been made.
fn made(entity: &AccountEntity, host: &Host) -> Result<Option<Account>, AccountError> {
    let imagined = if host.test_mode() { Images::open(host)?.load(Moment::Provisioned, &entity.id)? } else { None };
    Ok(if imagined.is_some() { imagined } else { entity.actual(host)? })
}

fn intended(entity: &AccountEntity, host: &Host) -> Result<Option<Account>, AccountError> {
    let Some(definition) = &entity.definition else { return Ok(None) };
    let found = entity.state(host, &Images::open(host)?)?;
    let step = plan::step(entity.shared.provider, definition, found.plan_input(), false);
    Ok(if let Step::Run(_, account) = step { Some(account) } else { None })
}

fn send_of(account: &Account, names: &[BString], output: &mut Output<'_>) {
    if account.id.kind != Kind::User {
        return;
    }
    for name in names {
        match name.as_slice() {
            b"uid" => drop(account.number.map(|number| output.send("uid", number.to_string()))),
            b"home" => drop(account.home.as_ref().map(|home| output.send("home", home))),
            _ => {}
        }
    }
}
