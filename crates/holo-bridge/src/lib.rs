//! Bridges: plugins that run unmodified modules of other systems as entities.
//!
//! A *module* is a program written for another system. A definition names it and passes it [attributes](Attributes),
//! some of which may be [sensitive](Sensitive). An [`Invocation`] describes how a module is started, after it was
//! [checked](trust). Entities of the same module are processed [sequentially](order). If modules must not be started, a
//! [store](DigestStore) records the changes that were claimed.

mod attributes;
mod digests;
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
pub use interpreter::Interpreter;
pub use invocation::Faults;
pub use invocation::{Invocation, StartError, examine_interpreter, set_environment};
pub use sensitive::{HIDDEN, Sensitive, escaped};

/// The reason shown for the apply of an orphan.
pub const NO_DEFINITION: &str = "no definition is left";
