//! Facts that lie in files below the root: the distribution, the host's name, the init system, the package manager.

use crate::below::Below;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(super) fn add(below: &Below, facts: &mut Map<String, Value>) {
    let text = ["etc/os-release", "usr/lib/os-release"].iter().find_map(|path| below.text(path));
    let os = os_release(&text.unwrap_or_default());
    facts.insert("init".to_owned(), init(below).into());
    facts.insert("package_manager".to_owned(), package_manager(below, &os).into());
    facts.insert("os".to_owned(), os);
    let given = below.text("etc/hostname").and_then(|text| first_word(&text));
    let full = given.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
    let hosts = below.text("etc/hosts").unwrap_or_default();
    let (hostname, fqdn, domain) = names(&full, &hosts);
    facts.insert("hostname".to_owned(), hostname.into());
    facts.insert("fqdn".to_owned(), fqdn.into());
    facts.insert("domain".to_owned(), domain.into());
}

/// What `os-release(5)` has, with its own defaults.
fn os_release(text: &str) -> Value {
    let mut given = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let Some((key, value)) = line.split_once('=') else { continue };
        // Values are quoted as for a shell; one that is not quoted properly is taken as it stands.
        given.insert(key, shlex::split(value).map_or_else(|| value.to_owned(), |words| words.join(" ")));
    }
    let or = |key: &str, default: &str| match given.get(key) {
        Some(value) if !value.is_empty() => value.clone(),
        _ => default.to_owned(),
    };
    let name = or("NAME", "Linux");
    json!({
        "id": or("ID", "linux"),
        "id_like": or("ID_LIKE", "").split_whitespace().collect::<Vec<_>>(),
        "pretty_name": or("PRETTY_NAME", &name),
        "name": name,
        "version": or("VERSION", ""),
        "version_id": or("VERSION_ID", ""),
        "codename": or("VERSION_CODENAME", ""),
        "variant_id": or("VARIANT_ID", ""),
    })
}

/// The first word that is no comment.
fn first_word(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).next()
}

/// The name up to its first dot, the full name, and what stands behind the first dot of that.
fn names(name: &str, hosts: &str) -> (String, String, String) {
    let hostname = name.split('.').next().unwrap_or_default();
    let in_hosts = || {
        let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
        let names = lines.flat_map(|line| line.split_whitespace().skip(1));
        names.into_iter().find(|full| full.strip_prefix(hostname).is_some_and(|rest| rest.starts_with('.')))
    };
    let fqdn = if name.contains('.') { name } else { in_hosts().unwrap_or(name) };
    let domain = fqdn.split_once('.').map_or("", |(_, domain)| domain);
    (hostname.to_owned(), fqdn.to_owned(), domain.to_owned())
}

/// The init system: what runs as process 1 of the running system, or what is installed for that. Empty if it is none that we know.
fn init(below: &Below) -> &'static str {
    if !below.is_running() {
        return installed_init(below);
    }
    if below.has("run/systemd/system") {
        return "systemd";
    }
    match std::fs::read_to_string("/proc/1/comm").unwrap_or_default().trim() {
        "systemd" => "systemd",
        "runit" => "runit",
        "s6-svscan" => "s6",
        "dinit" => "dinit",
        "openrc-init" => "openrc",
        "init" => installed_init(below),
        _ => "",
    }
}

const INSTALLED_INITS: [(&str, &str); 8] = [
    ("systemd", "usr/lib/systemd/systemd"),
    ("systemd", "lib/systemd/systemd"),
    ("openrc", "sbin/openrc-run"),
    ("openrc", "usr/bin/openrc-run"),
    ("runit", "etc/runit/2"),
    ("dinit", "sbin/dinit"),
    ("s6", "etc/s6-linux-init"),
    ("sysvinit", "etc/inittab"),
];

fn installed_init(below: &Below) -> &'static str {
    INSTALLED_INITS.iter().find(|(_, path)| below.has(path)).map_or("", |(name, _)| name)
}

/// Package managers, the programs that they are there by, and the distributions that are theirs.
const PACKAGE_MANAGERS: [(&str, &[&str], &[&str]); 5] = [
    ("apt", &["usr/bin/apt-get"], &["debian", "ubuntu"]),
    ("dnf", &["usr/bin/dnf", "usr/bin/dnf5"], &["fedora", "rhel", "centos"]),
    ("pacman", &["usr/bin/pacman"], &["arch"]),
    ("zypper", &["usr/bin/zypper"], &["suse", "opensuse"]),
    ("apk", &["sbin/apk", "usr/bin/apk", "usr/sbin/apk"], &["alpine"]),
];

/// The distribution's own package manager if that is there, otherwise the first that is; empty if none is.
fn package_manager(below: &Below, os: &Value) -> &'static str {
    let like = os["id_like"].as_array().into_iter().flatten();
    let ids: Vec<&str> = [&os["id"]].into_iter().chain(like).filter_map(Value::as_str).collect();
    let mut there: Vec<_> =
        PACKAGE_MANAGERS.iter().filter(|(_, programs, _)| programs.iter().any(|path| below.has(path))).collect();
    // Debian has packages of most of the others too.
    there.sort_by_key(|(_, _, families)| {
        let is_home = |id: &&str| families.iter().any(|family| *id == *family || id.starts_with(&format!("{family}-")));
        !ids.iter().any(is_home)
    });
    there.first().map_or("", |(name, _, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn os_release_is_read_as_a_shell_does() {
        let os = os_release(
            "# x\nNAME=\"Open\\\"SUSE\"\nID='opensuse-leap'\nID_LIKE=\"suse opensuse\"\nVERSION_ID=15.6\nVERSION=\"15 'x'\"\nodd\n",
        );
        assert_eq!(os["name"], "Open\"SUSE");
        assert_eq!(os["pretty_name"], "Open\"SUSE");
        assert_eq!(os["id"], "opensuse-leap");
        assert_eq!(os["id_like"], json!(["suse", "opensuse"]));
        assert_eq!((&os["version_id"], &os["version"]), (&json!("15.6"), &json!("15 'x'")));
        assert_eq!(os["codename"], "");
        assert_eq!(os_release("ID=\"broken\n")["id"], "\"broken");
    }

    #[test]
    fn full_names_come_from_the_name_or_from_hosts() {
        let names = |name, hosts| {
            let (hostname, fqdn, domain) = names(name, hosts);
            format!("{hostname} {fqdn} {domain}")
        };
        assert_eq!(names("web1.example.org", ""), "web1 web1.example.org example.org");
        let hosts = "127.0.0.1 localhost\n# 127.0.1.1 web1.no\n127.0.1.1\tweb10.no web1.example.org web1 # web1.no\n";
        assert_eq!(names("web1", hosts), "web1 web1.example.org example.org");
        assert_eq!(names("web", hosts), "web web ");
        assert_eq!(first_word("# me\n\n web1 \n").as_deref(), Some("web1"));
        assert_eq!(first_word("# me\n"), None);
    }

    fn root(paths: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for path in paths {
            fs::create_dir_all(folder.path().join(Path::new(path).parent().unwrap())).unwrap();
            fs::write(folder.path().join(path), "").unwrap();
        }
        folder
    }

    #[test]
    fn the_package_manager_is_the_distributions_own() {
        let of = |paths: &[&str], release: &str| {
            let folder = root(paths);
            package_manager(&Below::new(folder.path()), &os_release(release))
        };
        let all = ["usr/bin/apt-get", "usr/bin/dnf5", "usr/bin/pacman", "usr/bin/zypper", "sbin/apk"];
        assert_eq!(of(&all, "ID=fedora"), "dnf");
        assert_eq!(of(&all, "ID=manjaro\nID_LIKE=arch"), "pacman");
        assert_eq!(of(&all, "ID=opensuse-leap\nID_LIKE=\"suse opensuse\""), "zypper");
        assert_eq!(of(&all, "ID=unheard-of"), "apt");
        assert_eq!(of(&all[1..], "ID=debian"), "dnf");
        assert_eq!(of(&[], "ID=debian"), "");
    }

    #[test]
    fn the_init_system_of_a_root_is_what_is_installed() {
        let of = |paths: &[&str]| init(&Below::new(root(paths).path()));
        assert_eq!(of(&["usr/lib/systemd/systemd", "etc/inittab"]), "systemd");
        assert_eq!(of(&["sbin/openrc-run", "etc/inittab"]), "openrc");
        assert_eq!(of(&["etc/inittab"]), "sysvinit");
        assert_eq!(of(&[]), "");
    }
}
