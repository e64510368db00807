//! The facts that are known of a machine, the data that is said about it, and templates over both.
//!
//! [`Knowledge`] is the way in: it gathers facts and reads data when somebody first asks, and [`Templates`] and expressions ask only
//! if they use them. The words that users see are in `holo-facts(7)`.
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

mod data;
mod document;
mod facts;
pub mod key;
mod knowledge;
mod template;
mod warning;
mod yaml;

pub use data::{Data, Origin, Standing};
pub use document::{YamlError, from_toml, from_yaml, to_yaml};
pub use facts::Facts;
pub use holo_definitions::{LocatedError, Rendered};
pub use knowledge::{Knowledge, Renderer, is_template, shown};
pub use template::{Expression, FunctionError, Templates};
pub use warning::Warning;
