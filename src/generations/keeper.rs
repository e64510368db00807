//! Keeps a generation beside a run, from its first change on.

use super::recording::{self, Recorded, RecordingError, Request};
use super::store::Store;
use crate::report::{End, Event, Reporter};
use crate::resources::Resources;
use crate::root::Root;
use std::fs::{self, File};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

/// Keeps the inputs of a run that changes something.
///
/// A run that is killed after its last change has not kept them, and the next one may have nothing to do. So a file says that a run may have
/// changed something, and the next one keeps the inputs for it.
pub struct Keeper {
    store: Store,
    request: Request,
    reading: Option<Reading>,
}

type Reading = JoinHandle<Result<Recorded, RecordingError>>;

impl Keeper {
    /// Begins to look at a run that may change something.
    #[must_use]
    pub fn begin(root: &Root, resources: &Resources) -> Keeper {
        let request = Request {
            root: root.clone(),
            virtual_root: resources.virtual_root().to_owned(),
            generated: resources.generated().clone(),
        };
        let mut keeper = Keeper { store: Store::new(root), request, reading: None };
        if keeper.store.unrecorded().exists() {
            keeper.start();
        } else {
            // If it cannot be written, nothing else can: that is told once there is something to keep.
            let _ = keeper.store.create().and_then(|()| File::create(keeper.store.unrecorded()));
        }
        keeper
    }

    /// Reads the inputs, while the run goes on.
    fn start(&mut self) {
        if self.reading.is_none() {
            let request = self.request.clone();
            self.reading = thread::Builder::new().spawn(move || recording::read(request)).ok();
        }
    }

    /// Keeps the inputs as a generation, if something was changed and they are not those of the last one. Returns its number then.
    ///
    /// # Errors
    /// If they cannot be read, or nothing can be written.
    pub fn finish(
        self,
        run: &str,
        elsewhere: impl FnOnce() -> Vec<PathBuf>,
        keep: usize,
    ) -> Result<Option<u32>, RecordingError> {
        let kept = match self.reading.map(JoinHandle::join) {
            None => None,
            Some(Ok(read)) => match read? {
                Recorded::Same(_) => None,
                Recorded::New(reading) => Some(reading.keep(run, &elsewhere(), keep)?),
            },
            // The thread did not come to its end.
            Some(Err(_)) => return Ok(None),
        };
        let _ = fs::remove_file(self.store.unrecorded());
        // There may be no generation at all.
        if kept.is_none() && fs::remove_dir(&self.store.directory).is_ok() {
            let _ = self.store.directory.parent().map(fs::remove_dir);
        }
        Ok(kept)
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
        if matches!(event, Event::End(_, End::Changed)) {
            self.keeper.start();
        }
        self.reporter.event(event);
    }

    fn is_read(&self) -> bool {
        self.reporter.is_read()
    }
}
