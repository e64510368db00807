//! Judges limited scans: reports contain the required entities, and only entities that a full scan reports.

use super::finding::Rule;
use super::harness::Harness;
use super::heard::{listed, plain};
use crate::error::FatalError;
use bstr::{BString, ByteSlice};
use holo_protocol::session::Operation;
use holo_protocol::{EntityReport, ScanLimit};

/// An ID that no plugin should have.
const UNKNOWN: &str = "plugin-check:no such entity";

/// Requests limited scans, if the plugin supports them, and compares them with the full one.
pub(super) fn judge(harness: &mut Harness<'_, '_>, all: &[EntityReport]) -> Result<(), FatalError> {
    if !harness.manner.supports(Operation::Scan) {
        return Ok(());
    }
    let ends = all.first().into_iter().chain(all.last()).map(|entity| entity.id.clone());
    for id in ends.chain([BString::from(UNKNOWN)]).filter(|id| !id.contains(&0)) {
        let ids = [id];
        let subject = harness.subject("scan", &ids);
        compare(harness, all, ScanLimit::Ids(&ids), &subject)?;
    }
    if let Some(first) = all.first().filter(|_| harness.manner.session) {
        let end = first.id.find_byte(b':').map_or(first.id.len(), |colon| colon + 1);
        let prefix = first.id.get(..end).unwrap_or_default().as_bstr();
        let subject = format!("{} with the prefix {}", harness.subject("scan", &[]), plain(prefix));
        compare(harness, all, ScanLimit::Prefix(prefix), &subject)?;
        let (needs, provides) = (&first.edges.needs[..], &first.edges.provides[..]);
        if harness.manner.finds_neighbours && !(needs.is_empty() && provides.is_empty()) {
            let subject = format!("{} of the neighbours of {}", harness.subject("scan", &[]), plain(&first.id));
            compare(harness, all, ScanLimit::Neighbours { needs, provides }, &subject)?;
        }
        let owner = all.iter().find(|entity| !entity.edges.owns.is_empty());
        if let Some(owner) = owner.filter(|_| harness.manner.finds_owners) {
            let subject = format!("{} of the owners of what {} owns", harness.subject("scan", &[]), plain(&owner.id));
            compare(harness, all, ScanLimit::Owners(&owner.edges.owns), &subject)?;
        }
    }
    Ok(())
}

fn compare(
    harness: &mut Harness<'_, '_>,
    all: &[EntityReport],
    limit: ScanLimit<'_>,
    subject: &str,
) -> Result<(), FatalError> {
    let before = harness.scratch.snapshot();
    let heard = harness.scan_limited(limit, subject)?;
    harness.unchanged_since(Rule::LimitedScans, subject, &before, true, "has changed");
    let Some(ended_well) = heard.ended_well() else { return Ok(()) };
    let text = format!("{}, where exit status 0 is expected", heard.failure());
    if !harness.fail_unless(Rule::LimitedScans, subject, ended_well, text) {
        return Ok(());
    }
    let parsed = EntityReport::parse_all(&heard.stdout, harness.manner.api_version);
    let text = "reports something else than whole entities";
    if !harness.fail_unless(Rule::LimitedScans, subject, parsed.is_ok(), text) {
        return Ok(());
    }
    let found = parsed.unwrap_or_default();
    let finds_owners = harness.manner.finds_owners;
    let named = |entities: &[&EntityReport]| listed(&entities.iter().map(|e| plain(&e.id)).collect::<Vec<_>>());
    let wanted =
        all.iter().zip(limit.wanted(all.iter(), finds_owners)).filter_map(|(entity, wanted)| wanted.then_some(entity));
    let missing: Vec<_> = wanted.filter(|&entity| !found.contains(entity)).collect();
    let (is_whole, text) = (missing.is_empty(), format!("does not report {} as a whole scan does", named(&missing)));
    harness.fail_unless(Rule::LimitedScans, subject, is_whole, text);
    let other: Vec<_> = found
        .iter()
        .filter(|&entity| !all.contains(entity) && missing.iter().all(|other| other.id != entity.id))
        .collect();
    let (is_known, text) = (other.is_empty(), format!("reports {}, which a whole scan does not", named(&other)));
    harness.fail_unless(Rule::LimitedScans, subject, is_known, text);
    Ok(())
}
