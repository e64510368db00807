//! Overlays whose witnesses are unchanged are not read, and every change is noticed: each kind of change is a case. A random walk through
//! all of them compares applies that remember with applies that read everything.

use bstr::{BString, ByteSlice};
use holo_testing::{Need, Run, ScratchRoot, binaries::built, trial_of, write_script};
use libtest_mimic::Trial;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

pub(super) const STOCK: &str = "stock content\n";
pub(super) const WANTED: &str = "what's wanted\n";
/// Has the same size as the desired content.
pub(super) const EDITED: &str = "edited by me.\n";

const DATABASE: &str = "var/lib/holo/state.db";
pub(super) const TARGET: &str = "etc/motd";
const RESOURCE: &str = "usr/share/holo/files/01-x/etc/motd";
const BASE: &str = "var/lib/holo/files/base/etc/motd";
const PROVISIONED: &str = "var/lib/holo/files/provisioned/etc/motd";

/// The resource files of the two entities in every root.
const FOLDER: &str = "usr/share/holo/files/01-x/etc";
const OTHER_RESOURCE: &str = "usr/share/holo/files/01-x/etc/issue";

/// A case: its name, its requirements, and the test.
pub(super) type Case = (&'static str, &'static [Need], fn());

pub(crate) fn trials() -> Vec<Trial> {
    const STRACE: &[Need] = &[Need::Program("strace")];
    let cases: [Case; 21] = [
        ("a check does not read what is known to be unchanged", STRACE, checked),
        ("known entities are not read, and nothing is written", STRACE, known),
        ("--verify reads everything", STRACE, verified),
        ("an edit within the same tick is noticed", &[], same_tick),
        ("an edit is noticed though size and time are as before", &[], restored_time),
        ("another file in the target's place is noticed", &[], replaced),
        ("another mode is noticed", &[], other_mode),
        ("another owner is noticed", &[Need::Root], other_owner),
        ("a symlink that points elsewhere is noticed", &[], other_symlink),
        ("a target that is gone is noticed", &[], gone),
        ("a changed resource is noticed", &[], changed_resource),
        ("a patched target is not read, and a changed patch is noticed", STRACE, patched),
        ("a changed base is noticed", &[], changed_base),
        ("a changed provisioned image is noticed", &[], changed_provisioned),
        ("a resource of another disambiguator is noticed, and that it goes", &[], more_resources),
        ("a holoscript is run each time", &[], scripts),
        ("new stock files are noticed", &[], stock_files),
        ("the leftovers of an interrupted apply disable the shortcut", STRACE, interrupted),
        ("a copied machine is read", STRACE, copied),
        ("a file from the future is not relied on", STRACE, future_file),
        ("a file that was changed just now is not relied on", STRACE, changed_just_now),
    ];
    let mut trials: Vec<_> = cases.into_iter().map(|(name, needs, test)| trial_of(name, needs, test)).collect();
    for seed in 1..=3 {
        let name = format!("whatever happens, all ends as with --verify ({seed})");
        trials.push(trial_of(&name, &[], move || random_walk(seed)));
    }
    trials
}

/// Returns a root with two targets and their resource files.
fn prepared() -> ScratchRoot {
    ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .env("HOLO_HISTORY", "1")
        .file("etc/os-release", "ID=debian\n")
        .file(TARGET, STOCK)
        .file("etc/issue", STOCK)
        .file(RESOURCE, WANTED)
        .file(OTHER_RESOURCE, WANTED)
}

/// Waits until time stamps of earlier changes are old enough to be reliable.
pub(super) fn settle() {
    sleep(Duration::from_millis(3100));
}

/// Returns a root whose entities are known to be unchanged.
fn settled() -> ScratchRoot {
    let root = prepared();
    assert!(root.holo(&["apply"]).success());
    settle();
    unchanged(&root);
    root
}

#[track_caller]
pub(super) fn unchanged(root: &ScratchRoot) {
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stdout.is_empty() && run.stderr.is_empty(), "{run}");
}

/// Asserts that the next apply makes a change.
#[track_caller]
fn applied(root: &ScratchRoot) -> Run {
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stdout.contains_str("Working on file:/etc/motd"), "{run}");
    run
}

/// Asserts that this and all further applies report a manual change.
#[track_caller]
pub(super) fn refused(root: &ScratchRoot) {
    for _ in 0..2 {
        let run = root.holo(&["apply"]);
        assert_eq!(run.status, Some(1), "{run}");
        assert!(run.stderr.contains_str("modified by user"), "{run}");
    }
}

/// Applies, and returns true if the target's content was read.
#[track_caller]
pub(super) fn reads_with(root: &ScratchRoot, environment: &str) -> bool {
    command_reads(root, "apply", environment)
}

/// Runs a command that finds nothing to do, and returns true if the target's content was read.
#[track_caller]
pub(super) fn command_reads(root: &ScratchRoot, command: &str, environment: &str) -> bool {
    let log = root.join("tmp/strace");
    let holo = built("holo");
    let strace = ["-f", "-qq", "-o", log.to_str().unwrap(), "-e", "trace=openat", "-E", environment];
    let run = root.run("strace", &[&strace[..], &[holo.to_str().unwrap(), command]].concat());
    assert!(run.success() && run.stdout.is_empty(), "{run}");
    let calls = BString::from(fs::read(&log).unwrap());
    fs::remove_file(log).unwrap();
    calls.contains_str("\"motd\", O_RDONLY")
}

#[track_caller]
pub(super) fn reads(root: &ScratchRoot) -> bool {
    reads_with(root, "UNUSED=1")
}

/// Writes a file and restores its modification time, as to hide the change.
pub(super) fn overwrite(path: &Path, content: &str) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    fs::write(path, content).unwrap();
    set_modified(path, modified);
}

fn set_modified(path: &Path, time: SystemTime) {
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

pub(super) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn script(root: &ScratchRoot, path: &str, text: &str) {
    root.write_script(path, format!("#!/bin/sh\n{text}\n"));
}

fn known() {
    let root = settled();
    assert!(!reads(&root));
    assert!(!reads(&root));
    assert!(!root.exists("var/lib/holo/files/.staged"));
}

fn checked() {
    let root = settled();
    assert!(!command_reads(&root, "check", "UNUSED=1"));
    assert!(command_reads(&root, "check", "HOLO_VERIFY=1"));
    let before = root.dump();
    overwrite(&root.join(TARGET), EDITED);
    let run = root.holo(&["check"]);
    assert!(!run.success() && run.stdout.contains_str("motd"), "{run}");
    overwrite(&root.join(TARGET), WANTED);
    assert!(command_reads(&root, "check", "UNUSED=1"));
    assert_eq!(root.dump(), before, "a check has changed something");
}

fn verified() {
    let root = settled();
    assert!(reads_with(&root, "HOLO_VERIFY=1"));
    assert!(!reads(&root));
    // The content is read in spite of the same stamp.
    overwrite(&root.join(TARGET), EDITED);
    let run = root.run("env", &["HOLO_VERIFY=1", built("holo").to_str().unwrap(), "apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    refused(&root);
}

fn same_tick() {
    let root = prepared();
    assert!(root.holo(&["apply"]).success());
    for _ in 0..20 {
        root.write(TARGET, WANTED);
        unchanged(&root);
        overwrite(&root.join(TARGET), EDITED);
        let run = root.holo(&["apply"]);
        assert!(run.stderr.contains_str("modified by user"), "{run}");
    }
}

fn restored_time() {
    let root = settled();
    overwrite(&root.join(TARGET), EDITED);
    refused(&root);
    // The record is not reliable when the file is older either.
    settle();
    refused(&root);
    overwrite(&root.join(TARGET), WANTED);
    unchanged(&root);
}

fn replaced() {
    let root = settled();
    let (target, other) = (root.join(TARGET), root.join("etc/other"));
    let modified = fs::metadata(&target).unwrap().modified().unwrap();
    for (content, is_same) in [(WANTED, true), (EDITED, false)] {
        fs::copy(&target, &other).unwrap();
        fs::write(&other, content).unwrap();
        set_modified(&other, modified);
        fs::rename(&other, &target).unwrap();
        if is_same { unchanged(&root) } else { refused(&root) }
    }
}

fn other_mode() {
    let root = settled();
    set_mode(&root.join(TARGET), 0o600);
    refused(&root);
    set_mode(&root.join(TARGET), 0o644);
    unchanged(&root);
}

fn other_owner() {
    let root = settled();
    chown(root.join(TARGET), Some(1234), None).unwrap();
    refused(&root);
    chown(root.join(TARGET), Some(0), Some(1234)).unwrap();
    refused(&root);
}

fn other_symlink() {
    let root = prepared();
    fs::remove_file(root.join(RESOURCE)).unwrap();
    symlink("issue", root.join(RESOURCE)).unwrap();
    assert!(root.holo(&["apply"]).success());
    settle();
    unchanged(&root);
    // The target of a symlink is not its content.
    fs::remove_file(root.join(TARGET)).unwrap();
    symlink("shell", root.join(TARGET)).unwrap();
    refused(&root);
    fs::remove_file(root.join(RESOURCE)).unwrap();
    symlink("shell", root.join(RESOURCE)).unwrap();
    unchanged(&root);
}

fn gone() {
    let root = settled();
    fs::remove_file(root.join(TARGET)).unwrap();
    let run = root.holo(&["apply"]);
    assert!(run.status == Some(1) && run.stderr.contains_str("deleted by user"), "{run}");
}

fn changed_resource() {
    let root = settled();
    overwrite(&root.join(RESOURCE), EDITED);
    applied(&root);
    assert_eq!(root.read(TARGET), EDITED);
    // The record of the old one is invalid.
    overwrite(&root.join(RESOURCE), WANTED);
    applied(&root);
    assert_eq!(root.read(TARGET), WANTED);
}

fn patched() {
    const PATCH: &str = "usr/share/holo/files/90-local/etc/motd.holopatch";
    let root = prepared();
    root.write(PATCH, "@@ -1 +1 @@\n-what's wanted\n+what's patched\n");
    assert!(root.holo(&["apply"]).success());
    settle();
    unchanged(&root);
    assert!(!reads(&root));
    overwrite(&root.join(PATCH), "@@ -1 +1 @@\n-what's wanted\n+what's PATCHED\n");
    applied(&root);
    assert_eq!(root.read(TARGET), "what's PATCHED\n");
    overwrite(&root.join(PATCH), "@@ -1 +1 @@\n-what's WANTED\n+what's PATCHED\n");
    let run = root.holo(&["apply"]);
    assert!(!run.success() && run.stderr.contains_str("hunk 1 of 1 does not fit"), "{run}");
    fs::remove_file(root.join(PATCH)).unwrap();
    applied(&root);
    assert_eq!(root.read(TARGET), WANTED);
}

fn changed_base() {
    let root = settled();
    set_mode(&root.join(BASE), 0o600);
    applied(&root);
    assert_eq!(fs::metadata(root.join(TARGET)).unwrap().mode() & 0o7777, 0o600);
    settle();
    unchanged(&root);
    fs::remove_file(root.join(BASE)).unwrap();
    assert!(root.holo(&["apply"]).success());
    assert_eq!(root.read(BASE), WANTED, "the base is taken anew");
}

fn changed_provisioned() {
    let root = settled();
    overwrite(&root.join(PROVISIONED), EDITED);
    unchanged(&root);
    assert_eq!(root.read(PROVISIONED), WANTED);
    fs::remove_file(root.join(PROVISIONED)).unwrap();
    unchanged(&root);
    assert_eq!(root.read(PROVISIONED), WANTED);
}

fn more_resources() {
    let root = settled();
    let later = "usr/share/holo/files/02-y/etc/motd";
    root.write(later, EDITED);
    applied(&root);
    assert_eq!(root.read(TARGET), EDITED);
    settle();
    unchanged(&root);
    fs::remove_file(root.join(later)).unwrap();
    applied(&root);
    assert_eq!(root.read(TARGET), WANTED);
    // A resource file that is overridden makes no difference.
    root.write("usr/share/holo/files/00-z/etc/motd", EDITED);
    unchanged(&root);
}

fn scripts() {
    let root = settled();
    let path = format!("{FOLDER}/motd.holoscript");
    script(&root, &path, "tr a-z A-Z; date +%N >>$HOLO_ROOT_DIR/runs");
    applied(&root);
    assert_eq!(root.read(TARGET), WANTED.to_uppercase());
    settle();
    unchanged(&root);
    unchanged(&root);
    assert_eq!(root.read("runs").lines().count(), 3);
    // Its output depends on more than a record could cover.
    script(&root, &path, "cat $HOLO_ROOT_DIR/etc/input");
    root.write("etc/input", "one\n");
    applied(&root);
    root.write("etc/input", "two\n");
    applied(&root);
    assert_eq!(root.read(TARGET), "two\n");
    fs::remove_file(root.join(path)).unwrap();
    applied(&root);
    assert_eq!(root.read(TARGET), WANTED);
}

fn stock_files() {
    let root = settled();
    root.write("etc/motd.dpkg-dist", EDITED);
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stdout.contains_str(">> found updated target base"), "{run}");
    assert!(root.read(BASE) == EDITED && !root.exists("etc/motd.dpkg-dist"));
    settle();
    unchanged(&root);
    fs::rename(root.join(TARGET), root.join("etc/motd.dpkg-old")).unwrap();
    root.write(TARGET, STOCK);
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stdout.contains_str("(with .dpkg-old)"), "{run}");
    assert!(root.read(BASE) == STOCK && root.read(TARGET) == WANTED);
}

fn interrupted() {
    let root = settled();
    fs::create_dir(root.join("var/lib/holo/files/.staged")).unwrap();
    assert!(reads(&root));
    assert!(!root.exists("var/lib/holo/files/.staged"));
    unchanged(&root);
    assert!(!reads(&root));
}

fn copied() {
    let root = settled();
    let copy = ScratchRoot::new().binary(built("holo")).env("HOLO_HISTORY", "1");
    let all = |root: &ScratchRoot| format!("{}/.", root.path().display());
    assert!(root.run("cp", &["-a", &all(&root), &all(&copy)]).success());
    assert!(reads(&copy));
    overwrite(&copy.join(TARGET), EDITED);
    refused(&copy);
}

fn future_file() {
    let root = settled();
    set_modified(&root.join(TARGET), SystemTime::now() + Duration::from_secs(1_000_000));
    settle();
    assert!(reads(&root));
    assert!(reads(&root));
    set_modified(&root.join(TARGET), SystemTime::now());
    settle();
    assert!(reads(&root));
    assert!(!reads(&root));
}

fn changed_just_now() {
    let root = settled();
    for path in [TARGET, RESOURCE, BASE, PROVISIONED] {
        let mode = fs::metadata(root.join(path)).unwrap().mode();
        set_mode(&root.join(path), mode);
        assert!(reads(&root), "{path}");
        assert!(reads(&root), "{path} was relied on though it was changed just now");
    }
    settle();
    assert!(reads(&root));
    assert!(!reads(&root));
}

/// Pseudo-random numbers from a fixed seed (xorshift).
#[derive(Clone)]
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn one_of<T: Copy>(&mut self, things: &[T]) -> T {
        things[usize::try_from(self.below(things.len() as u64)).unwrap()]
    }
}

/// Applies the same changes to two roots, one of which reads everything.
fn random_walk(seed: u64) {
    let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let roots = [None, Some("1")].map(|verifies| {
        let root = prepared().env("HOLO_VERIFY", verifies.unwrap_or_default());
        for entity in 0..ENTITIES {
            root.write(format!("etc/{entity}"), STOCK);
            root.write(format!("{FOLDER}/{entity}"), WANTED);
        }
        root
    });
    for round in 0..40 {
        let edits = numbers.below(4);
        let mut edits_made = Vec::new();
        for _ in 0..edits {
            let before = numbers.clone();
            for root in &roots {
                numbers = before.clone();
                edits_made.push(edit(root, &mut numbers));
            }
        }
        let arguments: &[&str] = if numbers.below(4) == 0 { &["apply", "--force"] } else { &["apply"] };
        let ends = roots.each_ref().map(|root| {
            let run = root.holo(arguments);
            let said = |text: &BString| text.replace(root.path().to_str().unwrap(), "ROOT").to_str_lossy().into_owned();
            (run.status, said(&run.stdout), said(&run.stderr), tree(root))
        });
        let [with, without] = &ends;
        assert!(
            with == without,
            "round {round}: after {edits_made:#?}\nand {arguments:?} there is\n{}{}{}\nwhere it should be\n{}{}{}",
            with.1,
            with.2,
            with.3,
            without.1,
            without.2,
            without.3
        );
        sleep(Duration::from_millis(numbers.one_of(&[0, 0, 100, 700, 1500])));
    }
}

const ENTITIES: usize = 12;

/// Returns the tree without the state database, which differs.
fn tree(root: &ScratchRoot) -> BString {
    let dump = root.dump();
    let end = format!("{}\n", "-".repeat(40));
    let kept = dump.split_str(&end).filter(|section| !section.contains_str(format!("./{DATABASE}")));
    kept.collect::<Vec<_>>().join(end.as_bytes()).into()
}

/// Makes a random change, and returns its description.
fn edit(root: &ScratchRoot, numbers: &mut Numbers) -> String {
    let entity = numbers.below(ENTITIES as u64);
    let disambiguator = numbers.one_of(&["00-z", "01-x", "02-y"]);
    let resource = root.join(format!("usr/share/holo/files/{disambiguator}/etc/{entity}"));
    let target = root.join(format!("etc/{entity}"));
    let image = root.join(format!("var/lib/holo/files/{}/etc/{entity}", numbers.one_of(&["base", "provisioned"])));
    let content = numbers.one_of(&[STOCK, WANTED, EDITED, "another length\n", ""]);
    let file = numbers.one_of(&[&target, &target, &resource, &image]).clone();
    let what = numbers.below(14);
    let done = match what {
        0 | 1 => change(&file, |file| fs::write(file, content).unwrap()),
        // The changes that are hardest to notice are the most frequent.
        2..=5 => change(&file, |file| overwrite(file, numbers.one_of(&[STOCK, WANTED, EDITED]))),
        6 => change(&file, |file| set_mode(file, if content.is_empty() { 0o600 } else { 0o644 })),
        7 => change(&file, |file| {
            // Only root can change the owner.
            let _ = lchown(file, Some(if content.is_empty() { 1234 } else { 0 }), None);
        }),
        8 => change(&file, |file| {
            let other = file.with_file_name("other");
            fs::copy(file, &other).unwrap();
            overwrite(&other, content);
            fs::rename(other, file).unwrap();
        }),
        9 => replace(&file, |file| symlink(content.trim_end(), file).unwrap_or_else(|_| fs::write(file, "x").unwrap())),
        10 => replace(&resource, |file| fs::write(file, content).unwrap()),
        11 => replace(&resource, |_| {}),
        12 => {
            let path = resource.with_extension("holoscript");
            replace(&path, |file| {
                write_script(file, "#!/bin/sh\ntr a-z A-Z\n");
                if content == STOCK {
                    fs::remove_file(file).unwrap();
                }
            })
        }
        // Nothing is remembered any more.
        _ => ["", "-wal", "-shm"]
            .map(|suffix| fs::remove_file(root.join(format!("{DATABASE}{suffix}"))))
            .iter()
            .all(Result::is_ok),
    };
    let done = if done { "" } else { " (nothing there)" };
    format!("{what} {} {} {} {content:?}{done}", file.display(), resource.display(), image.display())
}

/// Changes a regular file, if it exists.
fn change(file: &PathBuf, act: impl FnOnce(&Path)) -> bool {
    let is_file = fs::symlink_metadata(file).is_ok_and(|metadata| metadata.is_file());
    if is_file {
        act(file);
    }
    is_file
}

/// Replaces a file, whether or not it exists.
fn replace(file: &PathBuf, act: impl FnOnce(&Path)) -> bool {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let was_there = fs::remove_file(file).is_ok();
    act(file);
    was_there
}
