//! Identifies the processes that write files of repaired entities, so that a report about a fight names the other side.
//!
//! fanotify is available to root only, and reports files that are written in place or in the same directory before a
//! rename; it does not report who removes a file or changes its attributes. Listening starts with the first repair.

use super::paths::WatchedPaths;
use crate::entities::node::EntityIndex;
use holo_events::{Text, Writer};
use nix::sys::fanotify::{EventFFlags, Fanotify, FanotifyEvent, InitFlags, MarkFlags, MaskFlags};
use rustix::fs::{CWD, Stat};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, process};

/// The number of writes that are remembered, because the directories may contain other files that are written often.
const REMEMBERED: usize = 256;
/// The number of reads that drain the kernel's queue even while other processes keep writing.
const MAX_TURNS: usize = 128;
/// The maximum number of directories that are watched for one entity.
const MAX_DIRECTORIES: usize = 64;

/// The processes that write files near those that were repaired.
#[derive(Debug, Default)]
pub(super) struct Writers {
    listener: Option<Listener>,
    /// Whether fanotify is unavailable.
    is_refused: bool,
    writes: VecDeque<(FileId, Writer<'static>)>,
}

/// An fanotify group, until this time.
#[derive(Debug)]
struct Listener {
    fanotify: Fanotify,
    until: Instant,
}

/// A file, identified independently of its name: programs often write under a temporary name and rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl Writers {
    /// Watches for processes that write the files of an entity, which was just repaired, until this time or longer.
    pub(super) fn listen(&mut self, paths: &WatchedPaths, entity: EntityIndex, until: Instant) {
        if self.is_refused {
            return;
        }
        let paths: Vec<PathBuf> = paths.of(entity).take(MAX_DIRECTORIES).collect();
        // Writes before the repair have been undone by it.
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
            // A missing directory is created by the next repair, if an entity needs it.
            let _ = listener.fanotify.mark(flags, written, CWD, Some(directory));
        }
    }

    /// Returns the descriptor that becomes readable when a file was written, while listening.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(|listener| listener.fanotify.as_fd())
    }

    /// Takes pending events. This must happen soon, because the name of a process is unknown after it has ended.
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

    /// Drops pending events, which are our own writes.
    pub(super) fn skip(&mut self) {
        let Some(listener) = &self.listener else { return };
        for _ in 0..MAX_TURNS {
            if waiting(&listener.fanotify).is_empty() {
                return;
            }
        }
    }

    /// Returns the last process that wrote a file at a path of an entity, if known.
    pub(super) fn of(&self, paths: &WatchedPaths, entity: EntityIndex) -> Option<Writer<'static>> {
        if self.writes.is_empty() {
            return None;
        }
        let files: Vec<FileId> = paths.of(entity).take(MAX_DIRECTORIES).filter_map(|path| FileId::at(&path)).collect();
        self.writes.iter().rev().find(|(file, _)| files.contains(file)).map(|(_, writer)| writer.clone())
    }

    /// Returns the time at which listening can stop.
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

/// Creates an fanotify group without marks; `None` if the system or the user's privileges do not allow it.
fn start() -> Option<Fanotify> {
    let flags = InitFlags::FAN_CLASS_NOTIF | InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK;
    let files = EventFFlags::O_RDONLY | EventFFlags::O_LARGEFILE | EventFFlags::O_CLOEXEC | EventFFlags::O_NONBLOCK;
    Fanotify::init(flags, files).ok()
}

/// Returns the pending events.
fn waiting(fanotify: &Fanotify) -> Vec<FanotifyEvent> {
    let mut events = Vec::new();
    // Each event holds an open file. If a file cannot be opened, its event is lost, and the others come in the next
    // turn.
    while events.len() < REMEMBERED {
        match fanotify.read_events() {
            Ok(more) if !more.is_empty() => events.extend(more),
            Ok(_) | Err(_) => break,
        }
    }
    events
}

/// Returns the file that was written, and the process that wrote it unless it is this one. The name of a process that
/// has ended comes from its earlier writes.
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
