//! The SDK for plugins. A plugin consists of a type that lists entities, a type that applies them, and a `main` of one
//! line.
//!
//! ```no_run
//! use holo_plugin::{Applied, Entity, EntityReport, FilePair, Host, Mode, Output, Plugin, ScanError};
//! use std::path::Path;
//!
//! struct Greetings;
//! struct Greeting(String);
//!
//! impl Plugin for Greetings {
//!     type Entity = Greeting;
//!
//!     fn scan(&self, host: &Host, _: &mut Output<'_>) -> Result<Vec<Greeting>, ScanError> {
//!         let files = host.resources().list(Path::new("")).unwrap_or_default();
//!         Ok(files.iter().map(|file| Greeting(file.below.display().to_string())).collect())
//!     }
//! }
//!
//! impl Entity for Greeting {
//!     fn report(&self) -> EntityReport {
//!         EntityReport::new(format!("greeting:{}", self.0))
//!     }
//!
//!     fn apply(&self, _: &Host, _: Mode, output: &mut Output<'_>) -> Applied {
//!         output.print(format!("Hello {}\n", self.0));
//!         Applied::Changed(Vec::new())
//!     }
//!
//!     fn diff(&self, _: &Host) -> Option<FilePair> {
//!         None
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     holo_plugin::serve(&Greetings)
//! }
//! ```

mod accounts;
mod adoption;
mod as_user;
mod concurrently;
mod copies;
pub mod declared;
pub mod definitions;
pub mod edited;
mod entity;
mod health;
mod host;
mod kept;
pub mod origins;
mod output;
mod plugin;
mod preview;
pub mod process;
pub mod provider;
mod replaced;
mod serve;
mod validation;
mod witnesses;

pub use accounts::{AccountError, Accounts, KnownUser};
pub use adoption::Adopted;
pub use as_user::{AsUserError, Credentials, as_user};
pub use concurrently::Part;
pub use concurrently::PartIndex;
pub use concurrently::apply_one;
pub use concurrently::{apply as apply_concurrently, apply_in_lanes, check as check_concurrently, in_threads};
pub use entity::{Applied, Entity, ForceTo, ForgetError, Job, Mode, SetAnswers, Verdict};
pub use holo_diff as diff;
pub use holo_facts as facts;
pub use holo_index as index;
pub use holo_process::streams;
pub use holo_process::words::reason;
pub use holo_protocol::report::{Action, Asset, Edges, EntityReport, Information, Receipt, Written};
pub use holo_protocol::sent::MAX_VALUE;
pub use holo_protocol::session::Stream;
pub use holo_protocol::words::quoted;
pub use holo_protocol::{
    API_VERSION_3, API_VERSION_4, Adoption, Candidate, Diagnosis, FilePair, Level, Message, Origin, Progress,
    ScanLimit, Sent, Span, Text, Touched, WatchLine, Witness,
};
pub use holo_system as system;
pub use host::{Host, MissingVariableError, Uninterrupted};
pub use kept::Kept;
pub use output::Meter;
pub use output::{Output, Silence, Sink};
pub use plugin::missing_programs;
pub use plugin::{Plugin, ScanError};
pub use preview::{Preview, SENSITIVE, Shown, exposure};
pub use replaced::MAX_REPLACED;
pub use serve::serve;
pub use validation::{Validation, ValidationError};
pub use witnesses::{leads_through_symlink, witness_paths, witness_tree};
