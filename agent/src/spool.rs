//! Events on disk: appended one by one, bounded, and complete whatever happens.
//!
//! Each event is a line of JSON. A line that a crash has cut off is passed over. When the file is too large, the oldest half is replaced by
//! the numbers of its events. What cannot be written, for example as the disk is full, is kept in memory, where the same rule holds, and in a
//! file of another file system, so that the next agent has it after a crash.

use crate::event::{Counts, Event, EventSink, What};
use crate::written;
use jiff::Timestamp;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The number of events that wait in memory at most.
const WAITING: usize = 1000;

/// Events on disk.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    /// The number of bytes at most.
    limit: u64,
    /// The number of bytes that are known to be whole lines.
    size: u64,
    waiting: VecDeque<Event>,
    /// The file of those that wait, if they are kept in one.
    refuge: Option<PathBuf>,
    is_refuge_used: bool,
    obstacle: Option<String>,
}

impl Spool {
    /// Opens the file, which need not exist.
    #[must_use]
    pub fn open(path: impl Into<PathBuf>, limit: u64) -> Spool {
        let path = path.into();
        let size = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        Spool { path, limit, size, waiting: VecDeque::new(), refuge: None, is_refuge_used: false, obstacle: None }
    }

    /// Keeps what waits in this file, too. What an agent before this one has left there waits from now on.
    #[must_use]
    pub fn with_refuge(mut self, refuge: PathBuf) -> Spool {
        let left = Spool::read(&refuge).unwrap_or_default();
        self.is_refuge_used = !left.is_empty();
        let on_disk = if left.is_empty() { Vec::new() } else { Spool::read(&self.path).unwrap_or_default() };
        // A crash may have come after an event was written, and before it was known not to wait any more.
        let is_on_disk = |event: &Event| on_disk.iter().any(|other| other.id == event.id);
        self.waiting.extend(left.into_iter().filter(|event| !is_on_disk(event)));
        self.refuge = Some(refuge);
        self
    }

    /// Returns what is on disk, the oldest first. Lines that are damaged are passed over.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn read(path: &Path) -> io::Result<Vec<Event>> {
        let content = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let lines = content.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }

    /// Has the refuge hold what waits.
    fn keep_waiting(&mut self) -> io::Result<()> {
        let Some(refuge) = &self.refuge else { return Ok(()) };
        match (self.waiting.is_empty(), self.is_refuge_used) {
            (true, false) => return Ok(()),
            (true, true) => fs::remove_file(refuge)?,
            (false, _) => written::replace(refuge, &lines(&self.waiting)?, 0o600)?,
        }
        self.is_refuge_used = !self.waiting.is_empty();
        Ok(())
    }

    /// Counts the older half of what waits, if that is too much.
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

    /// Writes what waits, in its order.
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
            fs::create_dir_all(directory)?;
        }
        let mut file = OpenOptions::new().append(true).create(true).read(true).mode(0o600).open(&self.path)?;
        // A line that was cut off before ends here, so that it does not take this one with it.
        let before = file.metadata()?.len();
        let begun = if ends_a_line(&file, before)? { line.to_vec() } else { [b"\n", line].concat() };
        let written = file.write_all(&begun).and_then(|()| file.sync_data());
        match written {
            Ok(()) => self.size = before + begun.len() as u64,
            // Only whole lines are left.
            Err(_) => file.set_len(before)?,
        }
        written
    }

    /// Replaces the older half by its numbers.
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
        written::replace(&self.path, &content, 0o600)?;
        self.size = content.len() as u64;
        Ok(())
    }
}

/// Returns the event that stands for some others, the last of which is this.
fn merged(counts: Counts, last: &Event) -> Event {
    Event { id: last.id.clone(), time: last.time, what: What::Merged(counts) }
}

/// Returns events as they are on disk.
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
        self.waiting.push_back(event);
        self.retry();
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
        // What cannot be read has nothing.
        self.waiting.iter().any(is_it) || Spool::read(&self.path).unwrap_or_default().iter().any(is_it)
    }

    fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }
}

#[cfg(test)]
mod tests;
