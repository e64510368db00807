//! The system's tools for users and groups, with their arguments.

use crate::account::{Account, AccountId, Kind};
use holo_plugin::quoted;
use std::fmt;

/// A command that changes the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) program: &'static str,
    pub(crate) arguments: Vec<String>,
}

impl Command {
    /// The command that makes what is wanted.
    pub(crate) fn create(wanted: &Account, system: bool) -> Command {
        let program = match wanted.id.kind {
            Kind::Group => "groupadd",
            Kind::User => "useradd",
        };
        let nothing = Account::bare(wanted.id.clone());
        let mut arguments: Vec<String> = system.then(|| "--system".to_owned()).into_iter().collect();
        arguments.extend(options(&nothing, wanted, "--home-dir"));
        Command::new(program, arguments, &wanted.id)
    }

    /// The command that makes an account what is wanted, its name included; none if it is that already.
    pub(crate) fn modify(actual: &Account, wanted: &Account) -> Option<Command> {
        let (program, rename) = match wanted.id.kind {
            Kind::Group => ("groupmod", "--new-name"),
            Kind::User => ("usermod", "--login"),
        };
        let mut arguments = Vec::new();
        add(&mut arguments, rename, (actual.id != wanted.id).then(|| wanted.id.name.clone()));
        arguments.extend(options(actual, wanted, "--home"));
        (!arguments.is_empty()).then(|| Command::new(program, arguments, &actual.id))
    }

    /// The command that removes an account.
    pub(crate) fn delete(id: &AccountId) -> Command {
        let program = match id.kind {
            Kind::Group => "groupdel",
            Kind::User => "userdel",
        };
        Command::new(program, Vec::new(), id)
    }

    fn new(program: &'static str, mut arguments: Vec<String>, id: &AccountId) -> Command {
        arguments.push(id.name.clone());
        Command { program, arguments }
    }
}

/// The options for what differs. What is wanted empty is emptied, where that has a meaning.
fn options(actual: &Account, wanted: &Account, home: &str) -> Vec<String> {
    let mut options = Vec::new();
    let number = (actual.number != wanted.number).then(|| wanted.number.map(|number| number.to_string())).flatten();
    match wanted.id.kind {
        Kind::Group => add(&mut options, "--gid", number),
        Kind::User => {
            let text = |actual: &Option<String>, wanted: &Option<String>| {
                (actual != wanted).then(|| wanted.clone().unwrap_or_default())
            };
            add(&mut options, "--uid", number);
            add(&mut options, "--comment", text(&actual.comment, &wanted.comment));
            add(&mut options, home, text(&actual.home, &wanted.home));
            add(&mut options, "--gid", text(&actual.group, &wanted.group).filter(|group| !group.is_empty()));
            add(&mut options, "--groups", (actual.groups != wanted.groups).then(|| wanted.groups.join(",")));
            add(&mut options, "--shell", text(&actual.shell, &wanted.shell));
        }
    }
    options
}

fn add(options: &mut Vec<String>, option: &str, value: Option<String>) {
    if let Some(value) = value {
        options.extend([option.to_owned(), value]);
    }
}

impl fmt::Display for Command {
    /// As in a shell, nearly: what is empty or has blanks is in quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program)?;
        for argument in &self.arguments {
            write!(f, " {}", quoted(argument))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Account {
        Account {
            number: Some(1001),
            comment: Some("New User".into()),
            home: Some("/home/new".into()),
            group: Some("users".into()),
            groups: vec!["audio".into(), "video".into()],
            shell: Some("/bin/zsh".into()),
            ..Account::bare(AccountId::parse("user:new").unwrap())
        }
    }

    #[test]
    fn all_that_is_set_is_given_in_order() {
        assert_eq!(
            Command::create(&full(), true).to_string(),
            "useradd --system --uid 1001 --comment 'New User' --home-dir /home/new --gid users --groups audio,video \
             --shell /bin/zsh new"
        );
        assert_eq!(Command::create(&Account::bare(full().id), false).to_string(), "useradd new");
        let group = Account { number: Some(7), ..Account::bare(AccountId::parse("group:g").unwrap()) };
        assert_eq!(Command::create(&group, true).to_string(), "groupadd --system --gid 7 g");
        assert_eq!(Command::delete(&group.id).to_string(), "groupdel g");
        assert_eq!(Command::delete(&full().id).to_string(), "userdel new");
    }

    #[test]
    fn only_what_differs_is_modified() {
        let wanted = Account { home: Some("/srv".into()), comment: None, groups: Vec::new(), ..full() };
        let command = Command::modify(&full(), &wanted).unwrap();
        assert_eq!(command.to_string(), "usermod --comment '' --home /srv --groups '' new");
        assert_eq!(Command::modify(&full(), &full()), None);
        // A user without a login group cannot be given none.
        assert_eq!(Command::modify(&full(), &Account { group: None, number: None, ..full() }), None);
        let group = |number| Account { number: Some(number), ..Account::bare(AccountId::parse("group:g").unwrap()) };
        assert_eq!(Command::modify(&group(7), &group(8)).unwrap().to_string(), "groupmod --gid 8 g");
    }

    #[test]
    fn a_name_is_modified_too() {
        let renamed = |id: &str, account: Account| Account { id: AccountId::parse(id).unwrap(), ..account };
        let wanted = renamed("user:newer", Account { shell: Some("/bin/sh".into()), ..full() });
        assert_eq!(Command::modify(&full(), &wanted).unwrap().to_string(), "usermod --login newer --shell /bin/sh new");
        let group = |id: &str| Account::bare(AccountId::parse(id).unwrap());
        assert_eq!(
            Command::modify(&group("group:a"), &group("group:b")).unwrap().to_string(),
            "groupmod --new-name b a"
        );
    }
}
