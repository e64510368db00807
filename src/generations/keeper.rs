//! Records a generation concurrently with a run, from its first change on.

use super::recording::{self, Recorded, RecordingError, Request};
use super::store::Store;
use crate::report::{End, Event, Remarks, Reporter};
use crate::resources::Resources;
use crate::retention::Retention;
use crate::settings::Settings;
use std::fs;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

/// Records the inputs of a run that changes entities.
///
/// A run that is killed after its last change has not recorded its inputs, and the next one may have no work to do.
/// Therefore a marker file states that a run may have changed entities, and the next run records the inputs on its
/// behalf.
pub struct Keeper {
    /// The inputs to record; `None` if history is disabled or the inputs belong to a recorded generation.
    request: Option<Request>,
    store: Store,
    reading: Option<Reading>,
}

type Reading = JoinHandle<Result<Recorded, RecordingError>>;

impl Keeper {
    /// Starts to observe a run that may change entities.
    #[must_use]
    pub fn begin(settings: &Settings, resources: &Resources) -> Keeper {
        let root = &settings.root;
        let request = || Request {
            root: root.clone(),
            virtual_root: resources.virtual_root().to_owned(),
            generated: resources.generated().clone(),
        };
        let keeps = settings.keeps_history && root.inputs().is_none();
        let mut keeper = Keeper { request: keeps.then(request), store: Store::new(root), reading: None };
        if !keeps {
            return keeper;
        }
        if keeper.store.unrecorded().exists() {
            keeper.start();
        } else {
            // If this file cannot be written, the generation cannot be either, which is reported when there is one to
            // record.
            let unrecorded = keeper.store.unrecorded();
            let _ = keeper.store.create().and_then(|()| fs::write(unrecorded, settings.run.as_str()));
        }
        keeper
    }

    /// Starts to read the inputs while the run continues.
    fn start(&mut self) {
        if let Some(request) = self.request.take() {
            self.reading = thread::Builder::new().spawn(move || recording::read(request)).ok();
        }
    }

    /// Records the inputs as a generation, if an entity was changed and they differ from the last generation. A failure
    /// is reported, but does not fail the run. `elsewhere` returns files outside of the inputs that definitions refer
    /// to.
    pub fn finish(self, settings: &Settings, elsewhere: impl FnOnce() -> Vec<PathBuf>, reporter: &mut dyn Reporter) {
        match self.keep(settings, elsewhere) {
            Ok(()) => {}
            Err(error) => {
                reporter.warning(format!("Not keeping the inputs of this run: {error}"));
                reporter.end_paragraph();
            }
        }
    }

    fn keep(self, settings: &Settings, elsewhere: impl FnOnce() -> Vec<PathBuf>) -> Result<(), RecordingError> {
        if self.request.is_none() && self.reading.is_none() {
            return Ok(());
        }
        let kept = match self.reading.map(JoinHandle::join) {
            None => None,
            Some(Ok(read)) => match read? {
                Recorded::Same(number) => Some(number),
                Recorded::New(reading) => {
                    let run = settings.run.as_str();
                    let since = fs::read_to_string(self.store.unrecorded()).unwrap_or_default();
                    let since = if since.is_empty() { run } else { &since };
                    let (retention, _) = Retention::read(&settings.root);
                    Some(reading.keep(run, since, &elsewhere(), retention.generations.keep)?)
                }
            },
            // The thread panicked.
            Some(Err(_)) => return Ok(()),
        };
        let _ = fs::remove_file(self.store.unrecorded());
        // Remove the directory if there is no generation.
        if kept.is_none() && fs::remove_dir(&self.store.directory).is_ok() {
            let _ = self.store.directory.parent().map(fs::remove_dir);
        }
        Ok(())
    }

    /// Returns a reporter that watches for changes, and forwards all events.
    pub fn observe<'a>(&'a mut self, reporter: &'a mut dyn Reporter) -> Observer<'a> {
        Observer { keeper: self, reporter }
    }
}

/// Starts a keeper at the first change.
pub struct Observer<'a> {
    keeper: &'a mut Keeper,
    reporter: &'a mut dyn Reporter,
}

impl Reporter for Observer<'_> {
    fn event(&mut self, event: Event<'_>) {
        // A failed entity may have changed before it failed.
        if matches!(event, Event::End(_, End::Changed | End::Failed, _)) {
            self.keeper.start();
        }
        self.reporter.event(event);
    }

    fn is_read(&self) -> bool {
        self.reporter.is_read()
    }
}
