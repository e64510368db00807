//! Programs that are called: with a time limit, in a process group of their own, their output as it comes; or that are
//! [asked](Conversation) for one thing after the other.
//!
//! ```
//! use holo_process::Program;
//! use std::time::Duration;
//!
//! let mut program = Program::new("sh");
//! program.args(["-c", "echo one; echo two >&2; exit 3"]).timeout(Duration::from_secs(10));
//! let ended = program.run(|stream, bytes| print!("{stream:?}: {}", String::from_utf8_lossy(bytes)))?;
//! assert_eq!(ended.failure().as_deref(), Some("exit status 3"));
//! assert_eq!(ended.last_lines(1), ["two"]);
//! # Ok::<(), holo_process::ProgramError>(())
//! ```
//!
//! # What is left behind
//!
//! A process that [prepares](prepare) leaves nothing behind: if a signal ends the process, or even a kill, the groups of the programs
//! that run are ended too, those that a signal ends before the process itself. What a program has left running in the background when
//! it ends by itself lives on; that is how daemons are started.
//!
//! When a program's time is over, everything that it has started ends with it: also what has left its process group, or its session, and
//! what was started by a process that has ended since. A small process in between, which a program with a time limit gets, keeps them
//! together.

mod again;
mod channel;
mod child;
mod conversation;
mod ended;
mod error;
mod groups;
mod holder;
mod identity;
mod invocation;
mod launcher;
mod lines;
mod lookup;
mod outgoing;
mod prepared;
mod process;
mod program;
mod running;
mod shell;
mod start;
mod supervisor;
mod tree;
mod watcher;

pub use again::start_again;
pub use channel::Channel;
pub use conversation::{Conversation, Deadline, Limits, end_together};
pub use ended::{Ended, Output, Status, end_by};
pub use error::{ConversationError, IdentityError, ProgramError, StartError};
pub use groups::{StartsHeldBack, end_all, while_nothing_starts};
pub use holder::{hold_lock, release_lock};
pub use holo_protocol::{session::Stream, words};
pub use identity::Identity;
pub use invocation::ignored_signals;
pub use launcher::serve_if_asked;
pub use lookup::SYSTEM_PATH;
pub use prepared::{Prepared, prepare};
pub use process::{Event, Exit, Interrupt, Process};
pub use program::Program;
