//! The output of dnf and its lists of locks.

use crate::model::{Key, Offers, Step};
use crate::providers::rpm::plain;
use crate::version;
use holo_plugin::process::Captured;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Parses lines of the form `NAME|EPOCH:VERSION-RELEASE|ARCH`.
pub(super) fn read_offers(text: &str, keys: &[&Key]) -> BTreeMap<Key, Offers> {
    let mut all: BTreeMap<Key, Offers> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.trim().split('|').collect();
        let [name, version, arch] = fields[..] else { continue };
        let fits = |key: &&&Key| key.name == name && key.arch.as_deref().is_none_or(|wanted| wanted == arch);
        for key in keys.iter().filter(fits).filter(|_| arch != "src") {
            let offers = all.entry((*key).clone()).or_default();
            offers.versions.push(plain(version).to_owned());
        }
    }
    for offers in all.values_mut() {
        offers.versions.sort_by(|a, b| version::compare_rpm(b, a));
        offers.versions.dedup();
        offers.candidate = offers.versions.first().cloned();
    }
    all
}

/// Returns the names in a list of locks with lines such as `foo-0:1.0-1.*`.
pub(super) fn locked(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', '!']));
    lines.filter_map(|line| {
        let (rest, _release) = line.rsplit_once('-')?;
        let (name, version) = rest.rsplit_once('-')?;
        version.contains(':').then_some(name)
    })
}

/// The list of locks of version 5.
#[derive(Deserialize)]
struct Locks {
    #[serde(default)]
    packages: Vec<Lock>,
}

/// A lock. It holds a package if all of its conditions are met.
#[derive(Deserialize)]
struct Lock {
    name: String,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(default)]
    comparator: String,
}

/// Returns the names in a list of locks of version 5. Locks that only exclude a version are skipped.
///
/// # Errors If the list is not valid TOML, or has an unexpected structure.
pub(super) fn locked_by_5(text: &str) -> Result<Vec<String>, toml::de::Error> {
    let locks: Locks = toml::from_str(text)?;
    let holds = |lock: &Lock| lock.conditions.iter().all(|condition| condition.comparator != "!=");
    Ok(locks.packages.into_iter().filter(holds).map(|lock| lock.name).collect())
}

/// Returns true if version 5 failed before RPM looked at the packages, which is its only symptom when another process holds RPM's lock. It
/// waits for its own locks, except for the transaction lock, which it reports by name.
pub(super) fn has_not_begun(captured: &Captured) -> bool {
    let text = [&captured.stdout[..], &captured.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    let has_begun =
        text.contains("Verify package files") || text.contains("Prepare transaction") || text.contains(">>> ");
    text.contains("Failed to obtain rpm transaction lock") || text.contains("Rpm transaction failed") && !has_begun
}

/// Parses the table of a transaction. A row whose first column is too wide continues on the next line.
pub(super) fn read_table(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut section = Section::Other;
    let mut words: Vec<&str> = Vec::new();
    for line in text.lines() {
        if !line.starts_with(' ') {
            section = Section::from_heading(line);
            words.clear();
            continue;
        }
        let mut fields: Vec<&str> = line.split_whitespace().collect();
        if fields.first() == Some(&"replacing") {
            // The row of a replaced package follows the row of its replacement.
            steps.extend(replaced(&fields, &steps));
            continue;
        }
        if line.starts_with("  ") && words.is_empty() {
            continue;
        }
        words.append(&mut fields);
        // NAME ARCH VERSION REPOSITORY SIZE UNIT
        if let [name, _, version, _, ..] = words[..]
            && section != Section::Other
        {
            steps.push(section.step(name, plain(version)));
            words.clear();
        }
    }
    steps
}

/// Parses `replacing foo.noarch 1.0-1` or, in version 5, `replacing foo noarch 1.0-1 …`. Only packages of another name are removed.
fn replaced(fields: &[&str], steps: &[Step]) -> Option<Step> {
    let (name, version) = match *fields {
        [_, name, _, version, _, ..] => (name, version),
        [_, name, version, ..] => (name.rsplit_once('.').map_or(name, |(name, _)| name), version),
        _ => return None,
    };
    let by = steps.last()?;
    (by.name != name).then(|| Step {
        name: name.to_owned(),
        arch: None,
        from: Some(plain(version).to_owned()),
        to: None,
    })
}

/// The section of a row, from the heading above it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Coming,
    Going,
    Other,
}

impl Section {
    fn from_heading(heading: &str) -> Section {
        match heading.split(' ').next() {
            Some("Installing" | "Installing:" | "Upgrading" | "Upgrading:" | "Reinstalling:" | "Downgrading:") => {
                Section::Coming
            }
            Some("Removing" | "Removing:") => Section::Going,
            _ => Section::Other,
        }
    }

    fn step(self, name: &str, version: &str) -> Step {
        let (name, version) = (name.to_owned(), Some(version.to_owned()));
        match self {
            Section::Going => Step { name, arch: None, from: version, to: None },
            // The table does not include the installed version.
            Section::Coming | Section::Other => Step { name, arch: None, from: None, to: version },
        }
    }
}

#[cfg(test)]
mod tests;
