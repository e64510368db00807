//! The table `packaging/contents`, `make install` and `make uninstall`, and the packages as files.

use crate::{Format, packages, programs, repository};
use holo_testing::{Need, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::fs;

pub(crate) fn trials() -> Vec<Trial> {
    let bash = Need::Program("bash");
    let make = Need::Program("make");
    vec![
        trial_of("every_file_is_in_a_package", &[], every_file_is_in_a_package),
        trial_of("bundles_contain_the_programs_of_the_links", &[], bundles_contain_the_programs_of_the_links),
        trial_of("uninstall_removes_what_install_installs", &[make], uninstall_removes_what_install_installs),
        trial_of("packages_are_reproducible", &[bash], packages_are_reproducible),
        trial_of("lintian_finds_no_error", &[bash, Need::Program("lintian")], lintian_finds_no_error),
        trial_of("rpmlint_finds_no_error", &[bash, Need::Program("rpmlint")], rpmlint_finds_no_error),
    ]
}

fn every_file_is_in_a_package() {
    let table = fs::read_to_string(repository().join("packaging/contents")).unwrap();
    let rows = table.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let listed: BTreeSet<String> = rows
        .map(|row| row.split_whitespace().nth(2).unwrap().to_owned())
        .map(|source| source.trim_start_matches("conf:").trim_start_matches("unit:").to_owned())
        .collect();
    let names = |directory: &str| {
        let entries = fs::read_dir(repository().join(directory)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let mut missing: Vec<String> = ["man", "schema", "units", "holorc.d"]
        .iter()
        .flat_map(|directory| names(directory).into_iter().map(move |name| format!("{directory}/{name}")))
        .collect();
    missing.extend(names("plugins").into_iter().map(|plugin| format!("plugin:{plugin}")));
    missing.retain(|file| !listed.contains(file));
    assert!(missing.is_empty(), "not in packaging/contents: {missing:?}");
}

/// A link to a bundle without its program would be a dispatcher, or an error.
fn bundles_contain_the_programs_of_the_links() {
    let table = fs::read_to_string(repository().join("packaging/contents")).unwrap();
    for (package, bundle) in [("holo", "holo-bundle"), ("holo-bridges", "holo-bridges")] {
        let source = fs::read_to_string(repository().join(format!("packaging/src/bin/{bundle}.rs"))).unwrap();
        let applets: BTreeSet<&str> =
            source.split("(\"").skip(1).filter_map(|rest| rest.split_once("\", ")).map(|(name, _)| name).collect();
        let links: Vec<String> = table
            .lines()
            .filter(|row| row.split_whitespace().next() == Some(package))
            .filter_map(|row| row.split_whitespace().nth(2)?.strip_prefix("plugin:").map(|name| format!("holo-{name}")))
            .collect();
        assert_eq!(applets, links.iter().map(String::as_str).collect(), "{bundle}");
    }
}

fn uninstall_removes_what_install_installs() {
    let scratch = ScratchRoot::new();
    let build = scratch.path().join("build");
    programs(&build);
    let plugins = fs::read_dir(repository().join("plugins")).unwrap();
    let plugins = plugins.map(|plugin| format!("holo-{}", plugin.unwrap().file_name().display()));
    for program in plugins.chain(["holo".to_owned(), "holo-probe".to_owned()]) {
        fs::copy(build.join("holo-secret"), build.join(program)).unwrap();
    }
    let make = |target: &str| {
        let variables = format!("DESTDIR='{0}/root' BUILD='{0}/build' PREFIX=/usr/local", scratch.path().display());
        let run = scratch
            .run("sh", &["-c", &format!("umask 077; make -s -C '{}' {target} {variables}", repository().display())]);
        assert!(run.success(), "{run}");
        run.stdout_lossy().to_string()
    };
    let files = || {
        let run = scratch.run("sh", &["-c", "cd root; find . ! -type d | sort"]);
        run.stdout_lossy().to_string()
    };
    assert_eq!(make("install"), "");
    for file in ["./usr/local/lib/holo/holo-files", "./usr/local/share/man/man8/holo.8", "./etc/holorc.d/10-files"] {
        assert!(files().contains(file), "{file} is missing:\n{}", files());
    }
    let unit = fs::read_to_string(scratch.path().join("root/usr/local/lib/systemd/system/holo-apply.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/local/bin/holo apply"), "{unit}");
    let modes = scratch.run("sh", &["-c", "cd root; find . -type d ! -perm 755"]);
    assert_eq!(modes.stdout_lossy(), "");
    fs::write(scratch.path().join("root/etc/holorc"), "plugin mine\n").unwrap();
    make("install");
    assert!(make("uninstall").contains("kept, because it was edited: "));
    assert_eq!(files(), "./etc/holorc\n");
}

fn packages_are_reproducible() {
    for format in [Format::Deb, Format::Rpm, Format::Arch] {
        let (one, two) = (ScratchRoot::new(), ScratchRoot::new());
        let (first, second) = (packages(&one, format), packages(&two, format));
        let run = one.run("diff", &["-r".as_ref(), first.as_os_str(), second.as_os_str()]);
        assert!(run.success(), "{run}");
        assert_eq!(fs::read_dir(&first).unwrap().count(), 5);
    }
}

fn lintian_finds_no_error() {
    let scratch = ScratchRoot::new();
    let packages = packages(&scratch, Format::Deb);
    let command = format!("lintian --allow-root --fail-on error '{}'/*.deb", packages.display());
    let run = scratch.run("sh", &["-c", &command]);
    assert!(run.success(), "{run}");
}

/// Packages are signed by those who publish them, and the programs are scripts here.
fn rpmlint_finds_no_error() {
    let scratch = ScratchRoot::new();
    let packages = packages(&scratch, Format::Rpm);
    let run = scratch.run("sh", &["-c", &format!("rpmlint '{}'/*.rpm", packages.display())]);
    let shown = run.stdout_lossy().to_string();
    let errors = shown
        .lines()
        .filter(|line| line.contains(": E: ") && !["no-signature", "no-binary"].iter().any(|tag| line.contains(tag)));
    assert_eq!(errors.collect::<Vec<_>>(), Vec::<&str>::new(), "{run}");
}
