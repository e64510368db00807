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
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::mem;
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
        let mut last_seq = 0;
        if metadata.is_some() {
            // If a part cannot be read, the events before it count.
            let _ = for_each(&path, |event, _| {
                last_seq = last_seq.max(event.header.seq);
                Ok(())
            });
        }
        let (waiting, held, refuge, is_refuge_used, obstacle) = (VecDeque::new(), Vec::new(), None, false, None);
        Spool { path, limit, size, waiting, held, refuge, is_refuge_used, obstacle, last_seq, syncs: None }
    }

    /// Sets the file for pending events. Those that a previous agent left there become pending.
    #[must_use]
    pub fn with_refuge(mut self, refuge: PathBuf) -> Spool {
        let mut left = Spool::read(&refuge).unwrap_or_default();
        self.is_refuge_used = !left.is_empty();
        if !left.is_empty() {
            // A crash may have happened after an event was written, but before it was removed from the pending ones.
            let _ = for_each(&self.path, |written, _| {
                left.retain(|event| event.id != written.id);
                Ok(())
            });
        }
        for mut event in left {
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
        let mut events = Vec::new();
        for_each(path, |event, _| {
            events.push(event);
            Ok(())
        })?;
        Ok(events)
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
        let mut left = 0;
        for_each(&self.path, |_, line| {
            left += line.len() as u64;
            Ok(())
        })?;
        let mut size = 0;
        replace_with(&self.path, 0o600, |file| {
            let mut write = |line: &[u8]| {
                size += line.len() as u64;
                file.write_all(line)
            };
            let (mut counts, mut last) = (Counts::default(), None);
            for_each(&self.path, |event, line| {
                if left > self.limit / 2 {
                    left -= line.len() as u64;
                    counts.add(&event);
                    last = Some(event);
                    return Ok(());
                }
                last.take().map_or(Ok(()), |last| write(&lines([&merged(mem::take(&mut counts), &last)])?))?;
                write(line)
            })?;
            last.map_or(Ok(()), |last| write(&lines([&merged(counts, &last)])?))
        })?;
        self.size = size;
        Ok(())
    }
}

/// Calls a function with each event in a file, oldest first, and with its line. Damaged lines are skipped. An old file has thousands of
/// events, which the agent must not have in memory at once.
fn for_each(path: &Path, mut handle: impl FnMut(Event, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => BufReader::new(opened?),
    };
    let mut line = Vec::new();
    while file.read_until(b'\n', &mut line)? > 0 {
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        if let Ok(event) = serde_json::from_slice(&line) {
            handle(event, &line)?;
        }
        line.clear();
    }
    Ok(())
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
        let mut found = self.waiting.iter().any(is_it);
        let _ = for_each(&self.path, |event, _| {
            found |= is_it(&event);
            Ok(())
        });
        found
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
    replace_with(path, mode, |file| file.write_all(content))
}

fn replace_with(path: &Path, mode: u32, write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    if mode & 0o077 == 0 {
        create_private_directory(directory)?;
    } else {
        fs::create_dir_all(directory)?;
    }
    let file = tempfile::Builder::new().prefix(".holo-agent.").tempfile_in(directory)?;
    let mut writer = BufWriter::new(file.as_file());
    write(&mut writer)?;
    writer.flush()?;
    drop(writer);
    file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    fsync(File::open(directory)?)?;
    Ok(())
}
