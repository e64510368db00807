//! Facts from files below the root: distribution, host name, init system, package manager.

use holo_system::{OsRelease, Root, package_manager};
use serde_json::{Map, Value, json};

pub(super) fn add(root: &Root, facts: &mut Map<String, Value>) {
    let release = OsRelease::read(root);
    let manager = package_manager::of_system(root, &release);
    facts.insert("init".to_owned(), holo_system::init_system(root).into());
    facts.insert("package_manager".to_owned(), manager.map_or("", |manager| manager.name).into());
    facts.insert("os".to_owned(), os_release(&release));
    let given = root.text("etc/hostname").and_then(|text| first_word(&text));
    let full = given.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
    let hosts = root.text("etc/hosts").unwrap_or_default();
    let (hostname, fqdn, domain) = names(&full, &hosts);
    facts.insert("hostname".to_owned(), hostname.into());
    facts.insert("fqdn".to_owned(), fqdn.into());
    facts.insert("domain".to_owned(), domain.into());
}

/// Returns the values of `os-release(5)`, with the defaults defined there.
fn os_release(release: &OsRelease) -> Value {
    let or = |key: &str, default: &str| release.get(key).unwrap_or(default).to_owned();
    let name = or("NAME", "Linux");
    json!({
        "id": or("ID", "linux"),
        "id_like": release.id_like().collect::<Vec<_>>(),
        "pretty_name": or("PRETTY_NAME", &name),
        "name": name,
        "version": or("VERSION", ""),
        "version_id": or("VERSION_ID", ""),
        "codename": or("VERSION_CODENAME", ""),
        "variant_id": or("VARIANT_ID", ""),
    })
}

/// Returns the first word that is not in a comment.
fn first_word(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).next()
}

/// Returns the host name up to its first dot, the full name, and the part of the full name after its first dot.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_missing_in_os_release_have_their_defaults() {
        let os = os_release(&OsRelease::parse("NAME=\"Open\\\"SUSE\"\nID_LIKE=\"suse opensuse\"\n"));
        assert_eq!((&os["name"], &os["pretty_name"]), (&json!("Open\"SUSE"), &json!("Open\"SUSE")));
        assert_eq!((&os["id"], &os["id_like"]), (&json!("linux"), &json!(["suse", "opensuse"])));
        assert_eq!(os["codename"], "");
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
}
