//! The records of applies: what each of them was, and what it did to which entity.
//!
//! `$HOLO_ROOT_DIR/var/lib/holo/.engine/runs/` has them:
//!
//! - `YYYY-MM.jsonl`: the runs that began in a month (in UTC) and that there is something to say of. Each line is a [`Record`]. Files are only
//!   ever appended to, but for what [retention](crate::retention) removes.
//! - `begun.json`: the run that began last, from before it changes anything. It tells that a run was killed.
//! - `last.json`: the last run that had nothing to do.
//!
//! A [`Recorder`] makes records of the events of a run, a [`Writer`] appends them, and a [`History`] reads them. Of what became of entities
//! the system's journal is told, too.

mod begun;
mod journal;
mod process;
mod reader;
mod record;
mod recorder;
#[cfg(test)]
mod tests;
mod words;
mod writer;

pub use process::ProcessMark;
pub use reader::{History, Run, RunState, Runs};
pub use record::{
    Began, Counts, DiffRecord, Ended, EntityRecord, LastRun, Record, RefusalRecord, RunResult, VERSION, Who,
};
pub use recorder::Recorder;
pub use writer::Writer;
