//! The files of a repository of dnf or zypper: a section in its own file, and the key.

use crate::repository::{Key, Repository, RepositoryFile};
use holo_plugin::definitions::Invalid;
use std::fmt::Write as _;

const REFUSED: [(&str, &str); 3] = [
    ("suites", "does not support suites"),
    ("components", "does not support components"),
    ("architectures", "finds the architectures of a repository in its index"),
];

/// Returns the files of a repository. `directory` depends on the package manager.
///
/// # Errors The key that the manager does not support.
pub(super) fn files(repository: &Repository, manager: &str, directory: &str) -> Result<Vec<RepositoryFile>, Invalid> {
    let path = format!("{directory}/{}.repo", repository.name);
    if repository.is_gone() {
        return Ok(vec![RepositoryFile::absent(path)]);
    }
    repository.refuse(manager, &REFUSED)?;
    let (content, sensitive) = (Some(section(repository)), repository.has_login());
    let mut files = vec![RepositoryFile { path, content, sensitive }];
    if let Some(Key::Text(key)) = repository.key() {
        files.push(RepositoryFile::new(key_path(repository), format!("{key}\n")));
    }
    Ok(files)
}

/// Returns the path of the repository's key.
pub(super) fn key_path(repository: &Repository) -> String {
    match repository.key() {
        Some(Key::Path(path)) => path.to_owned(),
        _ => format!("/etc/pki/rpm-gpg/RPM-GPG-KEY-{}", repository.name),
    }
}

fn section(repository: &Repository) -> String {
    let name = &repository.name;
    // Continuation lines of a list are indented.
    let mut text = format!("[{name}]\nname={name}\nenabled=1\nbaseurl={}\n", repository.uris.join("\n        "));
    if repository.signed_by.is_some() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "gpgcheck=1\ngpgkey=file://{}", key_path(repository));
    } else if repository.trusted {
        text += "gpgcheck=0\nrepo_gpgcheck=0\n";
    }
    if let Some(priority) = repository.pin {
        let _ = writeln!(text, "priority={priority}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_file_has_a_section() {
        let definition = "name = 'vendor'\nuris = ['https://me:s3cret@h/a', 'https://i/a']\npin = 10\n\
                          signed_by = '-----BEGIN PGP PUBLIC KEY BLOCK-----'\n";
        let repository: Repository = toml::from_str(definition).unwrap();
        let files = files(&repository, "dnf", "/etc/yum.repos.d").unwrap();
        let [section, key] = &files[..] else { panic!("{files:?}") };
        assert_eq!(
            section.content.as_deref().unwrap(),
            "[vendor]\nname=vendor\nenabled=1\nbaseurl=https://me:s3cret@h/a\n        https://i/a\n\
             gpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-vendor\npriority=10\n"
        );
        assert!(section.sensitive && !key.sensitive);
        assert_eq!(key.path, "/etc/pki/rpm-gpg/RPM-GPG-KEY-vendor");
    }
}
