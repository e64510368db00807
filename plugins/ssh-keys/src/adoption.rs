//! Generates key files for keys that are authorized but not in any key set.

use crate::home::{Home, NoAccount};
use crate::key_line::{Grant, KeyLine, without_end};
use crate::keyset::{Family, KeySetError, Name, at_home_of, is_user_name};
use crate::section::{COUNTS_UNMARKED, is_marked};
use bstr::ByteSlice;
use holo_change::error::PathError;
use holo_plugin::system::Root;
use holo_plugin::{Adopted, Candidate, Host, Output};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// The name of a generated key set.
const NAME: &str = "adopted";
/// The file with the home directories of all users.
const PASSWD: &str = "etc/passwd";

/// All key sets that have files, by user.
pub(crate) type Families = BTreeMap<String, Arc<Family>>;

/// Lists a candidate key set for each user with keys that are in no key set, ordered by user name.
pub(crate) fn candidates(host: &Host, families: &Families, output: &mut Output<'_>) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for user in users(host) {
        let family = families.get(&user).map(Arc::as_ref);
        match keys(host, &user, family) {
            Ok(keys) if keys.is_empty() => {}
            Ok(keys) => {
                let number = if keys.len() == 1 { "a key".to_owned() } else { format!("{} keys", keys.len()) };
                let name = free_name(&user, family);
                candidates.push(Candidate::new(name.id(), format!("{number} of {user} that no key set has")));
            }
            Err(KeySetError::Account(NoAccount::NoUser(_) | NoAccount::NoHome { .. } | NoAccount::OddHome { .. })) => {}
            Err(error) => output.warning(format!("the keys of {user} are left out: {error}")),
        }
    }
    candidates
}

/// Writes the key file of a new key set, with all keys of its user that are in no key set.
pub(crate) fn adopt(
    host: &Host,
    name: &Name,
    family: Option<&Family>,
    directory: &Path,
    output: &mut Output<'_>,
) -> Adopted {
    let keys = match keys(host, &name.user, family) {
        Ok(keys) => keys,
        Err(error) => {
            output.error(error.to_string());
            return Adopted::Failed;
        }
    };
    if keys.is_empty() {
        output.error(format!("user {} has no key that no key set has", name.user));
        return Adopted::Failed;
    }
    let path = directory.join(name.path());
    let written =
        path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text(&name.user, &keys)));
    match written {
        Ok(()) => Adopted::Done { definition: String::new() },
        Err(error) => {
            output.error(PathError::new("write", path, error).to_string());
            Adopted::Failed
        }
    }
}

fn text(user: &str, keys: &[Vec<u8>]) -> Vec<u8> {
    let head = format!(
        "# Keys that {user} had; a line of that user counts as well, as the next line says.\n{COUNTS_UNMARKED}\n"
    );
    let lines = keys.iter().flat_map(|key| [key.as_slice(), b"\n"]);
    [head.as_bytes()].into_iter().chain(lines).collect::<Vec<_>>().concat()
}

/// Returns the names of users who may have keys. In test mode, these are the directories below `/home`.
fn users(host: &Host) -> BTreeSet<String> {
    let root = Root::new(host.root());
    let names: Vec<Vec<u8>> = if host.test_mode() {
        root.names("home").unwrap_or_default().into_iter().map(OsString::into_encoded_bytes).collect()
    } else {
        let passwd = root.read(PASSWD).ok().flatten().unwrap_or_default();
        // `/` is the home directory of system accounts without one.
        let is_home = |line: &&[u8]| line.split_str(":").nth(5).is_some_and(|home| home.len() > 1);
        passwd.lines().filter(is_home).filter_map(|line| Some(line.split_str(":").next()?.to_vec())).collect()
    };
    let names = names.into_iter().filter(|name| is_user_name(name));
    names.map(|name| name.to_str_lossy().into_owned()).collect()
}

/// Returns the key lines of a user that are in no key set.
fn keys(host: &Host, user: &str, family: Option<&Family>) -> Result<Vec<Vec<u8>>, KeySetError> {
    let content = at_home_of(host, user, Home::content)?.unwrap_or_default();
    Ok(uncovered(&content, family))
}

fn uncovered(content: &[u8], family: Option<&Family>) -> Vec<Vec<u8>> {
    let sources = family.iter().flat_map(|family| &family.living);
    let covered: HashSet<Grant<'_>> =
        sources.flat_map(|(_, source)| source.keys().map(|key| key.grant()).collect::<Vec<_>>()).collect();
    let is_free = |line: &&[u8]| {
        KeyLine::parse(line).is_ok_and(|key| key.facts.is_ok() && !is_marked(&key) && !covered.contains(&key.grant()))
    };
    let mut seen = HashSet::new();
    let lines = content.lines_with_terminator().filter(is_free).map(|line| without_end(line).trim());
    lines.filter(|line| seen.insert(*line)).map(<[u8]>::to_vec).collect()
}

/// Returns the first generated name that the user has no key set for.
fn free_name(user: &str, family: Option<&Family>) -> Name {
    let set = |number: usize| if number == 1 { NAME.to_owned() } else { format!("{NAME}-{number}") };
    let names = (1..).map(|number| Name { user: user.to_owned(), set: set(number).into() });
    let is_free = |name: &Name| family.is_none_or(|family| !family.living.iter().any(|(other, _)| other == name));
    names.into_iter().find(is_free).unwrap_or_else(|| Name { user: user.to_owned(), set: NAME.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::Source;

    const A: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w";
    const B: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIdzC/U28SStyTYU9/4RVVeARpSAo/wvLM9mqvU7bpfP";

    fn family(set: &str, source: &str) -> Family {
        let name = Name { user: "jane".into(), set: set.into() };
        Family { living: vec![(name, Source::parse(source.as_bytes().to_vec()).unwrap())], ..Family::default() }
    }

    #[test]
    fn adopted_key_file_has_unmanaged_keys_unchanged() {
        let content = format!(
            "# mine\n{A} jane@home\r\n\nno-pty {B} x\nnonsense\n{B} holo=ssh-keyset:jane/work\n{A} jane@home\nssh-ed25519 AAAA bad\n"
        );
        let lines = uncovered(content.as_bytes(), None);
        let source = text("jane", &lines);
        let expected = format!(
            "# Keys that jane had; a line of that user counts as well, as the next line says.\n# holo: unmarked\n\
             {A} jane@home\nno-pty {B} x\n"
        );
        assert_eq!(source.as_bstr(), expected.as_bytes().as_bstr());
        assert!(Source::parse(source).unwrap().counts_unmarked());
        let other = family("work", &format!("{A} a\n"));
        assert_eq!(uncovered(content.as_bytes(), Some(&other)), [format!("no-pty {B} x").into_bytes()]);
    }

    #[test]
    fn generated_name_is_not_in_use() {
        assert_eq!(free_name("jane", None).id(), "ssh-keyset:jane/adopted");
        assert_eq!(free_name("jane", Some(&family("work", ""))).id(), "ssh-keyset:jane/adopted");
        assert_eq!(free_name("jane", Some(&family("adopted", ""))).id(), "ssh-keyset:jane/adopted-2");
    }
}
