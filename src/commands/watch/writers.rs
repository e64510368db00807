//! The processes that write files which were repaired before, so that a fight can be told with the name of the other side.
//!
//! The system tells it only to the superuser, and only of files that are written where they are or in the same directory before they are moved:
//! nothing is known of who removes a file, or changes its attributes. Nothing is listened to until something was repaired.

use super::paths::WatchedPaths;
use crate::index::EntityIndex;
use holo_events::{Text, Writer};
use nix::sys::fanotify::{EventFFlags, Fanotify, FanotifyEvent, InitFlags, MarkFlags, MaskFlags};
use rustix::fs::{CWD, Stat};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process;
use std::time::Instant;

/// The number of writes that are remembered. Directories may have other files that are written often.
const REMEMBERED: usize = 256;
/// The turns in which all that the system keeps is read, even if somebody goes on writing.
const MAX_TURNS: usize = 128;
/// The most directories that are listened to for one entity.
const MAX_DIRECTORIES: usize = 64;

/// The processes that write files near those that were repaired.
#[derive(Debug, Default)]
pub(super) struct Writers {
    listener: Option<Listener>,
    /// True if the system does not tell.
    is_refused: bool,
    writes: VecDeque<(FileId, Writer<'static>)>,
}

/// What hears of writes, until then.
#[derive(Debug)]
struct Listener {
    fanotify: Fanotify,
    until: Instant,
}

/// A file, by whatever name: what is written under one name is often moved to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl Writers {
    /// Listens to who writes the files of an entity, which was just repaired, until then or longer.
    pub(super) fn listen(&mut self, paths: &WatchedPaths, entity: EntityIndex, until: Instant) {
        if self.is_refused {
            return;
        }
        let paths: Vec<PathBuf> = paths.of(entity).take(MAX_DIRECTORIES).collect();
        // What was written before is not there any more.
        let files: Vec<FileId> = paths.iter().filter_map(|path| FileId::at(path)).collect();
        self.writes.retain(|(file, _)| !files.contains(file));
        if paths.is_empty() {
            return;
        }
        let listener = match &mut self.listener {
            Some(listener) => listener,
            none => {
                let Some(fanotify) = start() else {
                    self.is_refused = true;
                    return;
                };
                none.insert(Listener { fanotify, until })
            }
        };
        listener.until = listener.until.max(until);
        for directory in paths.iter().filter_map(|path| path.parent()) {
            let written = MaskFlags::FAN_MODIFY | MaskFlags::FAN_CLOSE_WRITE | MaskFlags::FAN_EVENT_ON_CHILD;
            let flags = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_ONLYDIR;
            // One that is gone is made by the next repair, if it belongs to anybody.
            let _ = listener.fanotify.mark(flags, written, CWD, Some(directory));
        }
    }

    /// Returns the descriptor that becomes readable when something was written, if anything is listened to.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(|listener| listener.fanotify.as_fd())
    }

    /// Takes what was written by now. A process may be gone soon, so that nobody knows its name any more.
    pub(super) fn take(&mut self) {
        let Some(listener) = &self.listener else { return };
        for event in waiting(&listener.fanotify) {
            let known = self.writes.iter().rev().map(|(_, writer)| writer);
            let Some((file, writer)) = read(&event, known) else { continue };
            self.writes.retain(|(other, _)| *other != file);
            self.writes.push_back((file, writer));
            if self.writes.len() > REMEMBERED {
                self.writes.pop_front();
            }
        }
    }

    /// Drops what was written by now and is not taken: we have written ourselves.
    pub(super) fn skip(&mut self) {
        let Some(listener) = &self.listener else { return };
        for _ in 0..MAX_TURNS {
            if waiting(&listener.fanotify).is_empty() {
                return;
            }
        }
    }

    /// Returns the process that was the last to write what is at a path of an entity, as far as it is known.
    pub(super) fn of(&self, paths: &WatchedPaths, entity: EntityIndex) -> Option<Writer<'static>> {
        if self.writes.is_empty() {
            return None;
        }
        let files: Vec<FileId> = paths.of(entity).take(MAX_DIRECTORIES).filter_map(|path| FileId::at(&path)).collect();
        self.writes.iter().rev().find(|(file, _)| files.contains(file)).map(|(_, writer)| writer.clone())
    }

    /// Returns the time at which nothing needs to be listened to any longer.
    pub(super) fn next(&self) -> Option<Instant> {
        self.listener.as_ref().map(|listener| listener.until)
    }

    /// Stops listening if it is time.
    pub(super) fn release(&mut self, now: Instant) {
        if self.next().is_some_and(|until| until <= now) {
            *self = Writers::default();
        }
    }
}

impl FileId {
    fn at(path: &Path) -> Option<FileId> {
        rustix::fs::lstat(path).ok().map(FileId::from)
    }
}

impl From<Stat> for FileId {
    fn from(stat: Stat) -> FileId {
        FileId { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// Returns a listener to nothing yet, or none if the system does not tell this user, or anybody.
fn start() -> Option<Fanotify> {
    let flags = InitFlags::FAN_CLASS_NOTIF | InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK;
    let files = EventFFlags::O_RDONLY | EventFFlags::O_LARGEFILE | EventFFlags::O_CLOEXEC | EventFFlags::O_NONBLOCK;
    Fanotify::init(flags, files).ok()
}

/// Returns the events that there are by now.
fn waiting(fanotify: &Fanotify) -> Vec<FanotifyEvent> {
    let mut events = Vec::new();
    // Each has an open file. A file that cannot be opened ends this turn only: its event is gone then.
    while events.len() < REMEMBERED {
        match fanotify.read_events() {
            Ok(more) if !more.is_empty() => events.extend(more),
            Ok(_) | Err(_) => break,
        }
    }
    events
}

/// Returns the file that was written, and the process that did it unless it is this one. A process that was known before may be gone.
fn read<'a>(
    event: &FanotifyEvent,
    mut known: impl Iterator<Item = &'a Writer<'static>>,
) -> Option<(FileId, Writer<'static>)> {
    let pid = u32::try_from(event.pid()).ok().filter(|&pid| pid != 0 && pid != process::id())?;
    let file = rustix::fs::fstat(event.fd()?).ok()?.into();
    let command = fs::read(format!("/proc/{pid}/comm")).ok().map(|name| Text(Cow::Owned(name.trim_ascii_end().into())));
    let command = command.or_else(|| known.find(|writer| writer.pid == pid)?.command.clone());
    Some((file, Writer { pid, command }))
}
