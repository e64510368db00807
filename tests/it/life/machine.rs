//! A machine during a life, and the model of who wrote what on it, which judges every step.

use super::steps::{ARCHIVE, Bundle, Coverage, Definitions, NAMES, PATHS, SUFFIXES, Source, Step, Wish};
use bstr::{BString, ByteSlice};
use holo_testing::disturb::{self, Disturbance};
use holo_testing::tree::{Node as Found, Section, Tree};
use holo_testing::{End, Ends, Run, ScratchRoot};
use rustix::fs::XattrFlags;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::thread;

const PLUGINS: [&str; 3] = ["files", "scaffold", "archives"];
/// What no entity is about: definitions, the state, and what the test needs.
const OTHERS: [&str; 6] = ["usr", ADOPTED, "tmp", "run", "plugin", "var/lib/holo"];
const ADOPTED: &str = "etc/holo";
/// What people write begins so.
const MARK: &str = "person ";
const NOTE: &str = "user.note";
const ACL: &str = "system.posix_acl_access";

/// Why a life has failed.
pub(super) type Verdict = Result<(), String>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    File(BString),
    Symlink(BString),
    Directory,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    content: Content,
    mode: u32,
    owner: (u32, u32),
    attributes: BTreeMap<&'static str, Vec<u8>>,
}

type Disk = BTreeMap<String, Node>;

pub(super) struct Machine {
    root: ScratchRoot,
    sources: BTreeMap<String, Source>,
    /// The definitions of today.
    written: Definitions,
    /// The definitions in use: those of today, or of a generation.
    defined: Definitions,
    /// The number of the generation in use, after a rollback.
    used: Option<u64>,
    generations: BTreeMap<u64, Definitions>,
    /// The files as they would be without holo.
    natural: Disk,
    /// The paths at which people have changed what holo has made: what is to be there without holo is not defined.
    unclear: BTreeSet<String>,
    /// The paths that holo may still hold.
    held: Coverage,
    /// Other names of files that entities are about, and whether their contents may be changed as well.
    shared: BTreeMap<String, bool>,
    /// The ID of the run that has changed an entity last, as far as runs have reported it.
    changed_by: BTreeMap<String, String>,
    /// The lines of people in files when these were adopted.
    given: BTreeSet<String>,
}

impl Machine {
    pub(super) fn new() -> Machine {
        let root = ScratchRoot::in_memory().env("HOLO_HISTORY", "1").file("etc/os-release", "ID=debian\n");
        let root = PLUGINS.iter().fold(root, |root, plugin| disturb::configure(root, plugin));
        let root = root
            .file("etc/a", "stock a\n")
            .file("etc/b.conf", "stock b\n[life]\nkey = 1\n")
            .mode("etc/b.conf", 0o640)
            .file("etc/app/x", "stock x\n")
            .dir("etc/app/empty");
        set(&root.join("etc/a"), NOTE, b"stock");
        let mut machine = Machine {
            root,
            sources: BTreeMap::new(),
            written: Definitions::default(),
            defined: Definitions::default(),
            used: None,
            generations: BTreeMap::new(),
            natural: Disk::new(),
            unclear: BTreeSet::new(),
            held: Coverage::default(),
            shared: BTreeMap::new(),
            changed_by: BTreeMap::new(),
            given: BTreeSet::new(),
        };
        machine.natural = machine.disk();
        machine
    }

    /// Lives through a step.
    pub(super) fn live(&mut self, step: Step) -> Verdict {
        match step {
            Step::Define(path, wish) => {
                self.written.wishes.insert(path, wish);
                self.write_definitions();
            }
            Step::Fill(path, bundle) if bundle.is_recursive() && self.has_name_below(path) => {}
            Step::Fill(path, bundle) => {
                self.written.bundles.insert(path, bundle);
                self.write_definitions();
            }
            Step::Data(number) => {
                self.written.data = number;
                self.write_definitions();
            }
            Step::Ask(path) => return self.ask(path),
            Step::Write(path, number) => self.person(path, |full| {
                if fs::symlink_metadata(full).is_ok_and(|found| found.is_symlink()) {
                    fs::remove_file(full)?;
                }
                fs::write(full, format!("{MARK}{number}\n"))
            }),
            Step::Append(path, number) => self.append(path, &format!("{MARK}{number}\n")),
            Step::Delete(path) => self.person(path, |full| fs::remove_file(full)),
            Step::Chmod(path, mode) => self.person(path, |full| match fs::symlink_metadata(full)?.is_file() {
                true => fs::set_permissions(full, fs::Permissions::from_mode(mode)),
                false => Ok(()),
            }),
            Step::Note(path) => self.person(path, |full| {
                if fs::symlink_metadata(full)?.is_file() {
                    set(full, NOTE, b"a person's");
                }
                Ok(())
            }),
            Step::Link(_, name) if self.has_permissions_for(name) => {}
            Step::Link(path, name) => {
                let from = self.root.join(path);
                self.person(name, |full| match fs::symlink_metadata(&from)?.is_file() {
                    true => {
                        let _ = fs::remove_file(full);
                        fs::hard_link(&from, full)
                    }
                    false => Ok(()),
                });
            }
            // What dpkg has installed beside the old file would be the link, which edits follow.
            Step::Package(path, ".dpkg-old", _) if self.root.join(path).is_symlink() => {}
            Step::Package(path, suffix, number) => {
                let full = self.root.join(format!("{path}{suffix}"));
                let _ = fs::write(full, format!("package {number}\n"));
                self.unclear.extend([path.to_owned(), format!("{path}{suffix}")]);
            }
            Step::Apply => return self.apply(&["apply"], false),
            Step::Force => return self.apply(&["apply"], true),
            Step::RollBack(count) => return self.roll_back(count),
            Step::Release => return self.release(),
            Step::Adopt(path, number) => return self.adopt(path, number),
            Step::Abandon => self.abandon(),
            Step::Together => {
                return self.interrupted(|root| {
                    thread::scope(|scope| {
                        let other = scope.spawn(|| root.holo(&["apply"]));
                        format!("{}{}", root.holo(&["apply"]), other.join().unwrap())
                    })
                });
            }
            Step::KillPlugins(call, number) => return self.disturbed(&["apply"], call, number, Disturbance::Kill),
            Step::KillForced(call, number) => {
                return self.disturbed(&["apply", "--force"], call, number, Disturbance::Kill);
            }
            Step::FillDisk(call, number) => {
                return self.disturbed(&["apply"], call, number, Disturbance::Error("ENOSPC"));
            }
            Step::KillHolo(call, number) => {
                let (trace, inject) = (format!("trace={call}"), format!("inject={call}:signal=SIGKILL:when={number}"));
                let (log, holo) = (self.root.join("tmp/strace"), holo_testing::binaries::built("holo"));
                let (log, holo) = (log.to_str().unwrap().to_owned(), holo.to_str().unwrap());
                let words = ["-qq", "-o", &log, "-e", &trace, "-e", &inject, holo, "apply"];
                return self.interrupted(|root| {
                    let said = root.run("/usr/bin/strace", &words).to_string();
                    // A process holds the lock until the plugins have ended, too.
                    if let Ok(lock) = File::open(root.join("run/holo.pid")) {
                        lock.lock().unwrap();
                    }
                    said
                });
            }
        }
        Ok(())
    }

    fn write_definitions(&mut self) {
        let sources = self.written.sources();
        for path in self.sources.keys().filter(|path| !sources.contains_key(*path)) {
            fs::remove_file(self.root.join(path)).unwrap();
            // Empty directories of templates would be rendered.
            let above = Path::new(path).ancestors().skip(1).take_while(|above| above.components().count() > 4);
            let _ = above.map(|above| fs::remove_dir(self.root.join(above))).find(Result::is_err);
        }
        for (path, source) in sources.iter().filter(|(path, source)| self.sources.get(*path) != Some(source)) {
            match source {
                Source::File(content) => self.root.write(path, content),
                Source::Script(text) => self.root.write_script(path, text),
                Source::Symlink(target) => {
                    self.root.write(path, "");
                    fs::remove_file(self.root.join(path)).unwrap();
                    symlink(target, self.root.join(path)).unwrap();
                }
            }
        }
        self.sources = sources;
        if self.used.is_none() {
            self.defined = self.written.clone();
        }
        self.put_archive();
    }

    /// Provides the archive of the definitions in use, which is not kept with a generation.
    fn put_archive(&self) {
        if let Some(Source::File(archive)) = self.defined.sources().get(ARCHIVE) {
            self.root.write(ARCHIVE, archive);
        }
    }

    /// A person adds a line to a file, and adopts the file. Then there is nothing to do, and the original stays what it was.
    fn adopt(&mut self, path: &'static str, number: usize) -> Verdict {
        // Edits follow symlinks, so that the target would be adopted as well, or be edited later.
        let wish = self.written.wishes.get(path);
        let may_be_followed = wish.is_none_or(|wish| wish.is_edits() || *wish == Wish::Nothing);
        if self.used.is_some() || (may_be_followed && self.root.join(path).is_symlink()) {
            return Ok(());
        }
        let is_clear = !self.unclear.contains(path) && self.root.exists(format!("var/lib/holo/files/base/{path}"));
        self.append(path, &format!("{MARK}{number}\n"));
        let mut before = self.disk();
        let full = self.root.join(path);
        // Other entities of the path are not done with because one is adopted.
        let pending = |check: &Run| -> BTreeSet<String> {
            let text = check.stdout_lossy().into_owned();
            let others = text.lines().filter(|line| line.starts_with("Scrubbing ") || line.starts_with("Working on "));
            others
                .filter(|line| !line.contains(" file:") || line.starts_with("Scrubbing "))
                .map(str::to_owned)
                .collect()
        };
        let earlier = pending(&self.root.holo(&["check".as_ref(), full.as_os_str()]));
        let run = sound(self.root.holo(&["adopt".as_ref(), full.as_os_str()]))?;
        // It tidies up like an apply: parents that an apply has created go if a person has deleted all files in them.
        let after = self.disk();
        before.retain(|path, node| after.contains_key(path) || node.content != Content::Directory);
        ensure(after == before, || format!("adopt has changed another file:\n{run}"))?;
        // What was there before the first apply is no manual change.
        if !run.success() || run.stderr.contains_str("Nothing to adopt: ") {
            return Ok(());
        }
        self.written.adopted.insert(path);
        self.defined = self.written.clone();
        let content = fs::read(&full).unwrap_or_default();
        let lines = content.lines().filter(|line| line.starts_with(MARK.as_bytes()));
        self.given.extend(lines.map(|line| line.to_str_lossy().into_owned()));
        // It is on record, as after an apply.
        self.held.hold(path);
        if run.stderr.is_empty() && !earlier.iter().any(|line| line.starts_with("Scrubbing ")) {
            let check = sound(self.root.holo(&["check".as_ref(), full.as_os_str()]))?;
            let is_done = check.success() || (!earlier.is_empty() && pending(&check).is_subset(&earlier));
            ensure(is_done, || format!("after\n{run}\nthere is something to do:\n{check}"))?;
            if is_clear {
                self.unclear.remove(path);
            }
        }
        Ok(())
    }

    fn abandon(&mut self) {
        // There may be none.
        let _ = fs::remove_dir_all(self.root.join(ADOPTED));
        self.written.adopted.clear();
        self.write_definitions();
    }

    /// What is said of a file agrees with what is defined, and with who wrote which line.
    fn ask(&self, path: &str) -> Verdict {
        let before = self.disk();
        let full = self.root.join(path);
        let ask = |verb: &str| sound(self.root.holo(&[verb.as_ref(), full.as_os_str()]));
        let (why, blame) = (ask("why")?, ask("blame")?);
        self.remembers(&sound(self.root.holo(&["why".as_ref(), "--json".as_ref(), full.as_os_str()]))?)?;
        ensure(self.disk() == before, || format!("a question has changed a file:\n{why}\n{blame}"))?;
        let defined = self.defined.coverage();
        // Its own definition may contradict the adopted one, which is reported.
        let is_contradicted = self.defined.adopted.contains(path) && !why.stderr.is_empty();
        if defined.overlaid.contains(path) && !is_contradicted {
            ensure(why.success() && why.stdout.contains_str(format!("file:/{path}")), || format!("not why:\n{why}"))?;
        } else if !defined.has(path) && !self.held.has(path) && !self.is_followed(path) {
            let is_free = why.stdout.contains_str("managed by no entity");
            ensure(is_free && !blame.success(), || format!("{path} is not managed:\n{why}\n{blame}"))?;
        }
        let is_ours = |line: &&[u8]| line.contains_str(MARK) && line.contains_str("usr/share/holo");
        let claimed = blame.stdout.lines().find(is_ours);
        ensure(claimed.is_none(), || format!("a person's line is not from a definition:\n{blame}"))
    }

    /// Returns true if edits lead here, through a symlink that a killed run has left at their path.
    fn is_followed(&self, path: &str) -> bool {
        let edited = self.defined.wishes.iter().filter(|(_, wish)| wish.is_edits());
        let targets = edited.filter_map(|(edited, _)| fs::read_link(self.root.join(edited)).ok());
        targets.into_iter().any(|target| target == Path::new("/").join(path))
    }

    /// Uses the definitions of an earlier generation, and applies them.
    fn roll_back(&mut self, count: usize) -> Verdict {
        let before = self.used.unwrap_or(u64::MAX);
        let Some((number, defined)) = self.generations.range(..before).rev().nth(count - 1) else { return Ok(()) };
        let number = *number;
        self.defined = defined.clone();
        self.used = Some(number);
        self.put_archive();
        self.apply(&["rollback", &number.to_string()], false)
    }

    fn release(&mut self) -> Verdict {
        let before = self.disk();
        let run = sound(self.root.holo(&["rollback", "--release"]))?;
        ensure(run.success() && self.disk() == before, || format!("the release changes a file:\n{run}"))?;
        self.used = None;
        self.defined = self.written.clone();
        self.put_archive();
        Ok(())
    }

    /// A person changes a file, if there can be one.
    fn person(&mut self, path: &str, does: impl FnOnce(&Path) -> std::io::Result<()>) {
        let full = self.root.join(path);
        let folder = full.parent().unwrap();
        let is_directory = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        let before = self.disk();
        if is_directory(&full) || !is_directory(folder) || does(&full).is_err() {
            return;
        }
        let after = self.disk();
        // What is written to a file is also seen under its other names.
        for changed in PATHS.into_iter().chain(NAMES).filter(|changed| before.get(*changed) != after.get(*changed)) {
            self.is_written(changed, after.get(changed));
        }
    }

    fn is_written(&mut self, path: &str, node: Option<&Node>) {
        if self.held.has(path) {
            self.unclear.insert(path.to_owned());
            return;
        }
        self.unclear.remove(path);
        match node {
            Some(node) => drop(self.natural.insert(path.to_owned(), node.clone())),
            None => drop(self.natural.remove(path)),
        }
        for above in above(path).filter(|above| !self.natural.contains_key(*above)) {
            self.unclear.insert(above.to_owned());
        }
    }

    fn append(&mut self, path: &str, line: &str) {
        let full = self.root.join(path);
        if !fs::symlink_metadata(&full).is_ok_and(|found| found.is_file()) {
            return;
        }
        let content = [fs::read(&full).unwrap().as_bytes(), line.as_bytes()].concat();
        if let Some(Node { content: Content::File(natural), .. }) =
            self.natural.get_mut(path).filter(|_| self.held.is_only_edited(path) && !self.unclear.contains(path))
        {
            // An edit leaves the lines of others alone, and its section if there is one of them in it.
            if content.contains_str("[life]") && !natural.contains_str("[life]") {
                self.unclear.insert(path.to_owned());
            }
            natural.extend_from_slice(line.as_bytes());
            let before = self.disk();
            fs::write(full, content).unwrap();
            let after = self.disk();
            let others = PATHS.into_iter().chain(NAMES).filter(|other| *other != path);
            for other in others.filter(|other| before.get(*other) != after.get(*other)) {
                self.is_written(other, after.get(other));
            }
            return;
        }
        self.person(path, |full| fs::write(full, content));
    }

    /// Returns true if an entity determines the permissions of everything in the directory of a second name. Those of
    /// the first name would contradict them.
    fn has_permissions_for(&self, name: &str) -> bool {
        let defined = [&self.written, &self.defined].into_iter().flat_map(|definitions| &definitions.bundles);
        let recursive = defined.filter(|(_, bundle)| bundle.is_recursive()).map(|(path, _)| *path);
        let held = self.held.recursed.iter().map(String::as_str);
        recursive.chain(held).any(|directory| name.starts_with(&format!("{directory}/")))
    }

    /// Returns true if there is a second name of a file below a directory.
    fn has_name_below(&self, directory: &str) -> bool {
        let names = NAMES.into_iter().filter(|name| name.starts_with(&format!("{directory}/")));
        names.filter_map(|name| fs::symlink_metadata(self.root.join(name)).ok()).any(|found| found.nlink() > 1)
    }

    /// Returns all files that entities may be about.
    fn disk(&self) -> Disk {
        let mut disk = Disk::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(self.root.join(&folder)).into_iter().flatten() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                let Some(node) = node(&self.root.join(&path)).filter(|_| !OTHERS.contains(&path.as_str())) else {
                    continue;
                };
                if node.content == Content::Directory {
                    folders.push(path.clone());
                }
                disk.insert(path, node);
            }
        }
        disk
    }

    /// Returns the state of entities: records and files.
    fn state(&self) -> String {
        let files = Tree::read(&self.root.join("var/lib/holo")).unwrap();
        // Version 3 keeps its directories.
        let folders: Vec<&str> = PLUGINS.into_iter().chain(["files/base", "files/provisioned"]).collect();
        let is_folder = |section: &Section| {
            section.node == Found::Directory
                && section.mode == 0o755
                && folders.iter().any(|path| section.path == *path)
        };
        // The inputs of earlier runs are kept for a rollback. A kill may leave a journal of the database.
        let is_other =
            |section: &Section| section.path.starts_with(b"state.db") || section.path.starts_with(b".engine");
        let ours = files.sections().iter().filter(|section| !is_folder(section) && !is_other(section));
        let files: String = ours.map(|section| format!("{section:?}\n")).collect();
        let whole = self.root.dump();
        let records = whole.to_str_lossy();
        let end = format!("{}\n", "-".repeat(40));
        // What was edited and overwritten is kept as long as the records of runs.
        let is_ours = |section: &&str| section.starts_with("record of ") && !section.starts_with("record of .edited:");
        let records: String = records.split(&end).filter(is_ours).collect();
        files + &records
    }

    fn apply(&mut self, verb: &[&str], force: bool) -> Verdict {
        let before = self.disk();
        let (_, state) = (self.note_stock(&before), self.state());
        let check = match verb {
            ["apply"] => sound(self.root.holo(&["check", "--json"]))?,
            _ => sound(self.root.holo(&[verb, &["--dry-run", "--json"]].concat()))?,
        };
        ensure(self.disk() == before && self.state() == state, || {
            format!("check has changed a file:\n{check}\nThe state was\n{state}\nand is\n{}", self.state())
        })?;
        let options = if force { &["--json", "--force"][..] } else { &["--json"] };
        let run = sound(self.root.holo(&[verb, options].concat()))?;
        let is_clean = run.success();
        // Only a run that changes something saves its inputs.
        if let Some(number) = generation(&run).filter(|_| run.stdout.contains_str("\"result\":\"changed\"")) {
            self.generations.insert(number, self.defined.clone());
        }
        let said = format!("{run}\nafter the check\n{check}");
        let run = Ends::read(run);
        predicted(&Ends::read(check), &run, force).map_err(|why| format!("{why}:\n{said}"))?;
        self.judge(&before, &state, force, &said)?;
        self.note_changed_names(&before);
        self.recorded(&run)?;
        if is_clean {
            self.held = self.defined.coverage();
            self.settled()?;
            self.fulfilled().map_err(|why| format!("{why}\n{said}"))?;
        }
        Ok(())
    }

    fn disturbed(&mut self, verb: &[&str], call: &str, number: usize, what: Disturbance<'_>) -> Verdict {
        self.interrupted(|root| disturb::at(root, verb, call, number, what).0.to_string())
    }

    /// The records of a run say what it has reported.
    fn recorded(&mut self, run: &Ends) -> Verdict {
        let reported = ends_of(run);
        let Some(number) = line_with(&run.run, "summary").and_then(|line| Some(line.get("run")?.as_str()?.to_owned()))
        else {
            return Ok(());
        };
        let changed: Vec<&String> =
            run.entities().filter(|(_, end)| end.result == "changed").map(|(id, _)| id).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let shown = Ends::read(sound(self.root.holo(&["history", "show", "--json", &number]))?);
        ensure(ends_of(&shown) == reported, || {
            format!("the records are not what was reported:\n{}\n{}", run.run, shown.run)
        })?;
        self.changed_by.extend(changed.into_iter().map(|id| (id.clone(), number.clone())));
        Ok(())
    }

    /// What is said of the last change of an entity agrees with what the runs have reported.
    fn remembers(&self, why: &Run) -> Verdict {
        for line in why.stdout_lossy().lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let text = |key: &str| line.get(key).and_then(Value::as_str);
            let Some((id, run)) = text("id").and_then(|id| Some((id, self.changed_by.get(id)?))) else { continue };
            let history = sound(self.root.holo(&["history", "--json", "-n", "0", id]))?;
            let records = history.stdout_lossy().into_owned();
            let last = records.lines().find(|line| line.contains("\"result\":\"changed\""));
            let is_last = last.is_some_and(|line| line.contains(&format!("\"run\":{run:?}")));
            ensure(text("changed_by") == Some(run) && is_last, || {
                format!("{id} was changed by {run}\n{why}\n{history}")
            })?;
        }
        Ok(())
    }

    /// Applies in a way of which the result is not defined.
    fn interrupted(&mut self, apply: impl FnOnce(&ScratchRoot) -> String) -> Verdict {
        let (before, state) = (self.disk(), self.state());
        self.changed_by.clear();
        self.note_stock(&before);
        let said = apply(&self.root);
        ensure(!said.contains("panicked"), || said.clone())?;
        self.judge(&before, &state, false, &said)?;
        self.note_changed_names(&before);
        Ok(())
    }

    /// An overlay takes a file of the package manager as the new original.
    fn note_stock(&mut self, before: &Disk) {
        self.held.extend(&self.defined.coverage());
        self.note_names();
        for path in &self.held.overlaid {
            for stock in
                SUFFIXES.map(|suffix| format!("{path}{suffix}")).into_iter().filter(|stock| before.contains_key(stock))
            {
                self.unclear.extend([path.clone(), stock]);
            }
        }
    }

    /// Notes which files have several names, of which entities may be about one.
    fn note_names(&mut self) {
        self.shared.clear();
        let mut names: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        for path in PATHS.into_iter().chain(NAMES) {
            if let Some(found) =
                fs::symlink_metadata(self.root.join(path)).ok().filter(|found| found.is_file() && found.nlink() > 1)
            {
                names.entry(found.ino()).or_default().push(path);
            }
        }
        for names in names.into_values().filter(|names| names.iter().any(|path| self.held.has(path))) {
            let is_written = names.iter().any(|path| self.held.written_in_place.contains(*path));
            self.shared.extend(names.into_iter().map(|path| (path.to_owned(), is_written)));
        }
    }

    /// What an apply has done to a file under another name is not undone there.
    fn note_changed_names(&mut self, before: &Disk) {
        let after = self.disk();
        let is_ours = |path: &str| self.held.has(path) && !self.held.is_purged(path);
        let changed = self.shared.keys().filter(|path| !is_ours(path) && before.get(*path) != after.get(*path));
        self.unclear.extend(changed.cloned());
    }

    /// Judges what an apply has done.
    fn judge(&self, before: &Disk, state: &str, force: bool, said: &str) -> Verdict {
        let after = self.disk();
        let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        // After a kill, temporary files are left until the next apply.
        for path in paths.into_iter().filter(|path| !path.contains(".holo")) {
            let (was, is) = (before.get(path), after.get(path));
            let is_directory = |node: Option<&Node>| node.is_none_or(|node| node.content == Content::Directory);
            // What holo has created may be created anew, without the permissions of a recursion that has gone.
            let is_anew = was.is_none() != is.is_none() || !self.natural.contains_key(path);
            let is_made = is_anew && is_directory(was) && is_directory(is);
            let content = |node: Option<&Node>| node.map(|node| node.content.clone());
            let is_named = self.shared.get(path).is_some_and(|is_written| *is_written || content(was) == content(is));
            ensure(was == is || is_named || self.held.has(path) || (is_made && self.held.has_below(path)), || {
                format!("{path} is not that of an entity, and has become\n{is:?}\ninstead of\n{was:?}\n{said}")
            })?;
        }
        let now = format!("{}{}{}", texts(&after), self.state(), self.root.contents().concat());
        let (mut history, defined) = (None, self.defined.coverage());
        for (path, node) in before {
            let Content::File(content) = &node.content else { continue };
            for line in content.lines().filter(|line| line.starts_with(MARK.as_bytes())) {
                let line = line.to_str_lossy();
                if now.contains(&*line) || self.is_adopted(&line) {
                    continue;
                }
                // As in version 3, removing an overlay needs no force.
                let is_scrubbed = self.held.overlaid.contains(path) && !defined.overlaid.contains(path);
                // So does a new version of a package's file, which is the new original.
                let has_stock = SUFFIXES.iter().any(|suffix| before.contains_key(&format!("{path}{suffix}")));
                let is_scrubbed = is_scrubbed || (self.held.overlaid.contains(path) && has_stock);
                // What was adopted, and is defined no longer, goes like any other definition.
                let is_given = self.given.contains(&*line);
                let is_overwritten = force || is_scrubbed || is_given || self.held.is_purged(path);
                let all = || self.last_differences();
                let is_secret = is_given && node.mode & 0o004 == 0;
                ensure(is_overwritten && (is_secret || history.get_or_insert_with(all).contains(&*line)), || {
                    format!("{path} has lost {line:?}\n{said}\nThe state was\n{state}")
                })?;
            }
        }
        Ok(())
    }

    /// Returns true if a resource file contains a line of a person, or a patch adds it.
    fn is_adopted(&self, line: &str) -> bool {
        let (adopted, added) = (self.root.join(ADOPTED), format!("+{line}"));
        self.root.run("grep", &["-rqxF", "-e", line, "-e", &added, adopted.to_str().unwrap()]).success()
    }

    /// Returns what the last two runs have changed. One of two runs at once, which found the lock taken, may be the last.
    fn last_differences(&self) -> String {
        let runs = self.root.holo(&["history", "-n", "2"]).stdout_lossy().into_owned();
        let numbers = runs.lines().filter_map(|line| line.split('\t').next());
        numbers.map(|run| self.root.holo(&["history", "show", "--diff", run]).stdout_lossy().into_owned()).collect()
    }

    /// After a clean apply, there is nothing to do.
    fn settled(&self) -> Verdict {
        let before = self.disk();
        let check = sound(self.root.holo(&["check"]))?;
        ensure(check.success(), || format!("after a clean apply, there is work left:\n{check}"))?;
        let run = sound(self.root.holo(&["apply"]))?;
        ensure(run.success() && run.stdout.is_empty(), || format!("a second apply does something:\n{run}"))?;
        ensure(self.disk() == before, || format!("a second apply changes something:\n{run}"))
    }

    /// After a clean apply, everything is as defined.
    fn fulfilled(&self) -> Verdict {
        let disk = self.disk();
        let content = |path: &str| disk.get(path).map(|node| &node.content);
        let has = |path: &str, text: &str| matches!(content(path), Some(Content::File(content)) if content.contains_str(text));
        for (path, wish) in self.defined.wishes.iter().filter(|(path, _)| !self.defined.adopted.contains(*path)) {
            let is_so = match wish {
                Wish::Nothing | Wish::Edits(..) => true,
                Wish::Overlay(text) | Wish::File(text) | Wish::InPlace(text) | Wish::Access(text) => has(path, text),
                Wish::Script => has(path, "scripted\n"),
                Wish::Template => has(path, &format!("data {}\n", self.defined.data)),
                Wish::OverlayLink | Wish::Symlink => matches!(content(path), Some(Content::Symlink(_))),
                Wish::Absent => content(path).is_none(),
                Wish::Directory => content(path) == Some(&Content::Directory),
            };
            ensure(is_so, || format!("{path} is defined as {wish:?}, and is {:?}", disk.get(*path)))?;
        }
        for (path, bundle) in &self.defined.bundles {
            let Bundle::Recursive(mode) = bundle else { continue };
            let mode = u32::from_str_radix(mode, 8).ok();
            let found = disk.get(*path).map(|node| node.mode);
            ensure(found == mode, || format!("{path} has the mode {found:?} instead of {mode:?}"))?;
        }
        for (path, text) in self.defined.bundled() {
            let is_other = self.defined.wishes.get(path.as_str()).is_some_and(|wish| *wish != Wish::Nothing);
            let is_other = is_other || self.defined.adopted.contains(path.as_str());
            ensure(is_other || has(&path, &text), || format!("{path} is not {text:?}, but {:?}", disk.get(&path)))?;
        }
        Ok(())
    }

    /// All definitions go, and holo leaves no trace.
    pub(super) fn end(&mut self) -> Verdict {
        self.release()?;
        let before = self.disk();
        self.note_stock(&before);
        self.written = Definitions::default();
        self.abandon();
        let mut said = sound(self.root.holo(&["apply"]))?;
        if !said.success() {
            ensure(!self.unclear.is_empty(), || format!("without manual changes, the end needs force:\n{said}"))?;
            said = sound(self.root.holo(&["apply", "--force"]))?;
            ensure(said.success(), || format!("in the end, even force fails:\n{said}"))?;
        }
        self.note_changed_names(&before);
        let disk = self.disk();
        let is_clear = |path: &&String| {
            let prefix = format!("{path}/");
            !self.unclear.contains(*path) && !self.unclear.iter().any(|unclear| unclear.starts_with(&prefix))
        };
        let paths: BTreeSet<&String> = disk.keys().chain(self.natural.keys()).collect();
        for path in paths.into_iter().filter(is_clear) {
            let (is, natural) = (disk.get(path), self.natural.get(path));
            ensure(is == natural, || {
                format!("in the end, {path} is\n{is:?}\nand was, or would be without holo,\n{natural:?}\n{said}")
            })?;
        }
        let left = disk.keys().find(|path| path.contains(".holo") || path.contains(".staged"));
        ensure(left.is_none(), || format!("{left:?} is left\n{said}"))?;
        let state = self.state();
        ensure(state.is_empty(), || format!("in the end, there is state:\n{state}\n{said}"))
    }
}

/// Returns the generation with the inputs of a run.
fn generation(run: &Run) -> Option<u64> {
    line_with(run, "summary")?.get("generation")?.as_u64()
}

/// Returns the last line of a run with this event.
fn line_with(run: &Run, event: &str) -> Option<Value> {
    let text = run.stdout_lossy().into_owned();
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.rfind(|line| line.get("event").is_some_and(|found| found == event))
}

/// Returns the results of all entities that were not simply in order, with their changes.
fn ends_of(run: &Ends) -> BTreeMap<String, (String, Vec<String>)> {
    let ends = run.entities().filter(|(_, end)| !matches!(end.result.as_str(), "" | "unchanged"));
    ends.map(|(id, end)| (id.clone(), (end.result.clone(), end.changes.clone()))).collect()
}

/// Compares what a check has predicted with what an apply did. With force, what was refused may be done.
fn predicted(check: &Ends, run: &Ends, force: bool) -> Verdict {
    if force && check.entities().any(|(_, end)| end.result == "refused") {
        return Ok(());
    }
    let ids: BTreeSet<&String> = check.entities().chain(run.entities()).map(|(id, _)| id).collect();
    let result = |ends: &Ends, id: &String| {
        let end = ends.entities().find(|(other, _)| *other == id).map(|(_, end)| end);
        match end.map(|End { result, changes, .. }| (result.as_str(), changes.is_empty())) {
            // Another entity takes over first, and it is unknown what is left then.
            Some(("pending", true)) => "unknown",
            Some(("pending", false)) => "changed",
            Some(("", _)) | None => "unchanged",
            Some((result, _)) => result,
        }
        .to_owned()
    };
    let is_open = check.entities().any(|(id, _)| result(check, id) == "unknown");
    for id in ids {
        let (predicted, did) = (result(check, id), result(run, id));
        // What waits for an entity whose result is unknown may be left out.
        ensure(predicted == did || predicted == "unknown" || is_open && did == "skipped", || {
            format!("{id} was predicted to be {predicted}, and is {did}")
        })?;
    }
    Ok(())
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(why()) }
}

/// Returns the run if no program has panicked.
fn sound(run: Run) -> Result<Run, String> {
    if run.stderr_lossy().contains("panicked") || run.signal.is_some() { Err(run.to_string()) } else { Ok(run) }
}

fn texts(disk: &Disk) -> String {
    let text = |node: &Node| match &node.content {
        Content::File(content) => content.to_str_lossy().into_owned(),
        _ => String::new(),
    };
    disk.values().map(text).collect()
}

fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(end, _)| &path[..end])
}

fn node(path: &Path) -> Option<Node> {
    let found = fs::symlink_metadata(path).ok()?;
    let content = if found.is_dir() {
        Content::Directory
    } else if found.is_symlink() {
        Content::Symlink(fs::read_link(path).ok()?.to_str()?.into())
    } else {
        Content::File(fs::read(path).ok()?.into())
    };
    let mut value = [0; 256];
    let mut attribute = |name: &'static str| {
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).ok()?;
        Some((name, value[..length].to_vec()))
    };
    let attributes = [NOTE, ACL].into_iter().filter_map(&mut attribute).collect();
    Some(Node { content, mode: found.mode() & 0o7777, owner: (found.uid(), found.gid()), attributes })
}

fn set(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).unwrap();
}
