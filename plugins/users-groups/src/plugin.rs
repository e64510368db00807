//! The plugin's operations: scan, check, diff, sending values, and the migration of old records.

use crate::account::{Account, AccountError, AccountId, Kind};
use crate::accounts::Accounts;
use crate::definition::Membership;
use crate::entity::{self, AccountEntity};
use crate::images::{self, Images, Moment, to_text};
use crate::plan::{self, Scrubbing, Step};
use crate::state::Current;
use crate::{adoption, apply, providers, scan};
use bstr::{BStr, BString};
use holo_change::error::PathError;
use holo_plugin::declared::Declared;
use holo_plugin::{
    Adopted, Adoption, Applied, Candidate, Diagnosis, Entity, EntityReport, FilePair, ForgetError, Host, Level, Mode,
    Output, Plugin, ScanError, Silence, Verdict, Witness, missing_programs, process,
};
use std::fs;
use std::path::PathBuf;

/// The plugin `users-groups`.
pub(crate) struct UsersGroups;

impl Plugin for UsersGroups {
    type Entity = Declared<AccountEntity>;

    const READS: &'static [&'static str] = &["*.toml", "*.toml.jinja"];

    const ADOPTS: bool = true;

    const SENDS: &'static [&'static str] = SENDS;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Self::Entity>, ScanError> {
        migrate(host, output);
        scan::all(host, output)
    }

    fn scan_witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        // Orphans, whose accounts a scan looks up, have no witnesses.
        Some(images::witnesses_of_names(host))
    }

    fn doctor(&self, host: &Host, _: &mut Output<'_>) -> Vec<Diagnosis> {
        let missing = missing_programs(host, providers::for_host(host).programs(), "account management");
        let fine = || Diagnosis::new(Level::Ok, "all tools for accounts are installed", "");
        vec![missing.unwrap_or_else(fine)]
    }

    fn find(&self, host: &Host, id: &BStr, output: &mut Output<'_>) -> Result<Option<Self::Entity>, ScanError> {
        // The scan has already reported errors in definitions.
        let entities = scan::all(host, &mut Output::new(&mut Silence))?;
        let found = entities.into_iter().find(|declared| id == declared.entity.id.to_string());
        if found.is_none() {
            // Print the errors of this scan: a value that was received since then may have caused one.
            scan::all(host, output)?;
        }
        Ok(found)
    }

    fn candidates(&self, host: &Host, _: &[PathBuf], output: &mut Output<'_>) -> Result<Vec<Candidate>, ScanError> {
        let entities = scan::all(host, &mut Output::new(&mut Silence))?;
        let defined = entities.iter().filter(|declared| declared.entity.definition.is_some());
        let defined = defined.map(|declared| declared.entity.id.clone()).collect();
        adoption::candidates(host, &defined).map_err(|error| {
            output.error(error.to_string());
            ScanError
        })
    }

    fn adopt(&self, host: &Host, adoption: Adoption<'_>, output: &mut Output<'_>) -> Adopted {
        let entity = self.find(host, adoption.id, output).ok().flatten();
        let defined = entity.and_then(|entity| Adopted::defined_already(&entity, host, output));
        defined.unwrap_or_else(|| adoption::adopt(host, &adoption.id.to_string(), output))
    }
}

impl Entity for AccountEntity {
    fn report(&self) -> EntityReport {
        self.to_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply::apply(self, host, mode.force, output)
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        check(self, host, mode, output)
    }

    fn forget(&self, host: &Host, output: &mut Output<'_>) -> Result<(), ForgetError> {
        apply::forget(self, host, output).map_err(|AccountError(reason)| reason.into())
    }

    fn send(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        send(self, host, names, output);
    }

    fn foresee(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        foresee(self, host, names, output);
    }

    fn witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        // Nothing tells when a directory service changes a group.
        let group = self.definition.as_ref()?.account.group.as_deref();
        let is_local = |group: &str| group.parse::<u32>().is_ok() || self.shared.accounts.has_group(host, group);
        if !group.is_none_or(is_local) {
            return None;
        }
        Some([images::witnesses(host, &self.id), Accounts::witnesses(host)?.into()].concat())
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        diff(self, host).map_err(|AccountError(_)| ()).ok()
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        entity::preview(self, host).map_err(|AccountError(_)| ()).ok().flatten()
    }
}

/// Returns the changes that an apply of the entity would make. Prints errors.
pub(crate) fn check(entity: &AccountEntity, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
    try_check(entity, host, mode, output).unwrap_or_else(|AccountError(reason)| {
        output.error(reason);
        Verdict::Failed
    })
}

fn try_check(
    entity: &AccountEntity,
    host: &Host,
    mode: Mode<'_>,
    output: &mut Output<'_>,
) -> Result<Verdict, AccountError> {
    let id = &entity.id;
    let images = Images::open(host)?;
    let would = |what: String| Ok(Verdict::WouldChange(vec![what]));
    let Some(definition) = &entity.definition else {
        let (base, actual) = (entity.base_of_orphan(host, &images)?, entity.actual(host)?);
        let base = base.unwrap_or_else(|| Account::bare(id.clone()));
        return match plan::scrubbing(entity.shared.provider, &base, actual.as_ref()) {
            Scrubbing::Run(command, _) => would(format!("would run {command}")),
            Scrubbing::Refuse(reason) => Err(format!("will not delete {id}: {reason}").into()),
            Scrubbing::Forget if actual.is_none() => would(format!("would forget {id}, which is gone")),
            Scrubbing::Forget => would(format!("would forget {id}, which is in its original state")),
        };
    };
    let found = entity.state(host, &images)?;
    let step = plan::step(entity.shared.provider, definition, found.plan_input(), false);
    // The group may be about to be renamed.
    if let (false, Some(warning)) = (mode.pending, found.plan_input().kept_groups(definition, &step)) {
        output.warning(warning);
    }
    match step {
        Step::Refuse(to) => Ok(Verdict::NeedsForce(to)),
        Step::Keep(_) => Ok(Verdict::InDesiredState),
        Step::Run(command, wanted) => {
            let states = (found.actual.as_ref(), &wanted);
            // What is missing may be brought by an entity that precedes this one.
            if let (false, Some(reason)) = (mode.pending, entity.hindrance(host, &images, &command, states)?) {
                return Err(format!("{command} would fail: {reason}").into());
            }
            let renames = match &found.predecessor {
                Some(predecessor) => entity.own_group_renamed(host, &images, predecessor, &found.base)?,
                None => None,
            };
            let home = entity.another_home(host, found.actual.as_ref(), &wanted);
            if let Some(home) = home.as_ref().filter(|home| process::find(home.program).is_none()) {
                return Err(format!("{home} would fail: {} is not installed", home.program).into());
            }
            let commands = [command].into_iter().chain(renames).chain(home);
            Ok(Verdict::WouldChange(commands.map(|command| format!("would run {command}")).collect()))
        }
    }
}

/// Writes both files. The file of an account that does not exist is missing.
pub(crate) fn diff(entity: &AccountEntity, host: &Host) -> Result<FilePair, AccountError> {
    let folder = host.cache_dir().join(entity.id.to_string());
    fs::create_dir_all(&folder).map_err(|error| PathError::new("mkdir", &folder, error))?;
    let images = Images::open(host)?;
    let Current { actual, provisioned, .. } = entity.current(host, &images)?;
    let bare = || Account::bare(entity.id.clone());
    let mut desired = entity.definition.as_ref().map_or_else(bare, |definition| definition.account.clone());
    if let Some(known) = provisioned.as_ref().or(actual.as_ref()) {
        desired.unite_with(known);
    }
    // Like version 3, a definition with its keys alone is compared without the base.
    if let Some(definition) = entity.definition.as_ref().filter(|own| own.membership != Membership::Version3)
        && let Some(groups) = plan::groups(definition, &entity.state(host, &images)?.plan_input())
    {
        desired.groups = groups;
    }
    desired.sort_groups();
    let pair = FilePair::new(folder.join("desired.toml"), folder.join("actual.toml"));
    for (path, account) in [(&pair.from, Some(&desired)), (&pair.to, actual.as_ref())] {
        // The file may be left from an earlier diff of this run.
        let written = match account {
            Some(account) => fs::write(path, to_text(account)),
            None if path.exists() => fs::remove_file(path),
            None => Ok(()),
        };
        written.map_err(|error| PathError::new("write", path, error))?;
    }
    Ok(pair)
}

/// Migrates the state file, if it exists. After an error, which is printed, the file stays for the next run.
///
/// A read-only run keeps the file as well, and [`Images`] behave as if it had been migrated.
pub(crate) fn migrate(host: &Host, output: &mut Output<'_>) {
    let Some(ids) = images::read_old_names(host).transpose() else { return };
    let path = images::path(host);
    let shown = path.display();
    if host.only_reads() {
        match ids {
            Ok(_) => output.warning(format!("{shown} is migrated by the next apply")),
            Err(error) => output.error(error.to_string()),
        }
        return;
    }
    output.warning(format!("Migrating {shown}..."));
    output.error("This might require manual intervention! Please find instructions at:");
    output.error("  <https://github.com/holocm/holo-users-groups/wiki/Migrating-to-v2.0>");
    if let Err(error) = ids.and_then(|ids| Ok(write_bases(host, ids, output)?)) {
        output.error(error.to_string());
        return;
    }
    output.warning(format!("All entities migrated. Removing {shown}..."));
    if let Err(error) = fs::remove_file(&path) {
        output.error(PathError::new("remove", path, error).to_string());
    }
}

fn write_bases(host: &Host, ids: Vec<AccountId>, output: &mut Output<'_>) -> holo_change::error::Result<()> {
    let images = Images::open(host)?;
    let _held = images.hold()?;
    let known = images.all(Moment::Base)?;
    for id in ids {
        if known.contains(&id) {
            output.warning(format!("Skipping {id} (found existing base image)"));
        } else {
            output.warning(format!("Writing empty base image for {id}"));
            images.save(Moment::Base, &Account::bare(id))?;
        }
    }
    Ok(())
}

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
