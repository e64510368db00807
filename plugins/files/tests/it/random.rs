//! Compares random cases of overlays with a model of version 3's rules, which is independent of the implementation.
//!
//! A case is a root with a few targets and several rounds: resource files are added and removed, targets are edited, deleted and replaced,
//! package managers leave new versions, and everything is applied, with or without force. After each apply, the tree and the output must
//! equal those of the model. In the end all resource files are removed, and targets without external changes must be in their original
//! state.

mod model;

use holo_testing::random::{Random, cases};
use holo_testing::{Need, ScratchRoot, binaries::built, trial_of, write_script};
use libtest_mimic::Trial;
use model::{Behaviour, Content, Model, Node, Resource, Step};
use rustix::fs::XattrFlags;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;

const TARGETS: [&str; 4] = ["etc/a", "etc/b.conf", "etc/b.conf.d/c", "etc/sub/d"];
const DISAMBIGUATORS: [&str; 4] = ["00-x", "01-foo", "01-foo-bar", "02"];
const CONTENTS: [&str; 5] = ["", "one\n", "two\nlines\n", "three\n", "no end"];
const MODES: [u32; 5] = [0o644, 0o600, 0o664, 0o755, 0o4711];
const LINKS: [&str; 3] = ["linked", "/etc/linked", "missing"];
/// A user that need not exist.
const SOMEBODY: u32 = 12345;
const ROUNDS: usize = 5;

pub(crate) fn trials() -> Vec<Trial> {
    let needs = [Need::Root, Need::ExtendedAttributes];
    let all = || {
        let scripts = ScratchRoot::new();
        for behaviour in Behaviour::ALL {
            write_script(scripts.join(format!("{behaviour:?}")), behaviour.program());
        }
        let plugin = built("holo-files");
        let version_3 = format!(
            "#!/bin/sh\ncase $1 in info) printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=3\\n';; *) exec {} \"$@\";; esac\n",
            plugin.display()
        );
        write_script(scripts.join("version-3"), version_3);
        cases(150, |random| overlays(random, &scripts));
    };
    vec![trial_of("overlays are what version 3 makes of them", &needs, all)]
}

/// A root and its model.
struct Case<'a> {
    random: &'a mut Random,
    /// The directory of programs, created in advance: a program that was written while others are started could not be executed.
    scripts: &'a ScratchRoot,
    root: ScratchRoot,
    model: Model,
    speaks_version_3: bool,
    /// The events so far, for failures.
    history: Vec<String>,
}

fn overlays(random: &mut Random, scripts: &ScratchRoot) {
    let distribution = *random.pick(&["arch", "alpine", "debian", "fedora", "suse", "unittest"]);
    // A process for each operation takes much longer than a session.
    let speaks_version_3 = random.chance(15);
    let mut root =
        ScratchRoot::in_memory().binary(built("holo")).file("etc/os-release", format!("ID={distribution}\n"));
    root = if speaks_version_3 {
        let wrapper = scripts.join("version-3");
        root.holorc(format!("plugin files={}\n", wrapper.display())).dir("usr/share/holo/files")
    } else {
        root.plugin("files")
    };
    let root = root.dir("etc/sub").dir("etc/b.conf.d").file("etc/linked", "linked\n").mode("etc/linked", 0o640);
    let model = Model::new(root.path(), distribution);
    let mut case = Case { random, scripts, root, model, speaks_version_3, history: vec![format!("on {distribution}")] };
    case.run();
}

impl Case<'_> {
    fn run(&mut self) {
        self.model.set_disk(self.disk("etc"));
        for target in TARGETS {
            if self.random.chance(85) {
                self.install(target);
            }
        }
        let before = self.model.disk.clone();
        for _ in 0..=self.random.below(ROUNDS) {
            self.disturb();
            let force = self.random.chance(25);
            self.apply(force);
        }
        self.history.push("all resource files go".to_owned());
        for target in TARGETS {
            self.model.resources.remove(target);
        }
        let folder = self.root.join("usr/share/holo/files");
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        self.apply(false);
        self.apply(false);
        assert!(self.model.base.is_empty() && self.model.provisioned.is_empty(), "{}", self.told());
        for (path, node) in before {
            if !self.model.touched.contains(path.as_str()) {
                assert_eq!(
                    self.model.disk.get(&path),
                    Some(&node),
                    "{path} is not as it was before us: {}",
                    self.told()
                );
            }
        }
    }

    fn told(&self) -> String {
        format!("{}\n{}", self.history.join("\n"), self.root.dump())
    }

    fn content(&mut self) -> Content {
        match self.random.chance(80) {
            true => Content::File((*self.random.pick(&CONTENTS)).to_owned()),
            false => Content::Symlink((*self.random.pick(&LINKS)).to_owned()),
        }
    }

    fn node(&mut self) -> Node {
        let content = self.content();
        let is_file = matches!(content, Content::File(_));
        let owner = if is_file && self.random.chance(15) { SOMEBODY } else { 0 };
        let mode = if is_file { *self.random.pick(&MODES) } else { 0o777 };
        let note = (is_file && self.random.chance(20)).then(|| format!("note {}", self.random.below(3)));
        Node { content, mode, uid: owner, gid: owner, note }
    }

    /// Creates the node at a path.
    fn put(&mut self, path: &str, node: Node) {
        self.history.push(format!("{path} becomes {node:?}"));
        write(&self.root.join(path), &node, self.random.chance(50));
        self.model.put(path, node);
    }

    fn install(&mut self, target: &str) {
        let node = self.node();
        self.put(target, node);
    }

    fn remove(&mut self, path: &str) {
        self.history.push(format!("{path} is deleted"));
        let full = self.root.join(path);
        if full.is_dir() && !full.is_symlink() {
            fs::remove_dir(full).unwrap();
        } else if full.symlink_metadata().is_ok() {
            fs::remove_file(full).unwrap();
        }
        self.model.remove(path);
    }

    /// Makes random external changes between two applies.
    fn disturb(&mut self) {
        for target in TARGETS {
            if self.random.chance(60) {
                self.change_resources(target);
            }
            if self.random.chance(30) {
                self.edit(target);
                self.model.touched.insert(target.to_owned());
            }
            if self.random.chance(25) {
                self.upgrade_package(target);
                self.model.touched.insert(target.to_owned());
            }
        }
    }

    fn change_resources(&mut self, target: &str) {
        let count = *self.random.pick(&[0, 1, 1, 1, 2, 3]);
        let mut resources = BTreeMap::new();
        for _ in 0..count {
            let disambiguator = *self.random.pick(&DISAMBIGUATORS);
            let step = match self.random.below(10) {
                0..=4 => Step::Plain(self.content()),
                5..=7 => Step::Script(*self.random.pick(&Behaviour::ALL)),
                _ => Step::Template(self.random.below(3)),
            };
            resources.insert((disambiguator, step.order()), step);
        }
        for resource in self.model.resources.remove(target).unwrap_or_default() {
            fs::remove_file(self.root.join(resource.path(target))).unwrap();
        }
        let resources: Vec<Resource> = resources
            .into_iter()
            .map(|((disambiguator, _), step)| Resource { disambiguator: disambiguator.to_owned(), step })
            .collect();
        for resource in &resources {
            let path = self.root.join(resource.path(target));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match &resource.step {
                Step::Plain(content) => {
                    // Its mode does not matter, unless other users may modify it, of which version 3 does not warn.
                    let mode = *self.random.pick(&[0o644, 0o600, 0o755]);
                    let node = Node { content: content.clone(), mode, uid: 0, gid: 0, note: None };
                    write(&path, &node, false);
                }
                Step::Script(behaviour) => symlink(self.scripts.join(format!("{behaviour:?}")), &path).unwrap(),
                Step::Template(number) => fs::write(&path, format!("{{{{ input }}}}rendered {number}\n")).unwrap(),
            }
        }
        self.history.push(format!("{target} has {resources:?}"));
        if !resources.is_empty() {
            self.model.resources.insert(target.to_owned(), resources);
        }
    }

    /// Edits a target as a person would.
    fn edit(&mut self, target: &str) {
        let is_directory = self.model.directories.contains(target);
        if is_directory || self.random.chance(20) {
            self.remove(target);
            return;
        }
        let Some(mut node) = self.model.disk.get(target).cloned() else {
            if self.random.chance(30) {
                self.history.push(format!("{target} becomes a directory"));
                fs::create_dir(self.root.join(target)).unwrap();
                self.model.directories.insert(target.to_owned());
            } else {
                self.install(target);
            }
            return;
        };
        match self.random.below(5) {
            0 => node = self.node(),
            1 => node.content = self.content(),
            2 => node.mode = *self.random.pick(&MODES),
            3 => (node.uid, node.gid) = (*self.random.pick(&[0, SOMEBODY]), *self.random.pick(&[0, SOMEBODY])),
            _ => node.note = Some("a person's".to_owned()),
        }
        if matches!(node.content, Content::Symlink(_)) {
            // Symlinks of other users are tested elsewhere.
            (node.mode, node.uid, node.gid, node.note) = (0o777, 0, 0, None);
        }
        self.put(target, node);
    }

    /// Leaves a file next to a target as a package manager would.
    fn upgrade_package(&mut self, target: &str) {
        let suffixes: &[&str] = match &*self.model.distribution {
            "arch" => &[".pacnew", ".pacnew", ".pacsave", ".pacsave.1", ".pacsave.x"],
            "alpine" => &[".apk-new"],
            "debian" => &[".dpkg-dist", ".dpkg-old"],
            "fedora" | "suse" => &[".rpmnew", ".rpmsave"],
            // This package manager leaves no such file, so the file must be ignored.
            _ => &[".pacnew"],
        };
        let suffix = *self.random.pick(suffixes);
        let mut node = self.node();
        if suffix.starts_with(".pacsave") && self.random.chance(70) {
            node = self.model.provisioned.get(target).cloned().unwrap_or(node);
        }
        self.put(&format!("{target}{suffix}"), node);
    }

    fn apply(&mut self, force: bool) {
        self.history.push(if force { "apply --force" } else { "apply" }.to_owned());
        let before = self.disk("");
        let check = self.random.chance(20).then(|| self.root.holo(&["check"]));
        if check.is_some() {
            assert_eq!(self.disk(""), before, "a check has changed something: {}", self.told());
        }
        let expected = self.model.apply(force, self.speaks_version_3);
        let run = self.root.holo(if force { &["apply", "--force"][..] } else { &["apply"] });
        let told = || format!("{}\n{run}", self.told());
        assert_eq!(self.disk("etc"), self.model.disk, "{}", told());
        let without_notes = |images: BTreeMap<String, Node>| -> BTreeMap<String, Node> {
            images.into_iter().map(|(path, node)| (path, Node { note: None, ..node })).collect()
        };
        assert_eq!(self.images("base"), self.model.base, "base: {}", told());
        let provisioned = without_notes(self.model.provisioned.clone());
        assert_eq!(without_notes(self.images("provisioned")), provisioned, "provisioned: {}", told());
        let shown = |text: &[u8]| model::without_diffs(&String::from_utf8_lossy(text), expected.is_refused);
        assert_eq!(shown(&run.stdout), model::without_diffs(&expected.stdout, expected.is_refused), "{}", told());
        assert_eq!(run.stderr.to_string(), expected.stderr, "{}", told());
        assert_eq!(run.status, Some(i32::from(expected.has_failed || expected.is_refused)), "{}", told());
        if let Some(check) = check.filter(|_| !self.speaks_version_3 && !force) {
            assert_eq!(check.status != Some(0), expected.is_pending, "the check:\n{check}\n{}", told());
            assert_eq!(check.status == Some(1), expected.has_failed, "the check:\n{check}\n{}", told());
        }
        let left = [".staged", ".holonew"].into_iter().find(|left| self.root.dump().to_string().contains(left));
        assert_eq!(left, None, "{}", told());
    }

    fn images(&self, folder: &str) -> BTreeMap<String, Node> {
        let folder = format!("var/lib/holo/files/{folder}/");
        self.disk(&folder).into_iter().map(|(path, node)| (path.replacen(&folder, "", 1), node)).collect()
    }

    /// Returns all files and symlinks below a directory.
    fn disk(&self, folder: &str) -> BTreeMap<String, Node> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.root.join(folder)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                let metadata = fs::symlink_metadata(&path).unwrap();
                if metadata.is_dir() {
                    folders.push(path);
                    continue;
                }
                let below = path.strip_prefix(self.root.path()).unwrap().to_str().unwrap().to_owned();
                found.insert(below, node_of(&path, &metadata));
            }
        }
        found
    }
}

fn node_of(path: &Path, metadata: &fs::Metadata) -> Node {
    let content = match metadata.is_symlink() {
        true => Content::Symlink(fs::read_link(path).unwrap().to_str().unwrap().to_owned()),
        false => Content::File(String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()),
    };
    let mut value = [0; 64];
    let note = rustix::fs::lgetxattr(path, "user.note", &mut value[..]).ok();
    let note = note.map(|length| String::from_utf8_lossy(&value[..length]).into_owned());
    Node { content, mode: metadata.mode() & 0o7777, uid: metadata.uid(), gid: metadata.gid(), note }
}

/// Writes to the existing file, or replaces it.
fn write(path: &Path, node: &Node, in_place: bool) {
    let is_file = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    if !(in_place && is_file && matches!(node.content, Content::File(_))) {
        let _ = fs::remove_file(path);
    }
    match &node.content {
        Content::Symlink(target) => {
            symlink(target, path).unwrap();
            lchown(path, Some(node.uid), Some(node.gid)).unwrap();
        }
        Content::File(content) => {
            fs::write(path, content).unwrap();
            chown(path, Some(node.uid), Some(node.gid)).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(node.mode)).unwrap();
            match &node.note {
                Some(note) => {
                    rustix::fs::setxattr(path, "user.note", note.as_bytes(), XattrFlags::empty()).unwrap();
                }
                None => drop(rustix::fs::removexattr(path, "user.note")),
            }
        }
    }
}
