//! The files of an apt repository: a source in deb822 format, its key, its priority and its login.

use crate::repository::{Address, Key, Repository, RepositoryFile};
use holo_plugin::definitions::Invalid;
use std::collections::BTreeSet;

/// Returns the files of a repository.
///
/// # Errors The key that is missing, or that conflicts with others.
pub(super) fn files(repository: &Repository) -> Result<Vec<RepositoryFile>, Invalid> {
    let name = &repository.name;
    let source = format!("/etc/apt/sources.list.d/{name}.sources");
    if repository.is_gone() {
        let old = format!("/etc/apt/sources.list.d/{name}.list");
        return Ok(vec![RepositoryFile::absent(source), RepositoryFile::absent(old)]);
    }
    validate(repository)?;
    let mut files = vec![RepositoryFile::new(source, stanza(repository))];
    if let Some(Key::Text(key)) = repository.key() {
        files.push(RepositoryFile::new(keyring(name), format!("{key}\n")));
    }
    if let Some(priority) = repository.pin {
        files.push(RepositoryFile::new(format!("/etc/apt/preferences.d/{name}.pref"), pins(repository, priority)));
    }
    if repository.has_login() {
        let (path, content) = (format!("/etc/apt/auth.conf.d/{name}.conf"), Some(logins(repository)));
        files.push(RepositoryFile { path, content, sensitive: true });
    }
    Ok(files)
}

fn validate(repository: &Repository) -> Result<(), Invalid> {
    if repository.suites.is_empty() {
        return Err(Invalid::new("suites", "is missing; that of a repository without suites is \"./\""));
    }
    let is_flat = |suite: &String| suite.ends_with('/');
    match (repository.suites.iter().all(is_flat), repository.suites.iter().any(is_flat)) {
        (true, _) if !repository.components.is_empty() => {
            Err(Invalid::new("components", "a suite that ends with a slash has no components"))
        }
        (false, true) => Err(Invalid::new("suites", "either all suites or none must end with a slash")),
        (false, false) if repository.components.is_empty() => Err(Invalid::new("components", "is missing")),
        _ => Ok(()),
    }
}

fn keyring(name: &str) -> String {
    format!("/etc/apt/keyrings/{name}.asc")
}

fn stanza(repository: &Repository) -> String {
    let uris: Vec<String> = repository.addresses().map(|address| address.plain).collect();
    let key = repository.key().map(|key| match key {
        Key::Path(path) => path.to_owned(),
        Key::Text(_) => keyring(&repository.name),
    });
    let fields = [
        ("Types", "deb".to_owned()),
        ("URIs", uris.join(" ")),
        ("Suites", repository.suites.join(" ")),
        ("Components", repository.components.join(" ")),
        ("Architectures", repository.architectures.join(" ")),
        ("Signed-By", key.unwrap_or_default()),
        ("Trusted", if repository.trusted { "yes" } else { "" }.to_owned()),
    ];
    let said = fields.iter().filter(|(_, value)| !value.is_empty());
    said.map(|(name, value)| format!("{name}: {value}\n")).collect()
}

/// Returns the pins for all packages from the repository's hosts. A local directory has an empty host name.
fn pins(repository: &Repository, priority: i32) -> String {
    let hosts: BTreeSet<String> = repository.addresses().map(|address| address.host).collect();
    let pin = |host: &String| format!("Package: *\nPin: origin \"{host}\"\nPin-Priority: {priority}\n");
    let pins: Vec<String> = hosts.iter().map(pin).collect();
    pins.join("\n")
}

fn logins(repository: &Repository) -> String {
    let login = |address: Address| {
        let (user, password) = address.login?;
        let machine = address.plain.trim_end_matches('/');
        Some(format!("machine {machine} login {user} password {password}\n"))
    };
    repository.addresses().filter_map(login).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(definition: &str) -> Result<Vec<RepositoryFile>, Invalid> {
        files(&toml::from_str(definition).unwrap())
    }

    #[test]
    fn repository_has_source_key_pin_and_login_files() {
        let definition = "name = 'vendor'\n\
            uris = ['https://me:s3cret@deb.example.org/', 'http://mirror.example.org/']\n\
            suites = ['stable']\ncomponents = ['main', 'extra']\narchitectures = ['amd64']\npin = 100\n\
            signed_by = '''\n-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nx\n'''\n";
        let files = of(definition).unwrap();
        let shown: Vec<(&str, &str, bool)> =
            files.iter().map(|file| (&*file.path, file.content.as_deref().unwrap(), file.sensitive)).collect();
        assert_eq!(
            shown,
            [
                (
                    "/etc/apt/sources.list.d/vendor.sources",
                    "Types: deb\nURIs: https://deb.example.org/ http://mirror.example.org/\nSuites: stable\n\
                     Components: main extra\nArchitectures: amd64\nSigned-By: /etc/apt/keyrings/vendor.asc\n",
                    false
                ),
                ("/etc/apt/keyrings/vendor.asc", "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nx\n", false),
                (
                    "/etc/apt/preferences.d/vendor.pref",
                    "Package: *\nPin: origin \"deb.example.org\"\nPin-Priority: 100\n\n\
                     Package: *\nPin: origin \"mirror.example.org\"\nPin-Priority: 100\n",
                    false
                ),
                (
                    "/etc/apt/auth.conf.d/vendor.conf",
                    "machine https://deb.example.org login me password s3cret\n",
                    true
                ),
            ]
        );
    }

    #[test]
    fn suites_require_components_unless_flat() {
        let problem = |more: &str| {
            let definition = format!("name = 'x'\nuris = ['file:///srv']\n{more}");
            of(&definition).err().map(|invalid| invalid.key.into_owned())
        };
        assert_eq!(problem("suites = ['./']"), None);
        assert_eq!(problem("suites = ['a', 'b']\ncomponents = ['main']"), None);
        for (more, key) in [
            ("", "suites"),
            ("suites = ['a']", "components"),
            ("suites = ['a/']\ncomponents = ['main']", "components"),
            ("suites = ['a', 'b/']\ncomponents = ['main']", "suites"),
        ] {
            assert_eq!(problem(more).as_deref(), Some(key), "{more}");
        }
    }
}
