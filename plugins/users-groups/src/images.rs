//! The images of each account: its state before the first apply, and after the last one.

use crate::account::{Account, AccountId};
use crate::document::{self, Entry};
use crate::state_file;
use holo_change::error::{PathError, Result};
use holo_change::{Durability, OnDisk, PathHandle, Tree};
use holo_plugin::Host;
use std::fmt::Write as _;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    pub(crate) fn open(host: &Host) -> Result<Images> {
        let tree = Tree::open(host.state_dir())?;
        // The scan has already reported an unusable state file.
        let unmigrated = host.only_reads().then(|| state_file::read(host).ok().flatten()).flatten().unwrap_or_default();
        Ok(Images { tree, unmigrated })
    }

    /// Locks the images until the result is dropped, and waits for other applies.
    pub(crate) fn hold(&self) -> Result<OwnedFd> {
        self.tree.hold()
    }

    fn place(&self, moment: Moment, id: &AccountId) -> PathHandle {
        self.tree.place(&Path::new(moment.folder()).join(format!("{id}{SUFFIX}")))
    }

    /// Returns the accounts that have an image of this time.
    pub(crate) fn all(&self, moment: Moment) -> Result<Vec<AccountId>> {
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
    pub(crate) fn load(&self, moment: Moment, id: &AccountId) -> std::result::Result<Option<Account>, ImageError> {
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
    pub(crate) fn save(&self, moment: Moment, account: &Account) -> Result<()> {
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
    pub(crate) fn record(&self, made: &Account) -> Result<()> {
        self.place(Moment::Provisioned, &made.id).replace(to_text(made).as_bytes(), 0o644, OnDisk::New)?;
        self.remove(Moment::Intended, &made.id)
    }

    /// Removes an image if it exists.
    pub(crate) fn remove(&self, moment: Moment, id: &AccountId) -> Result<()> {
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

fn read(place: &PathHandle) -> Result<Option<Vec<u8>>> {
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
}
