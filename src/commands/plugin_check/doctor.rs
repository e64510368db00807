//! Judges diagnoses: the lines are well-formed, and the operation changes no files.

use super::finding::Rule;
use super::harness::Harness;
use crate::error::FatalError;
use bstr::ByteSlice;
use holo_protocol::Diagnosis;
use holo_protocol::session::Operation;

/// Requests diagnoses, if the plugin supports them.
pub(super) fn judge(harness: &mut Harness<'_, '_>) -> Result<(), FatalError> {
    if !harness.manner.doctors {
        return Ok(());
    }
    let subject = harness.subject("doctor", &[]);
    let before = harness.scratch.snapshot();
    let heard = harness.ask(Operation::Doctor, &subject)?;
    harness.unchanged_since(Rule::Doctor, &subject, &before, true, "has changed");
    let Some(ended_well) = heard.ended_well() else { return Ok(()) };
    let text = format!("{}, where exit status 0 is expected", heard.failure());
    if !harness.fail_unless(Rule::Doctor, &subject, ended_well, text) {
        return Ok(());
    }
    for line in heard.messages.lines() {
        let diagnosis = Diagnosis::parse(line);
        let problem = diagnosis.as_ref().err().map(ToString::to_string).unwrap_or_default();
        harness.fail_unless(Rule::Doctor, &subject, diagnosis.is_ok(), problem);
    }
    Ok(())
}
