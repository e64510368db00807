//! Version 3's rules for overlays, written from its description: the effect of an apply on files, and its messages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A file or symlink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) content: Content,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// An extended attribute. Version 3 ignores them; holo keeps them with a file, and restores them with the base.
    pub(crate) note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    File(String),
    Symlink(String),
}

impl Node {
    fn is_symlink(&self) -> bool {
        matches!(self.content, Content::Symlink(_))
    }

    fn equals(&self, other: &Node) -> bool {
        let is_alike = self.content == other.content && (self.uid, self.gid) == (other.uid, other.gid);
        is_alike && (self.is_symlink() || self.mode == other.mode)
    }

    /// Takes over the attributes of the file that it replaces.
    fn in_place_of(self, current: &Node) -> Node {
        let is_alike = (self.mode, self.uid, self.gid) == (current.mode, current.uid, current.gid);
        if is_alike && !self.is_symlink() && !current.is_symlink() {
            return Node { note: current.note.clone(), ..self };
        }
        self
    }

    fn written(self) -> Node {
        if self.is_symlink() { Node { mode: 0o777, note: None, ..self } } else { self }
    }
}

/// A resource file.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) disambiguator: String,
    pub(crate) step: Step,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Plain(Content),
    Script(Behaviour),
    /// A template, which version 3 does not have. It renders to the current content and one more line.
    Template(usize),
}

impl Step {
    /// Returns the order among resource files with the same disambiguator.
    pub(crate) fn order(&self) -> usize {
        match self {
            Step::Plain(_) => 0,
            Step::Script(_) => 1,
            Step::Template(_) => 2,
        }
    }
}

impl Resource {
    pub(crate) fn path(&self, target: &str) -> String {
        let suffix = ["", ".holoscript", ".holotemplate"][self.step.order()];
        format!("usr/share/holo/files/{}/{target}{suffix}", self.disambiguator)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Behaviour {
    Upper,
    Append,
    Talk,
    Fail,
}

impl Behaviour {
    pub(crate) const ALL: [Behaviour; 4] = [Behaviour::Upper, Behaviour::Append, Behaviour::Talk, Behaviour::Fail];

    pub(crate) fn program(self) -> &'static str {
        match self {
            Behaviour::Upper => "#!/bin/sh\nexec tr a-z A-Z\n",
            Behaviour::Append => "#!/bin/sh\ncat && echo more\n",
            Behaviour::Talk => "#!/bin/sh\necho said >&2\nexec cat\n",
            Behaviour::Fail => "#!/bin/sh\necho something\nexit 3\n",
        }
    }
}

/// A machine and its records.
pub(crate) struct Model {
    root: String,
    pub(crate) distribution: String,
    /// The files by their paths below the root.
    pub(crate) disk: BTreeMap<String, Node>,
    /// Targets that are directories.
    pub(crate) directories: BTreeSet<String>,
    pub(crate) resources: BTreeMap<String, Vec<Resource>>,
    pub(crate) base: BTreeMap<String, Node>,
    pub(crate) provisioned: BTreeMap<String, Node>,
    /// Targets with external changes since the start.
    pub(crate) touched: BTreeSet<String>,
}

/// The output and the result of an apply.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) has_failed: bool,
    /// True if a diff is shown for any entity.
    pub(crate) is_refused: bool,
    /// True if any entity was not in its desired state.
    pub(crate) is_pending: bool,
    /// The number of newlines at the end of the last output.
    newlines: usize,
    has_begun: bool,
}

impl Shown {
    fn note(&mut self, text: &str) {
        let newlines = text.len() - text.trim_end_matches('\n').len();
        self.newlines = if newlines == text.len() { self.newlines + newlines } else { newlines };
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.stdout.push('\n');
        }
    }

    fn print(&mut self, text: &str) {
        self.begin();
        self.stdout.push_str(text);
        self.note(text);
    }

    fn error(&mut self, text: &str) {
        self.begin();
        self.stderr.push_str(text);
        self.note(text);
    }

    fn end_paragraph(&mut self) {
        while self.newlines < 2 {
            self.stdout.push('\n');
            self.newlines += 1;
        }
    }
}

/// The output and the result of one entity.
#[derive(Default)]
struct Work {
    said: Vec<(Stream, String)>,
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Out,
    Error,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum End {
    #[default]
    Changed,
    Unchanged,
    Failed,
    NeedsForce(&'static str),
}

impl Work {
    fn error(&mut self, text: impl Into<String>) {
        self.said.push((Stream::Error, format!("!! {}\n", text.into())));
        self.end = End::Failed;
    }
}

impl Model {
    pub(crate) fn new(root: &Path, distribution: &str) -> Model {
        Model {
            root: root.display().to_string(),
            distribution: distribution.to_owned(),
            disk: BTreeMap::new(),
            directories: BTreeSet::new(),
            resources: BTreeMap::new(),
            base: BTreeMap::new(),
            provisioned: BTreeMap::new(),
            touched: BTreeSet::new(),
        }
    }

    pub(crate) fn set_disk(&mut self, disk: BTreeMap<String, Node>) {
        self.disk = disk;
    }

    pub(crate) fn put(&mut self, path: &str, node: Node) {
        self.disk.insert(path.to_owned(), node.written());
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.disk.remove(path);
        self.directories.remove(path);
    }

    fn shown(&self, path: &str) -> String {
        format!("{}/{path}", self.root)
    }

    fn shown_base(&self, target: &str) -> String {
        self.shown(&format!("var/lib/holo/files/base/{target}"))
    }

    pub(crate) fn apply(&mut self, force: bool, speaks_version_3: bool) -> Shown {
        let mut shown = Shown::default();
        let targets: BTreeSet<String> = self.resources.keys().chain(self.base.keys()).cloned().collect();
        // Reports are created before anything is applied.
        let reports: Vec<String> = targets.iter().map(|target| self.report(target)).collect();
        for (target, report) in targets.iter().zip(reports) {
            let mut work = Work::default();
            if self.resources.contains_key(target) {
                self.provision(target, force, &mut work);
            } else {
                self.scrub(target, &mut work);
            }
            show(&report, &work, &mut shown);
            // With version 3, the plugin reports failures only in its output.
            shown.has_failed |= work.end == End::Failed && !speaks_version_3;
            // Only a new base is mentioned on stdout.
            shown.is_pending |=
                work.end != End::Unchanged || work.said.iter().any(|(stream, _)| *stream == Stream::Out);
            shown.is_refused |= matches!(work.end, End::NeedsForce(_));
        }
        shown
    }

    fn report(&self, target: &str) -> String {
        let base = self.shown_base(target);
        let Some(resources) = self.resources.get(target) else {
            return match self.disk.contains_key(target) {
                true => format!("Scrubbing file:/{target} (all repository files were deleted)\n  restore {base}\n"),
                false => format!("Scrubbing file:/{target} (target was deleted)\n   delete {base}\n"),
            };
        };
        let mut report = format!("Working on file:/{target}\n  store at {base}\n");
        for resource in resources {
            let key = ["     apply", "  passthru", "    render"][resource.step.order()];
            report += &format!("{key} {}\n", self.shown(&resource.path(target)));
        }
        report
    }

    /// Returns the path of a new stock file and its message. A stock file that has replaced the target is moved next to it first.
    fn find_stock(&mut self, target: &str) -> Option<(String, String)> {
        let (saved, stock) = match &*self.distribution {
            "arch" => (None, ".pacnew"),
            "alpine" => (None, ".apk-new"),
            "debian" => (Some(".dpkg-old"), ".dpkg-dist"),
            "fedora" | "suse" => (Some(".rpmsave"), ".rpmnew"),
            _ => return None,
        };
        let path = format!("{target}{stock}");
        if let Some(suffix) = saved
            && let Some(current) = self.disk.get(target).cloned()
            && let Some(saved) = self.disk.remove(&format!("{target}{suffix}"))
        {
            self.disk.insert(path.clone(), current);
            self.disk.insert(target.to_owned(), saved);
            return Some((path, format!("{} (with {suffix})", self.shown(target))));
        }
        let shown = self.shown(&path);
        self.disk.contains_key(&path).then_some((path, shown))
    }

    fn provision(&mut self, target: &str, force: bool, work: &mut Work) {
        let stock = self.find_stock(target);
        let current = self.disk.get(target).cloned();
        if self.directories.contains(target) {
            return work.error("skipping target: not a manageable file");
        }
        if !self.base.contains_key(target) {
            match &current {
                Some(current) => drop(self.base.insert(target.to_owned(), current.clone())),
                None => return work.error("skipping target: not a manageable file"),
            }
        }
        if current.is_none() && !force {
            work.end = End::NeedsForce("deleted by user (use --force to restore)");
            return;
        }
        if let Some((path, reported)) = stock {
            let base = self.shown_base(target);
            work.said.push((Stream::Out, format!(">> found updated target base: {reported} -> {base}\n")));
            let stock = self.disk.remove(&path).unwrap();
            self.base.insert(target.to_owned(), stock);
        }
        let base = self.base[target].clone();
        let Some(desired) = self.desired(target, &base, work) else { return };
        let provisioned = self.provisioned.get(target);
        if let Some(current) = &current
            && !force
            && !current.equals(provisioned.unwrap_or(&base))
            && !current.equals(&desired)
        {
            work.end = End::NeedsForce("modified by user (use --force to overwrite)");
            return;
        }
        let is_desired = current.as_ref().is_some_and(|current| current.equals(&desired));
        let desired = if let Some(current) = &current { desired.in_place_of(current) } else { desired };
        self.provisioned.insert(target.to_owned(), desired.clone());
        if is_desired {
            work.end = End::Unchanged;
        } else {
            self.disk.insert(target.to_owned(), desired);
        }
    }

    /// Returns the base with the resource files applied.
    fn desired(&self, target: &str, base: &Node, work: &mut Work) -> Option<Node> {
        let resources = &self.resources[target];
        let last_plain = resources.iter().rposition(|resource| matches!(resource.step, Step::Plain(_))).unwrap_or(0);
        let mut node = base.clone();
        // Unlike version 3, holo does not follow symlinks of other users.
        let mut is_roots = base.uid == 0;
        for resource in &resources[last_plain..] {
            let input = match (&resource.step, &node.content) {
                (Step::Plain(content), _) => {
                    let becomes_file = node.is_symlink() && matches!(content, Content::File(_));
                    let mode = if becomes_file { 0o755 } else { node.mode };
                    node = Node { content: content.clone(), mode, ..node };
                    is_roots = true;
                    continue;
                }
                (_, Content::File(_)) => node.clone(),
                (_, Content::Symlink(_)) if !is_roots => {
                    let link = self.shown(target);
                    work.error(format!("skipping target: {link} is a symlink of another user, which is not followed"));
                    return None;
                }
                (_, Content::Symlink(link)) => {
                    let linked = if let Some(absolute) = link.strip_prefix('/') {
                        absolute.to_owned()
                    } else {
                        Path::new(target).with_file_name(link).to_str().unwrap().to_owned()
                    };
                    let Some(linked) = self.disk.get(&linked) else {
                        let missing = self.shown(&linked);
                        work.error(format!("stat {missing}: no such file or directory"));
                        return None;
                    };
                    linked.clone()
                }
            };
            // In this model, no symlink refers to another symlink.
            let Content::File(text) = &input.content else { return None };
            let output = match resource.step {
                Step::Script(Behaviour::Upper) => text.to_ascii_uppercase(),
                Step::Script(Behaviour::Append) => format!("{text}more\n"),
                Step::Script(Behaviour::Talk) => {
                    work.said.push((Stream::Error, "said\n".to_owned()));
                    text.clone()
                }
                Step::Script(Behaviour::Fail) => {
                    let program = self.shown(&resource.path(target));
                    work.error(format!("execution of {program} failed: exit status 3"));
                    return None;
                }
                Step::Template(number) => format!("{text}rendered {number}\n"),
                Step::Plain(_) => continue,
            };
            node = Node { content: Content::File(output), ..input };
        }
        Some(node.written())
    }

    fn scrub(&mut self, target: &str, work: &mut Work) {
        let provisioned = self.provisioned.remove(target);
        if !self.disk.contains_key(target) {
            if self.distribution == "arch" {
                let is_saved = |path: &str| {
                    let Some(rest) = path.strip_prefix(target).and_then(|rest| rest.strip_prefix(".pacsave")) else {
                        return false;
                    };
                    let number = rest.strip_prefix('.').unwrap_or("x");
                    rest.is_empty() || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
                };
                let is_ours = |node: &Node| provisioned.as_ref().is_some_and(|provisioned| node.equals(provisioned));
                let saved = self.disk.iter().filter(|(path, node)| is_saved(path) && is_ours(node));
                for path in saved.map(|(path, _)| path.clone()).collect::<Vec<_>>() {
                    work.said.push((Stream::Out, format!(">> also deleting {}\n", self.shown(&path))));
                    self.disk.remove(&path);
                }
            }
            self.base.remove(target);
            return;
        }
        let stock = self.find_stock(target);
        let base = self.base.remove(target).unwrap();
        let restored = match stock {
            None => base,
            Some((path, reported)) => {
                let shown = self.shown(target);
                work.said.push((Stream::Out, format!(">> found updated target base: {reported} -> {shown}\n")));
                self.disk.remove(&path).unwrap()
            }
        };
        self.disk.insert(target.to_owned(), restored);
    }
}

fn show(report: &str, work: &Work, shown: &mut Shown) {
    if work.end == End::Unchanged && work.said.is_empty() {
        return;
    }
    shown.print(report);
    shown.end_paragraph();
    for (stream, text) in &work.said {
        match stream {
            Stream::Out => shown.print(text),
            Stream::Error => shown.error(text),
        }
    }
    if let End::NeedsForce(how) = work.end {
        shown.error(&format!("!! Entity has been {how}\n"));
    }
    shown.end_paragraph();
}

/// Removes the diffs of refused entities and the empty lines around them.
pub(crate) fn without_diffs(text: &str, has_diffs: bool) -> String {
    if !has_diffs {
        return text.to_owned();
    }
    let mut is_in_diff = false;
    let mut kept = String::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let is_report = line.starts_with("Working on ") || line.starts_with("Scrubbing ");
        is_in_diff = line.starts_with("    diff --holo ") || (is_in_diff && !is_report && line.starts_with("    "));
        if !is_in_diff {
            kept += line;
            kept.push('\n');
        }
    }
    kept
}
