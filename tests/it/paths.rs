//! Random cases of declared files, overlays, scaffolds and archives: paths that change owners, files that change types,
//! and manual changes. Each case ends without definitions, and with the original tree.
//!
//! `HOLO_TEST_CASES=20000` runs more of them, `HOLO_TEST_SEED=7` a single one.

use holo_testing::random::{self, Random};
use holo_testing::{Run, ScratchRoot, binaries, trial_of};
use libtest_mimic::Trial;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

/// The default number of cases of each kind.
const CASES: u64 = 8;

pub(crate) fn trials() -> Vec<Trial> {
    let declared = Case { declared: 35, overlays: 0, scaffolds: 0, archives: 0, edits: false };
    let scaffolds = Case { declared: 0, scaffolds: 80, ..declared };
    let mixed = Case { declared: 15, overlays: 15, scaffolds: 50, ..declared };
    let archives = Case { declared: 20, archives: 50, ..declared };
    let all = Case { scaffolds: 40, ..archives };
    let trials = [
        ("declared files", declared),
        ("declared files, and a person", Case { edits: true, ..declared }),
        ("scaffolds", scaffolds),
        ("scaffolds, and a person", Case { edits: true, ..scaffolds }),
        ("declared files, overlays and scaffolds", mixed),
        ("declared files, overlays and scaffolds, and a person", Case { edits: true, ..mixed }),
        ("archives and declared files", archives),
        ("archives and declared files, and a person", Case { edits: true, ..archives }),
        ("archives, declared files and scaffolds", all),
        ("archives, declared files and scaffolds, and a person", Case { edits: true, ..all }),
    ];
    let trials = trials.map(|(name, case)| {
        trial_of(&format!("{name}: random cases end as they began"), &[], move || {
            random::cases(CASES, |random| case.run(random));
        })
    });
    trials.into()
}

/// The probabilities of the elements of a case, in percent.
#[derive(Clone, Copy)]
struct Case {
    /// A path is declared.
    declared: usize,
    /// An existing file has an overlay.
    overlays: usize,
    /// There is a scaffold.
    scaffolds: usize,
    /// Each of two archives is present.
    archives: usize,
    /// Whether users change files between applies.
    edits: bool,
}

/// The paths of all definitions; the last three go through a symlink.
const PATHS: [&str; 14] = [
    "srv/a",
    "srv/a/b",
    "srv/a/b/c",
    "srv/a/d",
    "srv/e",
    "srv/t",
    "srv/t/x",
    "srv/t/sub",
    "srv/t/sub/y",
    "srv/t/sub/z",
    "srv/new/deep/f",
    "srv/link/b",
    "srv/link/d",
    "srv/link/new",
];
/// The number of paths that do not.
const UNLINKED: usize = 11;
/// The number of paths that may exist initially.
const FOUND: usize = 10;
const TARGETS: [&str; 4] = ["/srv/t", "/srv/t/sub", "/srv/a", "/srv/new"];
const SOURCES: [&str; 5] = ["x", "sub/y", "sub/z", "b", "deep/f"];
/// The targets of downloads.
const DOWNLOADS: [&str; 4] = ["/srv/p", "/srv/q", "/srv/e", "/srv/new/deep/f"];
const MODES: [u32; 8] = [0o644, 0o600, 0o755, 0o4711, 0o2750, 0o1777, 0o7777, 0o400];
const CONTENTS: [&str; 4] = ["one\n", "two\n", "", "a longer content\nof two lines\n"];

impl Case {
    fn run(self, random: &mut Random) {
        let root = ScratchRoot::in_memory()
            .binary(binaries::built("holo"))
            .plugin("files")
            .plugin("scaffold")
            .plugin("archives")
            .file("etc/os-release", "ID=unittest\n")
            .dir("srv");
        let mut log = String::new();
        self.fill(random, &root, &mut log);
        let before = snapshot(&root.join("srv"));
        // Like version 3, an overlay restores its file without asking.
        let mut persons = Persons { are_asked: self.overlays == 0, ..Persons::default() };
        for _ in 0..2 + random.below(4) {
            if self.edits {
                persons.edit(random, &root, &mut log);
            }
            self.define(random, &root, &mut log);
            apply(random, &root, &mut persons, &mut log);
        }
        remove_definitions(&root);
        if self.edits && random.chance(50) {
            persons.edit(random, &root, &mut log);
        }
        log.push_str("--- nothing is defined any more\n");
        let mut run = apply_once(&root, false, &mut persons, &mut log);
        for _ in 0..3 {
            // A file in the place of a directory may have to be removed before the directory's contents can be
            // restored.
            if !run.success() {
                run = apply_once(&root, self.edits, &mut persons, &mut log);
            }
        }
        // A directory with a user's files is not turned back into a file, and nothing is restored below a file.
        if self.edits && !run.success() {
            let problems = run.stderr_lossy().lines().filter(|line| line.starts_with("!! ")).count();
            let reasons = ["directory not empty", "is not a directory"];
            let known: usize = reasons.iter().map(|reason| run.stderr_lossy().matches(reason).count()).sum();
            assert!(problems == known, "{log}\nscrubbing fails");
            return;
        }
        assert!(run.success(), "{log}\nscrubbing fails");
        let mut left = left_in_state(&root);
        // The record of a directory that we created, and a user has written to, stays until the user's files are
        // removed.
        left.retain(|path| !(persons.have_edited && path.ends_with("directories")));
        assert!(
            left.is_empty(),
            "{log}\nleft in the state directories: {left:?}\n{}",
            left.iter().map(|path| fs::read_to_string(path).unwrap_or_default()).collect::<String>()
        );
        if !persons.have_edited {
            let after = snapshot(&root.join("srv"));
            assert!(before == after, "{log}\nbefore:\n{}\nafter:\n{}", before.join("\n"), after.join("\n"));
        }
    }

    /// Creates the initial files.
    fn fill(self, random: &mut Random, root: &ScratchRoot, log: &mut String) {
        for path in &PATHS[..FOUND] {
            let full = root.join(path);
            if !full.parent().unwrap().is_dir() || random.chance(30) {
                continue;
            }
            let is_parent = PATHS.iter().any(|other| Path::new(other).parent() == Some(Path::new(path)));
            match random.below(if is_parent { 6 } else { 4 }) {
                0 => {
                    symlink(random.pick(&["nowhere", "e", "/srv/t"]), &full).unwrap();
                    own(random, &full, true);
                }
                1..=3 => {
                    fs::write(&full, random.pick(&CONTENTS)).unwrap();
                    own(random, &full, false);
                    fs::set_permissions(&full, fs::Permissions::from_mode(*random.pick(&MODES))).unwrap();
                }
                _ => {
                    fs::create_dir(&full).unwrap();
                    fs::set_permissions(&full, fs::Permissions::from_mode(*random.pick(&MODES) | 0o700)).unwrap();
                }
            }
        }
        symlink("a", root.join("srv/link")).unwrap();
        let _ = writeln!(log, "found:\n{}", snapshot(&root.join("srv")).join("\n"));
    }

    /// Replaces the definitions.
    fn define(self, random: &mut Random, root: &ScratchRoot, log: &mut String) {
        remove_definitions(root);
        let mut text = String::new();
        for path in some(random, self.declared, &PATHS) {
            let _ = write!(text, "[[file]]\npath = \"/{path}\"\n{}", declaration(random));
        }
        root.write("usr/share/holo/files/a.toml", &text);
        let mut overlays = String::new();
        for (number, path) in some(random, self.overlays, &PATHS[..UNLINKED]).into_iter().enumerate() {
            let content = format!("over {}", random.pick(&CONTENTS));
            root.write(format!("usr/share/holo/files/{number:02}/{path}"), &content);
            let _ = writeln!(overlays, "overlay of {path}: {content:?}");
        }
        let mut scaffolds = String::new();
        let count = if random.chance(self.scaffolds) { 1 + usize::from(random.chance(15)) } else { 0 };
        let mut targets = BTreeSet::new();
        for number in 0..count {
            let target = random.pick(&TARGETS);
            if !targets.insert(target) {
                continue;
            }
            let _ = write!(scaffolds, "[[scaffold]]\ntarget = \"{target}\"\nsource = \"s{number}\"\n");
            for key in ["purge = true\n", "mode = \"0640\"\n", "dir_mode = \"0711\"\n"] {
                if random.chance(20) {
                    scaffolds.push_str(key);
                }
            }
            root.write(format!("usr/share/holo/scaffold/s{number}/kept"), "kept\n");
            for name in some(random, 50, &SOURCES) {
                let content = format!("rendered {}", random.pick(&CONTENTS));
                root.write(format!("usr/share/holo/scaffold/s{number}/{name}"), &content);
                let _ = writeln!(log, "s{number}/{name}: {content:?}");
            }
        }
        root.write("usr/share/holo/scaffold/a.toml", &scaffolds);
        let archives = self.define_archives(random, root);
        let _ = writeln!(log, "--- defined:\n{text}{overlays}{scaffolds}{archives}---");
    }
}

impl Case {
    /// Returns the definitions, with the names in the archives as comments.
    fn define_archives(self, random: &mut Random, root: &ScratchRoot) -> String {
        let (mut text, mut downloads) = (String::new(), BTreeSet::new());
        if self.archives == 0 {
            return text;
        }
        for number in 0..2 {
            let download = random.pick(&DOWNLOADS);
            if !random.chance(self.archives) || !downloads.insert(download) {
                continue;
            }
            let mut archive = tar::Builder::new(Vec::new());
            for name in some(random, 50, &SOURCES) {
                let content = format!("extracted {}", random.pick(&CONTENTS));
                let mut header = tar::Header::new_gnu();
                header.set_size(content.len() as u64);
                header.set_mode(*random.pick(&[0o644, 0o600]));
                archive.append_data(&mut header, name, content.as_bytes()).unwrap();
                let _ = writeln!(text, "# {name}: {content:?}");
            }
            root.write(format!("usr/share/archive{number}"), archive.into_inner().unwrap());
            let _ = writeln!(text, "[[archive]]\npath = \"{download}\"\nurl = \"file:///usr/share/archive{number}\"");
            let _ = writeln!(text, "extract_to = \"{}\"", random.pick(&TARGETS));
            for key in ["cleanup = true\n", "mode = \"0600\"\n"] {
                if random.chance(20) {
                    text.push_str(key);
                }
            }
        }
        root.write("usr/share/holo/archives/a.toml", &text);
        text
    }
}

/// Selects each element with this probability.
fn some<'a>(random: &mut Random, percent: usize, all: &[&'a str]) -> Vec<&'a str> {
    all.iter().copied().filter(|_| random.chance(percent)).collect()
}

fn declaration(random: &mut Random) -> String {
    let mut text = String::new();
    match random.below(8) {
        0 => return "ensure = \"absent\"\n".to_owned(),
        1 => return "ensure = \"absent\"\nforce = true\n".to_owned(),
        2 => {
            return format!("ensure = \"symlink\"\ntarget = \"{}\"\n", random.pick(&["e", "t", "/srv/a", "elsewhere"]));
        }
        3 | 4 => text.push_str("ensure = \"directory\"\n"),
        5 => {}
        _ => {
            let _ = writeln!(text, "content = {:?}", random.pick(&CONTENTS));
            for key in ["sensitive = true\n", "in_place = true\n"] {
                if random.chance(15) {
                    text.push_str(key);
                }
            }
        }
    }
    if random.chance(40) {
        let mode = random.pick(&MODES);
        // Without root privileges, the directory must stay accessible.
        let _ = writeln!(text, "mode = \"{:04o}\"", mode | 0o700);
    }
    if is_root() && random.chance(20) {
        text.push_str("owner = \"4321\"\n");
    }
    text
}

fn remove_definitions(root: &ScratchRoot) {
    for plugin in ["files", "scaffold", "archives"] {
        let folder = root.join(format!("usr/share/holo/{plugin}"));
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
    }
}

fn apply(random: &mut Random, root: &ScratchRoot, persons: &mut Persons, log: &mut String) {
    let check = root.holo(&["check"]);
    assert!(
        matches!(check.status, Some(0 | 1 | 3)) && !is_panic(&check),
        "{log}\ncheck ends with {}",
        shown(root, &check)
    );
    let run = apply_once(root, random.chance(20), persons, log);
    if check.status == Some(0) {
        assert!(
            run.success() && run.stdout.is_empty(),
            "{log}\ncheck has seen nothing to do, apply has: {}",
            shown(root, &run)
        );
    }
    if run.success() {
        // An orphan may have blocked another entity, which is then handled by the next apply.
        let mut again = root.holo(&["apply"]);
        for _ in 0..2 {
            if !again.stdout.is_empty() && again.success() {
                let _ = writeln!(log, "again: {}", shown(root, &again));
                again = root.holo(&["apply"]);
            }
        }
        let is_quiet = again.success() && again.stdout.is_empty() && again.stderr.is_empty();
        // A symlink with a new target may give two entities the same path, which is an error from then on.
        let is_error = |words: &str| again.stderr_lossy().contains(words);
        let is_quiet = is_quiet || is_error("directory") || is_error("is brought by both");
        assert!(is_quiet, "{log}\nit does not settle: {}", shown(root, &again));
    }
}

fn apply_once(root: &ScratchRoot, force: bool, persons: &mut Persons, log: &mut String) -> Run {
    let run = if force { root.holo(&["apply", "--force"]) } else { root.holo(&["apply"]) };
    let forced = if force { " by force" } else { "" };
    let _ = writeln!(log, "apply{forced}: {}{}", shown(root, &run), snapshot(&root.join("srv")).join("\n"));
    assert!(matches!(run.status, Some(0 | 1)) && !is_panic(&run), "{log}");
    // Force may overwrite them.
    if force {
        persons.unsafe_works.clear();
    } else {
        persons.assert_safe(root, log);
    }
    run
}

/// Formats a run without routine lines.
fn shown(root: &ScratchRoot, run: &Run) -> String {
    let text = run.to_string().replace(&root.path().display().to_string(), "");
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with("  found in") && !line.starts_with("std");
    text.lines().filter(is_said).map(|line| format!("{line}\n")).collect()
}

fn is_panic(run: &Run) -> bool {
    run.stderr_lossy().contains("panicked")
}

/// The manual changes to files.
#[derive(Default)]
struct Persons {
    /// Contents that exist only in files written by users.
    unsafe_works: BTreeSet<String>,
    count: usize,
    have_edited: bool,
    /// Whether user data may be overwritten only by force.
    are_asked: bool,
}

impl Persons {
    fn edit(&mut self, random: &mut Random, root: &ScratchRoot, log: &mut String) {
        for _ in 0..random.below(3) {
            let path = random.pick(&PATHS);
            let full = root.join(path);
            let kind = fs::symlink_metadata(&full).map(|metadata| metadata.file_type());
            self.have_edited = true;
            match random.below(6) {
                0 => {
                    let _ = fs::remove_file(&full);
                }
                1 => {
                    if kind.is_err() {
                        let _ = symlink(random.pick(&["e", "/srv/t"]), &full);
                    }
                }
                2 => {
                    if kind.is_ok_and(|kind| kind.is_file()) {
                        let _ = fs::set_permissions(&full, fs::Permissions::from_mode(0o604));
                    }
                }
                _ => {
                    if kind.as_ref().is_ok_and(|kind| !kind.is_file()) {
                        continue;
                    }
                    self.count += 1;
                    let work = format!("a person's work, number {}\n", self.count);
                    // Users may overwrite each other's files.
                    if let Ok(old) = fs::read_to_string(&full) {
                        self.unsafe_works.remove(&old);
                    }
                    if fs::write(&full, &work).is_ok() {
                        self.unsafe_works.insert(work);
                    }
                }
            }
            let _ = writeln!(log, "a person has been at {path}:\n{}", snapshot(&root.join("srv")).join("\n"));
            // Contents that users have removed themselves are not lost.
            let there = all_contents(root);
            self.unsafe_works.retain(|work| there.contains(work));
        }
    }

    /// Asserts that no user data is lost.
    fn assert_safe(&self, root: &ScratchRoot, log: &str) {
        if self.unsafe_works.is_empty() || !self.are_asked {
            return;
        }
        let there = all_contents(root);
        for work in &self.unsafe_works {
            assert!(there.contains(work), "{log}\n{work:?} is lost");
        }
    }
}

/// Returns the contents of all files, including saved ones.
fn all_contents(root: &ScratchRoot) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = root.contents().into_iter().collect();
    for folder in ["srv", "var/lib/holo"] {
        visit(&root.join(folder), &mut |path, metadata| {
            if metadata.is_file() {
                all.insert(String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned());
            }
        });
    }
    all
}

/// Returns one line for each path below a directory.
fn snapshot(folder: &Path) -> Vec<String> {
    let mut lines: BTreeMap<PathBuf, String> = BTreeMap::new();
    visit(folder, &mut |path, metadata| {
        let mode = metadata.mode() & 0o7777;
        let owner = format!("{}:{}", metadata.uid(), metadata.gid());
        let what = if metadata.is_symlink() {
            format!("-> {}", fs::read_link(path).unwrap().display())
        } else if metadata.is_dir() {
            format!("{mode:04o} directory")
        } else {
            format!("{mode:04o} {:?}", String::from_utf8_lossy(&fs::read(path).unwrap_or_default()))
        };
        let below = path.strip_prefix(folder).unwrap_or(path);
        lines.insert(below.to_owned(), format!("  {} {owner} {what}", below.display()));
    });
    lines.into_values().collect()
}

fn left_in_state(root: &ScratchRoot) -> Vec<PathBuf> {
    let mut left = Vec::new();
    for plugin in ["files", "scaffold", "archives"] {
        visit(&root.join(format!("var/lib/holo/{plugin}")), &mut |path, metadata| {
            // Overlays keep a directory of their own, and a list of unchanged files.
            if !metadata.is_dir() {
                left.push(path.to_owned());
            }
        });
    }
    left
}

fn visit(folder: &Path, act: &mut impl FnMut(&Path, &fs::Metadata)) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        act(&path, &metadata);
        if metadata.is_dir() {
            visit(&path, act);
        }
    }
}

fn own(random: &mut Random, path: &Path, is_symlink: bool) {
    if is_root() && random.chance(20) {
        // Symlinks of other users are not followed, which other tests cover.
        if is_symlink { lchown(path, None, Some(4322)).unwrap() } else { chown(path, Some(4322), Some(4322)).unwrap() }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
