//! The configuration and its snippets.

use super::{Check, Findings, Scene};
use crate::config::ConfigError;
use crate::retention::Retention;

pub(super) const CHECK: Check =
    Check { name: "configuration", fine: "holorc and holorc.d are valid", needs_plugins: false, look };

fn look(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    if let (_, Some(mistake)) = Retention::read(scene.root) {
        findings.warn(
            mistake.to_string(),
            "the defaults apply until it is fixed; holo(8) lists its keys under Records of runs",
        );
    }
    match &scene.configuration {
        Ok(configuration) => {
            for file in &configuration.leftovers {
                findings
                    .warn(configuration.passed_over(file), "remove it, or merge it into the file that it belongs to");
            }
            if configuration.plugins.is_empty() {
                let remedy = "plugins are configured by lines `plugin ID`, usually in files that their packages install in holorc.d";
                findings.warn("no plugin is configured, so no entities are managed", remedy);
            }
        }
        Err(error) => {
            let remedy = match error {
                ConfigError::UnknownCommand(bad) => bad.remedy(),
                ConfigError::ConfiguredTwice(_) => "remove one of the two lines".to_owned(),
                ConfigError::Unreadable(_) => "it must be a readable file; it may be empty".to_owned(),
            };
            findings.fail(error.to_string(), remedy);
        }
    }
}
