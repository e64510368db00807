//! The file of a pacman repository: a section that the main configuration has to include.

use crate::repository::{Repository, RepositoryFile};
use holo_plugin::definitions::Invalid;
use holo_plugin::system::Root;

/// The main configuration file.
pub(super) const CONFIGURATION: &str = "/etc/pacman.conf";
const DIRECTORY: &str = "/etc/pacman.d/repositories";
const REFUSED: [(&str, &str); 5] = [
    ("suites", "does not support suites"),
    ("components", "does not support components"),
    ("architectures", "has no architectures for a repository; they are part of its address"),
    ("signed_by", "has a keyring of its own; add the key with pacman-key"),
    ("pin", "prefers the repositories that come first"),
];

/// Returns the file of a repository.
///
/// # Errors The key that pacman does not support.
pub(super) fn files(repository: &Repository) -> Result<Vec<RepositoryFile>, Invalid> {
    let path = format!("{DIRECTORY}/{}.conf", repository.name);
    if repository.is_gone() {
        return Ok(vec![RepositoryFile::absent(path)]);
    }
    repository.refuse("pacman", &REFUSED)?;
    let mut text = format!("[{}]\n", repository.name);
    if repository.trusted {
        text += "SigLevel = Never\n";
    }
    repository.uris.iter().for_each(|uri| text += &format!("Server = {uri}\n"));
    Ok(vec![RepositoryFile { path, content: Some(text), sensitive: repository.has_login() }])
}

/// Returns the reason why pacman would ignore the file, if any.
pub(super) fn obstacle(root: &Root) -> Option<String> {
    let configuration = root.text(CONFIGURATION.trim_start_matches('/')).unwrap_or_default();
    let included = configuration.lines().filter_map(|line| {
        let (key, value) = line.trim().split_once('=')?;
        (key.trim() == "Include").then_some(value.trim())
    });
    // In test mode, the configuration may name a directory below the root.
    let mut files = included.filter_map(|value| value.split_once(DIRECTORY)).map(|(_, rest)| rest);
    let words = || {
        let path = root.shown(CONFIGURATION);
        format!("{} has no line \"Include = {DIRECTORY}/*.conf\", so pacman would not see this", path.display())
    };
    (!files.any(|rest| ["/*", "/*.conf"].contains(&rest))).then(words)
}
