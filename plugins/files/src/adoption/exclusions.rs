//! Files that no package has brought, and that no person has made either: caches, identities, what scripts of packages generate, what
//! other plugins look after. They are a table, so that there is one place to add to.

use glob::{MatchOptions, Pattern};
use holo_plugin::Host;
use holo_plugin::system::{Digest, Root};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Patterns of paths, as shells have them, where `**` stands for any directories.
const PATTERNS: &[&str] = &[
    // Accounts are entities of their own.
    "/etc/passwd*",
    "/etc/group*",
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/subuid*",
    "/etc/subgid*",
    "/etc/.pwd.lock",
    // Identities of a machine, and its keys.
    "/etc/machine-id",
    "/etc/hostname",
    "/etc/mailname",
    "/etc/fstab",
    "/etc/crypttab",
    "/etc/network/interfaces",
    "/etc/netplan/*",
    "/etc/hostid",
    "/etc/ssh/ssh_host_*",
    "/etc/ssl/private/ssl-cert-snakeoil.key",
    "/etc/ssl/certs/ssl-cert-snakeoil.pem",
    "/etc/iscsi/initiatorname.iscsi",
    "/etc/nvme/host*",
    // Caches, and what programs keep for themselves.
    "/etc/ld.so.cache*",
    "/etc/.updated",
    "/etc/mtab",
    "/etc/adjtime",
    "/etc/resolv.conf",
    "/etc/udev/hwdb.bin",
    "/etc/aliases.db",
    "/etc/postfix/*.db",
    "/etc/lvm/archive/*",
    "/etc/lvm/backup/*",
    "/etc/lvm/cache/*",
    "/etc/console-setup/cached*",
    "/etc/cups/subscriptions.conf*",
    "/etc/apparmor.d/cache/**",
    "/etc/apparmor.d/cache.d/**",
    "/etc/**/__pycache__/**",
    "/etc/**/*.pyc",
    "/etc/.java/**",
    // Generated from what is elsewhere, by tools of the distribution.
    "/etc/alternatives/**",
    "/etc/rc?.d/**",
    "/etc/rc.d/rc?.d/**",
    "/etc/init.d/.depend.*",
    "/etc/ssl/certs/**",
    "/etc/ca-certificates.conf",
    "/etc/ca-certificates/extracted/**",
    "/etc/pki/ca-trust/extracted/**",
    "/etc/fonts/conf.d/*",
    "/etc/sgml/catalog",
    "/etc/xml/*",
    "/etc/dictionaries-common/*",
    "/etc/apparmor.d/local/*",
    "/etc/apparmor.d/tunables/home.d/ubuntu",
    "/etc/pam.d/common-*",
    "/etc/locale.gen",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/default/locale",
    "/etc/default/keyboard",
    "/etc/default/console-setup",
    "/etc/shells",
    "/etc/nsswitch.conf",
    "/etc/profile",
    "/etc/environment",
    "/etc/motd",
    "/etc/issue*",
    "/etc/os-release",
    "/etc/vtrgb",
    "/etc/kernel-img.conf",
    "/etc/papersize",
    "/etc/modules-load.d/modules.conf",
    "/etc/apt/apt.conf.d/01autoremove-kernels",
    "/etc/X11/default-display-manager",
    // Links and lists of what init systems start belong to the services.
    "/etc/systemd/system/**/*.wants/*",
    "/etc/systemd/system/**/*.requires/*",
    "/etc/systemd/user/**/*.wants/*",
    "/etc/systemd/user/**/*.requires/*",
    "/etc/systemd/system/*.wants",
    "/etc/systemd/system/*.requires",
    "/etc/systemd/user/*.wants",
    "/etc/systemd/user/*.requires",
    "/etc/runlevels/**",
    // Locks, copies and leftovers of editors and package managers.
    "/etc/**/.git/**",
    "/etc/**/*.lock",
    "/etc/**/.#*",
    "/etc/**/*~",
    "/etc/**/*-",
    "/etc/**/*.bak",
    "/etc/**/*.swp",
    "/etc/**/*.dpkg-*",
    "/etc/**/*.ucf-*",
    "/etc/**/*.rpmnew",
    "/etc/**/*.rpmsave",
    "/etc/**/*.rpmorig",
    "/etc/**/*.pacnew",
    "/etc/**/*.pacsave",
    "/etc/**/*.apk-new",
    "/etc/**/*.holonew",
    "/etc/apt/trusted.gpg~",
    "/etc/apt/**/*.save",
    // The configuration of this program.
    "/etc/holo/**",
    "/etc/holo",
    "/etc/holorc",
    "/etc/holorc.d/**",
    // Installed by the package managers of languages.
    "/usr/local/lib/python*/**",
    "/usr/local/lib/node_modules/**",
    "/usr/local/lib/ruby/**",
    "/usr/local/share/perl/**",
    "/usr/local/share/perl5/**",
    "/usr/local/lib/*/perl/**",
    "/usr/local/share/ca-certificates",
    "/usr/local/share/fonts",
    "/usr/local/man",
    "/usr/local/**/__pycache__/**",
    "/usr/local/**/.git/**",
    "/usr/local/**/*.pyc",
];

/// So many seconds after its package was unpacked, a file that a script of the package names has been changed by somebody else.
const INSTALLATION: i64 = 600;
const SCRIPTS: &str = "var/lib/dpkg/info";
/// The sums of the files that `ucf` has put into place.
const UCF_SUMS: &str = "var/lib/ucf/hashfile";

/// The files that are left out.
pub(super) struct Exclusions {
    patterns: Vec<Pattern>,
    /// The scripts of packages, with the time when each package was unpacked.
    scripts: Vec<(String, i64)>,
    /// The digests of files that were put into place and that a person may have changed since, by their paths.
    generated: HashMap<String, Digest>,
}

impl Exclusions {
    pub(super) fn read(host: &Host) -> Exclusions {
        let root = Root::new(host.root());
        let patterns = PATTERNS.iter().filter_map(|pattern| Pattern::new(pattern).ok()).collect();
        let sums = root.text(UCF_SUMS).unwrap_or_default();
        let generated = sums.lines().filter_map(|line| line.split_once(char::is_whitespace));
        let generated =
            generated.map(|(sum, path)| (path.trim().to_owned(), Digest::Hexadecimal(sum.to_owned()))).collect();
        Exclusions { patterns, scripts: scripts(host, &root), generated }
    }

    /// Returns the digest that a file had when a script of a package put it into place.
    pub(super) fn generated(&self, path: &str) -> Option<&Digest> {
        self.generated.get(path)
    }

    /// Returns true if a file is nothing that a person has made.
    pub(super) fn cover(&self, path: &str, changed: i64) -> bool {
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
        self.patterns.iter().any(|pattern| pattern.matches_with(path, options)) || self.is_of_a_script(path, changed)
    }

    fn is_of_a_script(&self, path: &str, changed: i64) -> bool {
        let ends = |rest: &str| !rest.starts_with(|letter: char| letter.is_alphanumeric() || "-_./".contains(letter));
        let names =
            |script: &str| script.match_indices(path).any(|(at, _)| script.get(at + path.len()..).is_none_or(ends));
        self.scripts.iter().any(|(script, unpacked)| changed <= unpacked + INSTALLATION && names(script))
    }
}

/// Reads the scripts that packages run when they are installed.
fn scripts(host: &Host, root: &Root) -> Vec<(String, i64)> {
    let mut scripts = Vec::new();
    for name in root.names(SCRIPTS).unwrap_or_default() {
        let Some(name) = name.to_str() else { continue };
        let Some((package, "postinst" | "preinst" | "config")) = name.rsplit_once('.') else { continue };
        let unpacked = host.below_root(Path::new(&format!("/{SCRIPTS}/{package}.list")));
        let unpacked = fs::metadata(unpacked).map_or(0, |list| list.mtime());
        scripts.extend(root.text(Path::new(SCRIPTS).join(name)).map(|text| (text, unpacked)));
    }
    scripts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_valid_and_cover_what_they_should() {
        let patterns: Vec<Pattern> = PATTERNS.iter().map(|pattern| Pattern::new(pattern).unwrap()).collect();
        let scripts = vec![("cp x /etc/made\nrm /etc/made.d/y".to_owned(), 1000)];
        let exclusions = Exclusions { patterns, scripts, generated: HashMap::new() };
        for path in [
            "/etc/passwd-",
            "/etc/machine-id",
            "/etc/ssh/ssh_host_rsa_key.pub",
            "/etc/rc3.d/S01x",
            "/etc/systemd/system/multi-user.target.wants/nginx.service",
            "/etc/nginx/nginx.conf.dpkg-dist",
            "/etc/alternatives/vi",
            "/etc/holo/resources/files/90-local/etc/x",
            "/etc/made",
        ] {
            assert!(exclusions.cover(path, 1600), "{path}");
        }
        for path in
            ["/etc/nginx/sites-enabled/mine", "/etc/systemd/system/mine.service", "/usr/local/bin/x", "/etc/made.d"]
        {
            assert!(!exclusions.cover(path, 1600), "{path}");
        }
        assert!(!exclusions.cover("/etc/made", 1601), "it was changed later");
    }
}
