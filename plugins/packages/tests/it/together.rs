//! Every manager simulates installations and removals together, as an apply carries them out. Force applies to each package separately.

use crate::support::{
    APT, DNF, Manager, PACMAN, ZYPPER, apply, changes_of, checked_and_applied, define, must, packages,
};
use holo_testing::{Run, ScratchRoot};
use libtest_mimic::Trial;

/// Version strings. Only managers of RPM packages and pacman have a release.
#[derive(Clone, Copy)]
struct Words {
    release: &'static str,
    /// Fetches the index, and installs `baz` and other packages.
    install: &'static str,
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (manager, words) in [
        (APT, Words { release: "", install: INSTALL_APT }),
        (DNF, Words { release: "-1", install: INSTALL_DNF }),
        (ZYPPER, Words { release: "-1", install: INSTALL_ZYPPER }),
        (PACMAN, Words { release: "-1", install: INSTALL_PACMAN }),
    ] {
        let mut test = |name: &str, test: fn(&ScratchRoot, Words)| {
            trials.push(manager.trial(&format!("{}: {name}", manager.name), move |root| {
                extra(root, manager);
                test(root, words);
            }));
        };
        test("removal of an undeclared conflicting package needs force", in_the_way);
        test("a conflicting package is removed if declared absent", declared);
        test("declared packages that conflict are an error, with force too", contradictions);
        test("a package that is declared absent and needed is an error, with force too", absent_but_needed);
        if ["apt", "dnf"].contains(&manager.name) {
            test("a recommended package that is declared absent does not come along", left_out);
        }
        test("a refusal is reported next to other removals", beside_removals);
        test("a package that no longer depends on another does not keep it", not_needed_any_more);
    }
    trials
}

const INSTALL_APT: &str = "printf 'Dir \"%s/\";\\nDir::State::status \"%s/var/lib/dpkg/status\";\\nDir::Bin::dpkg \"/usr/bin/dpkg\";\\n\
    DPkg::Options { \"--root=%s\"; };\\n' $R $R $R >$R/apt.conf; export APT_CONFIG=$R/apt.conf DEBIAN_FRONTEND=noninteractive; \
    apt-get -q update; apt-get -qy install";
const INSTALL_DNF: &str = "dnf -q --installroot=$R makecache; dnf -q -y --installroot=$R install";
const INSTALL_ZYPPER: &str = "zypper --root $R --non-interactive refresh; zypper --root $R --non-interactive install";
const INSTALL_PACMAN: &str = "pacman --root $R --dbpath $R/var/lib/pacman --config $R/etc/pacman.conf \
    --cachedir $R/var/cache/pacman/pkg --logfile $R/log --gpgdir $R/etc/pacman.d/gnupg --noconfirm -Sy";

/// Builds `user`, which needs version 1 of `baz` and version 2 of `foo`.
fn extra(root: &ScratchRoot, manager: Manager) {
    let script = match manager.name {
        "apt" => {
            "sh $D/build-deb.sh make user 1.0 all 'Depends: baz'; sh $D/build-deb.sh make user 2.0 all 'Depends: foo'; \
             sh $D/build-deb.sh make enemy 1.0 all 'Conflicts: baz'; mkdir $R/later; mv $R/repo/pool/user_2.0* $R/later; \
             sh $D/build-deb.sh index"
        }
        "pacman" => {
            "bash $D/build-arch.sh make enemy 1.0-1 'conflict = baz'; bash $D/build-arch.sh make user 1.0-1 'depend = baz'"
        }
        _ => {
            "rm $R/repo/noarch/heir*; sh $D/build-rpm.sh make user 1.0 1 0 'Requires: baz'; \
             sh $D/build-rpm.sh make enemy 1.0 1 0 'Conflicts: baz'"
        }
    };
    must(root, script);
}

/// Publishes the version of `user` that needs `foo`.
fn publish(root: &ScratchRoot) {
    let script = "if test -d $R/later; then mv $R/later/* $R/repo/pool; sh $D/build-deb.sh index; \
        elif test -e $R/repo/test.db.tar.gz; then bash $D/build-arch.sh make user 2.0-1 'depend = foo'; \
        else sh $D/build-rpm.sh make user 2.0 1 0 'Requires: foo'; fi";
    must(root, script);
}

fn install(root: &ScratchRoot, words: Words, names: &str) {
    must(root, &format!("{{ {} {names}; }} >/dev/null 2>&1", words.install));
}

/// Runs a check that finds something to do.
#[track_caller]
fn checked(root: &ScratchRoot, lines: &[&str]) -> Run {
    define(root, &packages(lines));
    let run = root.holo(&["check"]);
    assert!(!run.success(), "{run}");
    run
}

fn in_the_way(root: &ScratchRoot, words: Words) {
    install(root, words, "baz");
    let reason = format!("installing enemy would remove baz 1.0{} (use --force to proceed)", words.release);
    let check = checked(root, &["enemy"]);
    assert!(check.stderr_lossy().contains(&reason), "{check}");
    let run = apply(root, &["enemy"], &[], 1);
    assert!(run.stderr_lossy().contains(&reason), "{run}");
    let run = apply(root, &["enemy"], &["--force"], 0);
    let release = words.release;
    let deeds =
        [format!("installed enemy 1.0{release}"), format!("removed baz 1.0{release}, as enemy conflicts with it")];
    assert_eq!(changes_of(&run), deeds, "{run}");
    define(root, &packages(&["enemy", "baz ensure=\"absent\""]));
    let check = root.holo(&["check"]);
    assert!(check.success() && check.stdout.is_empty(), "baz has gone: {check}");
}

fn declared(root: &ScratchRoot, words: Words) {
    install(root, words, "baz");
    let lines = ["baz ensure=\"absent\"", "enemy"];
    let check = checked(root, &lines);
    let release = words.release;
    assert!(check.stderr.is_empty(), "{check}");
    let expected = [format!("would remove baz 1.0{release}"), format!("would install enemy 1.0{release}")];
    assert_eq!(changes_of(&check), expected, "{check}");
    let run = apply(root, &lines, &[], 0);
    assert_eq!(
        changes_of(&run),
        [format!("removed baz 1.0{release}"), format!("installed enemy 1.0{release}")],
        "{run}"
    );
}

/// Asserts that a check, an apply and a forced apply refuse this.
#[track_caller]
fn refused(root: &ScratchRoot, lines: &[&str], words: &str) {
    for run in [checked(root, lines), apply(root, lines, &[], 1), apply(root, lines, &["--force"], 1)] {
        assert!(run.status == Some(1) && run.stderr_lossy().contains(words), "{words}: {run}");
    }
}

/// Asserts that of these packages, `baz` and `enemy` or `user`, exactly the present ones are there.
#[track_caller]
fn has(root: &ScratchRoot, present: &[&str]) {
    let of = |name: &&str| root.exists(format!("usr/share/{name}")) || root.exists(format!("usr/share/doc/{name}"));
    let found: Vec<&str> = ["baz", "enemy", "user"].into_iter().filter(of).collect();
    assert_eq!(found, present);
}

fn contradictions(root: &ScratchRoot, words: Words) {
    install(root, words, "foo");
    let lines = ["baz", "enemy", "foo"];
    let check = checked(root, &lines);
    let reason = "!! enemy cannot be installed together with baz: ";
    assert!(check.status == Some(1) && check.stderr_lossy().contains(reason), "{check}");
    let run = apply(root, &lines, &[], 1);
    assert!(run.stderr_lossy().contains(reason), "{run}");
    let reason = format!("!! installing enemy would remove baz 1.0{}, which is declared present", words.release);
    refused(root, &lines, &reason);
    has(root, &["baz"]);
}

fn absent_but_needed(root: &ScratchRoot, words: Words) {
    install(root, words, "foo");
    let lines = ["baz ensure=\"absent\"", "foo", "user ensure=\"1.0\""];
    refused(root, &lines, "!! installing user would install baz, which is declared absent");
    has(root, &[]);
    install(root, words, "user");
    let reason = format!("!! removing baz would remove user 1.0{}, which is declared present", words.release);
    refused(root, &lines, &reason);
    has(root, &["baz", "user"]);
}

fn left_out(root: &ScratchRoot, words: Words) {
    let script = "if test -e $R/etc/apt; then sh $D/build-deb.sh make lover 1.0 all 'Recommends: baz'; \
        else sh $D/build-rpm.sh make lover 1.0 1 0 'Recommends: baz'; fi";
    must(root, script);
    install(root, words, "foo");
    let installed = format!("installed lover 1.0{}", words.release);
    checked_and_applied(root, &["baz ensure=\"absent\"", "foo", "lover"], &[&installed]);
    has(root, &[]);
}

fn beside_removals(root: &ScratchRoot, words: Words) {
    install(root, words, "baz foo");
    let lines = ["enemy", "foo ensure=\"absent\""];
    for run in [checked(root, &lines), apply(root, &lines, &[], 1)] {
        assert!(run.stderr_lossy().contains("installing enemy would remove baz 1.0"), "{run}");
    }
}

fn not_needed_any_more(root: &ScratchRoot, words: Words) {
    install(root, words, "user");
    let lines = ["user ensure=\"latest\"", "baz ensure=\"absent\""];
    // The installed version needs it.
    for run in [checked(root, &lines), apply(root, &lines, &[], 1)] {
        assert!(run.stderr_lossy().contains("removing baz would remove user 1.0"), "{run}");
    }
    publish(root);
    install(root, words, "foo");
    let check = checked(root, &lines);
    assert!(check.stderr.is_empty(), "{check}");
    let release = words.release;
    let run = apply(root, &lines, &[], 0);
    let expected = [format!("removed baz 1.0{release}"), format!("upgraded user 1.0{release} to 2.0{release}")];
    assert_eq!(changes_of(&run), expected, "{run}");
}
