//! The records of applies: what each of them was, and what it did to which entity.
//!
//! They are in the state database. A run is on record from before it changes anything, so that a kill can be seen. Of runs that had nothing to
//! do, only the last one stays on record.
//!
//! A [`Recorder`] makes records of the events of a run, a [`Writer`] appends them, and a [`History`] reads them. What became of entities also
//! goes to the system's journal.

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
pub use record::{Began, Counts, DiffRecord, Ended, EntityRecord, LastRun, RefusalRecord, RunResult, VERSION, Who};
pub use recorder::Recorder;
pub use writer::Writer;
