//! The tools of shadow-utils: `useradd`, `usermod`, `userdel`, and those for groups.

use crate::account::{Account, AccountId, Kind};
use crate::providers::{AccountProvider, Command, Creation};
use holo_plugin::Host;
use holo_plugin::process::Ended;
use holo_plugin::provider::Provider;

/// The exit statuses of tools that cannot update the user or group files.
const CANNOT_UPDATE: [i32; 2] = [1, 10];
/// Their message if another process has locked the files.
const LOCKED: &[u8] = b"cannot lock ";

/// The tools of shadow-utils.
pub(crate) struct Shadow;

impl Provider for Shadow {
    fn name(&self) -> &'static str {
        "shadow"
    }

    /// If the tools are missing, the command fails when it is run.
    fn rank(&self, _: &Host) -> Option<u8> {
        Some(1)
    }
}

impl AccountProvider for Shadow {
    fn create(&self, wanted: &Account, creation: Creation) -> Command {
        let program = match wanted.id.kind {
            Kind::Group => "groupadd",
            Kind::User => "useradd",
        };
        let nothing = Account::bare(wanted.id.clone());
        let mut arguments: Vec<String> = creation.system.then(|| "--system".to_owned()).into_iter().collect();
        arguments.extend((creation.home && wanted.id.kind == Kind::User).then(|| "--create-home".to_owned()));
        arguments.extend(options(&nothing, wanted, "--home-dir"));
        command(program, arguments, &wanted.id)
    }

    fn modify(&self, actual: &Account, wanted: &Account) -> Option<Command> {
        let (program, rename) = match wanted.id.kind {
            Kind::Group => ("groupmod", "--new-name"),
            Kind::User => ("usermod", "--login"),
        };
        let mut arguments = Vec::new();
        add(&mut arguments, rename, (actual.id != wanted.id).then(|| wanted.id.name.clone()));
        arguments.extend(options(actual, wanted, "--home"));
        (!arguments.is_empty()).then(|| command(program, arguments, &actual.id))
    }

    /// The tool is one of PAM. `usermod` can only move a home directory.
    fn make_home(&self, user: &AccountId) -> Command {
        command("mkhomedir_helper", Vec::new(), user)
    }

    fn programs(&self) -> &'static [&'static str] {
        &["useradd", "usermod", "userdel", "groupadd", "groupmod", "groupdel"]
    }

    fn delete(&self, id: &AccountId) -> Command {
        let program = match id.kind {
            Kind::Group => "groupdel",
            Kind::User => "userdel",
        };
        command(program, Vec::new(), id)
    }

    fn is_locked(&self, ended: &Ended) -> bool {
        let cannot_update = ended.code().is_some_and(|code| CANNOT_UPDATE.contains(&code));
        cannot_update && ended.tail.windows(LOCKED.len()).any(|part| part == LOCKED)
    }
}

fn command(program: &'static str, mut arguments: Vec<String>, id: &AccountId) -> Command {
    arguments.push(id.name.clone());
    Command { program, arguments }
}

/// Returns the options for all differences. An unset attribute is cleared if the tool can do that.
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
    fn create_passes_all_set_attributes_in_order() {
        assert_eq!(
            Shadow.create(&full(), Creation { system: true, home: true }).to_string(),
            "useradd --system --create-home --uid 1001 --comment 'New User' --home-dir /home/new --gid users --groups audio,video \
             --shell /bin/zsh new"
        );
        assert_eq!(Shadow.create(&Account::bare(full().id), Creation::default()).to_string(), "useradd new");
        let group = Account { number: Some(7), ..Account::bare(AccountId::parse("group:g").unwrap()) };
        assert_eq!(
            Shadow.create(&group, Creation { system: true, home: true }).to_string(),
            "groupadd --system --gid 7 g"
        );
        assert_eq!(Shadow.delete(&group.id).to_string(), "groupdel g");
        assert_eq!(Shadow.delete(&full().id).to_string(), "userdel new");
    }

    #[test]
    fn modify_passes_only_differences() {
        let wanted = Account { home: Some("/srv".into()), comment: None, groups: Vec::new(), ..full() };
        let command = Shadow.modify(&full(), &wanted).unwrap();
        assert_eq!(command.to_string(), "usermod --comment '' --home /srv --groups '' new");
        assert_eq!(Shadow.modify(&full(), &full()), None);
        // A login group cannot be cleared.
        assert_eq!(Shadow.modify(&full(), &Account { group: None, number: None, ..full() }), None);
        let group = |number| Account { number: Some(number), ..Account::bare(AccountId::parse("group:g").unwrap()) };
        assert_eq!(Shadow.modify(&group(7), &group(8)).unwrap().to_string(), "groupmod --gid 8 g");
    }

    #[test]
    fn modify_renames_account() {
        let renamed = |id: &str, account: Account| Account { id: AccountId::parse(id).unwrap(), ..account };
        let wanted = renamed("user:newer", Account { shell: Some("/bin/sh".into()), ..full() });
        assert_eq!(Shadow.modify(&full(), &wanted).unwrap().to_string(), "usermod --login newer --shell /bin/sh new");
        let group = |id: &str| Account::bare(AccountId::parse(id).unwrap());
        assert_eq!(Shadow.modify(&group("group:a"), &group("group:b")).unwrap().to_string(), "groupmod --new-name b a");
    }
}
