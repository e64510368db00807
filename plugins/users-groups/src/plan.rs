//! What has to be done with an account, found out from what is known of it.

use crate::account::Account;
use crate::command::Command;
use crate::definition::Definition;
use holo_plugin::ForceTo;

/// What has to be done with an account that is defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing without force.
    Refuse(ForceTo),
    /// Nothing: it is like this already.
    Keep(Account),
    /// This command makes it like this.
    Run(Command, Account),
}

/// What has to be done with an account that nothing defines any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scrubbing {
    /// Nothing: it is gone, or as it was before us.
    Forget,
    /// This command makes it as it was before us, if it was at all.
    Run(Command, Option<Account>),
    /// It is not to be touched, for this reason.
    Refuse(&'static str),
}

/// All that is known of an account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// As it was before us.
    pub(crate) base: &'a Account,
    /// As it is.
    pub(crate) actual: Option<&'a Account>,
    /// As we left it last.
    pub(crate) provisioned: Option<&'a Account>,
    /// Whether there is a group of the same name.
    pub(crate) has_namesake: bool,
}

/// What applying a definition does.
pub(crate) fn step(definition: &Definition, known: Known<'_>, force: bool) -> Step {
    let Known { base, actual, provisioned, has_namesake } = known;
    match (actual, provisioned) {
        _ if force => {}
        (None, Some(_)) => return Step::Refuse(ForceTo::Restore),
        (Some(actual), provisioned) if is_changed(actual, provisioned, definition) => {
            return Step::Refuse(ForceTo::Overwrite);
        }
        _ => {}
    }
    let mut wanted = definition.account.clone();
    if definition.skip_base_groups {
        wanted.fill_single_from(base);
    } else {
        wanted.unite_with(base);
    }
    for known in [actual, provisioned].into_iter().flatten() {
        wanted.fill_from(known);
    }
    wanted.sort_groups();
    // The group that useradd makes for a user alone has gone with the user, and comes back with it.
    if actual.is_none()
        && definition.account.group.is_none()
        && wanted.group.as_ref() == Some(&wanted.id.name)
        && !has_namesake
    {
        wanted.group = None;
    }
    let command = match actual {
        None => Some(Command::create(&wanted, definition.system)),
        Some(actual) => Command::modify(actual, &wanted),
    };
    match command {
        None => Step::Keep(wanted),
        Some(command) => Step::Run(command, wanted),
    }
}

/// Whether a person has changed it: to what neither we have left nor the definition wants.
fn is_changed(actual: &Account, provisioned: Option<&Account>, definition: &Definition) -> bool {
    let (actual, defined) = (actual.essentials(), definition.account.essentials());
    let left = provisioned.map_or_else(|| defined.clone(), Account::essentials);
    let differs = |actual: &String, other: &Option<String>| other.as_ref().is_some_and(|other| other != actual);
    actual.iter().zip(&left).zip(&defined).any(|(((_, actual), (_, left)), (_, defined))| {
        let Some(actual) = actual else { return false };
        differs(actual, if left.is_some() { left } else { defined }) && defined.as_ref() != Some(actual)
    })
}

/// What scrubbing does.
pub(crate) fn scrubbing(base: &Account, actual: Option<&Account>) -> Scrubbing {
    let Some(actual) = actual else { return Scrubbing::Forget };
    if !base.is_bare() {
        let command = Command::modify(actual, base);
        return command.map_or(Scrubbing::Forget, |command| Scrubbing::Run(command, Some(base.clone())));
    }
    // Version 3 could not tell the base of a number 0 from that of what did not exist.
    if actual.number == Some(0) {
        return Scrubbing::Refuse("number 0 belongs to the superuser");
    }
    Scrubbing::Run(Command::delete(&actual.id), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::AccountId;

    fn account(number: u32, shell: &str, groups: &[&str]) -> Account {
        Account {
            number: (number > 0).then_some(number),
            shell: (!shell.is_empty()).then(|| shell.to_owned()),
            groups: groups.iter().map(ToString::to_string).collect(),
            ..Account::bare(AccountId::parse("user:x").unwrap())
        }
    }

    fn definition(number: u32, shell: &str, groups: &[&str]) -> Definition {
        Definition { account: account(number, shell, groups), system: false, skip_base_groups: false }
    }

    /// What is done, as a line.
    fn line(
        definition: &Definition,
        base: &Account,
        actual: Option<&Account>,
        provisioned: Option<&Account>,
    ) -> String {
        match step(definition, Known { base, actual, provisioned, has_namesake: false }, false) {
            Step::Refuse(to) => format!("{to:?}"),
            Step::Keep(_) => "keep".to_owned(),
            Step::Run(command, _) => command.to_string(),
        }
    }

    #[test]
    fn what_a_person_did_needs_force() {
        let (bare, us) = (account(0, "", &[]), account(7, "/bin/us", &[]));
        let by_hand = account(7, "/bin/person", &[]);
        let wants_us = definition(7, "/bin/us", &[]);
        assert_eq!(line(&wants_us, &bare, Some(&by_hand), Some(&us)), "Overwrite");
        assert_eq!(line(&wants_us, &bare, None, Some(&us)), "Restore");
        assert_eq!(line(&wants_us, &by_hand, Some(&by_hand), None), "Overwrite");
        // Even if the definition does not care: it is not as we left it.
        assert_eq!(line(&definition(7, "", &[]), &us, Some(&by_hand), Some(&us)), "Overwrite");
        let known = Known { base: &bare, actual: Some(&by_hand), provisioned: Some(&us), has_namesake: false };
        let forced = step(&wants_us, known, true);
        assert!(matches!(forced, Step::Run(command, _) if command.to_string() == "usermod --shell /bin/us x"));
    }

    #[test]
    fn what_only_we_did_needs_none() {
        let (bare, us) = (account(0, "", &[]), account(7, "/bin/us", &[]));
        assert_eq!(line(&definition(7, "/bin/new", &[]), &bare, Some(&us), Some(&us)), "usermod --shell /bin/new x");
        // A person was faster.
        let new = account(7, "/bin/new", &[]);
        assert_eq!(line(&definition(7, "/bin/new", &[]), &bare, Some(&new), Some(&us)), "keep");
        // Killed before it was recorded what was made.
        assert_eq!(line(&definition(7, "/bin/us", &[]), &bare, Some(&us), None), "keep");
        assert_eq!(line(&definition(7, "/bin/us", &[]), &bare, None, None), "useradd --uid 7 --shell /bin/us x");
    }

    #[test]
    fn what_is_not_defined_comes_from_the_base_then_from_what_is() {
        let base = account(7, "/bin/base", &["b"]);
        let ours = account(7, "/bin/us", &["a", "b"]);
        // The definition has lost its shell.
        assert_eq!(line(&definition(0, "", &["a"]), &base, Some(&ours), Some(&ours)), "usermod --shell /bin/base x");
        let bare = account(0, "", &[]);
        assert_eq!(line(&definition(0, "", &["a", "b"]), &bare, Some(&ours), Some(&ours)), "keep");
    }

    #[test]
    fn groups_of_the_base_stay_unless_they_are_skipped() {
        let base = account(7, "/bin/sh", &["b"]);
        let mut wants = definition(0, "", &["a"]);
        assert_eq!(line(&wants, &base, Some(&base), None), "usermod --groups a,b x");
        wants.skip_base_groups = true;
        assert_eq!(line(&wants, &base, Some(&base), None), "usermod --groups a x");
    }

    #[test]
    fn a_group_of_its_own_comes_back_with_the_user() {
        let base = account(0, "", &[]);
        let provisioned = Account { group: Some("x".into()), ..account(7, "", &[]) };
        let command = |definition: &Definition, has_namesake| {
            let known = Known { base: &base, actual: None, provisioned: Some(&provisioned), has_namesake };
            let Step::Run(command, _) = step(definition, known, true) else { panic!("nothing to run") };
            command.to_string()
        };
        assert_eq!(command(&definition(0, "", &[]), false), "useradd --uid 7 x");
        assert_eq!(command(&definition(0, "", &[]), true), "useradd --uid 7 --gid x x");
        let mut wanted = definition(0, "", &[]);
        wanted.account.group = Some("x".into());
        assert_eq!(command(&wanted, false), "useradd --uid 7 --gid x x");
    }

    #[test]
    fn scrubbing_restores_the_base() {
        let (bare, base, ours) = (account(0, "", &[]), account(7, "/bin/base", &[]), account(8, "/bin/us", &["a"]));
        let line = |base: &Account, actual: Option<&Account>| match scrubbing(base, actual) {
            Scrubbing::Forget => "forget".to_owned(),
            Scrubbing::Run(command, _) => command.to_string(),
            Scrubbing::Refuse(reason) => reason.to_owned(),
        };
        assert_eq!(line(&base, Some(&ours)), "usermod --uid 7 --groups '' --shell /bin/base x");
        assert_eq!(line(&base, Some(&base)), "forget");
        assert_eq!(line(&base, None), "forget");
        assert_eq!(line(&bare, Some(&ours)), "userdel x");
        assert_eq!(line(&bare, None), "forget");
        let superuser = Account { number: Some(0), ..ours };
        assert_eq!(line(&bare, Some(&superuser)), "number 0 belongs to the superuser");
    }
}
