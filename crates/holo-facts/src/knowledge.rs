//! Facts and data, found out when they are first asked for.

mod reads;
mod renderer;
mod scope;

pub use reads::is_template;
pub use renderer::{Renderer, shown};

use crate::data::{Data, Layer, Secrets};
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
    /// More data, stronger than all other.
    layer: Option<Layer>,
    /// True if that layer is all the data that there is.
    layer_only: bool,
    /// The knowledge that has the facts, if it is another one.
    beside: Option<Knowledge>,
    /// True if look-alikes count instead of what is encrypted.
    is_disguised: bool,
    secrets: Arc<Secrets>,
    disguised: OnceLock<Knowledge>,
    /// The error of something that cannot be decrypted and has been used as a part of something else.
    unopened: Mutex<Option<LocatedError>>,
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
        Knowledge::with_inputs(root, root, file_of_run)
    }

    /// Creates the same, with data and sources of facts that are below another directory than the root.
    #[must_use]
    pub fn with_inputs(root: &Path, inputs: &Path, file_of_run: Option<&Path>) -> Knowledge {
        Knowledge(Arc::new(Inner {
            root: root.to_owned(),
            inputs: inputs.to_owned(),
            file_of_run: file_of_run.map(Path::to_owned),
            layer: None,
            layer_only: false,
            beside: None,
            is_disguised: false,
            secrets: Arc::new(Secrets::new(root)),
            disguised: OnceLock::new(),
            unopened: Mutex::default(),
            facts: OnceLock::new(),
            data: OnceLock::new(),
            warnings: Mutex::default(),
        }))
    }

    /// The same with other data; the facts are shared, and what has been decrypted.
    fn beside(&self, layer: Option<Layer>, layer_only: bool, is_disguised: bool) -> Knowledge {
        let Inner { root, inputs, secrets, .. } = &*self.0;
        Knowledge(Arc::new(Inner {
            root: root.clone(),
            inputs: inputs.clone(),
            file_of_run: None,
            layer,
            layer_only,
            beside: Some(self.clone()),
            is_disguised,
            secrets: Arc::clone(secrets),
            disguised: OnceLock::new(),
            unopened: Mutex::default(),
            facts: OnceLock::new(),
            data: OnceLock::new(),
            warnings: Mutex::default(),
        }))
    }

    /// The same with another layer of data, more specific than all others, from a file as the user knows it. The facts are shared.
    #[must_use]
    pub fn with_layer(&self, from: &Path, table: Map<String, Value>) -> Knowledge {
        self.beside(Some(Layer { from: from.to_owned(), table }), false, self.0.is_disguised)
    }

    /// The same with other data instead of all that there is, from a file as the user knows it. The facts are shared.
    #[must_use]
    pub fn with_data(&self, from: &Path, table: Map<String, Value>) -> Knowledge {
        self.beside(Some(Layer { from: from.to_owned(), table }), true, self.0.is_disguised)
    }

    /// The same with look-alikes instead of what is encrypted in data: whatever differs when it is made of these holds something that is not
    /// to be shown. None if nothing encrypted has been seen in data so far.
    #[must_use]
    pub fn disguised(&self) -> Option<&Knowledge> {
        let twin = || self.beside(self.0.layer.clone(), self.0.layer_only, true);
        self.0.secrets.are_seen().then(|| self.0.disguised.get_or_init(twin))
    }

    /// Notes that something has been used in which this cannot be decrypted: the engine of templates has no words for that.
    fn note_unopened(&self, error: &LocatedError) {
        *self.0.unopened.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
    }

    /// Returns the error of something that cannot be decrypted and has been used as a part of a table or list since this was asked last.
    /// Whatever has been rendered meanwhile does not count.
    #[must_use]
    pub fn take_unopened(&self) -> Option<LocatedError> {
        self.0.unopened.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The facts.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        if let Some(beside) = &self.0.beside {
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
        let Inner { layer, secrets, .. } = &*self.0;
        let read = || {
            let data = match layer.as_ref() {
                Some(own) if self.0.layer_only => Data::of(own, secrets),
                own => Data::read(&self.0.inputs, || scope::of_facts(self), own, secrets)?,
            };
            Ok(if self.0.is_disguised { data.disguised() } else { data })
        };
        self.0.data.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    /// Returns templates in whose scope are `facts`, `data` and `lookup`. Each is asked for only if a template does so.
    #[must_use]
    pub fn templates(&self) -> Templates {
        scope::of_all(self)
    }

    /// Returns what renders templates with the same scope, and says if something in the results is encrypted in data.
    #[must_use]
    pub fn renderer(&self) -> Renderer {
        Renderer::new(self)
    }

    /// The warnings that have come up since this was asked last; each is to be shown once.
    #[must_use]
    pub fn take_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut *self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
