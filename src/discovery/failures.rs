//! Plugins that failed before the end of the scan, and whether a run continues without them.

use crate::error::FatalError;
use crate::report::Provisional;
use holo_protocol::API_VERSION_3;

/// The failures of plugins that do not end a run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// None: every plugin matters.
    Nothing,
    /// Those of plugins known to speak version 3, whose entities cannot subscribe to others. A failed plugin of version
    /// 4 might have entities that a change must refresh.
    Version3,
    /// All failures.
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
    /// The version of the interface that it speaks, if known.
    pub version: Option<u32>,
}

impl Failures {
    /// Returns an empty list.
    #[must_use]
    pub fn new(tolerance: Tolerance) -> Failures {
        Failures { tolerance, plugins: Vec::new() }
    }

    /// Adds a plugin whose failure has just been reported. If it is tolerated, all further remarks are held back until
    /// it is known whether the run can continue without the plugin.
    ///
    /// # Errors
    /// If the failure is not tolerated.
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
