//! Mistakes in definitions, which plugins report during a scan.

use super::{Check, Findings, Scene};
use crate::report::{RemarkKind, Severity};
use bstr::ByteSlice;
use holo_protocol::session::Stream;

pub(super) const CHECK: Check =
    Check { name: "definitions", fine: "all definitions are valid", needs_plugins: true, look };

fn look(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    for remark in &scene.remarks {
        match remark.kind {
            RemarkKind::Diagnostic(Some(Severity::Error)) => findings.fail(&*remark.text, ""),
            RemarkKind::Diagnostic(Some(Severity::Warning)) => findings.warn(&*remark.text, ""),
            // Plugins of version 3 report in this form.
            RemarkKind::Output(Stream::Stderr) => {
                for line in remark.text.lines() {
                    if let Some(text) = line.strip_prefix(Severity::Error.mark().as_bytes()) {
                        findings.fail(text, "");
                    } else if let Some(text) = line.strip_prefix(Severity::Warning.mark().as_bytes()) {
                        findings.warn(text, "");
                    }
                }
            }
            _ => {}
        }
    }
    if let Some(inventory) = &scene.inventory {
        for dangling in &inventory.dangling {
            findings.warn(dangling.describe(&inventory.entities), "holo scan --short lists all names");
        }
    }
}
