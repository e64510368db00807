//! Facts about a machine, data for it, and templates over both.
//!
//! [`Knowledge`] is the entry point: it gathers facts and reads data on first use, and [`Templates`] and expressions
//! only load what they use. `holo-facts(7)` describes them for users.
//!
//! ```
//! use holo_facts::Knowledge;
//!
//! let root = tempfile::tempdir().unwrap();
//! let knowledge = Knowledge::new(root.path(), None);
//! let templates = knowledge.templates();
//! let text = templates.render("motd", "Hello from {{ facts.kernel.name }}\n", &Default::default()).unwrap();
//! assert_eq!(text, "Hello from Linux\n");
//! assert!(templates.expression("facts.memory.total > 0").unwrap().holds().unwrap());
//! ```

pub(crate) mod data;
mod document;
mod facts;
pub mod key;
mod knowledge;
pub mod page;
mod registry;
mod template;
mod yaml;

pub use data::{Data, Origin, Standing};
pub use document::{YamlError, from_toml, from_yaml, to_yaml};
pub use facts::{Facts, Warning};
pub use holo_definitions::{LocatedError, Rendered};
pub use knowledge::{Knowledge, Renderer, is_template, shown};
pub use registry::{SNAPSHOT as REGISTRY_SNAPSHOT, prometheus_file_sd};
pub use template::{Expression, FunctionError, Templates, holds};
