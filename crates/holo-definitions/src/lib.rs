//! Definitions: TOML files deserialized into types, with the location of every error.
//!
//! [`reading`] is the base: it deserializes a table into a type, and explains which key is wrong. [`Definitions`] are
//! all tables of one type in the files of a directory. A [`Definition`] has the keys of its own type in addition to the
//! [`CommonKeys`].
//!
//! ```
//! use holo_definitions::{Definition, Definitions, LocatedError, NothingReceived, Rendered, Templates};
//!
//! #[derive(serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Greeting {
//!     name: String,
//! }
//!
//! impl Definition for Greeting {
//!     const TABLE: &'static str = "greeting";
//! }
//!
//! struct NoTemplates;
//!
//! impl Templates for NoTemplates {
//!     fn render(&self, _: &str, text: &str) -> Result<Rendered, LocatedError> {
//!         Ok(Rendered::new(text.to_owned()))
//!     }
//!
//!     fn holds(&self, _: &str) -> Result<bool, LocatedError> {
//!         Ok(true)
//!     }
//! }
//!
//! let folder = tempfile::tempdir().unwrap();
//! std::fs::write(folder.path().join("a.toml"), "[[greeting]]\nname = \"world\"\nretries = 2\n").unwrap();
//! let definitions = Definitions::<Greeting>::read(&folder.path().to_owned().into(), &NoTemplates, &NothingReceived).0;
//! let world = &definitions.valid["greeting:world"];
//! assert_eq!((world.definition.name.as_str(), world.common.keys.retries), ("world", 2));
//! ```

mod command;
mod common;
mod declarations;
mod definition;
mod definitions;
mod finding;
mod hidden;
mod outline;
pub mod reading;
mod receive;
mod resource_dirs;
#[cfg(feature = "schema")]
mod schema;
mod source;
mod stack;
mod templates;
#[cfg(test)]
mod testing;
mod tolerant;
mod untyped;
pub mod values;

pub use command::{Command, CommandError, WrittenCommand};
pub use common::{CommonKeys, Contradiction, HealthCheck, IdLocation, Probe, Receipt, Receipts};
pub use declarations::{Declaration, Declarations, NoDeclaration};
pub use definition::{Definition, Invalid, NameError, NameKeys};
pub use definitions::{Common, Defined, DefinitionSet, Definitions, KnownFiles, read_several, read_some_of_several};
pub use finding::{DefinitionError, Finding, LocatedError, Location};
pub use hidden::exposed_files;
pub use holo_protocol::{Registration, duration, registration};
pub use outline::{OutlinedTable, TableId};
pub use reading::value_error::{did_you_mean, similar};
pub use reading::{DocumentError, parse_document, read_document};
pub use receive::{
    Candidate, Filled, Hindrance, Keys, NothingReceived, ReceiveError, Received, ReceivedFile, ReceivedValue, fill_with,
};
pub use resource_dirs::{ListError, MaskedError, ResourceDirs, ResourceFile};
#[cfg(feature = "schema")]
pub use schema::{file_schema, schema, schema_with, table_schema};
pub use source::FileState;
pub use templates::{Rendered, Templates};
pub use untyped::UntypedDefinition;
pub use values::{Glob, GlobError, Globs};

/// Deserializers of single values, for serde's `deserialize_with`.
pub mod readers {
    #[cfg(feature = "schema")]
    pub use crate::common::DurationSchema;
    pub use crate::common::{ScheduleTable, duration, interval, schedule};
}
