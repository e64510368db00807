//! The checks of plugins: those that are missing, do not answer or lack version 4, and the diagnoses that plugins
//! return.

use super::{Check, Findings, Scene};
use crate::discovery::{generators, trust};
use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use crate::plugin::OperationError;
use crate::report::Finding;
use crate::report::{RemarkKind, Severity};
use bstr::ByteSlice;
use holo_protocol::session::Stream;
use holo_protocol::{API_VERSION_4, Diagnosis, Level};
use std::sync::Arc;

pub(super) const CHECK: Check = Check { name: "plugins", fine: "all plugins answer", needs_plugins: true, look };

fn look(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    // Leftovers are reported by the check of the configuration.
    let said_of_configuration: Vec<_> = scene
        .configuration
        .iter()
        .flat_map(|configuration| configuration.leftovers.iter().map(|file| configuration.passed_over(file)))
        .collect();
    let mut remarks = scene.remarks.iter().peekable();
    while let Some(remark) = remarks.next() {
        let RemarkKind::Own(severity) = remark.kind else { continue };
        let text = remark.text.as_bytes();
        if generators::is_output(text)
            || trust::is_remark(text)
            || said_of_configuration.iter().any(|said| said.as_bytes() == text)
        {
            continue;
        }
        let advice = remarks.next_if(|next| next.kind == RemarkKind::Advice);
        let advice = advice.map_or_else(|| remedy(text), |advice| advice.text.to_vec());
        match severity {
            Severity::Error => findings.fail(text, advice),
            // The preceding error has been reported.
            Severity::Warning if text.starts_with(b"Continuing without ") || text.starts_with(b"Skipping plugin") => {}
            Severity::Warning => findings.warn(text, advice),
        }
    }
    for plugin in scene.inventory.iter().flat_map(|inventory| inventory.plugins.iter()) {
        if plugin.api_version() < API_VERSION_4 {
            let title = format!(
                "{} speaks version {} of the interface, so the effect of applying its entities is unknown",
                plugin.id,
                plugin.api_version()
            );
            findings.warn(title, "install a newer version of it, if there is one; see holo-plugin-interface(7)");
        }
    }
}

/// Returns the remedy for an error during discovery, judging by its text.
fn remedy(text: &[u8]) -> Vec<u8> {
    let text = text.to_str_lossy();
    let remedies = [
        (": file not found", "install its package, or remove the line `plugin` from holorc.d"),
        ("cannot open ", "install the package of the plugin, or create the directory"),
        ("cycle, each waiting", "remove one of these edges"),
        ("failed: ", "holo plugin check finds violations of the interface"),
        ("no such directory", "create the directory"),
    ];
    let found = remedies.iter().find(|(words, _)| text.contains(words));
    found.map_or_else(Vec::new, |(_, remedy)| remedy.as_bytes().to_vec())
}

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
