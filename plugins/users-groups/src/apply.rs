//! Apply: runs the system's tools, and records and describes the changes.

use crate::account::{Account, AccountError, AccountId, Kind};
use crate::definition::{Definition, Membership};
use crate::entity::{AccountEntity, preview};
use crate::histories;
use crate::images::{Images, Moment, to_text};
use crate::plan::{self, Scrubbing, Step};
use crate::providers::{Command, CommandError, Creation};
use crate::state::AccountState;
use holo_plugin::{Applied, Host, Output};
use std::collections::BTreeSet;

/// The number of a new account in test mode, in place of the one that the system would choose.
const NUMBER_IN_TEST_MODE: u32 = 999;

/// Brings an account into its desired state.
///
/// The base and the intended account are on disk before anything is changed, and the result is recorded afterwards. If the process is
/// killed in between, the next apply finds the intended account and records it. An account that takes over from another one gets its base
/// first, and the base of the other account is removed last: as long as that exists, the next apply resumes the takeover.
pub(crate) fn apply(entity: &AccountEntity, host: &Host, force: bool, output: &mut Output<'_>) -> Applied {
    let mut has_changed = false;
    let applied = Images::open(host).map_err(AccountError::from).and_then(|images| {
        let _held = images.hold()?;
        let mut work = Work { entity, host, images: &images, output, has_changed: &mut has_changed };
        match &entity.definition {
            Some(definition) => work.provision(definition, force),
            None => work.scrub(),
        }
    });
    applied.unwrap_or_else(|AccountError(reason)| {
        output.error(reason);
        // In version 3, the error of an account does not fail the plugin. All errors have been printed.
        Applied::Failed { version_3_status: 0, nothing_changed: !has_changed }
    })
}

/// Removes the records of an orphan, and prints its original state.
pub(crate) fn forget(entity: &AccountEntity, host: &Host, output: &mut Output<'_>) -> Result<(), AccountError> {
    let images = Images::open(host)?;
    let _held = images.hold()?;
    match images.load(Moment::Base, &entity.id)? {
        Some(base) if base.is_bare() => output.print(format!(">> {} did not exist\n", entity.id)),
        Some(base) => output.print(format!(">> the original state of {}:\n{}", entity.id, to_text(&base))),
        None => {}
    }
    let mut has_changed = false;
    Work { entity, host, images: &images, output, has_changed: &mut has_changed }.forget(&entity.id)
}

/// The apply of one account.
struct Work<'a, 'b> {
    entity: &'a AccountEntity,
    host: &'a Host,
    images: &'a Images,
    output: &'a mut Output<'b>,
    /// True if a command has changed anything.
    has_changed: &'a mut bool,
}

impl Work<'_, '_> {
    fn actual(&self) -> Result<Option<Account>, AccountError> {
        self.entity.actual(self.host)
    }

    fn provision(&mut self, definition: &Definition, force: bool) -> Result<Applied, AccountError> {
        let id = &self.entity.id;
        self.forget_leftovers()?;
        let found = self.entity.state(self.host, self.images)?;
        if self.entity.history.is_interrupted {
            if let Some(made) = &found.provisioned {
                self.images.record(made)?;
            }
            self.images.remove(Moment::Intended, id)?;
        }
        let step = plan::step(self.entity.shared.provider, definition, found.plan_input(), force);
        if let Some(warning) = found.plan_input().kept_groups(definition, &step) {
            self.output.warning(warning);
        }
        let added = found.plan_input().added_after(definition, &step);
        match (&found.predecessor, &step) {
            (Some(predecessor), Step::Run(command, wanted)) => {
                self.keep_change();
                return self.take_over(predecessor, &found, command, wanted, added);
            }
            // The base is still stored under the other name.
            (Some(_), Step::Refuse(to)) => return Ok(Applied::NeedsForce(to.clone())),
            _ => {}
        }
        if found.is_first {
            self.images.save(Moment::Base, &self.entity.base_to_keep(self.host, &found)?)?;
        }
        plan::remember(self.host, id, &self.entity.after, added)?;
        match step {
            Step::Refuse(to) => Ok(Applied::NeedsForce(to)),
            Step::Keep(wanted) => {
                self.images.save(Moment::Provisioned, &wanted)?;
                Ok(Applied::Unchanged)
            }
            Step::Run(command, wanted) => {
                self.keep_change();
                if let Err(reason) = self.run_intended(&command, &wanted) {
                    // If the account is created later, this is not our work, and its base must not say that it did not exist.
                    if found.is_first && found.base.is_bare() && self.actual()?.is_none() {
                        self.images.remove(Moment::Base, id)?;
                        plan::forget(self.host, id)?;
                    }
                    return Err(reason);
                }
                let home = self.entity.another_home(self.host, found.actual.as_ref(), &wanted);
                self.record(wanted)?;
                home.map_or(Ok(()), |command| self.run(&command))?;
                self.changed(found.actual.as_ref(), id)
            }
        }
    }

    /// Records the pending change in the history of the run.
    fn keep_change(&mut self) {
        self.host.keep_change(|| preview(self.entity, self.host).ok().flatten(), self.output);
    }

    /// Takes over another account: it is renamed, and its base becomes the base of this entity.
    fn take_over(
        &mut self,
        predecessor: &AccountId,
        found: &AccountState,
        command: &Command,
        wanted: &Account,
        added: Option<Vec<String>>,
    ) -> Result<Applied, AccountError> {
        let id = &self.entity.id;
        let Some(base) = self.images.load(Moment::Base, predecessor)? else {
            return Err(format!("cannot take over from {predecessor}: its base image is missing").into());
        };
        histories::remember(self.host, id, &self.entity.history.names)?;
        self.images.save(Moment::Base, &Account { id: id.clone(), ..base })?;
        plan::remember(self.host, id, &self.entity.after, added)?;
        self.output.warning(format!("{id} takes over from {predecessor}"));
        if let Err(reason) = self.run_intended(command, wanted) {
            if self.actual()?.is_none() {
                self.images.remove(Moment::Base, id)?;
                plan::forget(self.host, id)?;
                histories::forget(self.host, id)?;
            }
            return Err(reason);
        }
        let own_group = self.rename_own_group(predecessor, &found.base)?;
        let mut wanted = wanted.clone();
        if let Some(group) = own_group {
            wanted.group = Some(group);
        }
        self.record(wanted)?;
        self.group_was_renamed(&predecessor.name, &id.name)?;
        self.forget(predecessor)?;
        self.changed(found.actual.as_ref(), id)
    }

    /// Renames the user's own group along with the user. Returns its new name.
    fn rename_own_group(&mut self, predecessor: &AccountId, base: &Account) -> Result<Option<String>, AccountError> {
        let Some(command) = self.entity.own_group_renamed(self.host, self.images, predecessor, base)? else {
            return Ok(None);
        };
        let name = &self.entity.id.name;
        self.run(&command)?;
        rename_in_images(self.host, self.images, &predecessor.name, name)?;
        Ok(Some(name.clone()))
    }

    /// If the entity is a group, replaces its old name in the images of users.
    fn group_was_renamed(&self, from: &str, to: &str) -> Result<(), AccountError> {
        match self.entity.id.kind {
            Kind::Group => rename_in_images(self.host, self.images, from, to),
            Kind::User => Ok(()),
        }
    }

    /// Removes images that a killed apply left of accounts which were renamed to this one.
    fn forget_leftovers(&mut self) -> Result<(), AccountError> {
        for former in &self.entity.history.leftovers {
            if let Some(base) = self.images.load(Moment::Base, former)? {
                self.rename_own_group(former, &base)?;
            }
            self.group_was_renamed(&former.name, &self.entity.id.name)?;
            self.forget(former)?;
        }
        Ok(())
    }

    fn scrub(&mut self) -> Result<Applied, AccountError> {
        let id = &self.entity.id;
        self.forget_leftovers()?;
        let actual = self.actual()?;
        let Some(base) = self.entity.base_of_orphan(self.host, self.images)? else {
            return Err(format!("cannot scrub {id}: its base image is missing").into());
        };
        if let Some(other) = &self.entity.history.waits_for
            && actual.is_some()
            && !base.is_bare()
            && self.entity.shared.accounts.find(self.host, other)?.is_some()
        {
            return Err(format!("{id} gets its name back when {other} is gone").into());
        }
        self.miss_login_group(&base)?;
        match plan::scrubbing(self.entity.shared.provider, &base, actual.as_ref()) {
            Scrubbing::Forget => {}
            Scrubbing::Refuse(reason) => return Err(format!("will not delete {id}: {reason}").into()),
            Scrubbing::Run(command, wanted) => {
                self.keep_change();
                let namesake = self.entity.namesake(self.host)?;
                self.run(&command)?;
                self.keep_group(namesake)?;
                match wanted {
                    _ if self.host.test_mode() => {}
                    Some(wanted) => drop(self.verify(&wanted)?),
                    None if self.actual()?.is_some() => {
                        return Err(format!("{id} still exists after {command}").into());
                    }
                    None => {}
                }
            }
        }
        if let Some(name) = &self.entity.history.returns_to
            && (self.host.test_mode() || self.actual()?.is_none())
        {
            self.group_was_renamed(&id.name, name)?;
        }
        self.forget(id)?;
        match self.changed(actual.as_ref(), &base.id)? {
            Applied::ChangedQuietly(changes) if changes.is_empty() && !self.host.test_mode() => {
                let state = if actual.is_some() { "as it was before" } else { "gone" };
                Ok(Applied::ChangedQuietly(vec![format!("forgot {id}, which is {state}")]))
            }
            changed => Ok(changed),
        }
    }

    /// Warns if the original login group of a user cannot be restored, because it had no name and no group has its GID.
    fn miss_login_group(&mut self, base: &Account) -> Result<(), AccountError> {
        let id = &self.entity.id;
        let kept = self.images.load(Moment::Base, id)?.and_then(|kept| kept.group);
        let actual = self.entity.shared.accounts.login_group(self.host, &id.name)?;
        if let (None, Some(number), Some(actual)) = (&base.group, kept, actual)
            && number != actual.to_string()
        {
            self.output.warning(format!("{id} keeps its login group: no group exists any more with the GID {number}"));
        }
        Ok(())
    }

    /// Returns the changes of an account, whose ID is `id` now. In test mode there are none.
    fn changed(&self, before: Option<&Account>, id: &AccountId) -> Result<Applied, AccountError> {
        if self.host.test_mode() {
            return Ok(Applied::ChangedQuietly(Vec::new()));
        }
        let now = self.entity.shared.accounts.find(self.host, id)?;
        Ok(Applied::ChangedQuietly(changes(before, now.as_ref())))
    }

    /// Removes everything that is stored about an account.
    fn forget(&self, id: &AccountId) -> Result<(), AccountError> {
        plan::forget(self.host, id)?;
        histories::forget(self.host, id)?;
        self.images.remove(Moment::Intended, id)?;
        // The base is removed last: as long as it exists, the next apply finds the orphan.
        self.images.remove(Moment::Provisioned, id)?;
        self.images.remove(Moment::Base, id)?;
        Ok(())
    }

    /// Creates the group of a deleted user's name again if userdel has deleted it although the group is managed by itself.
    fn keep_group(&mut self, namesake: Option<Account>) -> Result<(), AccountError> {
        let Some(group) = namesake.filter(|group| group.id != self.entity.id) else { return Ok(()) };
        let is_managed = self.images.load(Moment::Base, &group.id)?.is_some();
        if !self.host.test_mode() && is_managed && self.entity.namesake(self.host)?.is_none() {
            self.run(&self.entity.shared.provider.create(&group, Creation::default()))?;
        }
        Ok(())
    }

    fn run(&mut self, command: &Command) -> Result<(), AccountError> {
        if self.host.test_mode() {
            self.output.print(format!("MOCK: {command}\n"));
            return Ok(());
        }
        let before = self.actual()?;
        let ran =
            self.entity.shared.patience.run(self.entity.shared.provider, command, self.entity.timeout, self.output);
        self.entity.shared.accounts.forget();
        // A command that fails has usually changed nothing.
        *self.has_changed |= ran.is_ok() || self.actual()? != before;
        ran.map_err(|CommandError(reason)| format!("{command} failed: {reason}").into())
    }

    /// Runs a command that makes the account as wanted. The intention is stored until the result is recorded.
    fn run_intended(&mut self, command: &Command, wanted: &Account) -> Result<(), AccountError> {
        if self.host.test_mode() {
            return self.run(command);
        }
        self.images.save(Moment::Intended, wanted)?;
        let ran = self.run(command).and_then(|()| self.verify(wanted).map(drop));
        if ran.is_err() {
            self.images.remove(Moment::Intended, &wanted.id)?;
        }
        ran
    }

    /// Records the result of a command.
    fn record(&self, wanted: Account) -> Result<(), AccountError> {
        if self.host.test_mode() {
            self.images.save(Moment::Provisioned, &imagined(wanted))?;
        } else {
            self.images.record(&self.verify(&wanted)?)?;
        }
        Ok(())
    }

    /// Returns the account after a command.
    ///
    /// # Errors If it does not exist or is not as wanted.
    fn verify(&self, wanted: &Account) -> Result<Account, AccountError> {
        let id = &wanted.id;
        let found = self.entity.shared.accounts.find(self.host, id)?;
        let Some(made) = found else { return Err(format!("{id} does not exist after the command").into()) };
        let mut differences = wanted.differences(&made);
        let has_rule = self.entity.definition.as_ref().is_some_and(|own| own.membership != Membership::Version3);
        if has_rule && wanted.groups.is_empty() && !made.groups.is_empty() {
            differences.push(format!("groups are {} instead of none", made.groups.join(",")));
        }
        if differences.is_empty() {
            Ok(made)
        } else {
            Err(format!("{id} is not in its desired state: {}", differences.join(", ")).into())
        }
    }
}

/// Replaces the name of a group in all images of users.
fn rename_in_images(host: &Host, images: &Images, from: &str, to: &str) -> Result<(), AccountError> {
    for moment in [Moment::Base, Moment::Provisioned] {
        for id in images.all(moment)?.into_iter().filter(|id| id.kind == Kind::User) {
            // An unusable image is reported when it is needed.
            let Ok(Some(mut account)) = images.load(moment, &id) else { continue };
            let names = account.group.iter_mut().chain(&mut account.groups).filter(|name| *name == from);
            if names.map(|name| to.clone_into(name)).count() > 0 {
                account.sort_groups();
                images.save(moment, &account)?;
            }
            plan::rename_added_group(host, &id, from, to)?;
        }
    }
    Ok(())
}

/// Returns the account that a command would have created.
fn imagined(mut wanted: Account) -> Account {
    wanted.number.get_or_insert(NUMBER_IN_TEST_MODE);
    wanted
}

/// Returns the changes of an account as message fragments in the past tense. Empty if there are none.
pub(crate) fn changes(before: Option<&Account>, now: Option<&Account>) -> Vec<String> {
    match (before, now) {
        (None, None) => Vec::new(),
        (None, Some(now)) => {
            let number = now.number.map(|number| format!(" with {} {number}", now.id.kind.number_word()));
            vec![format!("created {}{}", shown(now), number.unwrap_or_default())]
        }
        (Some(before), None) => vec![format!("deleted {}", shown(before))],
        (Some(before), Some(now)) => differences(before, now),
    }
}

fn differences(before: &Account, now: &Account) -> Vec<String> {
    let mut changes = Vec::new();
    if before.id != now.id {
        changes.push(format!("renamed {} to {}", shown(before), now.id.name));
    }
    let whose = shown(now);
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
    let comments = ("comment", before.comment.clone(), now.comment.clone());
    let essentials = before.essentials().into_iter().zip(now.essentials());
    let essentials = essentials.map(|((what, before), (_, now))| (what, before, now));
    for (what, before, now) in essentials.chain([comments]).filter(|(_, before, now)| before != now) {
        changes.push(format!("changed the {what} of {whose} from {} to {}", value(&before), value(&now)));
    }
    let (old, new): (BTreeSet<&String>, BTreeSet<&String>) =
        (before.groups.iter().collect(), now.groups.iter().collect());
    changes.extend(new.difference(&old).map(|group| format!("added {whose} to group {group}")));
    changes.extend(old.difference(&new).map(|group| format!("removed {whose} from group {group}")));
    changes
}

fn shown(account: &Account) -> String {
    let kind = match account.id.kind {
        Kind::Group => "group",
        Kind::User => "user",
    };
    format!("{kind} {}", account.id.name)
}

#[cfg(test)]
mod changes_tests {
    use super::*;
    use crate::account::AccountId;

    #[test]
    fn changes_list_every_difference() {
        let bare = |id: &str| Account::bare(AccountId::parse(id).unwrap());
        let anne = Account {
            number: Some(7),
            home: Some("/a".into()),
            groups: vec!["audio".into(), "crew".into()],
            ..bare("user:anne")
        };
        let bert = Account {
            number: Some(8),
            comment: Some("B".into()),
            home: None,
            groups: vec!["crew".into(), "video".into()],
            ..bare("user:bert")
        };
        assert_eq!(changes(None, Some(&anne)), ["created user anne with UID 7"]);
        assert_eq!(changes(Some(&bare("group:g")), None), ["deleted group g"]);
        assert!(changes(Some(&anne), Some(&anne)).is_empty() && changes(None, None).is_empty());
        assert_eq!(
            changes(Some(&anne), Some(&bert)),
            [
                "renamed user anne to bert",
                "changed the UID of user bert from 7 to 8",
                "changed the home directory of user bert from /a to none",
                "changed the comment of user bert from none to B",
                "added user bert to group video",
                "removed user bert from group audio",
            ]
        );
    }
}
