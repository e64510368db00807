//! Files that belong to no package, but were not created manually either: caches, identities, output of maintainer scripts, and files of
//! other plugins. They are listed in a table, so that they are easy to extend.

use glob::{MatchOptions, Pattern};
use holo_plugin::Host;
use holo_plugin::system::{Digest, Root};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// The reason to not list a file at all: it is part of other entities, or of holo itself.
const SILENT: &str = "";
const IDENTITY: &str = "it identifies this machine or describes its hardware";
const CACHE: &str = "a program keeps its cache or state in it";
const GENERATED: &str = "a tool of the distribution generates it from other files";
const LEFTOVER: &str = "it is a lock, a backup or a leftover";
const INSTALLED: &str = "the package manager of a language installed it";

/// Shell patterns of paths, with the reason to exclude matching files. `**` matches any directories.
const PATTERNS: &[(&str, &[&str])] = &[
    (
        SILENT,
        &[
            // Accounts are entities of their own.
            "/etc/passwd*",
            "/etc/group*",
            "/etc/shadow*",
            "/etc/gshadow*",
            "/etc/subuid*",
            "/etc/subgid*",
            "/etc/.pwd.lock",
            // The services plugin manages enablement.
            "/etc/rc?.d/**",
            "/etc/rc.d/rc?.d/**",
            "/etc/systemd/system/**/*.wants/*",
            "/etc/systemd/system/**/*.requires/*",
            "/etc/systemd/user/**/*.wants/*",
            "/etc/systemd/user/**/*.requires/*",
            "/etc/systemd/system/*.wants",
            "/etc/systemd/system/*.requires",
            "/etc/systemd/user/*.wants",
            "/etc/systemd/user/*.requires",
            "/etc/runlevels/**",
            // The configuration of holo.
            "/etc/holo/**",
            "/etc/holo",
            "/etc/holorc",
            "/etc/holorc.d/**",
            // The files of holo itself after `make install`.
            "/usr/lib/systemd/system/holo-apply.*",
            "/usr/lib/systemd/system/holo-check.*",
            "/usr/lib/systemd/system/holo-first-boot.service",
            "/usr/lib/systemd/system/multi-user.target.wants/holo-first-boot.service",
            "/usr/lib/systemd/system/holo-agent.service",
            "/usr/lib/systemd/system/holo-fleet-controller.service",
            "/usr/local/lib/systemd/system/holo-apply.*",
            "/usr/local/lib/systemd/system/holo-check.*",
            "/usr/local/lib/systemd/system/holo-first-boot.service",
            "/usr/local/lib/systemd/system/multi-user.target.wants/holo-first-boot.service",
            "/usr/local/lib/systemd/system/holo-agent.service",
            "/usr/local/lib/systemd/system/holo-fleet-controller.service",
            "/usr/local/bin/holo",
            "/usr/local/bin/holo-agent",
            "/usr/local/bin/holo-build",
            "/usr/local/bin/holo-fleet",
            "/usr/local/bin/holo-secret",
            "/usr/local/lib/holo/**",
            "/usr/local/share/holo/**",
            "/usr/local/share/holo-schema/**",
            "/usr/local/share/man/man?/holo*",
            "/usr/local/share/bash-completion/completions/holo",
            "/usr/local/share/fish/vendor_completions.d/holo.fish",
            "/usr/local/share/zsh/site-functions/_holo",
            // The ssh-keys plugin manages keys for logins.
            "/**/.ssh/authorized_keys",
            // Jobs of at(1).
            "/var/spool/cron/at*",
            "/var/spool/cron/at*/**",
        ],
    ),
    (
        IDENTITY,
        &[
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
        ],
    ),
    (
        CACHE,
        &[
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
            "/usr/local/**/__pycache__/**",
            "/usr/local/**/*.pyc",
            "/home/**/.cache/**",
            "/root/.cache/**",
            "/home/**/.*_history",
            "/root/.*_history",
        ],
    ),
    (
        GENERATED,
        &[
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
            "/etc/shells",
            "/etc/issue*",
            "/etc/os-release",
            "/etc/vtrgb",
            "/etc/kernel-img.conf",
            "/etc/papersize",
            "/etc/modules-load.d/modules.conf",
            "/etc/apt/apt.conf.d/01autoremove-kernels",
            "/etc/X11/default-display-manager",
        ],
    ),
    (
        LEFTOVER,
        &[
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
            "/usr/local/**/.git/**",
        ],
    ),
    (
        INSTALLED,
        &[
            "/usr/local/lib/python*/**",
            "/usr/local/lib/node_modules/**",
            "/usr/local/lib/ruby/**",
            "/usr/local/share/perl/**",
            "/usr/local/share/perl5/**",
            "/usr/local/lib/*/perl/**",
        ],
    ),
    (SILENT, &["/usr/local/share/ca-certificates", "/usr/local/share/fonts", "/usr/local/man"]),
];

const SCRIPTS: &str = "var/lib/dpkg/info";
/// The packages of files that `ucf` has installed.
const UCF_PACKAGES: &str = "var/lib/ucf/registry";
/// The checksums of these files.
const UCF_SUMS: &str = "var/lib/ucf/hashfile";

/// The files to exclude.
pub(super) struct Exclusions {
    root: Root,
    patterns: Vec<(&'static str, &'static str, Pattern)>,
    /// The maintainer scripts, each with the name of its package as in the names of dpkg's files.
    scripts: Vec<(String, String)>,
    /// The digests of files as maintainer scripts installed them, by path. They may have been changed since.
    generated: HashMap<String, Digest>,
    /// The packages of such files, by path.
    packages: HashMap<String, String>,
}

/// A pattern that excludes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Exclusion {
    pub(super) pattern: &'static str,
    /// The reason; `None` if the file is not listed at all.
    pub(super) reason: Option<&'static str>,
}

/// How the content of a file that a maintainer script mentions compares with the files that its package contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mention {
    /// It is a copy of one of them, or empty.
    Copied,
    /// The original content is unknown. The name of the package.
    Unknown(String),
}

impl Exclusions {
    pub(super) fn read(host: &Host) -> Exclusions {
        let root = Root::new(host.root());
        let (sums, packages) = (pairs(&root, UCF_SUMS), pairs(&root, UCF_PACKAGES));
        let generated = sums.into_iter().map(|(sum, path)| (path, Digest::Hexadecimal(sum))).collect();
        let packages = packages.into_iter().map(|(package, path)| (path, package)).collect();
        let patterns = compiled().collect();
        Exclusions { patterns, scripts: scripts(&root), generated, packages, root }
    }

    /// Returns the digest that a file had when a maintainer script installed it.
    pub(super) fn generated(&self, path: &str) -> Option<&Digest> {
        self.generated.get(path)
    }

    /// Returns the package whose maintainer scripts install a file, if there is only one.
    pub(super) fn package(&self, path: &str) -> Option<&str> {
        let registered = self.packages.get(path).map(String::as_str);
        registered.or_else(|| {
            let mut packages = self.mentioning(path).map(|(package, _)| name_of(package));
            let first = packages.next()?;
            packages.all(|package| package == first).then_some(first)
        })
    }

    /// Returns the pattern that excludes a file, if there is one.
    pub(super) fn of(&self, path: &str) -> Option<Exclusion> {
        let mut matching = self.patterns.iter().filter(|(.., pattern)| pattern.matches_with(path, options()));
        matching
            .next()
            .map(|(pattern, reason, _)| Exclusion { pattern, reason: Some(*reason).filter(|it| *it != SILENT) })
    }

    /// Looks for a path in the maintainer scripts. Returns `None` if no script mentions it.
    pub(super) fn mention(&self, path: &str, content: &[u8]) -> Option<Mention> {
        let mut packages = self.mentioning(path).map(|(package, _)| package).peekable();
        let first = name_of(packages.peek()?).to_owned();
        if content.is_empty() || packages.any(|package| self.contains(package, content)) {
            return Some(Mention::Copied);
        }
        Some(Mention::Unknown(first))
    }

    /// Returns true if a maintainer script mentions both a symlink and its target.
    pub(super) fn links(&self, path: &str, target: &str) -> bool {
        self.mentioning(path).any(|(_, script)| mentions(script, target))
    }

    /// Returns true if a maintainer script mentions a path.
    pub(super) fn is_mentioned(&self, path: &str) -> bool {
        self.mentioning(path).next().is_some()
    }

    /// Returns true if a maintainer script adds an override with this owner and mode. Scripts may use variables, so the parts can be anywhere
    /// in the script.
    pub(super) fn sets_override(&self, path: &Path, owner: &str, group: &str, mode: u32) -> bool {
        let is_part = |letter: char| letter.is_alphanumeric() || "-_.#".contains(letter);
        let adds = |script: &str| {
            let words: HashSet<&str> = script.split(|letter| !is_part(letter)).collect();
            let has_names = ["dpkg-statoverride", "--add", owner, group].iter().all(|word| words.contains(word));
            has_names && words.iter().any(|word| u32::from_str_radix(word, 8) == Ok(mode))
        };
        path.to_str().is_some_and(|path| self.mentioning(path).any(|(_, script)| adds(script)))
    }

    fn mentioning<'a>(&'a self, path: &str) -> impl Iterator<Item = (&'a String, &'a String)> {
        self.scripts.iter().filter(move |(_, script)| mentions(script, path)).map(|(package, script)| (package, script))
    }

    /// Returns true if a package contains a file with this content.
    fn contains(&self, package: &str, content: &[u8]) -> bool {
        let sums = self.root.text(Path::new(SCRIPTS).join(format!("{package}.md5sums"))).unwrap_or_default();
        let mut sums = sums.lines().filter_map(|line| line.split_once("  "));
        sums.any(|(sum, _)| Digest::Hexadecimal(sum.to_owned()).is_of(content) == Some(true))
    }
}

/// Returns true if `ucf` has installed a file.
pub(super) fn is_generated(path: &str, host: &Host) -> bool {
    pairs(&Root::new(host.root()), UCF_SUMS).iter().any(|(_, generated)| generated == path)
}

/// Returns true if a pattern excludes a path.
pub(super) fn is_excluded(path: &str) -> bool {
    compiled().any(|(.., pattern)| pattern.matches_with(path, options()))
}

fn compiled() -> impl Iterator<Item = (&'static str, &'static str, Pattern)> {
    let patterns = PATTERNS.iter().flat_map(|(reason, patterns)| patterns.iter().map(|pattern| (*pattern, *reason)));
    patterns.filter_map(|(pattern, reason)| Some((pattern, reason, Pattern::new(pattern).ok()?)))
}

fn options() -> MatchOptions {
    MatchOptions { require_literal_separator: true, ..MatchOptions::new() }
}

/// Returns the name of a package without its architecture.
fn name_of(package: &str) -> &str {
    package.split_once(':').map_or(package, |(name, _)| name)
}

/// Returns the first words of the lines of a file, each with the rest of its line.
fn pairs(root: &Root, path: &str) -> Vec<(String, String)> {
    let text = root.text(path).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    lines.map(|(first, rest)| (first.to_owned(), rest.trim().to_owned())).collect()
}

/// Returns true if a script contains a path, other than as the beginning of a longer one.
fn mentions(script: &str, path: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|letter: char| letter.is_alphanumeric() || "-_./".contains(letter));
    script.match_indices(path).any(|(at, _)| script.get(at + path.len()..).is_none_or(ends))
}

/// Reads the maintainer scripts of all packages.
fn scripts(root: &Root) -> Vec<(String, String)> {
    let mut scripts = Vec::new();
    for name in root.names(SCRIPTS).unwrap_or_default() {
        let Some(name) = name.to_str() else { continue };
        let Some((package, "postinst" | "preinst" | "config")) = name.rsplit_once('.') else { continue };
        scripts.extend(root.text(Path::new(SCRIPTS).join(name)).map(|text| (package.to_owned(), text)));
    }
    scripts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exclusions(scripts: Vec<(String, String)>) -> Exclusions {
        let empty = Exclusions::read(&Host::from_environment(|_| Some("/nonexistent".into())).unwrap());
        Exclusions { scripts, ..empty }
    }

    #[test]
    fn exclusion_patterns_are_valid_and_match() {
        let exclusions = exclusions(Vec::new());
        assert_eq!(exclusions.patterns.len(), PATTERNS.iter().map(|(_, patterns)| patterns.len()).sum::<usize>());
        let reason = |path: &str| exclusions.of(path).map(|exclusion| exclusion.reason);
        for (path, expected) in [
            ("/etc/passwd-", None),
            ("/etc/machine-id", Some(IDENTITY)),
            ("/etc/ssh/ssh_host_rsa_key.pub", Some(IDENTITY)),
            ("/etc/rc3.d/S01x", None),
            ("/etc/systemd/system/multi-user.target.wants/nginx.service", None),
            ("/etc/nginx/nginx.conf.dpkg-dist", Some(LEFTOVER)),
            ("/etc/holo/resources/files/90-local/etc/x", None),
        ] {
            assert_eq!(reason(path), Some(expected), "{path}");
        }
        for path in [
            "/etc/nginx/sites-enabled/mine",
            "/etc/systemd/system/mine.service",
            "/usr/local/bin/x",
            "/etc/environment",
            "/etc/default/locale",
            "/etc/localtime",
            "/etc/nsswitch.conf",
            "/etc/profile",
        ] {
            assert_eq!(reason(path), None, "{path}");
        }
    }

    #[test]
    fn the_manual_page_lists_what_is_left_out() {
        let page = include_str!("../../../../man/holo-adopt.8");
        let section = page.split("\n.Ss ").find(|section| section.starts_with("Files that are left out")).unwrap();
        let listed = section.lines().filter_map(|line| Some(line.strip_prefix(".Pa ")?.trim_end_matches(" ,")));
        let listed: Vec<&str> = listed.filter(|path| *path != "/etc/holo/adopt.toml").collect();
        let shown = PATTERNS.iter().filter(|(reason, _)| *reason != SILENT).flat_map(|(_, patterns)| *patterns);
        assert_eq!(listed, shown.copied().collect::<Vec<_>>());
    }

    #[test]
    fn installed_files_of_holo_are_excluded() {
        let exclusions = exclusions(Vec::new());
        let contents = include_str!("../../../../packaging/contents").lines().filter(|line| !line.starts_with('#'));
        let paths: Vec<&str> = contents.filter_map(|line| line.split_whitespace().nth(3)).collect();
        assert!(paths.len() > 50, "{paths:?}");
        for prefix in ["/usr", "/usr/local"] {
            for path in &paths {
                let path =
                    path.replace("@bin@", &format!("{prefix}/bin")).replace("@lib@", &format!("{prefix}/lib/holo"));
                let path = path.replace("@share@", &format!("{prefix}/share")).replace("@etc@", "/etc");
                let path = path.replace("@units@", &format!("{prefix}/lib/systemd/system"));
                let path = path.replace("@zsh@", &format!("{prefix}/share/zsh/site-functions"));
                let is_searched = super::super::search::SCOPES.iter().any(|scope| path.starts_with(scope));
                assert!(!is_searched || exclusions.of(&path).is_some_and(|it| it.reason.is_none()), "{path}");
            }
        }
    }

    #[test]
    fn paths_are_found_in_scripts() {
        let script = "cp x /etc/made\nrm /etc/made.d/y\nln -s debian /etc/link";
        let exclusions = exclusions(vec![("base:amd64".to_owned(), script.to_owned())]);
        assert_eq!(exclusions.mention("/etc/made", b"x"), Some(Mention::Unknown("base".to_owned())));
        assert_eq!(exclusions.mention("/etc/made", b""), Some(Mention::Copied));
        assert_eq!(exclusions.mention("/etc/made.d", b"x"), None);
        assert!(exclusions.links("/etc/link", "debian") && !exclusions.links("/etc/link", "ubuntu"));
    }

    #[test]
    fn overrides_of_scripts_are_recognized_by_all_their_parts() {
        let script = "USER=messagebus\nLAUNCHER=/usr/lib/dbus/launcher\n\
                      dpkg-statoverride --update --add root \"$USER\" 04754 \"$LAUNCHER\"\n";
        let exclusions = exclusions(vec![("dbus".to_owned(), script.to_owned())]);
        let sets = |group, mode, path| exclusions.sets_override(Path::new(path), "root", group, mode);
        assert!(sets("messagebus", 0o4754, "/usr/lib/dbus/launcher"));
        assert!(!sets("message", 0o4754, "/usr/lib/dbus/launcher"));
        assert!(!sets("messagebus", 0o4755, "/usr/lib/dbus/launcher"));
        assert!(!sets("messagebus", 0o4754, "/usr/lib/dbus"));
    }
}
