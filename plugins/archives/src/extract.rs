//! Extracts archives into a staging directory: nothing of what is in use is touched.

mod entry;
mod tar;
mod zip;

use crate::checksum::Sums;
use crate::format::Format;
use crate::limits::{Allowance, Limits};
use crate::made::{Made, Owner, Thing};
use bstr::ByteSlice;
use holo_change::error::reason;
use holo_change::{Kind, PathHandle, Tree, set_ownership};
use holo_plugin::{Meter, Output};
use std::collections::BTreeMap;
use std::fs::{File, FileTimes};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What is extracted, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extraction<'a> {
    /// Where the tree is going to be, as symlinks may name it.
    pub(crate) top: &'a Path,
    pub(crate) strip: u32,
    pub(crate) limits: Limits,
    pub(crate) owner: Owner,
}

/// The permissions that nothing gets that was extracted: to run as others, and to be written by them.
const KEPT_MODE: u32 = 0o755;

/// Extracts everything into an empty directory; what there is then, by path. It is not synced.
///
/// # Errors
/// What is wrong with the archive or the disk, in words.
pub(crate) fn extract(
    file: &mut File,
    into: &Arc<Tree>,
    extraction: Extraction<'_>,
    output: &mut Output<'_>,
) -> Result<BTreeMap<PathBuf, Made>, String> {
    let unreadable = |error: io::Error| format!("cannot read it: {}", reason(&error));
    let size = file.metadata().map_err(unreadable)?.len();
    let allowance = Allowance::new(extraction.limits, size);
    let mut staging = Staging {
        tree: Arc::clone(into),
        extraction,
        allowance: &allowance,
        watch: Watch {
            file: file.try_clone().map_err(unreadable)?,
            meter: Meter::of_bytes("extracting", Some(size)),
            output,
        },
        made: BTreeMap::new(),
        links: BTreeMap::new(),
    };
    match Format::of(file).map_err(unreadable)? {
        None => return Err("it is none of tar, tar.gz, tar.xz, tar.zst, tar.bz2, zip".to_owned()),
        Some(Format::Tar(compression)) => tar::read(compression.reader(file).map_err(unreadable)?, &mut staging)?,
        Some(Format::Zip) => zip::read(file, &mut staging)?,
    }
    staging.finish()
}

/// Takes entries, and makes them.
struct Staging<'a, 'o> {
    tree: Arc<Tree>,
    extraction: Extraction<'a>,
    allowance: &'a Allowance,
    watch: Watch<'a, 'o>,
    made: BTreeMap<PathBuf, Made>,
    links: BTreeMap<PathBuf, Vec<u8>>,
}

/// Says how far the archive has been read.
struct Watch<'a, 'o> {
    /// The archive again, with the position that it is read at.
    file: File,
    meter: Meter,
    output: &'a mut Output<'o>,
}

impl Watch<'_, '_> {
    fn look(&mut self) {
        if self.meter.is_due()
            && let Ok(position) = self.file.stream_position()
        {
            self.meter.reached(position, self.output);
        }
    }
}

impl Staging<'_, '_> {
    /// Where the entry of this name goes, if anywhere.
    fn destination(&self, name: &[u8]) -> Result<Option<PathBuf>, String> {
        self.allowance.enter().map_err(|error| reason(&error))?;
        entry::destination(name, self.extraction.strip).map_err(|problem| at(name, problem))
    }

    fn directory(&mut self, path: PathBuf, mode: u32) -> Result<(), String> {
        self.parents(&path)?;
        self.make_directory(path, (mode | 0o700) & KEPT_MODE)
    }

    /// The directories above a path that the archive has not named.
    fn parents(&mut self, path: &Path) -> Result<(), String> {
        let mut missing = Vec::new();
        for parent in path.ancestors().skip(1).take_while(|parent| !parent.as_os_str().is_empty()) {
            match self.made.get(parent) {
                Some(made) if made.is_directory() => break,
                Some(_) => return Err(shown(path, "it is below what is no directory")),
                None => missing.push(parent.to_owned()),
            }
        }
        missing.into_iter().rev().try_for_each(|parent| {
            self.allowance.enter().map_err(|error| shown(path, reason(&error)))?;
            self.make_directory(parent, 0o755)
        })
    }

    fn make_directory(&mut self, path: PathBuf, mode: u32) -> Result<(), String> {
        // In the staging directory it is ours alone; it gets its mode where it is going to be.
        self.tree.place(&path).create_directory(0o700).map_err(|error| shown(&path, reason(&error.error)))?;
        self.remember(path, Thing::Directory { mode });
        Ok(())
    }

    fn file(
        &mut self,
        path: PathBuf,
        mode: u32,
        size: u64,
        modified: Option<u64>,
        content: &mut impl Read,
    ) -> Result<(), String> {
        let mode = mode & KEPT_MODE;
        let place = self.free(&path)?;
        let mut file = place.create().map_err(|error| shown(&path, reason(&error.error)))?;
        let mut tee = Tee { content, file: &mut file, allowance: self.allowance, watch: &mut self.watch, size: 0 };
        let sums = Sums::of(&mut tee, None).map_err(|error| shown(&path, reason(&error)))?;
        if tee.size != size {
            return Err(shown(&path, format!("it ends after {} of {size} bytes", tee.size)));
        }
        let Owner { uid, gid } = self.extraction.owner;
        set_ownership(&file, &place.shown(), uid, gid, mode).map_err(|error| shown(&path, reason(&error.error)))?;
        if let Some(time) =
            modified.and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)))
        {
            // Not every file system can hold every time; that is no reason to fail.
            let _ = file.set_times(FileTimes::new().set_modified(time));
        }
        self.remember(path, Thing::File { mode, size, sha256: sums.sha256 });
        Ok(())
    }

    fn symlink(&mut self, path: PathBuf, target: &[u8]) -> Result<(), String> {
        if target.is_empty() || target.contains(&0) {
            return Err(shown(&path, "it is a symlink to nothing"));
        }
        let place = self.free(&path)?;
        let Owner { uid, gid } = self.extraction.owner;
        let made = place.create_symlink(target).and_then(|()| place.give_to(uid, gid));
        made.map_err(|error| shown(&path, reason(&error.error)))?;
        self.links.insert(path.clone(), target.to_owned());
        self.remember(path, Thing::Symlink { target: target.to_owned() });
        Ok(())
    }

    /// Another name for a file that was extracted before.
    fn hard_link(&mut self, path: PathBuf, target: &Path) -> Result<(), String> {
        let Some(made) = self.made.get(target).filter(|made| matches!(made.thing, Thing::File { .. })).cloned() else {
            return Err(shown(&path, "it is a hard link to no file of the archive"));
        };
        if path == target {
            return Ok(());
        }
        let place = self.free(&path)?;
        place
            .remove()
            .and_then(|()| self.tree.place(target).link_to(&place))
            .map_err(|error| shown(&path, reason(&error.error)))?;
        self.remember(path, made.thing);
        Ok(())
    }

    /// The place of a file or symlink, with the directories above it.
    fn free(&mut self, path: &Path) -> Result<PathHandle, String> {
        self.parents(path)?;
        let place = self.tree.place(path);
        match place.stat().map_err(|error| shown(path, reason(&error.error)))? {
            Some(looks) if looks.kind == Kind::Directory => Err(shown(path, "it is a directory too")),
            // As with tar, the last entry of a name counts.
            _ => Ok(place),
        }
    }

    fn remember(&mut self, path: PathBuf, thing: Thing) {
        if !matches!(thing, Thing::Symlink { .. }) {
            self.links.remove(&path);
        }
        self.made.insert(path, Made { thing, owner: self.extraction.owner });
    }

    fn finish(self) -> Result<BTreeMap<PathBuf, Made>, String> {
        for (link, target) in &self.links {
            if entry::leads_out(link, target, &self.links, self.extraction.top) {
                return Err(shown(link, format!("it is a symlink that leads out, to {:?}", target.as_bstr())));
            }
        }
        Ok(self.made)
    }
}

/// Reads a content, and writes it to a file on the way.
struct Tee<'a, 'w, 'o, R> {
    content: &'a mut R,
    file: &'a mut File,
    allowance: &'a Allowance,
    watch: &'a mut Watch<'w, 'o>,
    size: u64,
}

impl<R: Read> Read for Tee<'_, '_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.content.read(buffer)?;
        self.allowance.write(length as u64)?;
        self.size += length as u64;
        self.watch.look();
        io::Write::write_all(self.file, buffer.get(..length).unwrap_or_default())?;
        Ok(length)
    }
}

/// A problem with an entry, by its name in the archive. Names may hold anything, so they are shown as if in source code.
fn at(name: &[u8], problem: impl std::fmt::Display) -> String {
    format!("{:?}: {problem}", name.as_bstr())
}

fn shown(path: &Path, problem: impl std::fmt::Display) -> String {
    at(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()), problem)
}
