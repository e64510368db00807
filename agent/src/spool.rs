//! Events on disk: appended individually, synced at most once a second, limited in size, and complete under all
//! circumstances.
//!
//! Each event is a line of JSON. A line truncated by a crash is skipped. When the file is too large, its oldest half is
//! replaced with the numbers of its events. Events that cannot be written, for example because the disk is full, are
//! kept in memory with the same limit, and in a file on another file system, where the next agent finds them after a
//! crash. Events that are not complete yet are kept there as well.

#[cfg(test)]
mod tests;

use crate::event::{Counts, Event, EventSink, What};
use jiff::Timestamp;
use rustix::fs::fsync;
use std::collections::VecDeque;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

/// The maximum number of pending events in memory.
const WAITING: usize = 1000;

/// The stack size of the thread that syncs.
const STACK: usize = 64 << 10;

/// The event file and pending events.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    /// The maximum size in bytes.
    limit: u64,
    /// The number of bytes that are known to be complete lines.
    size: u64,
    waiting: VecDeque<Event>,
    /// The events that are not complete yet.
    held: Vec<Event>,
    /// The file for both, if any.
    refuge: Option<PathBuf>,
    is_refuge_used: bool,
    obstacle: Option<String>,
    last_seq: u64,
    /// The file to sync next, for the thread that does.
    syncs: Option<SyncSender<File>>,
}

impl Spool {
    /// Opens the file, which need not exist.
    #[must_use]
    pub fn open(path: impl Into<PathBuf>, limit: u64) -> Spool {
        let path = path.into();
        let metadata = fs::metadata(&path).ok().filter(Metadata::is_file);
        let size = metadata.as_ref().map_or(0, Metadata::len);
        let events = metadata.and_then(|_| Spool::read(&path).ok()).unwrap_or_default();
        let last_seq = events.iter().map(|event| event.header.seq).max().unwrap_or_default();
        let (waiting, held, refuge, is_refuge_used, obstacle) = (VecDeque::new(), Vec::new(), None, false, None);
        Spool { path, limit, size, waiting, held, refuge, is_refuge_used, obstacle, last_seq, syncs: None }
    }

    /// Sets the file for pending events. Those that a previous agent left there become pending.
    #[must_use]
    pub fn with_refuge(mut self, refuge: PathBuf) -> Spool {
        let left = Spool::read(&refuge).unwrap_or_default();
        self.is_refuge_used = !left.is_empty();
        let on_disk = if left.is_empty() { Vec::new() } else { Spool::read(&self.path).unwrap_or_default() };
        // A crash may have happened after an event was written, but before it was removed from the pending ones.
        let is_on_disk = |event: &Event| on_disk.iter().any(|other| other.id == event.id);
        for mut event in left.into_iter().filter(|event| !is_on_disk(event)) {
            // Others may have been recorded since it was held.
            event.header.seq = event.header.seq.max(self.last_seq + 1);
            self.last_seq = event.header.seq;
            self.waiting.push_back(event);
        }
        self.refuge = Some(refuge);
        self
    }

    /// Returns the events on disk, oldest first. Damaged lines are skipped.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub fn read(path: &Path) -> io::Result<Vec<Event>> {
        let content = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let lines = content.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }

    /// Writes the pending events, and those that are not complete yet, to their file.
    fn keep_waiting(&mut self) -> io::Result<()> {
        let Some(refuge) = &self.refuge else { return Ok(()) };
        let is_empty = self.waiting.is_empty() && self.held.is_empty();
        match (is_empty, self.is_refuge_used) {
            (true, false) => return Ok(()),
            (true, true) => fs::remove_file(refuge)?,
            (false, _) => replace(refuge, &lines(self.waiting.iter().chain(&self.held))?, 0o600)?,
        }
        self.is_refuge_used = !is_empty;
        Ok(())
    }

    /// Merges the older half of the pending events if there are too many.
    fn merge_waiting(&mut self) {
        if self.waiting.len() <= WAITING {
            return;
        }
        let mut counts = Counts::default();
        let mut oldest: Vec<Event> = self.waiting.drain(..WAITING / 2).collect();
        oldest.iter().for_each(|event| counts.add(event));
        if let Some(last) = oldest.pop() {
            self.waiting.push_front(merged(counts, &last));
        }
    }

    /// Writes the pending events in order.
    fn write(&mut self) -> io::Result<()> {
        while let Some(event) = self.waiting.front() {
            let mut line = serde_json::to_vec(event)?;
            line.push(b'\n');
            if self.size + line.len() as u64 > self.limit {
                self.compact()?;
            }
            self.append(&line)?;
            self.waiting.pop_front();
        }
        Ok(())
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(directory) = self.path.parent() {
            create_private_directory(directory)?;
        }
        let mut file = OpenOptions::new().append(true).create(true).read(true).mode(0o600).open(&self.path)?;
        // Ends a truncated line, so that this event is not appended to it.
        let before = file.metadata()?.len();
        let begun = if ends_a_line(&file, before)? { line.to_vec() } else { [b"\n", line].concat() };
        let written = file.write_all(&begun);
        match written {
            Ok(()) => {
                self.size = before + begun.len() as u64;
                self.sync(file);
            }
            // Only complete lines are left.
            Err(_) => file.set_len(before)?,
        }
        written
    }

    /// Syncs the file soon, in a thread of its own, because that may take long.
    fn sync(&mut self, file: File) {
        let sender = self.syncs.get_or_insert_with(|| {
            let (sender, files) = mpsc::sync_channel(1);
            // Without the thread, the kernel writes the events after some seconds.
            let _ = thread::Builder::new().name("sync".to_owned()).stack_size(STACK).spawn(move || sync_all(&files));
            sender
        });
        // If a sync is due already, it includes this event.
        let _ = sender.try_send(file);
    }

    /// Replaces the older half with its numbers.
    fn compact(&mut self) -> io::Result<()> {
        let events = Spool::read(&self.path)?;
        let mut lines: VecDeque<(Vec<u8>, &Event)> = VecDeque::new();
        for event in &events {
            lines.push_back((serde_json::to_vec(event)?, event));
        }
        let (mut counts, mut last) = (Counts::default(), None);
        let mut size: u64 = lines.iter().map(|(line, _)| line.len() as u64 + 1).sum();
        while size > self.limit / 2
            && let Some((line, event)) = lines.pop_front()
        {
            size -= line.len() as u64 + 1;
            counts.add(event);
            last = Some(event);
        }
        let mut content = Vec::new();
        if let Some(last) = last {
            content.extend(serde_json::to_vec(&merged(counts, last))?);
            content.push(b'\n');
        }
        for (line, _) in lines {
            content.extend(line);
            content.push(b'\n');
        }
        replace(&self.path, &content, 0o600)?;
        self.size = content.len() as u64;
        Ok(())
    }
}

/// Syncs files as they come, at most one a second.
fn sync_all(files: &Receiver<File>) {
    for file in files {
        // A failure is one of the disk, which the next write reports.
        let _ = file.sync_data();
        thread::sleep(Duration::from_secs(1));
    }
}

/// Returns the event for merged events, the last of which is `last`.
fn merged(counts: Counts, last: &Event) -> Event {
    Event { what: What::Merged(counts), ..last.clone() }
}

/// Formats events as on disk.
fn lines<'a>(events: impl IntoIterator<Item = &'a Event>) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    for event in events {
        serde_json::to_writer(&mut content, event)?;
        content.push(b'\n');
    }
    Ok(content)
}

fn ends_a_line(file: &File, size: u64) -> io::Result<bool> {
    use std::os::unix::fs::FileExt;
    let mut last = [0];
    if size == 0 {
        return Ok(true);
    }
    file.read_exact_at(&mut last, size - 1)?;
    Ok(last == *b"\n")
}

impl EventSink for Spool {
    fn record(&mut self, event: Event) {
        self.last_seq = self.last_seq.max(event.header.seq);
        self.waiting.push_back(event);
        self.retry();
    }

    fn hold(&mut self, events: Vec<Event>) {
        self.held = events;
        // If it cannot be written, only a crash within the next seconds would lose something.
        let _ = self.keep_waiting();
    }

    fn retry(&mut self) {
        self.obstacle = self.write().err().map(|error| format!("{}: {error}", self.path.display()));
        self.merge_waiting();
        let kept = self.keep_waiting();
        if let (Err(error), Some(obstacle), Some(refuge)) = (kept, &mut self.obstacle, &self.refuge) {
            *obstacle = format!("{obstacle}; {}: {error}", refuge.display());
        }
    }

    fn has_run(&self, began: Timestamp) -> bool {
        let is_it = |event: &Event| matches!(&event.what, What::Run(run) if run.began == began);
        // An unreadable file counts as empty.
        self.waiting.iter().any(is_it) || Spool::read(&self.path).unwrap_or_default().iter().any(is_it)
    }

    fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }

    fn last_seq(&self) -> u64 {
        self.last_seq
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // The thread ends with the process, perhaps before its next sync.
        if self.syncs.is_some() {
            let _ = File::open(&self.path).and_then(|file| file.sync_data());
        }
    }
}

/// Creates a directory that only its owner can enter. Parents are created with the usual mode.
pub(crate) fn create_private_directory(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

/// Replaces a file atomically, with this mode. Its directory is created, with access only for its owner if the file is
/// private.
pub(crate) fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    if mode & 0o077 == 0 {
        create_private_directory(directory)?;
    } else {
        fs::create_dir_all(directory)?;
    }
    let mut file = tempfile::Builder::new().prefix(".holo-agent.").tempfile_in(directory)?;
    file.write_all(content)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    fsync(File::open(directory)?)?;
    Ok(())
}
