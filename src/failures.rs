//! The plugins that could not be asked which entities they have, and how far a run goes on without them.

use crate::error::FatalError;
use crate::report::Provisional;
use holo_protocol::API_VERSION_3;

/// The failures of plugins that do not end a run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// None: everything is asked for.
    Nothing,
    /// Those of plugins that are known to speak version 3, whose entities cannot subscribe to anything. A change must not be made while
    /// it is not known whose refresh it makes due.
    Version3,
    /// All.
    Everything,
}

/// The plugins that have failed so far.
#[derive(Debug)]
pub struct Failures {
    tolerance: Tolerance,
    plugins: Vec<Failed>,
}

/// A plugin that has failed.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Its ID.
    pub plugin_id: String,
    /// The version of the interface that it speaks, if that is known.
    pub version: Option<u32>,
}

impl Failures {
    /// Returns a list without failures.
    #[must_use]
    pub fn new(tolerance: Tolerance) -> Failures {
        Failures { tolerance, plugins: Vec::new() }
    }

    /// Adds a plugin whose failure has just been reported. If it is tolerated, all remarks are held back from now on, until it is known
    /// if the run can do without the plugin.
    ///
    /// # Errors
    /// If it is not tolerated.
    pub fn add(
        &mut self,
        plugin_id: &str,
        version: Option<u32>,
        remarks: &mut Provisional<'_>,
    ) -> Result<(), FatalError> {
        let is_tolerated = match self.tolerance {
            Tolerance::Nothing => false,
            Tolerance::Version3 => version == Some(API_VERSION_3),
            Tolerance::Everything => true,
        };
        if !is_tolerated {
            return Err(FatalError::Reported);
        }
        remarks.hold();
        self.plugins.push(Failed { plugin_id: plugin_id.to_owned(), version });
        Ok(())
    }

    /// Returns the plugins, in the order in which they failed.
    #[must_use]
    pub fn into_plugins(self) -> Vec<Failed> {
        self.plugins
    }
}
