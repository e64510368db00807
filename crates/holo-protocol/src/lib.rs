//! Types of the plugin interface: messages and their formats, independent of their transport.
//!
//! This crate does no I/O, spawns no processes and does not read the environment. `holo-plugin-interface(7)` describes
//! the formats for authors of plugins; change that page with this crate.

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
pub mod registration;
mod replaced;
pub mod report;
pub mod sent;
pub mod session;
mod text;
mod touched;
mod witness;
pub mod words;

pub use adoption::{AdoptMessage, Adoption, Candidate, CandidateKind};
pub use controls::{ControlError, Controls, Limit, OnEdit, Schedule, Semaphore};
pub use diagnosis::{Diagnosis, Level};
pub use difference::{FilePair, Label};
pub use environment::{API_VERSION_3, API_VERSION_4};
pub use health::{Health, HealthState};
pub use info::Info;
pub use limit::{Claims, ScanLimit};
pub use message::Message;
pub use message::Progress;
pub use origin::{Origin, Span};
pub use registration::{Registration, RegistrationError};
pub use replaced::{Kept, Replaced};
pub use report::{Action, Asset, Edges, EntityReport, Information, Receipt};
pub use sent::Sent;
pub use text::Text;
pub use touched::{Touched, TouchedError, WatchLine};
pub use witness::{Witness, WitnessKind};
