//! Diagnoses of plugins.

use super::Scene;
use crate::error::FatalError;
use crate::finding::Finding;
use crate::interrupt::Interrupt;
use crate::plugin::OperationError;
use crate::report::Severity;
use bstr::ByteSlice;
use holo_protocol::session::Stream;
use holo_protocol::{Diagnosis, Level};
use std::sync::Arc;

/// Asks the plugins that answered for their own diagnoses.
pub(super) fn ask(scene: &mut Scene<'_>, interrupt: &Interrupt, found: &mut Vec<Finding>) -> Result<(), FatalError> {
    let Some(inventory) = &mut scene.inventory else { return Ok(()) };
    let resources = Arc::clone(&inventory.resources);
    for plugin in inventory.plugins.iter_mut() {
        let mut printed = Vec::new();
        let answer = plugin.doctor(interrupt, &mut |stream, bytes| {
            if stream == Stream::Stderr {
                printed.extend_from_slice(bytes);
            }
        });
        let mut add = |Diagnosis { level, title, remedy }: Diagnosis| {
            let [title, remedy] = [title, remedy].map(|text| resources.show(text.as_bstr()).into_owned());
            found.push(Finding::new(&plugin.id, level, title, remedy));
        };
        for line in printed.lines() {
            for (severity, level) in [(Severity::Error, Level::Error), (Severity::Warning, Level::Warning)] {
                if let Some(text) = line.strip_prefix(severity.mark().as_bytes()) {
                    add(Diagnosis::new(level, text, ""));
                }
            }
        }
        match answer {
            Ok(lines) => lines.lines().for_each(|line| add(understand(line))),
            Err(OperationError::Failed(error)) => {
                let title = format!("the plugin's diagnosis failed: {error}");
                add(Diagnosis::new(Level::Error, title, "holo plugin check finds violations of the interface"));
            }
            Err(OperationError::Fatal(fatal)) => return Err(fatal),
        }
    }
    Ok(())
}

fn understand(line: &[u8]) -> Diagnosis {
    Diagnosis::parse(line).unwrap_or_else(|error| {
        let remedy = "holo plugin check finds violations of the interface";
        Diagnosis::new(Level::Warning, error.to_string(), remedy)
    })
}
