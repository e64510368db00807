//! Packages that others left unfinished: they are kept when their definitions are removed.

use crate::support::{
    APT, DNF, Manager, PACMAN, ZYPPER, applied, apply, changes_of, checked_and_applied, define, must,
};
use crate::support::{packages, root};
use holo_testing::{Need, ScratchRoot, trial_of};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let apt = |name: &str, test: fn(&ScratchRoot)| APT.trial(&format!("apt: {name}"), test);
    let rpm = |manager: Manager| {
        let name = "what an RPM that was killed has left counts as installed";
        manager.trial(&format!("{}: {name}", manager.name), move |root| rpm_was_killed(root, manager))
    };
    let needs: Vec<Need> =
        ["pacman", "repo-add", "bsdtar", "zstd", "strace"].map(Need::Program).into_iter().chain([Need::Root]).collect();
    vec![
        apt("unfinished packages are completed, and stay when nothing defines them any more", completed),
        apt("unfinished packages of a dpkg that was killed are completed", killed),
        apt("unmet dependencies that a dpkg that was killed has left are repaired", mended),
        apt("a repair that removes packages needs force, or is refused", mended_by_removal),
        apt("a package that was unfinished before us may be so afterwards", unfinished_orphan),
        apt("a package that we have left unfinished goes when nothing defines it any more", ours),
        apt("unfinished packages are removed, and come back", removed),
        apt("a removal that others began is finished without force", going),
        apt("unfinished packages are adopted", adopted),
        rpm(DNF),
        rpm(ZYPPER),
        trial_of("pacman: a package whose installation was killed counts as installed", &needs, || {
            let root = root().file("etc/os-release", "ID=arch\n");
            must(&root, PACMAN.build);
            pacman_was_killed(&root);
        }),
    ]
}

/// Builds packages whose scripts can be made to fail, and leaves each in a different state.
fn unfinished(root: &ScratchRoot) {
    must(
        root,
        r#"
        build() { EXTRA=$R/extra sh $D/build-deb.sh make "$@"; rm -rf $R/extra; mkdir $R/extra; }
        script() { printf '#!/bin/sh\n%s\n' "$2" >$R/extra/$1; chmod 755 $R/extra/$1; }
        mkdir $R/extra
        for name in first upgraded held; do build $name 1.0; build $name 1.1; done
        build half 1.0
        script preinst 'test ! -e "$DPKG_ROOT/failing" || kill -9 $PPID'; build half 1.1
        script preinst 'test ! -e "$DPKG_ROOT/failing" || kill -9 $PPID'; build fresh 1.0
        script postrm 'test ! -e "$DPKG_ROOT/failing" || kill -9 $PPID'; build going 1.0
        script postinst 'test ! -e "$DPKG_ROOT/failing"'; build failed 1.0
        echo 'interest a-trigger' >$R/extra/triggers; script postinst true; build pending 1.0
        echo 'activate a-trigger' >$R/extra/triggers; build awaiting 1.0
        "#,
    );
    dpkg(root, "--install $P/upgraded_1.0_* $P/held_1.0_* $P/half_1.0_* $P/going_1.0_* $P/pending_1.0_*");
    must(root, "touch $R/failing");
    for last in ["--install $P/half_1.1_*", "--install $P/fresh_1.0_*", "--remove going", "--install $P/failed_1.0_*"] {
        dpkg(root, &format!("{last} >/dev/null 2>&1 && exit 1 || true"));
    }
    dpkg(root, "--no-triggers --install $P/awaiting_1.0_*");
    // Killed processes have left a journal, which the last command removes.
    dpkg(root, "--unpack $P/first_1.0_* $P/upgraded_1.1_* $P/held_1.1_*");
    must(
        root,
        "echo held hold | dpkg --root=$R --set-selections; rm $R/failing; ! ls $R/var/lib/dpkg/updates | grep .",
    );
    let expected = "awaiting 1.0 iW ;failed 1.0 iF ;first 1.0 iU ;fresh 1.0 iHR;going 1.0 rH ;half 1.0 iHR;\
        held 1.1 hU ;pending 1.0 it ;upgraded 1.1 iU ;";
    assert_eq!(state(root), expected);
}

/// Runs dpkg manually. `$P` is the directory of the packages.
fn dpkg(root: &ScratchRoot, arguments: &str) {
    must(root, &format!("P=$R/repo/pool; dpkg --root=$R --force-script-chrootless --log=$R/log {arguments}"));
}

/// Makes the packages known to apt.
fn fetch_index(root: &ScratchRoot) {
    must(root, "sh $D/build-deb.sh index");
    define(root, &packages(&["no-such"]));
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("apt has no package no-such"), "{run}");
}

fn state(root: &ScratchRoot) -> String {
    must(root, "dpkg-query --admindir=$R/var/lib/dpkg -W -f='${Package} ${Version} ${db:Status-Abbrev};'")
}

/// The packages that count as installed.
const THERE: [&str; 8] = ["awaiting", "failed", "first", "fresh", "half", "held", "pending", "upgraded"];

fn completed(root: &ScratchRoot) {
    unfinished(root);
    // Only the newer version of the half-upgraded package is available, and none of the unpacked one.
    must(root, "rm $R/repo/pool/half_1.0_* $R/repo/pool/first_*");
    fetch_index(root);
    let deeds = [
        "completed the installation of awaiting 1.0",
        "completed the installation of failed 1.0",
        "completed the installation of first 1.0",
        "completed the installation of fresh 1.0",
        "upgraded half 1.0 to 1.1",
        "completed the installation of held 1.1",
        "completed the installation of pending 1.0",
        "completed the installation of upgraded 1.1",
    ];
    checked_and_applied(root, &THERE, &deeds);
    let there = "awaiting 1.0 ii ;failed 1.0 ii ;first 1.0 ii ;fresh 1.0 ii ;half 1.1 ii ;held 1.1 hi ;pending 1.0 ii ;\
        upgraded 1.1 ii ;";
    assert_eq!(state(root).replace("going 1.0 rc ;", ""), there);
    let bases: String = root.records("packages").iter().map(|id| root.record("packages", id)).collect();
    assert_eq!(bases.matches("\"unfinished\":true").count(), THERE.len(), "{bases}");
    assert_eq!(bases.matches("\"version\":\"1.").count(), THERE.len(), "{bases}");
    let run = apply(root, &[], &[], 0);
    assert!(run.stderr.is_empty() && changes_of(&run) == [""; 0], "{run}");
    assert_eq!(state(root).replace("going 1.0 rc ;", ""), there, "{run}");
    assert!(root.records("packages").is_empty());
}

fn killed(root: &ScratchRoot) {
    must(
        root,
        r#"
        sh $D/build-deb.sh make first 1.0
        mkdir $R/extra; printf '#!/bin/sh\ntest ! -e "$DPKG_ROOT/failing" || kill -9 $PPID\n' >$R/extra/postinst
        chmod 755 $R/extra/postinst; touch $R/failing
        EXTRA=$R/extra sh $D/build-deb.sh make killed 1.0
        "#,
    );
    dpkg(root, "--unpack $P/first_1.0_*; (dpkg --root=$R --force-script-chrootless --install $P/killed_1.0_* || true)");
    must(root, "rm $R/failing; ls $R/var/lib/dpkg/updates | grep .");
    assert_eq!(state(root), "first 1.0 iU ;killed 1.0 iF ;");
    let run = apply(root, &["first", "killed"], &[], 0);
    assert!(run.stderr_lossy().starts_with(">> dpkg was interrupted; "), "{run}");
    let deeds = ["completed the installation of first 1.0", "completed the installation of killed 1.0"];
    assert_eq!(changes_of(&run), deeds, "{run}");
    assert_eq!(state(root), "first 1.0 ii ;killed 1.0 ii ;");
    applied(root, &[], &[]);
    assert_eq!(state(root), "first 1.0 ii ;killed 1.0 ii ;");
}

/// Installs `plus` with holo and defines only `foo`, so that `plus` has to go.
fn begin(root: &ScratchRoot) {
    must(root, "sh $D/build-deb.sh make needy 1.0 all 'Depends: nowhere'");
    applied(root, &["baz", "plus"], &["installed baz 1.0", "installed plus 1.0"]);
}

fn mended(root: &ScratchRoot) {
    must(
        root,
        r#"
        mkdir $R/extra; printf '#!/bin/sh\ntest ! -e "$DPKG_ROOT/failing" || kill -9 $PPID\n' >$R/extra/postinst
        chmod 755 $R/extra/postinst; touch $R/failing; EXTRA=$R/extra sh $D/build-deb.sh make killed 1.0
        "#,
    );
    begin(root);
    dpkg(root, "--unpack $P/bar_1.0_*; (dpkg --root=$R --force-script-chrootless --install $P/killed_1.0_* || true)");
    must(root, "rm $R/failing; ls $R/var/lib/dpkg/updates | grep .");
    define(root, &packages(&["baz"]));
    let check = root.holo(&["check"]);
    let would = ">> apt-get --fix-broken install is needed first: would install foo 2:0.9\n";
    assert_eq!((check.stderr_lossy(), changes_of(&check)), (would.into(), vec!["would remove plus 1.0".into()]));
    let run = apply(root, &["baz"], &[], 0);
    let said = ">> unmet dependencies of installed packages were repaired with apt-get --fix-broken install: \
        installed foo 2:0.9\n";
    assert_eq!((run.stderr_lossy(), changes_of(&run)), (said.into(), vec!["removed plus 1.0".to_owned()]), "{run}");
    assert_eq!(state(root), "bar 1.0 ii ;baz 1.0 ii ;foo 2:0.9 ii ;killed 1.0 ii ;plus 1.0 rc ;");
}

fn mended_by_removal(root: &ScratchRoot) {
    begin(root);
    dpkg(root, "--unpack $P/needy_1.0_*");
    // Neither a package in its desired state fails, nor one that is to be removed more than once.
    let reason = "apt-get --fix-broken install, which is needed first, would remove needy 1.0";
    define(root, &packages(&["baz", "foo"]));
    for run in [root.holo(&["check"]), root.holo(&["apply"])] {
        assert_eq!(run.stderr_lossy().matches(&format!("{reason} (use --force to proceed)")).count(), 2, "{run}");
        assert!(!run.success() && changes_of(&run) == [""; 0], "{run}");
    }
    define(root, &packages(&["baz", "foo", "needy"]));
    for run in [root.holo(&["check"]), root.holo(&["apply"]), root.holo(&["apply", "--force"])] {
        let stderr = run.stderr_lossy();
        assert!(stderr.contains(&format!("!! {reason}, which is declared present\n")), "{run}");
        assert_eq!(stderr.matches(", so no further changes were attempted").count(), 2, "{run}");
        assert!(run.status == Some(1) && changes_of(&run) == [""; 0], "{run}");
    }
    let run = apply(root, &["baz", "foo"], &["--force"], 0);
    assert!(run.stderr_lossy().contains("apt-get --fix-broken install: removed needy 1.0\n"), "{run}");
    assert_eq!(changes_of(&run), ["installed foo 2:0.9", "removed plus 1.0"], "{run}");
}

fn unfinished_orphan(root: &ScratchRoot) {
    dpkg(root, "--install $P/broken_1.0_* >/dev/null 2>&1 || true");
    for _ in 0..2 {
        let run = apply(root, &["broken"], &[], 1);
        assert!(run.stderr_lossy().contains("it is broken by design"), "{run}");
    }
    let run = apply(root, &[], &[], 0);
    assert!(run.stderr.is_empty(), "{run}");
    assert_eq!(state(root), "broken 1.0 iF ;", "{run}");
    applied(root, &[], &[]);
}

fn ours(root: &ScratchRoot) {
    apply(root, &["broken"], &[], 1);
    assert_eq!(state(root), "broken 1.0 iF ;");
    applied(root, &[], &["removed broken 1.0"]);
    assert_eq!(state(root), "broken 1.0 rc ;");
    // A version that holo could not install is replaced by the original one.
    must(
        root,
        "sh $D/build-deb.sh make works 1.0; sh $D/build-deb.sh make works 1.1 all '' 'test -e \"$DPKG_ROOT/mended\"'",
    );
    dpkg(root, "--install $P/works_1.0_*");
    apply(root, &["works ensure=\"1.1\""], &[], 1);
    assert_eq!(state(root).replace("broken 1.0 rc ;", ""), "works 1.1 iF ;");
    let run = apply(root, &[], &[], 1);
    assert!(run.stderr_lossy().contains("error exit status 1"), "{run}");
    let run = apply(root, &[], &["--force"], 0);
    assert_eq!(changes_of(&run), ["downgraded works 1.1 to 1.0"], "{run}");
}

fn removed(root: &ScratchRoot) {
    unfinished(root);
    fetch_index(root);
    // dpkg removes no package that is partially installed.
    let names = THERE.into_iter().filter(|name| !["fresh", "half"].contains(name));
    let lines: Vec<String> = names.map(|name| format!("{name} ensure=\"absent\"")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let run = apply(root, &lines, &[], 1);
    assert_eq!(changes_of(&run).len(), lines.len() - 1, "{run}");
    assert!(run.stderr_lossy().contains("held is held at 1.1 (use --force to proceed)"), "{run}");
    must(root, "echo held install | dpkg --root=$R --set-selections");
    let run = apply(root, &lines, &[], 0);
    assert_eq!(changes_of(&run), ["removed held 1.1"], "{run}");
    // The original state is still recorded.
    let run = apply(root, &[], &[], 0);
    assert_eq!(changes_of(&run).iter().filter(|deed| deed.starts_with("installed ")).count(), lines.len(), "{run}");
    assert_eq!(state(root).matches(" ii ;").count(), lines.len(), "{}", state(root));
}

fn going(root: &ScratchRoot) {
    unfinished(root);
    fetch_index(root);
    define(root, &packages(&["baz"]));
    let check = root.holo(&["check"]);
    assert_eq!(changes_of(&check).len(), 1, "{check}");
    let run = apply(root, &["baz"], &[], 0);
    assert!(changes_of(&run).contains(&"installed baz 1.0".to_owned()), "{run}");
    assert!(state(root).contains("going 1.0 rc ;"), "{run}");
    // The package was not installed before.
    applied(root, &["baz", "going"], &["installed going 1.0"]);
    applied(root, &["baz"], &["removed going 1.0"]);
}

fn adopted(root: &ScratchRoot) {
    const ADOPTED: &str = "etc/holo/resources/packages/adopted.toml";
    unfinished(root);
    fetch_index(root);
    // An apply would complete their installation, so they are adopted only if they are named.
    let all = root.holo(&["adopt", "--all"]);
    assert_eq!(all.status, Some(1), "{all}");
    let refused = all.stderr_lossy().matches(": an apply would act on it: would ").count();
    assert!(refused == THERE.len() && !root.exists(ADOPTED), "{all}");
    let ids = THERE.map(|name| format!("package:{name}"));
    let arguments: Vec<&str> = ["adopt"].into_iter().chain(ids.iter().map(String::as_str)).collect();
    let run = root.holo(&arguments);
    assert!(run.success(), "{run}");
    let said = run.stdout_lossy().into_owned();
    let found: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("package:")?.split(' ').next()).collect();
    assert_eq!(found, THERE, "{run}");
    assert!(run.stderr_lossy().contains(">> package:failed: an apply would act on it: would complete the"), "{run}");
    assert!(root.read(ADOPTED).to_string().contains("name = \"held\"\nhold = true\n"), "{run}");
}

fn rpm_was_killed(root: &ScratchRoot, manager: Manager) {
    must(
        root,
        r#"
        dies() {
            printf '%s -p <lua>\nif posix.access("/failing", "f") then posix.kill(posix.getprocessid("pid"), 9) end' "$1"
        }
        sh $D/build-rpm.sh make cut 1.0 1; sh $D/build-rpm.sh make cut 1.1 1 0 '' "$(dies %post)"
        sh $D/build-rpm.sh make first 1.0 1 0 '' "$(dies %post)"
        sh $D/build-rpm.sh make going 1.0 1 0 '' "$(dies %postun)"
        for package in cut-1.0 going-1.0 foo-1.0; do rpm --root $R --install $R/repo/noarch/$package-1.noarch.rpm; done 2>/dev/null
        touch $R/failing
        rpm --root $R --upgrade $R/repo/noarch/cut-1.1-1.noarch.rpm 2>/dev/null || true
        rpm --root $R --install $R/repo/noarch/first-1.0-1.noarch.rpm 2>/dev/null || true
        rpm --root $R --erase going 2>/dev/null || true
        rm $R/failing
        "#,
    );
    let installed = || must(root, "rpm --root $R -qa --qf '%{NAME} %{VERSION}\n' | sort | tr '\n' ';'");
    assert_eq!(installed(), "cut 1.0;cut 1.1;first 1.0;foo 1.0;going 1.0;");
    must(root, if manager.name == "dnf" { "dnf -q --installroot=$R makecache" } else { "zypper --root $R -n refresh" });
    applied(root, &["cut", "first", "going"], &[]);
    let run = apply(root, &["cut ensure=\"absent\"", "first ensure=\"absent\"", "going ensure=\"absent\""], &[], 0);
    assert_eq!(installed(), "foo 1.0;", "{run}");
    let run = apply(root, &[], &[], 0);
    assert_eq!(installed(), "cut 1.1;first 1.0;foo 1.0;going 1.0;", "{run}");
}

fn pacman_was_killed(root: &ScratchRoot) {
    const PACMAN: &str = "pacman --root $R --dbpath $R/var/lib/pacman --config $R/etc/pacman.conf --noconfirm \
        --cachedir $R/var/cache/pacman/pkg --logfile $R/log --gpgdir $R/etc/pacman.d/gnupg";
    must(root, &format!("{PACMAN} -Sy baz; {PACMAN} -U $R/repo/foo-1.0-1-any.pkg.tar.zst"));
    // The second file that it renames belongs to the package.
    let kill = "strace -f -o $R/trace -e trace=rename -e inject=rename:signal=SIGKILL:when=2";
    must(root, &format!("({kill} {PACMAN} -S foo || true); rm $R/var/lib/pacman/db.lck"));
    let folder = "var/lib/pacman/local/foo-1.1-1";
    assert!(root.exists(folder) && !root.exists(format!("{folder}/desc")), "{}", root.read("trace"));
    let words = format!("{folder}/desc is missing");
    define(root, &packages(&["foo"]));
    let (check, run) = (root.holo(&["check"]), apply(root, &["foo", "rival ensure=\"absent\""], &[], 1));
    assert!(check.stderr_lossy().contains(&words) && run.stderr_lossy().contains(&words), "{check}\n{run}");
    assert!(!root.records("packages").is_empty(), "{run}");
    let run = apply(root, &[], &[], 0);
    assert!(root.records("packages").is_empty() && root.exists(folder), "{run}");
    // Other packages are not affected.
    applied(root, &["bar ensure=\"absent\"", "baz"], &[]);
}
