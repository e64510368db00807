//! Applying: the system's tools are run, and what has come of it is recorded.

use crate::account::Account;
use crate::command::Command;
use crate::definition::Definition;
use crate::entity::AccountEntity;
use crate::images::{Images, Moment};
use crate::order;
use crate::plan::{self, Known, Scrubbing, Step};
use crate::run::Failure;
use holo_plugin::error::PathError;
use holo_plugin::{Applied, Host, Output};

/// The number that the system would have chosen, where nothing is really made.
const NUMBER_IN_TEST_MODE: u32 = 999;

/// Under version 3 trouble with one account is no trouble of the plugin: all there is to say has been said.
const FAILED: Applied = Applied::Failed { version_3_status: 0 };

/// Why an account is not as it should be, in words.
#[derive(Debug)]
pub(crate) struct NotApplied(pub(crate) String);

impl From<String> for NotApplied {
    fn from(reason: String) -> Self {
        NotApplied(reason)
    }
}

impl From<PathError> for NotApplied {
    fn from(error: PathError) -> Self {
        NotApplied(error.to_string())
    }
}

/// Brings an account into its desired state.
///
/// The base is on the disk before anything is changed, and what was made is recorded after it. Whoever is killed in between has changed
/// nothing but to what is defined, which the next apply finds, takes for its own, and records.
pub(crate) fn apply(entity: &AccountEntity, host: &Host, force: bool, output: &mut Output<'_>) -> Applied {
    let applied = Images::open(host).map_err(NotApplied::from).and_then(|images| {
        let _held = images.hold()?;
        let mut work = Work { entity, host, images: &images, output };
        match &entity.definition {
            Some(definition) => work.provision(definition, force),
            None => work.scrub(),
        }
    });
    applied.unwrap_or_else(|NotApplied(reason)| {
        output.error(reason);
        FAILED
    })
}

/// One account at work.
struct Work<'a, 'b> {
    entity: &'a AccountEntity,
    host: &'a Host,
    images: &'a Images,
    output: &'a mut Output<'b>,
}

impl Work<'_, '_> {
    fn actual(&self) -> Result<Option<Account>, PathError> {
        self.entity.actual(self.host)
    }

    fn provision(&mut self, definition: &Definition, force: bool) -> Result<Applied, NotApplied> {
        let id = &self.entity.id;
        let actual = self.actual()?;
        let known_base = self.images.load(Moment::Base, id)?;
        let provisioned = self.images.load(Moment::Provisioned, id)?;
        let is_first = known_base.is_none();
        let base = known_base.or_else(|| actual.clone()).unwrap_or_else(|| Account::bare(id.clone()));
        if is_first {
            self.images.save(Moment::Base, &base)?;
        }
        order::remember(self.host, id, &self.entity.after)?;
        let known = Known {
            base: &base,
            actual: actual.as_ref(),
            provisioned: provisioned.as_ref(),
            has_namesake: self.entity.namesake(self.host)?.is_some(),
        };
        match plan::step(definition, known, force) {
            Step::Refuse(to) => Ok(Applied::NeedsForce(to)),
            Step::Keep(wanted) => {
                self.images.save(Moment::Provisioned, &wanted)?;
                Ok(Applied::Unchanged)
            }
            Step::Run(command, wanted) => {
                let ran = self.run(&command);
                if let Err(reason) = ran {
                    // Who makes it now is somebody else, and then it is theirs.
                    if is_first && base.is_bare() && self.actual()?.is_none() {
                        self.images.remove(Moment::Base, id)?;
                        order::forget(self.host, id)?;
                    }
                    return Err(reason);
                }
                let made = if self.host.test_mode() { imagined(wanted) } else { self.made(&wanted)? };
                self.images.save(Moment::Provisioned, &made)?;
                Ok(Applied::Changed(Vec::new()))
            }
        }
    }

    fn scrub(&mut self) -> Result<Applied, NotApplied> {
        let id = &self.entity.id;
        let actual = self.actual()?;
        let Some(base) = self.images.load(Moment::Base, id)? else {
            return Err(format!("cannot scrub {id}: it is not known how it was before").into());
        };
        match plan::scrubbing(&base, actual.as_ref()) {
            Scrubbing::Forget => {}
            Scrubbing::Refuse(reason) => return Err(format!("will not delete {id}: {reason}").into()),
            Scrubbing::Run(command, wanted) => {
                let namesake = self.entity.namesake(self.host)?;
                self.run(&command)?;
                self.keep_group(namesake)?;
                match wanted {
                    _ if self.host.test_mode() => {}
                    Some(wanted) => drop(self.made(&wanted)?),
                    None if self.actual()?.is_some() => {
                        return Err(format!("{id} is still there after {command}").into());
                    }
                    None => {}
                }
            }
        }
        order::forget(self.host, id)?;
        // In this order: as long as there is a base, the next apply finds the orphan.
        self.images.remove(Moment::Provisioned, id)?;
        self.images.remove(Moment::Base, id)?;
        Ok(Applied::Changed(Vec::new()))
    }

    /// Makes the group of a deleted user's name again, if userdel has taken it away too: what becomes of a group that was managed is not the
    /// user's matter.
    fn keep_group(&mut self, namesake: Option<Account>) -> Result<(), NotApplied> {
        let Some(group) = namesake.filter(|group| group.id != self.entity.id) else { return Ok(()) };
        let is_managed = self.images.load(Moment::Base, &group.id)?.is_some();
        if !self.host.test_mode() && is_managed && self.entity.namesake(self.host)?.is_none() {
            self.run(&Command::create(&group, false))?;
        }
        Ok(())
    }

    fn run(&mut self, command: &Command) -> Result<(), NotApplied> {
        if self.host.test_mode() {
            self.output.print(format!("MOCK: {command}\n"));
            return Ok(());
        }
        let ran = self.entity.shared.patience.run(command, self.entity.timeout, self.output);
        self.entity.shared.accounts.forget();
        ran.map_err(|Failure(reason)| format!("{command} failed: {reason}").into())
    }

    /// What a command has made, which has to be what was wanted.
    fn made(&self, wanted: &Account) -> Result<Account, NotApplied> {
        let id = &self.entity.id;
        let Some(made) = self.actual()? else { return Err(format!("{id} does not exist after all").into()) };
        let differences = wanted.differences(&made);
        if differences.is_empty() {
            Ok(made)
        } else {
            Err(format!("{id} is not as it should be: {}", differences.join(", ")).into())
        }
    }
}

/// What a command would have made.
fn imagined(mut wanted: Account) -> Account {
    wanted.number.get_or_insert(NUMBER_IN_TEST_MODE);
    wanted
}
