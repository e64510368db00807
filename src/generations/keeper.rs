//! Keeps a generation beside a run, from its first change on.

use super::recording::{self, Recorded, RecordingError, Request};
use super::store::Store;
use crate::report::{End, Event, Remarks, Reporter};
use crate::resources::Resources;
use crate::retention::Retention;
use crate::settings::Settings;
use std::fs;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

/// Keeps the inputs of a run that changes something.
///
/// A run that is killed after its last change has not kept them, and the next one may have nothing to do. So a file says that a run may have
/// changed something, and the next one keeps the inputs for it.
pub struct Keeper {
    /// What is to be kept; nothing if nobody wants that, or the inputs are those of a generation.
    request: Option<Request>,
    store: Store,
    reading: Option<Reading>,
}

type Reading = JoinHandle<Result<Recorded, RecordingError>>;

impl Keeper {
    /// Begins to look at a run that may change something.
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
            // If it cannot be written, nothing else can: that is told once there is something to keep.
            let unrecorded = keeper.store.unrecorded();
            let _ = keeper.store.create().and_then(|()| fs::write(unrecorded, settings.run.as_str()));
        }
        keeper
    }

    /// Reads the inputs, while the run goes on.
    fn start(&mut self) {
        if let Some(request) = self.request.take() {
            self.reading = thread::Builder::new().spawn(move || recording::read(request)).ok();
        }
    }

    /// Keeps the inputs as a generation, if something was changed and they are not those of the last one. That it cannot be is said, and no reason
    /// for the run to fail. `elsewhere` are the paths of files that define something outside of all inputs.
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
            // The thread did not come to its end.
            Some(Err(_)) => return Ok(()),
        };
        let _ = fs::remove_file(self.store.unrecorded());
        // There may be no generation at all.
        if kept.is_none() && fs::remove_dir(&self.store.directory).is_ok() {
            let _ = self.store.directory.parent().map(fs::remove_dir);
        }
        Ok(())
    }

    /// Returns a reporter that looks for changes, and hands on everything.
    pub fn observe<'a>(&'a mut self, reporter: &'a mut dyn Reporter) -> Observer<'a> {
        Observer { keeper: self, reporter }
    }
}

/// Has a keeper begin with the first change.
pub struct Observer<'a> {
    keeper: &'a mut Keeper,
    reporter: &'a mut dyn Reporter,
}

impl Reporter for Observer<'_> {
    fn event(&mut self, event: Event<'_>) {
        // What has failed may have changed something before.
        if matches!(event, Event::End(_, End::Changed | End::Failed, _)) {
            self.keeper.start();
        }
        self.reporter.event(event);
    }

    fn is_read(&self) -> bool {
        self.reporter.is_read()
    }
}
