//! The plugin interface as types: what is said, never how it travels.
//!
//! Nothing here reads, writes, spawns or asks the environment. The forms are described for authors of plugins in
//! `holo-plugin-interface(7)`; a change here is a change of that page.

mod adoption;
pub mod controls;
pub mod diagnosis;
mod difference;
pub mod duration;
pub mod environment;
pub mod health;
pub mod info;
mod limit;
pub mod message;
mod origin;
mod progress;
mod replaced;
pub mod report;
pub mod sent;
pub mod session;
mod text;
mod touched;
pub mod words;

pub use adoption::{AdoptMessage, Candidate};
pub use controls::{ControlError, Controls, Limit, Schedule, Semaphore};
pub use diagnosis::{Diagnosis, Level};
pub use difference::{FilePair, Label};
pub use environment::{API_VERSION_3, API_VERSION_4};
pub use health::{Health, HealthState};
pub use info::Info;
pub use limit::ScanLimit;
pub use message::Message;
pub use origin::{Origin, Span};
pub use progress::Progress;
pub use replaced::{Kept, Replaced};
pub use report::{Action, Asset, Edges, EntityReport, Information, Receipt};
pub use sent::Sent;
pub use text::Text;
pub use touched::{Touched, TouchedError, WatchLine};
