//! Trees on disk.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::Path;

use bstr::{BStr, BString, ByteSlice};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{Node, Section, Tree};
use crate::error::{Context, IoError};
use crate::files;

const DEFAULT_MODE: u32 = 0o755;

impl Tree {
    /// Reads the files below a directory.
    ///
    /// The order is that of a walk by names in byte order, with `.ssh` after its siblings and a directory before its
    /// content. A directory is only included if it is empty or its mode is not 0755; `dir` itself never is. The
    /// state database is left out.
    ///
    /// # Errors
    ///
    /// If anything below `dir` cannot be read.
    pub fn read(dir: &Path) -> Result<Self, IoError> {
        let mut tree = Self::default();
        tree.read_below(dir, BStr::new(""))?;
        Ok(tree)
    }

    /// Adds the content of a directory, and returns the number of its entries.
    fn read_below(&mut self, dir: &Path, prefix: &BStr) -> Result<usize, IoError> {
        let mut names = fs::read_dir(dir)
            .and_then(|entries| {
                entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()
            })
            .context("read", dir)?;
        // Its bytes differ from run to run; `holo state export` shows the content.
        names.retain(|name| prefix != "var/lib/holo/" || !name.as_bytes().starts_with(b"state.db"));
        names.sort_unstable_by(|a, b| (a == ".ssh", a).cmp(&(b == ".ssh", b)));
        for name in &names {
            let mut path = prefix.to_owned();
            path.extend_from_slice(name.as_bytes());
            self.read_entry(&dir.join(name), path)?;
        }
        Ok(names.len())
    }

    fn read_entry(&mut self, found: &Path, path: BString) -> Result<(), IoError> {
        let metadata = fs::symlink_metadata(found).context("stat", found)?;
        let file_type = metadata.file_type();
        let node = if file_type.is_file() {
            Node::File(fs::read(found).context("read", found)?.into())
        } else if file_type.is_symlink() {
            let target = fs::read_link(found).context("read", found)?;
            Node::Symlink(target.into_os_string().into_vec().into())
        } else if file_type.is_dir() {
            Node::Directory
        } else if file_type.is_fifo() {
            Node::Fifo
        } else if file_type.is_socket() {
            Node::Socket
        } else {
            Node::Device
        };

        let mode = metadata.mode() & 0o7777;
        let mut prefix = (node == Node::Directory).then(|| path.clone());
        let position = self.sections.len();
        self.sections.push(Section { path, mode, node });
        if let Some(prefix) = &mut prefix {
            prefix.push(b'/');
            let entries = self.read_below(found, prefix.as_bstr())?;
            if entries > 0 && mode == DEFAULT_MODE {
                self.sections.remove(position);
            }
        }
        Ok(())
    }
}

/// Creates the files of a tree below an existing directory.
///
/// Modes are set exactly, independent of the umask; parents that are not in the tree get mode 0755. Directories may
/// already exist, other files must not.
///
/// # Errors
///
/// If a file cannot be created, already exists, or would be created through a symlink. Files created before the error
/// are kept.
pub fn materialise(tree: &Tree, dir: &Path) -> Result<(), IoError> {
    for section in &tree.sections {
        let relative = Path::new(OsStr::from_bytes(&section.path));
        let path = dir.join(relative);
        if section.node == Node::Directory {
            files::make_dirs(dir, relative)?;
            continue;
        }
        files::make_dirs(dir, relative.parent().unwrap_or(Path::new("")))?;
        match &section.node {
            Node::File(content) => files::create_file(&path, content, section.mode)?,
            Node::Symlink(target) => {
                symlink(OsStr::from_bytes(target), &path).context("create", &path)?;
            }
            Node::Fifo => {
                mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).context("create", &path)?;
                files::set_mode(&path, section.mode)?;
            }
            Node::Directory | Node::Socket | Node::Device => {
                return Err(io::Error::other("sockets and devices are not made from a tree, but env.sh may make them"))
                    .context("create", &path);
            }
        }
    }
    // Last and in reverse order, because the mode of a directory may deny access to its owner.
    let mut directories: Vec<_> = tree.sections.iter().filter(|section| section.node == Node::Directory).collect();
    directories.sort_unstable_by(|a, b| b.path.cmp(&a.path));
    for section in directories {
        let path = dir.join(OsStr::from_bytes(&section.path));
        files::set_mode(&path, section.mode)?;
    }
    Ok(())
}

/// Returns the files below a directory in the text format. See [`Tree::read`] for order and omissions.
///
/// # Errors
///
/// If anything below `dir` cannot be read.
pub fn dump(dir: &Path) -> Result<Vec<u8>, IoError> {
    Tree::read(dir).map(|tree| tree.to_bytes())
}
