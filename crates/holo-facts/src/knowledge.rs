//! Facts and data, loaded on first use.

mod scope;

pub use scope::{Renderer, is_template, shown};

use crate::data::{Data, Layer, Secrets};
use crate::facts::{Facts, Warning};
use crate::registry;
use crate::template::Templates;
use holo_definitions::LocatedError;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Facts and data of a system. Copies share what has been loaded.
#[derive(Clone, Debug)]
pub struct Knowledge(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    /// The directory that contains data and custom facts.
    inputs: PathBuf,
    file_of_run: Option<PathBuf>,
    /// An additional layer of data with the highest precedence.
    layer: Option<Layer>,
    /// True if the additional layer replaces all other data.
    layer_only: bool,
    /// The instance that holds the facts, if it is another one.
    beside: Option<Knowledge>,
    /// True if encrypted values are replaced with look-alikes.
    is_disguised: bool,
    secrets: Arc<Secrets>,
    disguised: OnceLock<Knowledge>,
    /// The error for a secret that cannot be decrypted, but was used as a part of another value.
    unopened: Mutex<Option<LocatedError>>,
    facts: OnceLock<Facts>,
    data: OnceLock<Result<Data, LocatedError>>,
    warnings: Mutex<Vec<Warning>>,
    /// Whether facts, data or other sources that are not files have been used, by any instance that shares them.
    is_used: Arc<AtomicBool>,
    registry: Arc<Registry>,
}

/// The services that are registered with the fleet, shared by all instances.
#[derive(Debug, Default)]
struct Registry {
    services: OnceLock<Result<Vec<Value>, LocatedError>>,
    is_read: AtomicBool,
}

impl Knowledge {
    /// Creates an instance for the system below the root, whose path is shown as given. Nothing is loaded yet.
    ///
    /// If the run has a file for facts, they are gathered only if the file does not contain them.
    #[must_use]
    pub fn new(root: &Path, file_of_run: Option<&Path>) -> Knowledge {
        Knowledge::with_inputs(root, root, file_of_run)
    }

    /// Like `new`, but data and custom facts are below another directory than the root.
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
            is_used: Arc::default(),
            registry: Arc::default(),
        }))
    }

    /// Notes that something else was used that is not a file, such as the environment.
    pub fn note_use(&self) {
        self.0.is_used.store(true, Ordering::Relaxed);
    }

    /// Returns true if facts or data have been used, so that what was found out may rest on them.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.0.is_used.load(Ordering::Relaxed)
    }

    /// Returns an instance with other data, which shares facts and decrypted secrets.
    fn beside(&self, layer: Option<Layer>, layer_only: bool, is_disguised: bool) -> Knowledge {
        let Inner { root, inputs, secrets, is_used, registry, .. } = &*self.0;
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
            is_used: Arc::clone(is_used),
            registry: Arc::clone(registry),
        }))
    }

    /// Returns an instance with an additional layer of data, more specific than all others, from a file as shown to the
    /// user. Facts are shared.
    #[must_use]
    pub fn with_layer(&self, from: &Path, table: Map<String, Value>) -> Knowledge {
        self.beside(Some(Layer { from: from.to_owned(), table }), false, self.0.is_disguised)
    }

    /// Returns an instance whose only data is this table, from a file as shown to the user. Facts are shared.
    #[must_use]
    pub fn with_data(&self, from: &Path, table: Map<String, Value>) -> Knowledge {
        self.beside(Some(Layer { from: from.to_owned(), table }), true, self.0.is_disguised)
    }

    /// Returns an instance with look-alikes for encrypted values: if a result differs from that of `self`, it contains
    /// secrets and must not be shown. `None` if no encrypted values have been found in the data so far.
    #[must_use]
    pub fn disguised(&self) -> Option<&Knowledge> {
        let twin = || self.beside(self.0.layer.clone(), self.0.layer_only, true);
        self.0.secrets.are_seen().then(|| self.0.disguised.get_or_init(twin))
    }

    /// Records the error for a secret that cannot be decrypted, which the template engine cannot report.
    fn note_unopened(&self, error: &LocatedError) {
        *self.0.unopened.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
    }

    /// Returns the error for a secret that cannot be decrypted, but was used as a part of a table or list since the
    /// last call. If there is one, texts rendered since then are invalid.
    #[must_use]
    pub fn take_unopened(&self) -> Option<LocatedError> {
        self.0.unopened.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the facts.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        if let Some(beside) = &self.0.beside {
            return beside.facts();
        }
        self.note_use();
        self.0.facts.get_or_init(|| {
            let (facts, warnings) = match &self.0.file_of_run {
                Some(file) => Facts::of_run(&self.0.root, &self.0.inputs, file),
                None => Facts::gather(&self.0.root, &self.0.inputs),
            };
            self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner).extend(warnings);
            facts
        })
    }

    /// Returns the data.
    ///
    /// # Errors
    /// If a data file or the hierarchy is invalid.
    pub fn data(&self) -> Result<&Data, LocatedError> {
        let Inner { layer, secrets, .. } = &*self.0;
        let read = || {
            let data = match layer.as_ref() {
                Some(own) if self.0.layer_only => Data::of(own, secrets),
                own => Data::read(&self.0.inputs, || scope::of_facts(self), own, secrets)?,
            };
            Ok(if self.0.is_disguised { data.disguised() } else { data })
        };
        let data = self.0.data.get_or_init(read).as_ref().map_err(Clone::clone);
        // A table in a definition is part of the definition, but the keys of encrypted values are not.
        if !self.0.layer_only || secrets.are_seen() {
            self.note_use();
        }
        data
    }

    /// Returns the services in the registry of the fleet with these values of cluster, protocol, service and address, where
    /// `*`, or no value, stands for any.
    ///
    /// # Errors
    /// If the snapshot of the registry cannot be read.
    pub fn registrations(&self, wanted: &[&str]) -> Result<Vec<Value>, LocatedError> {
        let Registry { services, is_read } = &*self.0.registry;
        is_read.store(true, Ordering::Relaxed);
        self.note_use();
        let services = services.get_or_init(|| registry::read(&self.0.root)).as_ref().map_err(Clone::clone)?;
        Ok(registry::select(services, wanted))
    }

    /// Returns true if the registry has been read, or would have been if there were one.
    #[must_use]
    pub fn reads_registry(&self) -> bool {
        self.0.registry.is_read.load(Ordering::Relaxed)
    }

    /// Returns templates with `facts`, `data`, `lookup` and `registrations` in scope. Each is loaded only if a template uses it.
    #[must_use]
    pub fn templates(&self) -> Templates {
        scope::of_all(self)
    }

    /// Returns a renderer with the same scope, which detects whether results contain encrypted data.
    #[must_use]
    pub fn renderer(&self) -> Renderer {
        Renderer::new(self)
    }

    /// Returns the warnings since the last call, so that each is shown once.
    #[must_use]
    pub fn take_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut *self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
