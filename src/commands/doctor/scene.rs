//! The state of the machine that the checks examine.

use crate::config::{self, ConfigError, Configuration};
use crate::discovery::discover_what_answers;
use crate::error::FatalError;
use crate::interrupt::Interrupt;
use crate::inventory::{Inventory, Purpose};
use crate::limited::Interest;
use crate::report::{Event, Remark, Reporter};
use crate::root::Root;
use crate::settings::Settings;
use std::path::Path;

/// The state of the machine that the checks examine: the root, its configuration, and the result of discovery.
pub(in crate::commands) struct Scene<'a> {
    pub(super) root: &'a Root,
    pub(super) temporary_directory: &'a Path,
    pub(super) configuration: Result<Configuration, ConfigError>,
    /// The remarks made during discovery.
    pub(super) remarks: Vec<Remark<'static>>,
    /// The plugins that answered, and their entities; `None` if discovery failed.
    pub(in crate::commands) inventory: Option<Inventory>,
}

impl<'a> Scene<'a> {
    /// Reads the configuration, and scans the plugins.
    ///
    /// # Errors
    /// If the run must end.
    pub(in crate::commands) fn take(settings: &'a Settings, interrupt: &Interrupt) -> Result<Scene<'a>, FatalError> {
        let configuration = config::read(&settings.root);
        let mut heard = Heard::default();
        let inventory = if configuration.is_ok() {
            let everything = Interest::Selectors(&[]);
            // Hints contain the remedies.
            let settings = Settings { gives_hints: true, ..settings.clone() };
            match discover_what_answers(&settings, Purpose::Check, everything, interrupt, &mut heard) {
                Ok(inventory) => Some(inventory),
                Err(fatal @ (FatalError::Interrupted { .. } | FatalError::TimeIsOver { .. })) => return Err(fatal),
                Err(fatal) => {
                    heard.0.extend(fatal.message().map(|message| Remark::error(&message).into_owned()));
                    None
                }
            }
        } else {
            None
        };
        let temporary_directory = &settings.temporary_directory;
        Ok(Scene { root: &settings.root, temporary_directory, configuration, remarks: heard.0, inventory })
    }
}

/// Collects remarks.
#[derive(Default)]
struct Heard(Vec<Remark<'static>>);

impl Reporter for Heard {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Remark(remark) = event {
            self.0.push(remark.into_owned());
        }
    }
}
