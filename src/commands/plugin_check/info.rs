//! Judges the first call, `info`, and the diagnoses of the plugin.

use super::finding::Rule;
use super::harness::Harness;
use super::heard::{Heard, listed, quoted};
use crate::error::FatalError;
use bstr::ByteSlice;
use holo_protocol::session::Operation;
use holo_protocol::{API_VERSION_3, API_VERSION_4, Diagnosis, Info};

/// Calls `info`. Returns the answer, if both sides have a common version.
pub(super) fn ask(harness: &mut Harness<'_, '_>) -> Result<Option<Info>, FatalError> {
    let before = harness.scratch.snapshot();
    let heard = harness.info()?;
    let Some(ended_well) = heard.ended_well() else { return Ok(None) };
    let text = format!("{}, where exit status 0 is expected", heard.failure());
    if !harness.fail_unless(Rule::Info, "info", ended_well, text) {
        return Ok(None);
    }
    harness.unchanged_since(Rule::Info, "info", &before, true, "has changed");
    let printed_nothing = heard.stderr.is_empty();
    let text = format!("says {} on standard error, where nothing is expected", quoted(&heard.stderr));
    harness.warn_unless(Rule::Info, "info", printed_nothing, text);
    judge_lines(harness, &heard);
    match Info::parse(&heard.stdout) {
        Ok(info) => Ok(fits(harness, &info).then_some(info)),
        Err(error) => {
            let text = error.to_string();
            harness.fail_unless(Rule::Info, "info", false, text.strip_prefix("info ").unwrap_or(&text));
            Ok(None)
        }
    }
}

/// The number of bytes that are examined.
const MAX_INFO: usize = 1 << 16;

/// Warns about lines that are ignored, as they are probably mistakes.
fn judge_lines(harness: &mut Harness<'_, '_>, heard: &Heard) {
    let is_setting = |line: &[u8]| {
        line.split_once_str("=").is_some_and(|(key, _)| {
            let key = key.trim();
            !key.is_empty() && key.iter().all(|letter| letter.is_ascii_uppercase() || b"_0123456789".contains(letter))
        })
    };
    let output = heard.stdout.get(..MAX_INFO).unwrap_or(&heard.stdout);
    let odd: Vec<String> =
        output.lines().filter(|line| !line.trim().is_empty() && !is_setting(line)).map(quoted).collect();
    let text = format!("prints {}, where lines KEY=VALUE are expected; it is ignored", listed(&odd));
    harness.warn_unless(Rule::Info, "info", odd.is_empty(), text);
    let says_session = |line: &&[u8]| line.trim().starts_with(b"SESSION=");
    let session = output.lines().find(says_session).unwrap_or(b"SESSION=1");
    let text = format!("says {}, which means nothing; SESSION=1 does", quoted(session));
    harness.warn_unless(Rule::Info, "info", session.trim() == b"SESSION=1", text);
    for flag in ["SCAN=1", "NEIGHBOURS=1", "OWNERS=1", "DOCTOR=1", "HEALTH=1", "WATCH=1"] {
        let key = flag.trim_end_matches('1').as_bytes();
        let said = output.lines().find(|line| line.trim().starts_with(key)).unwrap_or(flag.as_bytes());
        let text = format!("says {}, which means nothing; {flag} does", quoted(said));
        harness.warn_unless(Rule::Info, "info", said.trim() == flag.as_bytes(), text);
    }
}

/// Returns true if both sides have a common version.
fn fits(harness: &mut Harness<'_, '_>, info: &Info) -> bool {
    let &Info { min_api_version: min, max_api_version: max, session, .. } = info;
    let text = format!("says MIN_API_VERSION={min} and MAX_API_VERSION={max}, which is less");
    let is_range = harness.fail_unless(Rule::Info, "info", min <= max, text);
    let common = info.common_version(API_VERSION_3, API_VERSION_4);
    let text = format!("speaks versions {min} to {max}, where {API_VERSION_3} or {API_VERSION_4} is needed");
    let fits = is_range && harness.fail_unless(Rule::Info, "info", common.is_some(), text);
    let text = format!("says SESSION=1, but sessions need version {API_VERSION_4}, and it speaks only {max}");
    harness.warn_unless(Rule::Sessions, "info", !session || max >= API_VERSION_4, text);
    fits
}

/// Requests diagnoses, if the plugin supports them.
pub(super) fn judge(harness: &mut Harness<'_, '_>) -> Result<(), FatalError> {
    if !harness.manner.supports(Operation::Doctor) {
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
