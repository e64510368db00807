//! Logs each entity that was changed, refused, or failed to systemd's journal.
//!
//! Lines are sent by a separate thread, which starts with the first line. A journal that does not read them delays the
//! end of a run by no more than [`PATIENCE`]; remaining lines are lost.

use super::record::{EntityRecord, RunResult};
use crate::host::settings::Settings;
use log::{Level, Record};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;
use systemd_journal_logger::JournalLog;

/// The socket of the journal.
const SOCKET: &str = "/run/systemd/journal/socket";
/// The maximum time that the end of a run waits for the journal.
const PATIENCE: Duration = Duration::from_secs(1);

/// The state of the journal in a run.
#[derive(Debug)]
pub(super) enum Journal {
    /// No line has been sent yet.
    Silent,
    Open(Thread),
    /// There is no journal, or it must not be used.
    Off,
}

/// The thread that sends lines.
#[derive(Debug)]
pub(super) struct Thread {
    lines: Sender<Line>,
    /// Disconnected when all lines are sent.
    sent: Receiver<()>,
}

/// A line about an entity.
#[derive(Debug)]
struct Line {
    level: Level,
    message: String,
    run: String,
    entity: String,
    result: &'static str,
}

impl Journal {
    /// Returns the journal of a run. It belongs to the running system, so others have none.
    pub(super) fn new(settings: &Settings) -> Journal {
        if settings.keeps_history && !settings.is_offline && !settings.root.is_test() {
            Journal::Silent
        } else {
            Journal::Off
        }
    }

    /// Logs the outcome of an entity. Differences and output are left out, because more users may read the journal than
    /// the records.
    pub(super) fn tell(&mut self, record: &EntityRecord) {
        let Some(line) = Line::new(record).filter(|_| !matches!(self, Journal::Off)) else { return };
        if matches!(self, Journal::Silent) {
            *self = Thread::start().map_or(Journal::Off, Journal::Open);
        }
        if let Journal::Open(thread) = self {
            // If the journal is not available, the thread has ended.
            let _ = thread.lines.send(line);
        }
    }

    /// Waits until all lines are sent, for no longer than [`PATIENCE`].
    pub(super) fn finish(self) {
        if let Journal::Open(Thread { lines, sent }) = self {
            drop(lines);
            let _ = sent.recv_timeout(PATIENCE);
        }
    }
}

impl Thread {
    fn start() -> Option<Thread> {
        if !Path::new(SOCKET).exists() {
            return None;
        }
        let (lines, received) = channel();
        let (sending, sent) = channel();
        thread::Builder::new()
            .spawn(move || {
                send(&received);
                drop(sending);
            })
            .ok()?;
        Some(Thread { lines, sent })
    }
}

fn send(lines: &Receiver<Line>) {
    let Ok(log) = JournalLog::empty() else { return };
    let log = log.with_syslog_identifier(env!("CARGO_PKG_NAME").to_owned());
    for Line { level, message, run, entity, result } in lines {
        let fields = [("HOLO_RUN", run.as_str()), ("HOLO_ENTITY", &entity), ("HOLO_RESULT", result)];
        // If the journal rejects a line, the others are still sent.
        let _ = log
            .journal_send(&Record::builder().level(level).args(format_args!("{message}")).key_values(&fields).build());
    }
}

impl Line {
    fn new(record: &EntityRecord) -> Option<Line> {
        let level = match record.result {
            RunResult::Changed => Level::Info,
            RunResult::Refused => Level::Warn,
            RunResult::Failed => Level::Error,
            RunResult::Unchanged | RunResult::Pending | RunResult::Skipped | RunResult::Interrupted => return None,
        };
        let (id, result, what) = (&record.id.0, record.result.name(), record.what());
        let colon = if what.is_empty() { "" } else { ": " };
        Some(Line {
            level,
            message: format!("{id}: {result}{colon}{what}"),
            run: record.run.to_string(),
            entity: id.to_string(),
            result,
        })
    }
}
