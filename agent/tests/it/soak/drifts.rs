//! The machine of the soak test: what is defined on it, and how that can drift.

use holo_testing::ScratchRoot;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

/// The plugins that work on another root. The others call programs of the running system.
pub(super) const PLUGINS: [&str; 4] = ["archives", "files", "scaffold", "ssh-keys"];
/// The directories with what is defined.
const DEFINED: [&str; 3] = ["etc/app", "home", "srv"];
/// The number of files in each directory.
const SIBLINGS: usize = 20;
/// A limit that is never reached. Public keys cannot have one.
const LIMIT: &str = "limit = \"1000000/1h\"\n";
/// The number of drifts of a set of public keys within the default limit of repairs.
const KEY_DRIFTS: usize = 3;

/// The kinds of entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    File,
    Directory,
    Symlink,
    Overlay,
    Line,
    Tree,
    Archive,
    Extracted,
    /// A directory with `recurse`.
    Shared,
    Keys,
    /// A file with the default limit of repairs.
    Fought,
}

/// A defined entity.
#[derive(Clone, Debug)]
pub(super) struct Defined {
    pub(super) id: String,
    pub(super) kind: Kind,
    /// Its path below the root.
    pub(super) path: String,
    /// The number of drifts that are left to it.
    pub(super) left: usize,
}

/// What a drift changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Itself,
    /// All files in the same directory.
    Siblings,
}

/// A kind of drift.
pub(super) struct Drift {
    pub(super) name: &'static str,
    of: Kind,
    reach: Reach,
    needs_root: bool,
    act: fn(&Path) -> io::Result<()>,
    /// Makes it repairable, unless it is by itself.
    pub(super) undo: Option<fn(&Path) -> io::Result<()>>,
}

impl Drift {
    const fn new(name: &'static str, of: Kind, act: fn(&Path) -> io::Result<()>) -> Drift {
        Drift { name, of, reach: Reach::Itself, needs_root: false, act, undo: None }
    }

    const fn of_siblings(self) -> Drift {
        Drift { reach: Reach::Siblings, ..self }
    }

    pub(super) fn is_possible(&self) -> bool {
        !self.needs_root || rustix::process::geteuid().is_root()
    }

    /// Returns true if it only concerns one file, and is repaired as it is.
    pub(super) fn is_simple(&self) -> bool {
        self.of == Kind::File && self.reach == Reach::Itself && self.undo.is_none()
    }
}

pub(super) static DRIFTS: [Drift; 30] = [
    Drift::new("file edited", Kind::File, |path| fs::write(path, "edited\n")),
    Drift::new("file truncated", Kind::File, |path| fs::write(path, "")),
    Drift::new("file removed", Kind::File, |path| fs::remove_file(path)),
    Drift::new("file replaced by a symlink", Kind::File, |path| renamed_over(path, |new| symlink("other", new))),
    Drift::new("file renamed over", Kind::File, |path| renamed_over(path, |new| fs::write(new, "renamed\n"))),
    Drift {
        undo: Some(|path| fs::remove_dir(path)),
        ..Drift::new("file replaced by a directory", Kind::File, |path| {
            fs::remove_file(path)?;
            fs::create_dir(path)
        })
    },
    Drift::new("mode of a file", Kind::File, |path| fs::set_permissions(path, fs::Permissions::from_mode(0o666))),
    Drift { needs_root: true, ..Drift::new("owner of a file", Kind::File, |path| chown(path, Some(1), None)) },
    Drift::new("parent directory removed", Kind::File, |path| fs::remove_dir_all(parent(path))).of_siblings(),
    Drift::new("parent directory removed and recreated", Kind::File, |path| {
        fs::remove_dir_all(parent(path))?;
        fs::create_dir(parent(path))
    })
    .of_siblings(),
    Drift::new("parent directory moved away", Kind::File, |path| {
        let moved = parent(path).with_extension("moved");
        fs::rename(parent(path), &moved)?;
        fs::remove_dir_all(moved)
    })
    .of_siblings(),
    Drift::new("directory removed", Kind::Directory, |path| fs::remove_dir(path)),
    Drift::new("mode of a directory", Kind::Directory, |path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777))
    }),
    Drift::new("symlink removed", Kind::Symlink, |path| fs::remove_file(path)),
    Drift::new("symlink to something else", Kind::Symlink, |path| renamed_over(path, |new| symlink("other", new))),
    Drift::new("symlink replaced by a file", Kind::Symlink, |path| renamed_over(path, |new| fs::write(new, ""))),
    Drift::new("overlaid file edited", Kind::Overlay, |path| fs::write(path, "edited\n")),
    Drift::new("mode of an overlaid file", Kind::Overlay, |path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o666))
    }),
    Drift::new("line removed", Kind::Line, |path| fs::write(path, "first\n")),
    Drift::new("tree removed", Kind::Tree, |path| fs::remove_dir_all(path)),
    Drift::new("file of a tree edited", Kind::Tree, |path| fs::write(path.join("below/three"), "edited\n")),
    Drift::new("file of a tree removed", Kind::Tree, |path| fs::remove_file(path.join("one"))),
    Drift::new("file added to a tree", Kind::Tree, |path| fs::write(path.join("below/more"), "")),
    Drift::new("extracted file removed", Kind::Extracted, |path| fs::remove_file(path.join("below/file"))),
    Drift::new("extracted directory removed", Kind::Extracted, |path| fs::remove_dir_all(path.join("below"))),
    // It gets the mode of new files.
    Drift::new("file below a shared directory replaced", Kind::Shared, |path| {
        renamed_over(&path.join("below/file"), |new| fs::write(new, "shared\n"))
    }),
    Drift::new("download removed", Kind::Archive, |path| fs::remove_file(path)),
    Drift::new("authorised key removed", Kind::Keys, |path| fs::write(path, "")),
    Drift::new("authorised keys removed", Kind::Keys, |path| fs::remove_file(path)),
    Drift::new("directory of authorised keys removed", Kind::Keys, |path| fs::remove_dir_all(parent(path))),
];

fn parent(path: &Path) -> &Path {
    path.parent().unwrap()
}

fn renamed_over(path: &Path, make: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let new = path.with_extension("new");
    make(&new)?;
    fs::rename(new, path)
}

/// A path as it is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    /// The content of a file or the target of a symlink; `None` for a directory.
    content: Option<Vec<u8>>,
    mode: u32,
    owner: (u32, u32),
}

type Disk = BTreeMap<PathBuf, Node>;

fn node(path: &Path) -> io::Result<Node> {
    let metadata = fs::symlink_metadata(path)?;
    let content = match metadata.file_type() {
        kind if kind.is_symlink() => Some(fs::read_link(path)?.into_os_string().into_encoded_bytes()),
        kind if kind.is_dir() => None,
        _ => Some(fs::read(path)?),
    };
    Ok(Node { content, mode: metadata.mode(), owner: (metadata.uid(), metadata.gid()) })
}

/// Adds a path and everything below it. What disappears meanwhile is left out.
fn look(path: &Path, disk: &mut Disk) {
    let Ok(node) = node(path) else { return };
    if node.content.is_none() {
        fs::read_dir(path).into_iter().flatten().flatten().for_each(|entry| look(&entry.path(), disk));
    }
    disk.insert(path.to_owned(), node);
}

/// What is defined, and how it is on the disk when everything is as defined.
pub(super) struct Machine<'r> {
    pub(super) root: &'r ScratchRoot,
    pub(super) defined: Vec<Defined>,
    desired: Disk,
}

impl<'r> Machine<'r> {
    /// Defines about this number of entities, and applies them.
    pub(super) fn new(root: &'r ScratchRoot, number: usize) -> Machine<'r> {
        let others = (number / 25).clamp(2, 40);
        let files = number.saturating_sub(10 * others).next_multiple_of(SIBLINGS);
        let mut machine = Machine { root, defined: Vec::new(), desired: Disk::new() };
        let counts = [
            (Kind::File, files),
            (Kind::Directory, others),
            (Kind::Symlink, others),
            (Kind::Overlay, others),
            (Kind::Line, others),
            (Kind::Tree, others),
            (Kind::Archive, others),
            (Kind::Extracted, others.min(10)),
            (Kind::Shared, others.min(10)),
            (Kind::Keys, 2 * others),
            (Kind::Fought, 2),
        ];
        let passwd = |index| format!("u{index}:x:{}:1000::/home/u{index}:/bin/sh\n", 1000 + index);
        root.write("etc/passwd", (0..2 * others).map(passwd).collect::<String>());
        root.write("usr/share/source", "downloaded\n");
        root.write("tmp/content/below/file", "extracted\n");
        let (tar, content) = (root.join("usr/share/source.tar"), root.join("tmp/content"));
        let tarred = root.run("tar", &["-cf", tar.to_str().unwrap(), "-C", content.to_str().unwrap(), "below"]);
        assert!(tarred.success(), "{tarred}");
        for (kind, count) in counts {
            (0..count).for_each(|index| machine.define(kind, index));
        }
        let run = root.holo(&["apply"]);
        assert!(run.success(), "{}", run.stderr);
        machine.desired = machine.disk();
        // Otherwise, nothing would be tested.
        assert!(machine.defined.iter().all(|defined| machine.desired.contains_key(&root.join(&defined.path))));
        machine
    }

    fn define(&mut self, kind: Kind, index: usize) {
        let root = self.root;
        let (mut left, mut plugin) = (usize::MAX, "files");
        let (id, path, definition) = match kind {
            Kind::File => {
                let path = format!("srv/files/{}/{index}", index / SIBLINGS);
                let keys = "mode = \"0640\"\nowner = \"0\"\n";
                let keys = if rustix::process::geteuid().is_root() { keys } else { "mode = \"0640\"\n" };
                let content = format!("[[file]]\npath = \"/{path}\"\ncontent = \"file {index}\\n\"\n{keys}{LIMIT}");
                (format!("file:/{path}"), path, content)
            }
            Kind::Fought => {
                let path = format!("srv/fought/{index}");
                (
                    format!("file:/{path}"),
                    path.clone(),
                    format!("[[file]]\npath = \"/{path}\"\ncontent = \"ours\\n\"\n"),
                )
            }
            Kind::Directory => {
                let path = format!("srv/directories/{index}");
                let keys = "ensure = \"directory\"\nmode = \"0750\"\n";
                (format!("file:/{path}"), path.clone(), format!("[[file]]\npath = \"/{path}\"\n{keys}{LIMIT}"))
            }
            Kind::Symlink => {
                let path = format!("srv/symlinks/{index}");
                let keys = "ensure = \"symlink\"\ntarget = \"../files\"\n";
                (format!("file:/{path}"), path.clone(), format!("[[file]]\npath = \"/{path}\"\n{keys}{LIMIT}"))
            }
            Kind::Overlay => {
                let path = format!("etc/app/overlay{index}");
                root.write(&path, "stock\n");
                root.write(format!("usr/share/holo/files/20-app/{path}"), "ours\n");
                (format!("file:/{path}"), path.clone(), format!("[[overlay]]\npath = \"/{path}\"\n{LIMIT}"))
            }
            Kind::Line => {
                let path = format!("etc/app/line{index}");
                root.write(&path, "first\n");
                let keys = format!("path = \"/{path}\"\nname = \"it\"\nline = \"key = {index}\"\n");
                (format!("line:/{path}#it"), path, format!("[[line]]\n{keys}{LIMIT}"))
            }
            Kind::Tree => {
                plugin = "scaffold";
                let path = format!("srv/trees/{index}");
                for name in ["one", "two", "below/three"] {
                    root.write(format!("usr/share/holo/scaffold/tree/{name}"), "{{ data.name }}\n");
                }
                let keys = format!("target = \"/{path}\"\nsource = \"tree\"\npurge = true\n{LIMIT}");
                (format!("scaffold:/{path}"), path, format!("[[scaffold]]\n{keys}data = {{ name = \"{index}\" }}\n"))
            }
            Kind::Archive => {
                plugin = "archives";
                let path = format!("srv/downloads/{index}");
                let keys = "url = \"file:///usr/share/source\"\n";
                (format!("archive:/{path}"), path.clone(), format!("[[archive]]\npath = \"/{path}\"\n{keys}{LIMIT}"))
            }
            Kind::Extracted => {
                plugin = "archives";
                let path = format!("srv/extracted/{index}");
                let keys = format!("path = \"/{path}.tar\"\nextract_to = \"/{path}\"\n");
                let keys = format!("{keys}url = \"file:///usr/share/source.tar\"\n{LIMIT}");
                (format!("archive:/{path}.tar"), path, format!("[[archive]]\n{keys}"))
            }
            Kind::Shared => {
                let path = format!("srv/shared/{index}");
                root.write(format!("{path}/below/file"), "shared\n");
                let keys = "ensure = \"directory\"\nfile_mode = \"0640\"\nrecurse = true\n";
                (format!("file:/{path}"), path.clone(), format!("[[file]]\npath = \"/{path}\"\n{keys}{LIMIT}"))
            }
            Kind::Keys => {
                (left, plugin) = (KEY_DRIFTS, "ssh-keys");
                fs::create_dir_all(root.join(format!("home/u{index}"))).unwrap();
                let key = format!("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA{index:042} u{index}\n");
                root.write(format!("usr/share/holo/ssh-keys/u{index}/all.pub"), key);
                (format!("ssh-keyset:u{index}/all"), format!("home/u{index}/.ssh/authorized_keys"), String::new())
            }
        };
        if !definition.is_empty() {
            let file = root.join(format!("usr/share/holo/{plugin}/10-{kind:?}.toml"));
            let before = fs::read_to_string(&file).unwrap_or_default();
            fs::write(file, before + &definition).unwrap();
        }
        self.defined.push(Defined { id, kind, path, left });
    }

    fn disk(&self) -> Disk {
        let mut disk = Disk::new();
        DEFINED.iter().for_each(|directory| look(&self.root.join(directory), &mut disk));
        disk
    }

    /// Returns an entity that can drift in this way.
    pub(super) fn candidate(&self, drift: &Drift, number: usize) -> Option<usize> {
        let is_candidate = |index: &usize| self.defined[*index].kind == drift.of && self.defined[*index].left > 0;
        let candidates: Vec<usize> = (0..self.defined.len()).filter(is_candidate).collect();
        candidates.get(number.checked_rem(candidates.len())?).copied()
    }

    /// Lets an entity drift, and returns the entities that have drifted.
    pub(super) fn drift(&mut self, drift: &Drift, index: usize) -> Vec<usize> {
        let path = self.root.join(&self.defined[index].path);
        let drifted: Vec<usize> = match drift.reach {
            Reach::Itself => vec![index],
            Reach::Siblings => {
                let is_sibling = |other: &Defined| self.root.join(&other.path).parent() == path.parent();
                (0..self.defined.len()).filter(|other| is_sibling(&self.defined[*other])).collect()
            }
        };
        (drift.act)(&path).unwrap_or_else(|error| panic!("{}: {}: {error}", drift.name, path.display()));
        drifted.iter().for_each(|index| self.defined[*index].left -= 1);
        drifted
    }

    /// Returns true if the paths of an entity are as defined.
    pub(super) fn is_as_defined(&self, index: usize) -> bool {
        let path = self.root.join(&self.defined[index].path);
        let mut disk = Disk::new();
        look(&path, &mut disk);
        let desired = self.desired.range(path.clone()..).take_while(|(other, _)| other.starts_with(&path));
        desired.eq(disk.iter())
    }

    /// Returns the paths that are not as they were in the beginning.
    pub(super) fn differences(&self) -> Vec<PathBuf> {
        let disk = self.disk();
        let all = self.desired.keys().chain(disk.keys());
        let mut differences: Vec<PathBuf> =
            all.filter(|path| self.desired.get(*path) != disk.get(*path)).cloned().collect();
        differences.sort();
        differences.dedup();
        differences
    }
}
