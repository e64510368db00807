//! Running programs: with a timeout, in a process group of their own, and with streamed output; or as a
//! [conversation](Conversation) of requests and answers.
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
//! # Cleanup
//!
//! A process that calls [`prepare`] leaves no programs running: if it is ended by a signal, or even killed, the process
//! groups of its running programs are ended too. If the signal can be caught, they are ended before the process itself.
//! Background processes of a program that exits by itself keep running, so that daemons can be started.
//!
//! When a program exceeds its timeout, all processes that it has started are ended with it, including those that have
//! left its process group or session, and those whose parent has exited. For this purpose, a small supervisor process
//! is inserted between this process and each program with a timeout.

mod child;
mod container;
mod conversation;
mod ended;
mod error;
mod groups;
mod identity;
mod invocation;
mod launcher;
mod meter;
mod process;
mod program;
mod start;
pub mod streams;
mod tree;
mod watcher;

pub use container::contained;
pub use conversation::{Conversation, Deadline, Limits, end_together};
pub use ended::{Ended, Output, Status, end_by};
pub use error::{ConversationError, IdentityError, ProgramError, StartError};
pub use groups::{StartsHeldBack, end_all, hold_lock, release_lock, while_nothing_starts};
pub use holo_protocol::session::Stream;
pub use holo_protocol::words;
pub use identity::Identity;
pub use invocation::{become_program, beside, ignored_signals, start_again};
pub use launcher::serve_if_asked;
pub use meter::{MAX_OUTPUT, OutputMeter, TooMuchError};
pub use process::{Event, Exit, Interrupt, Process};
pub use program::{Program, SYSTEM_PATH};
pub use start::{Channel, Prepared, prepare};
pub use tree::{Ancestor, ancestors};
