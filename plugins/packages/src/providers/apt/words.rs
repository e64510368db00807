//! The arguments and the output of apt and dpkg.

use crate::model::{Installed, Instance, Item, Kind, Offers, PackageError, Status, Step, Transaction};
use holo_plugin::process::Program;
use std::collections::{BTreeMap, BTreeSet};

/// One line for each instance. A package of several architectures has several instances.
pub(super) const FORMAT: &str =
    "--showformat=${Package}\\t${Architecture}\\t${Version}\\t${db:Status-Want}\\t${db:Status-Status}\\n";

/// Parses the output of dpkg-query.
pub(super) fn read_packages(text: &str, installed: &mut Installed) -> Result<(), PackageError> {
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, arch, version, want, status] = fields[..] else {
            return Err(PackageError::new(format!("cannot parse the output of dpkg-query: {line:?}")));
        };
        let status = match status {
            "installed" => Status::Installed,
            "unpacked" | "half-configured" | "triggers-awaited" | "triggers-pending" => Status::Unconfigured,
            "half-installed" if ["deinstall", "purge"].contains(&want) => Status::Removing,
            "config-files" => Status::Leftovers,
            "not-installed" => continue,
            _ => Status::Partial,
        };
        let instance = Instance {
            version: version.to_owned(),
            arch: arch.to_owned(),
            status,
            held: want == "hold",
            automatic: false,
        };
        installed.add(name, instance);
    }
    Ok(())
}

/// Parses apt's record of automatically installed packages.
pub(super) fn read_automatic(text: &str, installed: &mut Installed) {
    for stanza in text.split("\n\n") {
        let value = |key: &str| {
            let line = stanza.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line.map(str::trim)
        };
        if value("Auto-Installed") != Some("1") {
            continue;
        }
        let (Some(name), arch) = (value("Package"), value("Architecture")) else { continue };
        for instance in installed.packages.get_mut(name).into_iter().flatten() {
            // Packages for all architectures are recorded under the native one.
            if instance.arch == "all" || arch.is_none_or(|arch| arch == instance.arch) {
                instance.automatic = true;
            }
        }
    }
}

/// Parses the output of `apt-cache policy`, by the names that it uses. Packages that are not available are left out.
pub(super) fn read_policy(text: &str) -> BTreeMap<String, Offers> {
    let mut all: BTreeMap<String, Offers> = BTreeMap::new();
    let mut current = None;
    let mut is_table = false;
    for line in text.lines() {
        if !line.starts_with(' ') {
            current = line.strip_suffix(':').map(str::to_owned);
            is_table = false;
            continue;
        }
        let Some(name) = &current else { continue };
        let offers = all.entry(name.clone()).or_default();
        if let Some(candidate) = line.strip_prefix("  Candidate: ") {
            offers.candidate = Some(candidate.to_owned()).filter(|candidate| candidate != "(none)");
        } else if line.starts_with("  Version table:") {
            is_table = true;
        } else if let Some(rest) = line.strip_prefix(" *** ").or_else(|| line.strip_prefix("     "))
            && is_table
            && !rest.starts_with(' ')
        {
            offers.versions.extend(rest.split_whitespace().next().map(str::to_owned));
        }
    }
    all.retain(|_, offers| !offers.versions.is_empty());
    all
}

/// Parses the end of the output of `apt-cache showpkg`: `Reverse Provides: ` and lines such as `foo 1.0 (= )`.
pub(super) fn read_provided_by(text: &str) -> BTreeSet<String> {
    let (_, lines) = text.split_once("\nReverse Provides:").unwrap_or_default();
    lines.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Returns dpkg's name of an architecture for Rust's.
pub(super) fn architecture(arch: &str) -> &str {
    match arch {
        "x86_64" => "amd64",
        "x86" => "i386",
        "aarch64" => "arm64",
        "arm" => "armhf",
        "powerpc64" => "ppc64el",
        "loongarch64" => "loong64",
        "mips64" => "mips64el",
        other => other,
    }
}

/// Adds the arguments of a transaction.
pub(super) fn ask(program: &mut Program, transaction: &Transaction) {
    program.args(["--yes", "-o", &format!("APT::Get::AutomaticRemove={}", transaction.cleans)]);
    if transaction.may_downgrade {
        program.arg("--allow-downgrades");
    }
    if transaction.changes_held {
        program.arg("--allow-change-held-packages");
    }
    if transaction.reinstalls {
        program.arg("--reinstall");
    }
    if let Some(recommends) = transaction.recommends {
        program.arg(if recommends { "--install-recommends" } else { "--no-install-recommends" });
    }
    let (coming, going) = transaction.coming_and_going();
    program.arg(match transaction.kind {
        Kind::Remove if coming.is_empty() => "remove",
        Kind::Purge if coming.is_empty() => "purge",
        Kind::Install | Kind::Remove | Kind::Purge => "install",
    });
    // In `apt-get install`, the suffix marks packages that are removed.
    let sign = if coming.is_empty() { "" } else { "-" };
    program.arg("--").args(coming.into_iter().map(name)).args(going.iter().map(|item| format!("{}{sign}", item.key)));
    program.args(transaction.without.iter().map(|name| format!("{name}-")));
}

/// Returns the argument for a package to install. It includes the version, so that apt cannot take it for a pattern or a removal.
fn name(item: &Item) -> String {
    if let Some(file) = &item.file {
        return file.display().to_string();
    }
    match &item.version {
        Some(version) => format!("{}={version}", item.key),
        None => item.key.to_string(),
    }
}

/// Parses the output of `apt-get --simulate`: `Inst foo [1.0] (1.1 ci [all])`, `Remv foo [1.0]`, `Purg foo [1.0]`.
pub(super) fn read_simulation(text: &str) -> Vec<Step> {
    let step = |line: &str| {
        let (verb, rest) = line.split_once(' ')?;
        if !["Inst", "Remv", "Purg"].contains(&verb) {
            return None;
        }
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (name, arch) = name.split_once(':').map_or((name, None), |(name, arch)| (name, Some(arch.to_owned())));
        let from = rest.strip_prefix('[').and_then(|rest| rest.split(']').next()).map(str::to_owned);
        let to = rest.split_once('(').and_then(|(_, rest)| rest.split_whitespace().next()).map(str::to_owned);
        Some(Step { name: name.to_owned(), arch, from, to: to.filter(|_| verb == "Inst") })
    };
    text.lines().filter_map(step).collect()
}

/// Returns true if the text reports that installed packages have unmet dependencies.
pub(super) fn says_broken(text: &str) -> bool {
    text.contains("apt --fix-broken install")
}

/// Returns true if the text reports that another process has locked the package manager.
pub(super) fn says_locked(text: &str) -> bool {
    let signs = ["Could not get lock", "is locked by another process", "Unable to lock", "dpkg frontend lock"];
    signs.iter().any(|sign| text.contains(sign))
}

/// Returns true if apt itself reports a problem of the machine or its network. The output of maintainer scripts does not count.
pub(super) fn says_general(text: &str) -> bool {
    let of_apt = |line: &&str| ["E: ", "W: ", "Err:"].iter().any(|sign| line.starts_with(sign));
    text.contains("dpkg was interrupted") || text.lines().filter(of_apt).any(crate::providers::says_general)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dpkg_state_is_mapped() {
        let wants = ["unknown", "install", "hold", "deinstall", "purge"];
        let (unconfigured, partial) = (Some(Status::Unconfigured), Some(Status::Partial));
        let removing = Some(Status::Removing);
        for (state, meanings) in [
            ("not-installed", [None; 5]),
            ("config-files", [Some(Status::Leftovers); 5]),
            ("half-installed", [partial, partial, partial, removing, removing]),
            ("unpacked", [unconfigured; 5]),
            ("half-configured", [unconfigured; 5]),
            ("triggers-awaited", [unconfigured; 5]),
            ("triggers-pending", [unconfigured; 5]),
            ("installed", [Some(Status::Installed); 5]),
        ] {
            for (want, meaning) in wants.into_iter().zip(meanings) {
                let mut installed = Installed::default();
                read_packages(&format!("foo\tall\t1.0\t{want}\t{state}\n"), &mut installed).unwrap();
                let instance = installed.packages.get("foo").and_then(|instances| instances.first());
                assert_eq!(instance.map(|instance| instance.status), meaning, "{want} {state}");
                assert_eq!(instance.is_some_and(|instance| instance.held), want == "hold" && instance.is_some());
            }
        }
    }

    #[test]
    fn messages_of_maintainer_scripts_are_not_general_errors() {
        for general in [
            "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem. \n",
            "E: Failed to fetch http://deb.debian.org/x.deb  Temporary failure resolving 'deb.debian.org'\n",
            "E: Failed to fetch http://x/y.deb  Could not connect to x:80 (127.0.0.1). - connect (111: Connection refused)\n",
            "E: Write error - write (28: No space left on device)\n",
        ] {
            assert!(says_general(general), "{general}");
        }
        for own in [
            "E: Failed to fetch http://x/y.deb  404  Not Found\n",
            "E: Sub-process /usr/bin/dpkg returned an error code (1)\n",
            "psql: Connection refused\nE: Sub-process /usr/bin/dpkg returned an error code (1)\n",
            "",
        ] {
            assert!(!says_general(own), "{own}");
        }
    }
}
