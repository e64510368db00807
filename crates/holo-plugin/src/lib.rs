//! The SDK for plugins: one type that lists entities, one that applies them, and `main` is one line.
//!
//! ```no_run
//! use holo_plugin::{Applied, Entity, EntityReport, FilePair, Host, Mode, Output, Plugin, ScanError};
//!
//! struct Greetings;
//! struct Greeting(String);
//!
//! impl Plugin for Greetings {
//!     type Entity = Greeting;
//!
//!     fn scan(&self, host: &Host, _: &mut Output<'_>) -> Result<Vec<Greeting>, ScanError> {
//!         let names = std::fs::read_dir(host.resource_dir()).into_iter().flatten().flatten();
//!         Ok(names.map(|entry| Greeting(entry.file_name().to_string_lossy().into_owned())).collect())
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
mod apply_one;
mod as_user;
pub mod claims;
mod concurrently;
mod copying;
pub mod declared;
pub mod definitions;
mod directory;
pub mod error;
mod health;
mod host;
mod image;
pub mod memory;
mod meter;
mod open_files;
mod output;
mod place;
mod plugin;
pub mod process;
mod serve;
mod templates;
pub mod tracked;

pub use accounts::Accounts;
pub use apply_one::apply_one;
pub use as_user::{AsUserError, Credentials, as_user};
pub use concurrently::apply as apply_concurrently;
pub use holo_facts as facts;
pub use holo_protocol::report::{Action, Asset, Edges, EntityReport, Information, Written};
pub use holo_protocol::session::Stream;
pub use holo_protocol::{API_VERSION_4, FilePair, Progress, Text};
pub use holo_system as system;
pub use host::{Host, Uninterrupted};
pub use image::{Content, Image, Stamp, Unmanageable};
pub use meter::Meter;
pub use open_files::are_open_for_writing;
pub use output::{Output, Sink};
pub use place::{Durability, ExtendedAttributes, Kind, Looks, OnDisk, PathHandle, Tree, settle, settle_new};
pub use plugin::{Applied, Entity, ForceTo, Job, Mode, Plugin, ScanError, SetAnswers, Verdict};
pub use serve::serve;

/// A path as the interface has it.
pub(crate) fn path_bytes(path: &std::path::Path) -> bstr::BString {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).into()
}
