//! What package managers of RPM packages share: the RPM database, and the files of a repository of dnf or zypper, which are a section in
//! its own file, and the key.

use crate::model::{Installed, Instance, Key, KeyError, PackageError, Status};
use crate::repository::{self, Repository, RepositoryFile};
use crate::system::System;
use holo_plugin::definitions::Invalid;
use holo_plugin::process::{Captured, Program};
use holo_plugin::system::package_manager::RPM_DATABASES;
use std::fmt::Write as _;

const FORMAT: &str = "%{NAME}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\t%{ARCH}\\n";

/// Returns all installed packages.
pub(super) fn installed(system: &System<'_>) -> Result<Installed, PackageError> {
    let mut installed = Installed::default();
    let Some(path) = path(system)? else { return Ok(installed) };
    let mut query = Program::new("rpm");
    if let Some(root) = system.root() {
        query.arg("--root").arg(root);
    }
    query.arg("--dbpath").arg(path);
    query.args(["--query", "--all", "--queryformat", FORMAT]);
    let captured = system.read_local(&mut query)?;
    for line in String::from_utf8_lossy(&captured.stdout).lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, version, arch] = fields[..] else {
            return Err(PackageError::new(format!("cannot parse the output of rpm: {line:?}")));
        };
        let instance = Instance {
            version: plain(version).to_owned(),
            arch: arch.to_owned(),
            status: Status::Installed,
            held: false,
            automatic: false,
        };
        installed.add(name, instance);
    }
    Ok(installed)
}

/// Returns the path of the database below the root, or `None`. Checked first because a query would create the database.
pub(super) fn path(system: &System<'_>) -> Result<Option<String>, PackageError> {
    if let Some(usual) = RPM_DATABASES.iter().find(|path| system.path(path).exists()) {
        return Ok(usual.rsplit_once('/').map(|(folder, _)| format!("/{folder}")));
    }
    // On a foreign distribution, rpm may be configured with any path.
    let captured = system.read_local(Program::new("rpm").args(["--eval", "%{_dbpath}"]))?;
    let configured = String::from_utf8_lossy(&captured.stdout).trim().to_owned();
    let exists = system.path(configured.trim_start_matches('/')).exists();
    Ok(exists.then_some(configured))
}

/// Checks that a query leaves no files behind in a run that must not change anything.
///
/// # Errors If there is no database yet.
pub(super) fn may_ask(system: &System<'_>) -> Result<(), PackageError> {
    if system.only_looks && path(system)?.is_none() {
        return Err(PackageError::new("the RPM database does not exist yet"));
    }
    Ok(())
}

/// Returns true if RPM failed only because another process is running. It does not wait.
pub(super) fn is_locked(captured: &Captured) -> bool {
    [&captured.stderr, &captured.stdout]
        .into_iter()
        .any(|text| String::from_utf8_lossy(text).contains("can't create transaction lock"))
}

/// Returns a version without an epoch of zero.
pub(super) fn plain(version: &str) -> &str {
    version.strip_prefix("0:").or_else(|| version.strip_prefix("(none):")).unwrap_or(version)
}

/// Validates the name of an RPM package.
pub(super) fn validate(key: &Key) -> Result<(), KeyError> {
    if key.name.contains(':') {
        return Err(KeyError::Name { key: key.to_string(), of: "RPM", why: None });
    }
    Ok(())
}

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
    if let Some(repository::Key::Text(key)) = repository.key() {
        files.push(RepositoryFile::new(key_path(repository), format!("{key}\n")));
    }
    Ok(files)
}

/// Returns the path of the repository's key.
pub(super) fn key_path(repository: &Repository) -> String {
    match repository.key() {
        Some(repository::Key::Path(path)) => path.to_owned(),
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
