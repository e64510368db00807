//! The contents of files, read once into a temporary file, with their digests, and the tar archive of a package, as Debian and pacman have
//! it.

use crate::package::{Kind, Node, Owner, Package};
use std::io::{self, Read, Write};
use tar::{Builder, EntryType, Header};

/// The name of the entry that contains a path or target which is too long for a header.
const LONG: &[u8] = b"././@LongLink";

/// A tar archive that is being written. Its names begin with a prefix, which the `tar` crate would remove.
pub(crate) struct Archive<W: Write> {
    tar: Builder<W>,
    prefix: &'static str,
    time: u32,
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(writer: W, prefix: &'static str, time: u32) -> Archive<W> {
        Archive { tar: Builder::new(writer), prefix, time }
    }

    /// Adds a file that belongs to root.
    pub(crate) fn text(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let header = self.header(EntryType::Regular, mode, content.len() as u64);
        self.append(header, name, content)
    }

    /// Adds the root directory of a package.
    pub(crate) fn root(&mut self) -> io::Result<()> {
        let header = self.header(EntryType::Directory, 0o755, 0);
        self.append(header, "", io::empty())
    }

    /// Adds all files of a package.
    pub(crate) fn nodes(&mut self, package: &Package) -> io::Result<()> {
        for (path, node) in &package.nodes {
            self.node(path, node, package)?;
        }
        Ok(())
    }

    fn node(&mut self, path: &str, node: &Node, package: &Package) -> io::Result<()> {
        let (kind, size) = match &node.kind {
            Kind::File { content, .. } => (EntryType::Regular, content.size),
            Kind::Directory => (EntryType::Directory, 0),
            Kind::Symlink { .. } => (EntryType::Symlink, 0),
        };
        let mut header = self.header(kind, node.mode, size);
        header.set_uid(node.owner.id().into());
        header.set_gid(node.group.id().into());
        header.set_username(name(&node.owner))?;
        header.set_groupname(name(&node.group))?;
        match &node.kind {
            Kind::File { content, .. } => self.append(header, path, package.contents.reader(content)),
            Kind::Directory => self.append(header, &format!("{path}/"), io::empty()),
            Kind::Symlink { target } => {
                let field = &mut header.as_old_mut().linkname;
                if !copy(target.as_bytes(), field) {
                    self.long(EntryType::GNULongLink, target.as_bytes())?;
                }
                self.append(header, path, io::empty())
            }
        }
    }

    fn header(&self, kind: EntryType, mode: u32, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size);
        header.set_mtime(self.time.into());
        header.set_uid(0);
        header.set_gid(0);
        // The names are short enough, so neither call fails.
        let _ = header.set_username("root").and_then(|()| header.set_groupname("root"));
        header
    }

    fn append(&mut self, mut header: Header, name: &str, content: impl Read) -> io::Result<()> {
        let name = format!("{}{name}", self.prefix);
        if !copy(name.as_bytes(), &mut header.as_old_mut().name) {
            self.long(EntryType::GNULongName, name.as_bytes())?;
        }
        header.set_cksum();
        self.tar.append(&header, content)
    }

    /// Adds the entry before one whose name or target is too long.
    fn long(&mut self, kind: EntryType, text: &[u8]) -> io::Result<()> {
        let mut header = self.header(kind, 0o644, text.len() as u64 + 1);
        copy(LONG, &mut header.as_old_mut().name);
        header.set_cksum();
        self.tar.append(&header, text.chain(&b"\0"[..]))
    }

    pub(crate) fn finish(self) -> io::Result<W> {
        self.tar.into_inner()
    }
}

/// Returns the name of an owner, which takes precedence over the number on extraction.
fn name(owner: &Owner) -> &'static str {
    if owner.id() == 0 { "root" } else { "" }
}

/// Copies a text into a field as far as it fits, and returns true if it does.
fn copy(text: &[u8], field: &mut [u8]) -> bool {
    field.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
    text.len() <= field.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_length_are_read_back() {
        let mut archive = Archive::new(Vec::new(), "./", 7);
        let names = [1, 97, 98, 99, 100, 300, 5000].map(|length| "x".repeat(length));
        names.iter().for_each(|name| archive.text(name, 0o640, name.as_bytes()).unwrap());
        let bytes = archive.finish().unwrap();
        let mut read = tar::Archive::new(&bytes[..]);
        let mut entries = read.entries().unwrap();
        for name in names {
            let mut entry = entries.next().unwrap().unwrap();
            assert_eq!(entry.path_bytes(), format!("./{name}").as_bytes());
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            let header = entry.header();
            let attributes = (header.mode().unwrap(), header.uid().unwrap(), header.mtime().unwrap());
            assert_eq!((content, attributes), (name, (0o640, 0, 7)));
        }
        assert!(entries.next().is_none());
    }
}
