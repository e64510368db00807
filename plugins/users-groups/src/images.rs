//! The images of each account: its state before the first apply, and after the last one; and the file in which the first versions stored
//! the names of provisioned accounts.

use crate::account::{Account, AccountId, Kind, NameError, check_name};
use crate::document::{self, Entry};
use holo_change::error::PathError;
use holo_change::{Durability, OnDisk, PathHandle, Tree};
use holo_plugin::{Host, Witness};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::de::DeTable;

const SUFFIX: &str = ".toml";

/// The time at which an image was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the first apply. Contains only a name if the account did not exist.
    Base,
    /// After the last apply.
    Provisioned,
    /// The intended result of a command, kept while it runs. Version 3 does not read this directory.
    Intended,
}

impl Moment {
    const ALL: [Moment; 3] = [Moment::Base, Moment::Provisioned, Moment::Intended];

    fn folder(self) -> &'static str {
        match self {
            Moment::Base => "base",
            Moment::Provisioned => "provisioned",
            Moment::Intended => ".intended",
        }
    }
}

/// An image that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("cannot use {}: {problem}", path.display())]
    Unusable { path: PathBuf, problem: String },
}

/// The images in the state directory.
#[derive(Debug)]
pub(crate) struct Images {
    tree: Arc<Tree>,
    /// Accounts of an old state file that has not been migrated, because this run is read-only. Their bases are empty.
    unmigrated: Vec<AccountId>,
}

impl Images {
    pub(crate) fn open(host: &Host) -> Result<Images, PathError> {
        let tree = Tree::open(host.state_dir())?;
        // The scan has already reported an unusable state file.
        let unmigrated = host.only_reads().then(|| read_old_names(host).ok().flatten()).flatten().unwrap_or_default();
        Ok(Images { tree, unmigrated })
    }

    /// Locks the images until the result is dropped, and waits for other applies.
    pub(crate) fn hold(&self) -> Result<OwnedFd, PathError> {
        self.tree.hold()
    }

    fn place(&self, moment: Moment, id: &AccountId) -> PathHandle {
        self.tree.place(&Path::new(moment.folder()).join(format!("{id}{SUFFIX}")))
    }

    /// Returns the accounts that have an image of this time.
    pub(crate) fn all(&self, moment: Moment) -> Result<Vec<AccountId>, PathError> {
        let names = self.tree.place(&Path::new(moment.folder()).join("x")).siblings()?;
        let id = |name: &str| AccountId::parse(name.strip_suffix(SUFFIX)?);
        let mut ids: Vec<AccountId> = names.iter().filter_map(|name| id(name.to_str()?)).collect();
        if moment == Moment::Base {
            let unmigrated = self.unmigrated.iter().filter(|id| !ids.contains(id)).cloned().collect::<Vec<_>>();
            ids.extend(unmigrated);
        }
        Ok(ids)
    }

    /// Reads an image, or returns `None` if it does not exist.
    ///
    /// # Errors If the image cannot be read, or is about another account.
    pub(crate) fn load(&self, moment: Moment, id: &AccountId) -> Result<Option<Account>, ImageError> {
        let place = self.place(moment, id);
        let Some(text) = read(&place)? else {
            let is_unmigrated = moment == Moment::Base && self.unmigrated.contains(id);
            return Ok(is_unmigrated.then(|| Account::bare(id.clone())));
        };
        let entries = document::parse_image(&text).entries.into_iter();
        let mut problem = "it does not describe exactly this account".to_owned();
        let mut found = Vec::new();
        for entry in entries {
            match entry {
                Entry::Definition(stated) => found.push(stated.definition.account),
                Entry::Broken(_, problems) => problem = problems.join(", "),
            }
        }
        match <[Account; 1]>::try_from(found) {
            Ok([mut account]) if account.id == *id => {
                account.sort_groups();
                Ok(Some(account))
            }
            _ => Err(ImageError::Unusable { path: place.shown(), problem }),
        }
    }

    /// Writes an image. A base and an intention are on disk when this returns. A provisioned image may be the previous one after a crash,
    /// but never a partial one; the next apply detects that.
    pub(crate) fn save(&self, moment: Moment, account: &Account) -> Result<(), PathError> {
        let place = self.place(moment, &account.id);
        let text = to_text(account);
        if read(&place)?.is_some_and(|known| known == text.as_bytes()) {
            return Ok(());
        }
        let on_disk = match moment {
            Moment::Base | Moment::Intended => OnDisk::New,
            Moment::Provisioned => OnDisk::Whole,
        };
        place.replace(text.as_bytes(), 0o644, on_disk)
    }

    /// Writes the provisioned image and removes the intended one. Both changes are on disk when this returns.
    pub(crate) fn record(&self, made: &Account) -> Result<(), PathError> {
        self.place(Moment::Provisioned, &made.id).replace(to_text(made).as_bytes(), 0o644, OnDisk::New)?;
        self.remove(Moment::Intended, &made.id)
    }

    /// Removes an image if it exists.
    pub(crate) fn remove(&self, moment: Moment, id: &AccountId) -> Result<(), PathError> {
        let place = self.place(moment, id);
        if place.exists()? {
            place.remove()?;
            Durability::Each.sync([], [&place])?;
            if moment == Moment::Intended {
                place.remove_empty_folders(Path::new(""));
            }
        }
        Ok(())
    }
}

fn read(place: &PathHandle) -> Result<Option<Vec<u8>>, PathError> {
    let Some(mut file) = place.open_if_file()? else { return Ok(None) };
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(|error| PathError::new("read", place.shown(), error))?;
    Ok(Some(text))
}

/// Formats an account as TOML that version 3 can read too. Attributes that are not set are left out.
pub(crate) fn to_text(account: &Account) -> String {
    let Account { id, number, comment, home, group, groups, shell } = account;
    let mut text = format!("[[{}]]\nname = {}\n", id.kind.word(), quoted(&id.name));
    let groups = groups.iter().map(|group| quoted(group)).collect::<Vec<_>>().join(", ");
    let lines = [
        ("comment", comment.as_deref().map(quoted)),
        (id.kind.number_key(), number.map(|number| number.to_string())),
        ("home", home.as_deref().map(quoted)),
        ("group", group.as_deref().map(quoted)),
        ("groups", (!groups.is_empty()).then(|| format!("[{groups}]"))),
        ("shell", shell.as_deref().map(quoted)),
    ];
    for (key, value) in lines.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{key} = {value}");
    }
    text
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\t' => quoted.push_str("\\t"),
            letter if letter.is_ascii_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// The lists in the file.
const LISTS: [(&str, Kind); 2] = [("provisionedGroups", Kind::Group), ("provisionedUsers", Kind::User)];

/// Returns the path of the file.
pub(crate) fn path(host: &Host) -> PathBuf {
    host.state_dir().join("state.toml")
}

/// Returns the witnesses of the images of one account.
pub(crate) fn witnesses(host: &Host, id: &AccountId) -> Vec<Witness> {
    let image = |moment: Moment| Witness::file(&host.state_dir().join(moment.folder()).join(format!("{id}{SUFFIX}")));
    Moment::ALL.map(image).into()
}

/// Returns the witnesses of which accounts have images, and that there is no old state file.
pub(crate) fn witnesses_of_names(host: &Host) -> Vec<Witness> {
    let folders = Moment::ALL.map(|moment| Witness::file(&host.state_dir().join(moment.folder())));
    folders.into_iter().chain([Witness::absent(&path(host))]).collect()
}

/// A state file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateFileError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("cannot use {}: {mistake}", path.display())]
    Unusable { path: PathBuf, mistake: Mistake },
}

/// An error in the content of a state file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mistake {
    #[error("{0}")]
    Syntax(String),
    #[error("{0} is not a list")]
    NotAList(&'static str),
    #[error("{0} is not a list of names")]
    NotNames(&'static str),
    #[error("{name:?} in {key}: {error}")]
    Name { key: &'static str, name: String, error: NameError },
}

/// Reads the accounts in the file, or returns `None` if it does not exist.
///
/// # Errors If the file cannot be read or parsed.
pub(crate) fn read_old_names(host: &Host) -> Result<Option<Vec<AccountId>>, StateFileError> {
    let path = path(host);
    match fs::read_to_string(&path) {
        Ok(text) => accounts(&text).map(Some).map_err(|mistake| StateFileError::Unusable { path, mistake }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PathError::new("open", path, error).into()),
    }
}

fn accounts(text: &str) -> Result<Vec<AccountId>, Mistake> {
    let table = DeTable::parse(text).map_err(|error| Mistake::Syntax(error.message().to_owned()))?;
    let mut ids = Vec::new();
    for (key, kind) in LISTS {
        let list = table.get_ref().iter().find(|(found, _)| found.get_ref().eq_ignore_ascii_case(key));
        let Some((_, list)) = list else { continue };
        let list = list.get_ref().as_array().ok_or(Mistake::NotAList(key))?;
        for name in list {
            let name = name.get_ref().as_str().ok_or(Mistake::NotNames(key))?;
            check_name(name).map_err(|error| Mistake::Name { key, name: name.to_owned(), error })?;
            ids.push(AccountId { kind, name: name.to_owned() });
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_round_trips() {
        let account = Account {
            number: Some(0),
            comment: Some("a \"b\" \\ \t \u{1}\u{7f} é".into()),
            home: Some("/h".into()),
            group: Some("g".into()),
            groups: vec!["a".into(), "b".into()],
            shell: Some("/s".into()),
            ..Account::bare(AccountId::parse("user:x").unwrap())
        };
        let text = to_text(&account);
        let expected = "[[user]]\nname = \"x\"\ncomment = \"a \\\"b\\\" \\\\ \\t \\u0001\\u007F é\"\nuid = 0\nhome = \"/h\"\n\
                    group = \"g\"\ngroups = [\"a\", \"b\"]\nshell = \"/s\"\n";
        assert_eq!(text, expected);
        let entries = document::parse_image(text.as_bytes()).entries;
        assert!(matches!(&entries[..], [Entry::Definition(stated)] if stated.definition.account == account));
    }

    #[test]
    fn state_file_lists_groups_and_users() {
        let ids = accounts("provisionedUsers = ['b', 'a']\nprovisionedGroups = [\"c\"]\nother = 1\n").unwrap();
        let words: Vec<String> = ids.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["group:c", "user:b", "user:a"]);
        assert_eq!(accounts(""), Ok(vec![]));
        assert_eq!(accounts("provisionedUsers = 1"), Err(Mistake::NotAList("provisionedUsers")));
        assert!(accounts("provisionedUsers = ['../x']").is_err() && accounts("x").is_err());
    }
}
