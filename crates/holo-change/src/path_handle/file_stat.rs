//! The properties of files.

use rustix::fs::{FileType, Stat};

/// The properties of a file, from a stat call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// The type.
    pub kind: Kind,
    /// All twelve mode bits.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The length.
    pub size: u64,
    /// The number of links.
    pub names: u64,
    /// The device of the file system.
    pub device: u64,
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink.
    Symlink,
    /// A device, a FIFO or a socket.
    Other,
}

impl Kind {
    /// Returns the type from a mode of the kernel.
    pub(crate) fn of_mode(mode: u32) -> Kind {
        Kind::of(FileType::from_raw_mode(mode))
    }

    fn of(file_type: FileType) -> Kind {
        match file_type {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Symlink,
            _ => Kind::Other,
        }
    }

    /// Returns the type in a directory listing, if available.
    pub(super) fn of_entry(file_type: FileType) -> Option<Kind> {
        (file_type != FileType::Unknown).then(|| Kind::of(file_type))
    }
}

impl From<Stat> for FileStat {
    fn from(stat: Stat) -> FileStat {
        FileStat {
            kind: Kind::of_mode(stat.st_mode),
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            names: stat.st_nlink,
            device: stat.st_dev,
        }
    }
}
