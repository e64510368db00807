//! A package independent of its format: its attributes, and the files it installs.

use crate::content::{Content, Contents};
use crate::format::{Architecture, Format, Version};
use crate::relation::Relation;
use std::collections::{BTreeMap, BTreeSet};

/// The directory of the resource files of all plugins.
pub(crate) const RESOURCES: &str = "usr/share/holo/";

/// A package that can be written in its format.
#[derive(Debug)]
pub struct Package {
    pub(crate) format: Format,
    pub(crate) name: String,
    pub(crate) version: Version,
    /// One line; may be empty.
    pub(crate) description: String,
    /// A longer description in one or more paragraphs.
    pub(crate) details: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) homepage: Option<String>,
    /// What is new in this version.
    pub(crate) changes: Option<String>,
    /// The maintainer, in the form `Name <address>`.
    pub(crate) author: Option<String>,
    pub(crate) architecture: Architecture,
    pub(crate) requires: Vec<Relation>,
    pub(crate) provides: Vec<Relation>,
    pub(crate) conflicts: Vec<Relation>,
    pub(crate) replaces: Vec<Relation>,
    /// The script that runs after an installation or upgrade; may be empty.
    pub(crate) setup: String,
    /// The script that runs after a removal; may be empty.
    pub(crate) cleanup: String,
    /// The script that runs before a removal; may be empty.
    pub(crate) removal: String,
    /// The script that runs when the configuration is removed as well; may be empty.
    pub(crate) purge: String,
    pub(crate) triggers: Vec<Trigger>,
    /// All files, by their paths without the leading slash. A directory precedes its content.
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) contents: Contents,
    /// The time of all files, in seconds since 1970.
    pub(crate) time: u32,
}

/// A script that runs after packages have changed files below a directory.
#[derive(Clone, Debug)]
pub(crate) struct Trigger {
    /// The absolute path of the directory.
    pub(crate) path: String,
    pub(crate) script: String,
}

/// A file, directory or symlink.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// The permission bits.
    pub(crate) mode: u32,
    pub(crate) owner: Owner,
    pub(crate) group: Owner,
    pub(crate) origin: Origin,
}

/// The type of a node, with its content.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    File { content: Content, is_config: bool },
    Directory,
    Symlink { target: String },
}

/// The declaration of a node: a line of the description, or the reason why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The line of its table, or of the content of its table.
    Line(usize),
    /// A file of the tree, which this line declares.
    Tree(usize),
    /// A directory on the way to other files, which is not declared itself.
    Implied,
}

impl Origin {
    pub(crate) fn line(self) -> Option<usize> {
        match self {
            Origin::Line(line) | Origin::Tree(line) => Some(line),
            Origin::Implied => None,
        }
    }
}

/// The owner or group of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Id(u32),
    /// Packed as root; the setup script changes it.
    Name(String),
}

impl Owner {
    pub(crate) const ROOT: Owner = Owner::Id(0);

    /// Returns the number that is packed.
    pub(crate) fn id(&self) -> u32 {
        match self {
            Owner::Id(id) => *id,
            Owner::Name(_) => 0,
        }
    }
}

/// A node that conflicts with an earlier one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeError {
    #[error("/{path} is declared twice{}", before(*.earlier))]
    Twice { path: String, earlier: Origin },
    #[error("/{path} is inside of /{outer}, which is {kind}{}", before(*.earlier))]
    NotInDirectory { path: String, outer: String, kind: &'static str, earlier: Origin },
}

fn before(origin: Origin) -> String {
    match origin {
        Origin::Line(line) => format!(" (see line {line})"),
        Origin::Tree(_) => " in the tree".to_owned(),
        Origin::Implied => String::new(),
    }
}

/// Returns changes as a list whose items begin with a mark. In the description, they begin with `- ` or `* `, or after
/// an empty line.
pub(crate) fn listed(changes: &str, mark: &str) -> String {
    let indentation = " ".repeat(mark.len());
    let mut list = String::new();
    let mut is_first = true;
    for line in changes.lines() {
        let marked = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
        let text = marked.unwrap_or(line).trim();
        if !text.is_empty() {
            let start = if is_first || marked.is_some() { mark } else { &indentation };
            list += &format!("{start}{text}\n");
        }
        is_first = text.is_empty();
    }
    list
}

/// The nodes of a package that is being read.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    nodes: BTreeMap<String, Node>,
}

impl Nodes {
    /// Adds a node.
    pub(crate) fn add(&mut self, path: String, node: Node) -> Result<(), NodeError> {
        match self.nodes.get(&path).map(|earlier| earlier.origin) {
            Some(earlier) => Err(NodeError::Twice { path, earlier }),
            None => {
                self.nodes.insert(path, node);
                Ok(())
            }
        }
    }

    /// Returns true if there is a node at this path.
    pub(crate) fn declares(&self, path: &str) -> bool {
        self.nodes.contains_key(path)
    }

    /// Adds the directories on the way to all nodes. Returns the nodes that are not inside of directories, with the
    /// lines that declare them.
    pub(crate) fn complete(&mut self) -> Vec<(Option<usize>, NodeError)> {
        let (mut missing, mut errors) = (BTreeSet::new(), Vec::new());
        for (path, node) in &self.nodes {
            let parents = path.match_indices('/').filter_map(|(end, _)| path.get(..end));
            for outer in parents.rev() {
                let kind = match self.nodes.get(outer) {
                    // Its own parents were seen already.
                    Some(Node { kind: Kind::Directory, .. }) => break,
                    None if missing.contains(outer) => break,
                    None => {
                        missing.insert(outer.to_owned());
                        continue;
                    }
                    Some(Node { kind: Kind::File { .. }, .. }) => "a file",
                    Some(Node { kind: Kind::Symlink { .. }, .. }) => "a symlink",
                };
                let earlier = self.nodes.get(outer).map_or(Origin::Implied, |outer| outer.origin);
                let (path, outer) = (path.clone(), outer.to_owned());
                errors.push((node.origin.line(), NodeError::NotInDirectory { path, outer, kind, earlier }));
                break;
            }
        }
        self.nodes.extend(missing.into_iter().map(|path| (path, Node::directory(Origin::Implied))));
        errors
    }

    /// Returns the nodes in the root directory whose names begin with a dot, with the lines that declare them.
    pub(crate) fn hidden_in_root(&self) -> Vec<(String, Option<usize>)> {
        let hidden = self.nodes.iter().filter(|(path, _)| path.starts_with('.') && !path.contains('/'));
        let line = |path: &str| {
            let inside = self.nodes.range(path.to_owned()..).take_while(|(inner, _)| inner.starts_with(path));
            { inside }.find_map(|(_, node)| node.origin.line())
        };
        hidden.map(|(path, _)| (path.clone(), line(path))).collect()
    }

    /// Returns the plugins with files in their resource directories, each with the line that declares the first file.
    /// A directory alone is no work for a plugin: the packages of the plugins own such directories.
    pub(crate) fn plugins(&self) -> BTreeMap<String, Option<usize>> {
        let mut plugins = BTreeMap::new();
        for (path, node) in self.nodes.range(RESOURCES.to_owned()..) {
            let Some(below) = path.strip_prefix(RESOURCES) else { break };
            if matches!(node.kind, Kind::Directory) {
                continue;
            }
            if let Some((plugin, _)) = below.split_once('/') {
                plugins.entry(plugin.to_owned()).or_insert(node.origin.line());
            }
        }
        plugins
    }

    /// Returns the commands that set the owners and groups that are names. With `with_numbers`, also those that are
    /// numbers.
    pub(crate) fn ownership_script(&self, with_numbers: bool) -> String {
        let mut script = String::new();
        for (path, node) in &self.nodes {
            let commands = [("chown", &node.owner), ("chgrp", &node.group)].map(|(command, owner)| match owner {
                Owner::Name(name) => Some((command, name.clone())),
                Owner::Id(id) => (with_numbers && *id != 0).then(|| (command, id.to_string())),
            });
            let path = quoted(&format!("/{path}"));
            let commands: Vec<_> = commands.into_iter().flatten().collect();
            for (command, owner) in &commands {
                script += &format!("{command} {} {path}\n", quoted(owner));
            }
            // The system removes these bits when the owner changes.
            if !commands.is_empty() && node.mode & 0o6000 != 0 {
                script += &format!("chmod {:04o} {path}\n", node.mode);
            }
        }
        script
    }

    pub(crate) fn into_inner(self) -> BTreeMap<String, Node> {
        self.nodes
    }
}

/// Returns a word in the syntax of a shell. It contains no NUL, which could not be quoted.
pub(crate) fn quoted(word: &str) -> String {
    shlex::try_quote(word).map(std::borrow::Cow::into_owned).unwrap_or_default()
}

/// Returns a script as the body of a function or subshell, which needs a command.
pub(crate) fn body(script: &str) -> String {
    let has_command = script.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    format!("{}{script}", if has_command { "" } else { ":\n" })
}

impl Node {
    /// Returns a directory with the default attributes.
    pub(crate) fn directory(origin: Origin) -> Node {
        Node { kind: Kind::Directory, mode: 0o755, owner: Owner::ROOT, group: Owner::ROOT, origin }
    }
}

impl Package {
    /// Returns the approximate disk usage in bytes, as `du --apparent-size` computes it.
    pub(crate) fn apparent_size(&self) -> u64 {
        let sizes = self.nodes.values().map(|node| match &node.kind {
            Kind::File { content, .. } => content.size,
            Kind::Directory => 4096,
            Kind::Symlink { target } => target.len() as u64,
        });
        4096 + sizes.sum::<u64>()
    }

    /// Returns the paths of configuration files.
    pub(crate) fn config_files(&self) -> impl Iterator<Item = &str> {
        let is_config = |node: &Node| matches!(node.kind, Kind::File { is_config: true, .. });
        self.nodes.iter().filter(move |(_, node)| is_config(node)).map(|(path, _)| path.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(kind: Kind, line: usize) -> Node {
        Node { kind, ..Node::directory(Origin::Line(line)) }
    }

    #[test]
    fn directories_on_the_way_are_added_once() {
        let mut nodes = Nodes::default();
        nodes.add("a/b/c".into(), node(Kind::Directory, 1)).unwrap();
        nodes.add("a/b".into(), Node { mode: 0o700, ..node(Kind::Directory, 2) }).unwrap();
        nodes.add("a/b-c/d".into(), node(Kind::Directory, 3)).unwrap();
        assert!(nodes.complete().is_empty());
        let nodes: Vec<(String, u32)> = nodes.into_inner().into_iter().map(|(path, node)| (path, node.mode)).collect();
        let modes = [("a", 0o755), ("a/b", 0o700), ("a/b-c", 0o755), ("a/b-c/d", 0o755), ("a/b/c", 0o755)];
        assert_eq!(nodes, modes.map(|(path, mode)| (path.to_owned(), mode)));
    }

    #[test]
    fn changes_become_items() {
        for (changes, list) in [
            ("one", "* one\n"),
            ("one\ntwo", "* one\n  two\n"),
            ("one\n\n\ntwo", "* one\n* two\n"),
            ("- one\n* two\n  three", "* one\n* two\n  three\n"),
            ("* one\n  - two", "* one\n  - two\n"),
            ("-\n-one\n- \n* two", "* -\n  -one\n* two\n"),
        ] {
            assert_eq!(listed(changes, "* "), list, "{changes:?}");
        }
    }

    #[test]
    fn nodes_inside_of_symlinks_are_errors() {
        let mut nodes = Nodes::default();
        nodes.add("a".into(), node(Kind::Symlink { target: "/tmp".into() }, 1)).unwrap();
        nodes.add("a/b/c".into(), node(Kind::Directory, 2)).unwrap();
        let errors = nodes.complete();
        let [(Some(2), error)] = &errors[..] else { panic!("{errors:?}") };
        assert_eq!(error.to_string(), "/a/b/c is inside of /a, which is a symlink (see line 1)");
        let twice = nodes.add("a".into(), node(Kind::Directory, 3)).unwrap_err();
        assert_eq!(twice.to_string(), "/a is declared twice (see line 1)");
    }

    #[test]
    fn ownership_is_set_by_commands() {
        let mut nodes = Nodes::default();
        let named = |name: &str| Owner::Name(name.to_owned());
        let base = node(Kind::Directory, 1);
        nodes.add("a b".into(), Node { owner: named("joe"), group: named("www"), ..base.clone() }).unwrap();
        nodes.add("c".into(), Node { group: Owner::Id(7), mode: 0o2755, ..base.clone() }).unwrap();
        nodes.add("d".into(), base).unwrap();
        assert_eq!(nodes.ownership_script(false), "chown joe '/a b'\nchgrp www '/a b'\n");
        let all = "chown joe '/a b'\nchgrp www '/a b'\nchgrp 7 /c\nchmod 2755 /c\n";
        assert_eq!(nodes.ownership_script(true), all);
    }

    #[test]
    fn plugins_are_those_with_files() {
        let mut nodes = Nodes::default();
        let link = || node(Kind::Symlink { target: "x".into() }, 4);
        for path in ["usr/share/holo/files/x", "usr/share/holo/exec", "usr/share/holo-x/a/b", "usr/share/holo/a/b/c"] {
            nodes.add(path.into(), link()).unwrap();
        }
        nodes.add("usr/share/holo/services/x".into(), node(Kind::Directory, 5)).unwrap();
        nodes.complete();
        assert_eq!(
            nodes.plugins().into_iter().collect::<Vec<_>>(),
            [("a".to_owned(), Some(4)), ("files".to_owned(), Some(4))]
        );
    }
}
