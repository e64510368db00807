//! Definitions in the host's resource directories: printing findings, and completing reports.
//!
//! The types and the parser are those of `holo-definitions`.

pub use holo_definitions::*;

use crate::{Action, EntityReport, Host, Output};
use bstr::BString;
use holo_change::PathError;
use holo_protocol::report::{Information, Written};

/// Reads all definition files of the plugin. Findings are printed to `output`.
pub fn read<D: Definition>(host: &Host, output: &mut Output<'_>) -> Definitions<D> {
    read_with::<D, NoDeclaration>(host, output).0
}

/// Reads all definition files of the plugin, and the declarations that apply to all definitions. Findings are printed
/// to `output`.
pub fn read_with<D: Definition, M: Declaration>(
    host: &Host,
    output: &mut Output<'_>,
) -> (Definitions<D>, Declarations<M>) {
    let (definitions, declarations, findings) =
        Definitions::read_with(host.resources(), &host.templates(), host.sent());
    say_all(findings, definitions.is_complete(), host, output);
    (definitions, declarations)
}

/// Reads all definition files of the plugin, which may contain tables of several types. Findings are printed to
/// `output`.
pub fn read_several<S: DefinitionSet>(host: &Host, output: &mut Output<'_>) -> S {
    let (definitions, findings, is_complete) =
        holo_definitions::read_several(host.resources(), &host.templates(), host.sent());
    say_all(findings, is_complete, host, output);
    definitions
}

/// Like [`read_several`], but from files that are known to be valid, reads only the requested definitions and those
/// that may affect others.
pub fn read_some_of_several<S: DefinitionSet>(host: &Host, known: &dyn KnownFiles, output: &mut Output<'_>) -> S {
    let (definitions, findings, is_complete) =
        holo_definitions::read_some_of_several(host.resources(), &host.templates(), host.sent(), known);
    say_all(findings, is_complete, host, output);
    definitions
}

fn say_all(findings: Vec<Finding>, is_complete: bool, host: &Host, output: &mut Output<'_>) {
    say(findings, output);
    host.knowledge().take_warnings().iter().for_each(|warning| output.warning(warning.to_string()));
    if !is_complete {
        output
            .warning("scrubbing is suspended until this is fixed, because the definition of an entity may be missing");
    }
}

/// Prints findings.
pub fn say(findings: Vec<Finding>, output: &mut Output<'_>) {
    for finding in findings {
        match finding {
            Finding::Error(DefinitionError::Unreadable { path, error }) => {
                output.error(PathError::new("read", path, error).to_string());
            }
            Finding::Error(error) => output.error(error.to_string()),
            Finding::Warning(warning) => output.advise(warning.to_string()),
            Finding::Unrendered(warning) => output.advise(warning.to_string()),
            Finding::Folder(path) => {
                output.advise(format!("{}: this is a directory, which is not read", path.display()));
            }
        }
    }
}

/// Adds the common properties to the report of an entity: the location of its definition, its edges, and whether it is
/// skipped.
pub fn complete(common: &Common, report: &mut EntityReport) {
    add_edges(&common.keys, report);
    report.controls = common.keys.controls();
    // Orphans have no definition.
    if common.location != Location::default() {
        report.edges.written.push(Written { location: common.location.to_string().into(), id: report.id.clone() });
    }
    for source in common.sources.iter().rev() {
        let path = holo_change::path_bytes(source);
        report.sources.insert(0, path.clone());
        report.information.insert(0, Information { key: "found in".into(), value: path });
    }
    if let Some(reason) = &common.skipped {
        report.action = Action::because("Skipping", reason.as_str());
        // A definition for other conditions may own the same assets.
        report.edges.owns.clear();
        report.controls.register.clear();
    }
}

fn add_edges(keys: &CommonKeys, report: &mut EntityReport) {
    let edges = &mut report.edges;
    for (ours, all) in [
        (&keys.after, &mut edges.after),
        (&keys.before, &mut edges.before),
        (&keys.requires, &mut edges.requires),
        (&keys.subscribes, &mut edges.subscribes),
        (&keys.notifies, &mut edges.notifies),
    ] {
        all.extend(ours.iter().map(|id| BString::from(id.as_str())));
    }
    let receipt = |receipt: &Receipt| holo_protocol::Receipt {
        key: receipt.key.as_str().into(),
        sender: receipt.sender.as_str().into(),
        name: receipt.name.as_str().into(),
    };
    edges.receives.extend(keys.receive.iter().map(receipt));
    let written =
        |noted: &IdLocation| Written { location: noted.location.as_str().into(), id: noted.id.as_str().into() };
    edges.written.extend(keys.id_locations.iter().map(written));
}

#[cfg(test)]
mod tests;
