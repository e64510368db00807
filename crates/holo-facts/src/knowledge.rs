//! Facts and data, found out when they are first asked for.

mod reads;
mod scope;

pub use reads::is_template;

use crate::data::{Data, Layer};
use crate::facts::Facts;
use crate::template::Templates;
use crate::warning::Warning;
use holo_definitions::LocatedError;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Facts and data of a system. Copies share what they have found out.
#[derive(Clone, Debug)]
pub struct Knowledge(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    /// The directory below which data and the machine's own facts are.
    inputs: PathBuf,
    file_of_run: Option<PathBuf>,
    /// More data, stronger than all other, and the knowledge that has the rest.
    layer: Option<(Layer, Knowledge)>,
    /// True if that layer is all the data that there is.
    layer_only: bool,
    facts: OnceLock<Facts>,
    data: OnceLock<Result<Data, LocatedError>>,
    warnings: Mutex<Vec<Warning>>,
}

impl Knowledge {
    /// Creates the knowledge of the system below the root, whose path is shown as it is given. Nothing is asked yet.
    ///
    /// If the run has a file for its facts, they are gathered only if they are not in there.
    #[must_use]
    pub fn new(root: &Path, file_of_run: Option<&Path>) -> Knowledge {
        Knowledge::with(root, root, file_of_run, None, false)
    }

    /// Creates the same, with data and sources of facts that are below another directory than the root.
    #[must_use]
    pub fn with_inputs(root: &Path, inputs: &Path, file_of_run: Option<&Path>) -> Knowledge {
        Knowledge::with(root, inputs, file_of_run, None, false)
    }

    fn with(
        root: &Path,
        inputs: &Path,
        file_of_run: Option<&Path>,
        layer: Option<(Layer, Knowledge)>,
        layer_only: bool,
    ) -> Knowledge {
        Knowledge(Arc::new(Inner {
            root: root.to_owned(),
            inputs: inputs.to_owned(),
            file_of_run: file_of_run.map(Path::to_owned),
            layer,
            layer_only,
            facts: OnceLock::new(),
            data: OnceLock::new(),
            warnings: Mutex::default(),
        }))
    }

    /// The same with another layer of data, more specific than all others, from a file as the user knows it. The facts are shared.
    #[must_use]
    pub fn with_layer(&self, from: &Path, table: Map<String, Value>) -> Knowledge {
        self.layered(from, table, false)
    }

    /// The same with other data instead of all that there is, from a file as the user knows it. The facts are shared.
    #[must_use]
    pub fn with_data(&self, from: &Path, table: Map<String, Value>) -> Knowledge {
        self.layered(from, table, true)
    }

    fn layered(&self, from: &Path, table: Map<String, Value>, only: bool) -> Knowledge {
        let layer = Layer { from: from.to_owned(), table };
        let Inner { root, inputs, file_of_run, .. } = &*self.0;
        Knowledge::with(root, inputs, file_of_run.as_deref(), Some((layer, self.clone())), only)
    }

    /// The facts.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        if let Some((_, beside)) = &self.0.layer {
            return beside.facts();
        }
        self.0.facts.get_or_init(|| {
            let (facts, warnings) = match &self.0.file_of_run {
                Some(file) => Facts::of_run(&self.0.root, &self.0.inputs, file),
                None => Facts::gather(&self.0.root, &self.0.inputs),
            };
            self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner).extend(warnings);
            facts
        })
    }

    /// The data.
    ///
    /// # Errors
    /// If a file of data, or the hierarchy, is not as it should be.
    pub fn data(&self) -> Result<&Data, LocatedError> {
        let own = self.0.layer.as_ref().map(|(layer, _)| layer);
        let read = || match own {
            Some(own) if self.0.layer_only => Ok(Data::of(own)),
            own => Data::read(&self.0.inputs, || scope::of_facts(self), own),
        };
        self.0.data.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    /// Returns templates in whose scope are `facts`, `data` and `lookup`. Each is asked for only if a template does so.
    #[must_use]
    pub fn templates(&self) -> Templates {
        scope::of_all(self)
    }

    /// The warnings that have come up since this was asked last; each is to be shown once.
    #[must_use]
    pub fn take_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut *self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
