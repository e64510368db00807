//! Bridges: plugins that let modules of other systems work as entities, unchanged.
//!
//! A *module* is a program that somebody wrote for another system. A definition names it and gives it [attributes](Attributes); what of
//! those nobody may see is [sensitive](Sensitive). An [`Invocation`] is how a module is started, after it was [examined](trust). Entities of
//! one module are worked on [one after the other](order). Where modules must not be started, a [store](DigestStore) remembers
//! what was said to be done.

mod attributes;
mod digests;
mod faults;
mod interpreter;
mod invocation;
pub mod limits;
pub mod order;
mod sensitive;
pub mod shown;
#[cfg(feature = "testing")]
pub mod testing;
pub mod trust;

pub use attributes::{Attributes, text, texts};
pub use digests::{DigestStore, digest};
pub use faults::Faults;
pub use interpreter::Interpreter;
pub use invocation::{Invocation, StartError, examine_interpreter, set_environment};
pub use sensitive::{HIDDEN, Sensitive};

/// The reason that is shown for what an orphan's apply does.
pub const NO_DEFINITION: &str = "no definition is left";
