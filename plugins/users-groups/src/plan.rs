//! Decides the next step for an account, and records which entities precede it, for its scrubbing.

use crate::account::{Account, AccountId};
use crate::definition::{Definition, Membership};
use crate::providers::{AccountProvider, Command, Creation};
use bstr::BString;
use holo_change::base_store::{BaseStore, Remembered};
use holo_change::error::Result;
use holo_plugin::{EntityReport, ForceTo, Host};

/// The next step for a defined account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// `--force` is required.
    Refuse(ForceTo),
    /// The account is in its desired state.
    Keep(Account),
    /// This command makes the account as wanted.
    Run(Command, Account),
}

/// The next step for an orphan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scrubbing {
    /// The account does not exist or equals its base, so only its state is removed.
    Forget,
    /// This command restores the base, or deletes the account if it has none.
    Run(Command, Option<Account>),
    /// The account must not be changed, for this reason.
    Refuse(&'static str),
}

/// The known states of an account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanInput<'a> {
    /// Before the first apply.
    pub(crate) base: &'a Account,
    /// Now.
    pub(crate) actual: Option<&'a Account>,
    /// After the last apply.
    pub(crate) provisioned: Option<&'a Account>,
    /// The supplementary groups that earlier applies have added, if that is known.
    pub(crate) added: Option<&'a [String]>,
    /// True if a group of the same name exists.
    pub(crate) has_namesake: bool,
}

impl PlanInput<'_> {
    /// Returns the supplementary groups that earlier applies have added.
    ///
    /// Version 3 does not record them. They are those that it has provisioned for a definition, but only if the definition still has
    /// them: without groups in the definition, it provisions those that a person has added.
    fn added<'a>(&'a self, definition: &'a Definition) -> Vec<&'a String> {
        let provisioned = self.provisioned.map_or(&[][..], |provisioned| &provisioned.groups);
        let is_ours = |group: &&String| !self.base.groups.contains(group) && provisioned.contains(group);
        match self.added {
            Some(added) => added.iter().collect(),
            None => definition.account.groups.iter().filter(is_ours).collect(),
        }
    }

    /// Returns the supplementary groups that applies have added after this step, if that is known.
    pub(crate) fn added_after(&self, definition: &Definition, step: &Step) -> Option<Vec<String>> {
        let (Step::Keep(wanted) | Step::Run(_, wanted)) = step else { return self.added.map(<[_]>::to_vec) };
        let actual = self.actual.map_or(&[][..], |actual| &actual.groups);
        let known = self.added(definition);
        let new = definition.account.groups.iter().filter(|group| !actual.contains(group));
        let mut added: Vec<String> =
            known.into_iter().chain(new).filter(|group| wanted.groups.contains(group)).cloned().collect();
        added.sort();
        added.dedup();
        Some(added)
    }

    /// Returns a warning if the rule of version 3 keeps supplementary groups that an apply has added and no definition has any more.
    pub(crate) fn kept_groups(&self, definition: &Definition, step: &Step) -> Option<String> {
        let (actual, Membership::Version3) = (self.actual?, definition.membership) else { return None };
        let own = &definition.account.groups;
        let after = if let Step::Keep(wanted) | Step::Run(_, wanted) = step { wanted } else { actual };
        let is_kept = |group: &&String| after.groups.contains(group) && !own.contains(group);
        let kept: Vec<&str> = self.added(definition).into_iter().filter(is_kept).map(String::as_str).collect();
        let text = || {
            let (id, kept) = (&actual.id, kept.join(","));
            format!(
                "{id} stays in {kept}, which is not defined any more (exact_groups = false removes what holo has added)"
            )
        };
        (!kept.is_empty()).then(text)
    }
}

/// Returns the step for a definition.
pub(crate) fn step(provider: &dyn AccountProvider, definition: &Definition, known: PlanInput<'_>, force: bool) -> Step {
    let PlanInput { base, actual, provisioned, has_namesake, .. } = known;
    match (actual, provisioned) {
        _ if force => {}
        (None, Some(_)) => return Step::Refuse(ForceTo::Restore),
        (Some(actual), provisioned) if needs_force(definition, actual, provisioned) => {
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
    for image in [actual, provisioned].into_iter().flatten() {
        wanted.fill_from(image);
    }
    if let Some(groups) = groups(definition, &known) {
        wanted.groups = groups;
    }
    wanted.sort_groups();
    // useradd creates the user's own group along with the user, as it did before both were deleted.
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

/// Returns the supplementary groups of the user, or `None` if the rule of version 3 holds.
pub(crate) fn groups(definition: &Definition, known: &PlanInput<'_>) -> Option<Vec<String>> {
    let own = &definition.account.groups;
    let left = match definition.membership {
        Membership::Version3 => return None,
        Membership::Exact => return Some(own.clone()),
        Membership::Ours => known.added(definition),
    };
    let current = known.actual.or(known.provisioned).unwrap_or(known.base);
    let skipped = |group: &String| definition.skip_base_groups && known.base.groups.contains(group);
    let stay = current.groups.iter().filter(|group| !left.contains(group) && !skipped(group));
    Some(own.iter().chain(stay).cloned().collect())
}

/// Returns true if the definition could overwrite a change made by another program, by the rules of version 3.
///
/// A provisioned account is expected to equal the definition, and the provisioned image where the definition sets no value. Therefore a
/// definition with a new value needs force too. Supplementary groups conflict only if both sides have some; comments never conflict.
/// By the rule of version 4, they conflict if a person has removed the user from some of the defined ones or, if they are exact, added it to
/// another one.
fn needs_force(definition: &Definition, actual: &Account, provisioned: Option<&Account>) -> bool {
    let Definition { account, membership, .. } = definition;
    let Some(provisioned) = provisioned else { return !account.conflicts(actual).is_empty() };
    let mut expected = account.clone();
    expected.fill_from(provisioned);
    expected.sort_groups();
    let is_left = |own: &String| provisioned.groups.contains(own) && !actual.groups.contains(own);
    let has_left = !actual.groups.is_empty() && account.groups.iter().any(is_left);
    let is_unknown = |group: &String| !provisioned.groups.contains(group) && !account.groups.contains(group);
    let groups_conflict = match membership {
        Membership::Version3 => {
            !expected.groups.is_empty() && !actual.groups.is_empty() && expected.groups != actual.groups
        }
        Membership::Ours => has_left,
        Membership::Exact => has_left || actual.groups.iter().any(is_unknown),
    };
    groups_conflict || !expected.conflicts(actual).is_empty()
}

/// Returns the step for an orphan.
pub(crate) fn scrubbing(provider: &dyn AccountProvider, base: &Account, actual: Option<&Account>) -> Scrubbing {
    let Some(actual) = actual else { return Scrubbing::Forget };
    if !base.is_bare() {
        let command = provider.modify(actual, base);
        return command.map_or(Scrubbing::Forget, |command| Scrubbing::Run(command, Some(base.clone())));
    }
    // Version 3 stored the same base for an account with number 0 and for one that did not exist.
    if actual.number == Some(0) {
        return Scrubbing::Refuse("number 0 belongs to the superuser");
    }
    Scrubbing::Run(provider.delete(&actual.id), None)
}

fn memory(host: &Host) -> BaseStore {
    BaseStore::open_kind(host.locations(), "order")
}

/// Stores the entities that precede the account, and the supplementary groups that applies have added.
pub(crate) fn remember(host: &Host, id: &AccountId, after: &[BString], added: Option<Vec<String>>) -> Result<()> {
    let (memory, known) = (memory(host), memory(host).recall(&id.to_string())?);
    let is_known = known.as_ref().is_some_and(|known: &Remembered<Option<Vec<String>>>| known.base.is_some());
    if after.is_empty() && !is_known && added.as_ref().is_none_or(Vec::is_empty) {
        return forget(host, id);
    }
    let mut report = EntityReport::new(id.to_string());
    report.edges.after = after.into();
    let remembered = Remembered::new(&report, added);
    if known.as_ref() == Some(&remembered) { Ok(()) } else { memory.keep(&remembered) }
}

/// Returns the stored entities that preceded the account.
pub(crate) fn recall(host: &Host, id: &AccountId) -> Result<Vec<BString>> {
    let remembered = memory(host).recall::<Option<Vec<String>>>(&id.to_string())?;
    Ok(remembered.map(|remembered| remembered.orphan_report().edges.after.into()).unwrap_or_default())
}

/// Returns the supplementary groups that applies have added, if that is known.
pub(crate) fn added_groups(host: &Host, id: &AccountId) -> Result<Option<Vec<String>>> {
    Ok(memory(host).recall(&id.to_string())?.and_then(|remembered| remembered.base))
}

/// Replaces the name of a group that applies have added.
pub(crate) fn rename_added_group(host: &Host, id: &AccountId, from: &str, to: &str) -> Result<()> {
    let Some(mut remembered) = memory(host).recall::<Option<Vec<String>>>(&id.to_string())? else { return Ok(()) };
    let names = remembered.base.iter_mut().flatten().filter(|name| *name == from);
    if names.map(|name| to.clone_into(name)).count() == 0 { Ok(()) } else { memory(host).keep(&remembered) }
}

/// Removes the stored entities.
pub(crate) fn forget(host: &Host, id: &AccountId) -> Result<()> {
    memory(host).forget(&id.to_string())
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
        Definition { account: account(number, shell, groups), ..Definition::bare(AccountId::parse("user:x").unwrap()) }
    }

    /// Formats a step as a line.
    fn line(
        definition: &Definition,
        base: &Account,
        actual: Option<&Account>,
        provisioned: Option<&Account>,
    ) -> String {
        match step(TOOLS, definition, PlanInput { base, actual, provisioned, added: None, has_namesake: false }, false)
        {
            Step::Refuse(to) => format!("{to:?}"),
            Step::Keep(_) => "keep".to_owned(),
            Step::Run(command, _) => command.to_string(),
        }
    }

    #[test]
    fn manual_change_needs_force() {
        let (bare, us) = (account(0, "", &[]), account(7, "/bin/us", &[]));
        let by_hand = account(7, "/bin/person", &[]);
        let wants_us = definition(7, "/bin/us", &[]);
        assert_eq!(line(&wants_us, &bare, Some(&by_hand), Some(&us)), "Overwrite");
        assert_eq!(line(&wants_us, &bare, None, Some(&us)), "Restore");
        assert_eq!(line(&wants_us, &by_hand, Some(&by_hand), None), "Overwrite");
        // Even if the definition does not set the attribute: it differs from the provisioned image.
        assert_eq!(line(&definition(7, "", &[]), &us, Some(&by_hand), Some(&us)), "Overwrite");
        let known =
            PlanInput { base: &bare, actual: Some(&by_hand), provisioned: Some(&us), added: None, has_namesake: false };
        let forced = step(TOOLS, &wants_us, known, true);
        assert!(matches!(forced, Step::Run(command, _) if command.to_string() == "usermod --shell /bin/us x"));
    }

    #[test]
    fn changed_definition_of_provisioned_account_needs_force() {
        let (bare, us) = (account(0, "", &[]), account(7, "/bin/us", &["a"]));
        assert_eq!(line(&definition(7, "/bin/new", &[]), &bare, Some(&us), Some(&us)), "Overwrite");
        assert_eq!(line(&definition(8, "", &[]), &bare, Some(&us), Some(&us)), "Overwrite");
        assert_eq!(line(&definition(0, "", &["a", "b"]), &bare, Some(&us), Some(&us)), "Overwrite");
        // Someone else made the same change first.
        let new = account(7, "/bin/new", &["a"]);
        assert_eq!(line(&definition(7, "/bin/new", &[]), &bare, Some(&new), Some(&us)), "keep");
        // A definition that only adds to the groups of the base conflicts too: version 3 compares with its own groups alone.
        let base = account(7, "", &["b"]);
        let both = account(7, "/bin/us", &["a", "b"]);
        assert_eq!(line(&definition(0, "", &["a"]), &base, Some(&both), Some(&both)), "Overwrite");
        // The order of groups does not matter.
        assert_eq!(line(&definition(0, "", &["b", "a"]), &bare, Some(&both), Some(&us)), "keep");
    }

    #[test]
    fn new_comment_and_first_groups_of_definition_need_no_force() {
        let (bare, us) = (account(0, "", &[]), Account { comment: Some("us".into()), ..account(7, "/bin/us", &[]) });
        let mut wants = definition(7, "", &["a"]);
        assert_eq!(line(&wants, &bare, Some(&us), Some(&us)), "usermod --groups a x");
        wants.account.comment = Some("new".into());
        assert_eq!(line(&wants, &bare, Some(&us), Some(&us)), "usermod --comment new --groups a x");
        let uncommented = Account { comment: None, ..us };
        assert_eq!(line(&wants, &bare, Some(&uncommented), Some(&uncommented)), "usermod --comment new --groups a x");
    }

    #[test]
    fn external_change_needs_force_except_for_comments_and_cleared_attributes() {
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
        // Changes to an attribute that was never set are not conflicts.
        let homeless = Account { home: Some("/h".into()), ..us.clone() };
        assert_eq!(line(&nothing, &bare, Some(&homeless), Some(&us)), "keep");
    }

    #[test]
    fn unprovisioned_account_with_conflicts_needs_force() {
        let bare = account(0, "", &[]);
        // The apply was killed before it recorded the result.
        assert_eq!(line(&definition(7, "/bin/us", &[]), &bare, Some(&account(7, "/bin/us", &[])), None), "keep");
        assert_eq!(line(&definition(7, "/bin/us", &[]), &bare, None, None), "useradd --uid 7 --shell /bin/us x");
        // A comment, groups, and unset attributes cannot conflict.
        let plain = Account { comment: Some("c".into()), ..account(7, "", &["a"]) };
        let mut wanted = definition(7, "/bin/us", &["b"]);
        wanted.account.comment = Some("d".into());
        wanted.skip_base_groups = true;
        assert_eq!(line(&wanted, &plain, Some(&plain), None), "usermod --comment d --groups b --shell /bin/us x");
    }

    #[test]
    fn undefined_attributes_come_from_the_base_then_from_the_account() {
        let base = account(7, "/bin/base", &["b"]);
        let ours = account(7, "/bin/us", &["a", "b"]);
        // The shell was removed from the definition.
        assert_eq!(
            line(&definition(0, "", &["a", "b"]), &base, Some(&ours), Some(&ours)),
            "usermod --shell /bin/base x"
        );
        let bare = account(0, "", &[]);
        assert_eq!(line(&definition(0, "", &["a", "b"]), &bare, Some(&ours), Some(&ours)), "keep");
    }

    #[test]
    fn groups_of_the_base_are_kept_unless_skipped() {
        let base = account(7, "/bin/sh", &["b"]);
        let mut wants = definition(0, "", &["a"]);
        assert_eq!(line(&wants, &base, Some(&base), None), "usermod --groups a,b x");
        wants.skip_base_groups = true;
        assert_eq!(line(&wants, &base, Some(&base), None), "usermod --groups a x");
    }

    #[test]
    fn groups_that_an_apply_has_added_are_left_by_the_rule_of_version_4() {
        let base = account(7, "", &["base"]);
        let now = account(7, "", &["base", "one", "two"]);
        let line = |definition: &Definition, actual: &Account, provisioned: &Account, added: &[&str]| {
            let added: Vec<String> = added.iter().map(ToString::to_string).collect();
            let known = PlanInput {
                base: &base,
                actual: Some(actual),
                provisioned: Some(provisioned),
                added: Some(&added),
                has_namesake: false,
            };
            let step = step(TOOLS, definition, known, false);
            let after = known.added_after(definition, &step).unwrap_or_default().join(",");
            let warns = known.kept_groups(definition, &step).is_some();
            let line = match step {
                Step::Refuse(to) => format!("{to:?}"),
                Step::Keep(_) => "keep".to_owned(),
                Step::Run(command, _) => command.to_string(),
            };
            format!("{line}; {after}; {warns}")
        };
        let ours = |groups: &[&str]| Definition { membership: Membership::Ours, ..definition(0, "", groups) };
        let exact = |groups: &[&str]| Definition { membership: Membership::Exact, ..definition(0, "", groups) };
        let both = ["one", "two"];
        assert_eq!(line(&ours(&both), &now, &now, &both), "keep; one,two; false");
        assert_eq!(line(&ours(&["two"]), &now, &now, &both), "usermod --groups base,two x; two; false");
        assert_eq!(line(&ours(&[]), &now, &now, &both), "usermod --groups base x; ; false");
        assert_eq!(line(&ours(&["new"]), &now, &now, &["one"]), "usermod --groups base,new,two x; new; false");
        assert_eq!(line(&exact(&[]), &now, &now, &both), "usermod --groups '' x; ; false");
        assert_eq!(line(&exact(&["base"]), &now, &now, &both), "usermod --groups base x; ; false");
        // What a person adds stays unless groups are exact. What it removes is not added again without force.
        let by_hand = account(7, "", &["base", "one", "person", "two"]);
        assert_eq!(line(&ours(&["one"]), &by_hand, &now, &both), "usermod --groups base,one,person x; one; false");
        assert_eq!(line(&exact(&both), &by_hand, &now, &both), "Overwrite; one,two; false");
        let without = account(7, "", &["base", "two"]);
        assert_eq!(line(&ours(&both), &without, &now, &both), "Overwrite; one,two; false");
        assert_eq!(line(&ours(&["two"]), &without, &now, &both), "keep; two; false");
        // As in version 3, groups that were all removed are no conflict.
        assert_eq!(line(&ours(&["two"]), &account(7, "", &[]), &now, &both), "usermod --groups two x; two; false");
        // The rule of version 3: those of the base count as defined.
        let nothing = definition(0, "", &[]);
        assert_eq!(line(&nothing, &now, &now, &both), "usermod --groups base x; ; false");
        let unknown = Definition { skip_base_groups: true, ..nothing };
        assert_eq!(line(&unknown, &now, &now, &both), "keep; one,two; true");
        assert_eq!(line(&definition(0, "", &["one", "base"]), &now, &now, &both), "Overwrite; one,two; true");
        assert_eq!(line(&definition(0, "", &["one", "two", "base"]), &now, &now, &both), "keep; one,two; false");
    }

    #[test]
    fn own_group_is_created_again_with_the_user() {
        let base = account(0, "", &[]);
        let provisioned = Account { group: Some("x".into()), ..account(7, "", &[]) };
        let command = |definition: &Definition, has_namesake| {
            let known =
                PlanInput { base: &base, actual: None, provisioned: Some(&provisioned), added: None, has_namesake };
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
    fn scrubbing_restores_the_base_or_deletes() {
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
