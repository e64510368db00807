//! State shared by all promises of a process: running modules, and records about modules.

use crate::module::Module;
use holo_bridge::{DigestStore, Interpreter, Invocation};
use holo_plugin::process::end_together;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The timeout for all modules to end. The dispatcher only waits twice as long for the plugin.
const END_LIMIT: Duration = Duration::from_secs(1);
/// The file with the modules that have changed the system in a dry run.
const DISTRUSTED: &str = ".distrusted";

/// A module declared by a definition.
#[derive(Debug)]
pub(crate) struct DeclaredModule {
    pub(crate) invocation: Arc<Invocation>,
    /// The kind of asset that a promiser is.
    pub(crate) provides: Option<String>,
    /// The canonical path of the file.
    pub(crate) real_file: PathBuf,
}

impl DeclaredModule {
    pub(crate) fn new(invocation: Invocation, provides: Option<String>) -> DeclaredModule {
        DeclaredModule { real_file: invocation.real_file(), invocation: Arc::new(invocation), provides }
    }
}

/// The key of a running module: its file and its interpreter.
type ModuleKey = (PathBuf, Option<Interpreter>);

/// Running modules, and records about modules.
#[derive(Debug)]
pub(crate) struct Context {
    modules: Mutex<BTreeMap<ModuleKey, Arc<Mutex<Module>>>>,
    pub(crate) mocks: DigestStore,
    pub(crate) distrusted: DigestStore,
}

impl Default for Context {
    fn default() -> Context {
        Context { modules: Mutex::default(), mocks: DigestStore::for_mocks(), distrusted: DigestStore::new(DISTRUSTED) }
    }
}

impl Context {
    /// Returns the running module of a declared one. Types that share a file and an interpreter share it.
    pub(crate) fn module(&self, declared: &DeclaredModule) -> Arc<Mutex<Module>> {
        let key = (declared.real_file.clone(), declared.invocation.interpreter().cloned());
        let mut modules = lock(&self.modules);
        let module =
            modules.entry(key).or_insert_with(|| Arc::new(Mutex::new(Module::new(Arc::clone(&declared.invocation)))));
        Arc::clone(module)
    }

    /// Ends all modules.
    pub(crate) fn end(&self) {
        let modules = std::mem::take(&mut *lock(&self.modules));
        let conversations = modules.values().filter_map(|module| lock(module).terminate()).collect();
        let ends = end_together(conversations, END_LIMIT, &mut |_, line| {
            // Stderr may be closed.
            let _ = std::io::stderr().write_all(&[line, b"\n"].concat());
        });
        // They have no work left, so their exit statuses are irrelevant.
        drop(ends);
    }
}

/// Locks a value that stays valid even if another thread has panicked while holding the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
