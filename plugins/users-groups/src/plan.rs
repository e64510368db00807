//! The next step for an account, decided from what is known of it.

use crate::account::Account;
use crate::command::Command;
use crate::definition::Definition;
use crate::provider::{AccountProvider, Creation};
use holo_plugin::ForceTo;

/// The next step for an account that is defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing without force.
    Refuse(ForceTo),
    /// Nothing: it is like this already.
    Keep(Account),
    /// This command makes it like this.
    Run(Command, Account),
}

/// The next step for an account that nothing defines any more.
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
    /// True if there is a group of the same name.
    pub(crate) has_namesake: bool,
}

/// Returns the step of applying a definition.
pub(crate) fn step(provider: &dyn AccountProvider, definition: &Definition, known: Known<'_>, force: bool) -> Step {
    let Known { base, actual, provisioned, has_namesake } = known;
    match (actual, provisioned) {
        _ if force => {}
        (None, Some(_)) => return Step::Refuse(ForceTo::Restore),
        (Some(actual), provisioned) if needs_force(&definition.account, actual, provisioned) => {
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
        None => Some(provider.create(&wanted, Creation::new(definition))),
        Some(actual) => provider.modify(actual, &wanted),
    };
    match command {
        None => Step::Keep(wanted),
        Some(command) => Step::Run(command, wanted),
    }
}

/// Returns whether applying the definition could overwrite a change of somebody else, by the rules of version 3.
///
/// An account that was provisioned is expected to be as the definition says, or as it was provisioned where the definition says nothing, so
/// a definition with a new value needs force too. Auxiliary groups conflict only if both sides have some; comments never conflict.
fn needs_force(definition: &Account, actual: &Account, provisioned: Option<&Account>) -> bool {
    let Some(provisioned) = provisioned else { return !definition.conflicts(actual).is_empty() };
    let mut expected = definition.clone();
    expected.fill_from(provisioned);
    expected.sort_groups();
    let groups_conflict = !expected.groups.is_empty() && !actual.groups.is_empty() && expected.groups != actual.groups;
    groups_conflict || !expected.conflicts(actual).is_empty()
}

/// Returns the step of scrubbing.
pub(crate) fn scrubbing(provider: &dyn AccountProvider, base: &Account, actual: Option<&Account>) -> Scrubbing {
    let Some(actual) = actual else { return Scrubbing::Forget };
    if !base.is_bare() {
        let command = provider.modify(actual, base);
        return command.map_or(Scrubbing::Forget, |command| Scrubbing::Run(command, Some(base.clone())));
    }
    // Version 3 could not tell the base of a number 0 from that of what did not exist.
    if actual.number == Some(0) {
        return Scrubbing::Refuse("number 0 belongs to the superuser");
    }
    Scrubbing::Run(provider.delete(&actual.id), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::AccountId;
    use crate::providers::Shadow;

    const TOOLS: &dyn AccountProvider = &Shadow;

    fn account(number: u32, shell: &str, groups: &[&str]) -> Account {
        Account {
            number: (number > 0).then_some(number),
            shell: (!shell.is_empty()).then(|| shell.to_owned()),
            groups: groups.iter().map(ToString::to_string).collect(),
            ..Account::bare(AccountId::parse("user:x").unwrap())
        }
    }

    fn definition(number: u32, shell: &str, groups: &[&str]) -> Definition {
        Definition {
            account: account(number, shell, groups),
            system: false,
            skip_base_groups: false,
            create_home: false,
        }
    }

    /// Returns a step as a line.
    fn line(
        definition: &Definition,
        base: &Account,
        actual: Option<&Account>,
        provisioned: Option<&Account>,
    ) -> String {
        match step(TOOLS, definition, Known { base, actual, provisioned, has_namesake: false }, false) {
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
        let forced = step(TOOLS, &wants_us, known, true);
        assert!(matches!(forced, Step::Run(command, _) if command.to_string() == "usermod --shell /bin/us x"));
    }

    #[test]
    fn a_definition_that_has_changed_needs_force_once_something_was_provisioned() {
        let (bare, us) = (account(0, "", &[]), account(7, "/bin/us", &["a"]));
        assert_eq!(line(&definition(7, "/bin/new", &[]), &bare, Some(&us), Some(&us)), "Overwrite");
        assert_eq!(line(&definition(8, "", &[]), &bare, Some(&us), Some(&us)), "Overwrite");
        assert_eq!(line(&definition(0, "", &["a", "b"]), &bare, Some(&us), Some(&us)), "Overwrite");
        // A person was faster.
        let new = account(7, "/bin/new", &["a"]);
        assert_eq!(line(&definition(7, "/bin/new", &[]), &bare, Some(&new), Some(&us)), "keep");
        // So does one that adds to the groups of the base, which it would have to name: version 3 compares what it says alone.
        let base = account(7, "", &["b"]);
        let both = account(7, "/bin/us", &["a", "b"]);
        assert_eq!(line(&definition(0, "", &["a"]), &base, Some(&both), Some(&both)), "Overwrite");
        // The order of groups means nothing.
        assert_eq!(line(&definition(0, "", &["b", "a"]), &bare, Some(&both), Some(&us)), "keep");
    }

    #[test]
    fn new_comments_and_first_groups_of_a_definition_need_no_force() {
        let (bare, us) = (account(0, "", &[]), Account { comment: Some("us".into()), ..account(7, "/bin/us", &[]) });
        let mut wants = definition(7, "", &["a"]);
        assert_eq!(line(&wants, &bare, Some(&us), Some(&us)), "usermod --groups a x");
        wants.account.comment = Some("new".into());
        assert_eq!(line(&wants, &bare, Some(&us), Some(&us)), "usermod --comment new --groups a x");
        let uncommented = Account { comment: None, ..us };
        assert_eq!(line(&wants, &bare, Some(&uncommented), Some(&uncommented)), "usermod --comment new --groups a x");
    }

    #[test]
    fn what_another_program_changed_needs_force_except_comments_and_emptied_attributes() {
        let (bare, us) = (account(0, "", &[]), Account { comment: Some("us".into()), ..account(7, "/bin/us", &["a"]) });
        let nothing = definition(0, "", &[]);
        assert_eq!(line(&nothing, &bare, Some(&us), Some(&us)), "keep");
        let uncommented = Account { comment: None, ..us.clone() };
        assert_eq!(line(&nothing, &bare, Some(&uncommented), Some(&us)), "usermod --comment us x");
        let commented = Account { comment: Some("person".into()), ..us.clone() };
        assert_eq!(line(&nothing, &bare, Some(&commented), Some(&us)), "keep");
        let without_shell = Account { shell: None, ..us.clone() };
        assert_eq!(line(&nothing, &bare, Some(&without_shell), Some(&us)), "usermod --shell /bin/us x");
        assert_eq!(line(&nothing, &bare, Some(&Account { number: Some(8), ..us.clone() }), Some(&us)), "Overwrite");
        let groups = |groups: &[&str]| Account { comment: us.comment.clone(), ..account(7, "/bin/us", groups) };
        assert_eq!(line(&nothing, &bare, Some(&groups(&["a", "b"])), Some(&us)), "Overwrite");
        assert_eq!(line(&nothing, &bare, Some(&groups(&["b"])), Some(&us)), "Overwrite");
        assert_eq!(line(&nothing, &bare, Some(&groups(&[])), Some(&us)), "usermod --groups a x");
        // An attribute that was never set belongs to nobody.
        let homeless = Account { home: Some("/h".into()), ..us.clone() };
        assert_eq!(line(&nothing, &bare, Some(&homeless), Some(&us)), "keep");
    }

    #[test]
    fn what_was_never_provisioned_must_not_be_contradicted() {
        let bare = account(0, "", &[]);
        // Killed before it was recorded what was made.
        assert_eq!(line(&definition(7, "/bin/us", &[]), &bare, Some(&account(7, "/bin/us", &[])), None), "keep");
        assert_eq!(line(&definition(7, "/bin/us", &[]), &bare, None, None), "useradd --uid 7 --shell /bin/us x");
        // A comment, groups, and what is not set contradict nothing.
        let plain = Account { comment: Some("c".into()), ..account(7, "", &["a"]) };
        let mut wanted = definition(7, "/bin/us", &["b"]);
        wanted.account.comment = Some("d".into());
        wanted.skip_base_groups = true;
        assert_eq!(line(&wanted, &plain, Some(&plain), None), "usermod --comment d --groups b --shell /bin/us x");
    }

    #[test]
    fn what_is_not_defined_comes_from_the_base_then_from_what_is() {
        let base = account(7, "/bin/base", &["b"]);
        let ours = account(7, "/bin/us", &["a", "b"]);
        // The definition has lost its shell.
        assert_eq!(
            line(&definition(0, "", &["a", "b"]), &base, Some(&ours), Some(&ours)),
            "usermod --shell /bin/base x"
        );
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
            let Step::Run(command, _) = step(TOOLS, definition, known, true) else { panic!("nothing to run") };
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
        let line = |base: &Account, actual: Option<&Account>| match scrubbing(TOOLS, base, actual) {
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
