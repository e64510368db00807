//! Judges scan reports.

use super::finding::Rule;
use super::harness::Harness;
use super::heard::{Heard, MAX_KEPT, listed, plain, quoted};
use super::limited;
use crate::entities::node::{EntityIndex, Node, PerEntity};
use crate::error::FatalError;
use crate::plan::Plan;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::report::ReportErrorKind;
use holo_protocol::words::reason;
use holo_protocol::{API_VERSION_3, API_VERSION_4, EntityReport};
use std::collections::HashSet;

/// The entities that can be worked on.
pub(super) struct Reported {
    /// All of them, in sets without dependencies inside a set.
    pub(super) sets: Vec<Vec<BString>>,
    /// Entities that are applied every time by design.
    pub(super) always: HashSet<BString>,
}

/// Judges the first scan. Returns `None` if the plugin is unusable.
pub(super) fn first_scan(harness: &mut Harness<'_, '_>) -> Result<Option<Reported>, FatalError> {
    let subject = harness.subject("scan", &[]);
    let Some(heard) = scan(harness, &subject)? else { return Ok(None) };
    let Some(entities) = parse(harness, &subject, &heard.stdout) else { return Ok(None) };
    for entity in &entities {
        judge_id(harness, &subject, entity.id.as_ref());
        judge_sources(harness, &subject, entity);
        judge_keys(harness, &subject, entity);
        judge_assets(harness, &subject, entity);
    }
    judge_answers(harness, &subject, &heard.stdout);
    scan_again(harness, &subject, &heard)?;
    limited::judge(harness, &entities)?;
    if harness.manner.also_version_3 {
        let directories = harness.scratch.directories().clone();
        scan_otherwise(harness, &entities, &directories, API_VERSION_3, "when asked in version 3")?;
    }
    if !harness.manner.session {
        let directories = harness.scratch.relative_directories();
        scan_otherwise(harness, &entities, &directories, harness.manner.api_version, "when given relative paths")?;
    }
    let mut always: HashSet<BString> = entities.iter().filter(|e| e.edges.always).map(|e| e.id.clone()).collect();
    if harness.manner.also_version_4 {
        always.extend(done_without_version_4(harness)?);
    }
    Ok(Some(Reported { sets: sets(harness, &subject, &entities), always }))
}

/// Returns the entities that are applied every time in version 3, which cannot declare that and has no refreshes.
fn done_without_version_4(harness: &mut Harness<'_, '_>) -> Result<Vec<BString>, FatalError> {
    harness.begin_run()?;
    let directories = harness.scratch.directories().clone();
    let heard = harness.scan_in(&directories, API_VERSION_4)?;
    let entities = EntityReport::parse_all(&heard.stdout, API_VERSION_4).unwrap_or_default();
    let is_done = |entity: &EntityReport| entity.edges.always || !entity.edges.subscribes.is_empty();
    Ok(entities.into_iter().filter(is_done).map(|entity| entity.id).collect())
}

/// Returns the IDs that a scan reports in a later run; `None` if it fails.
pub(super) fn later_scan(harness: &mut Harness<'_, '_>) -> Result<Option<HashSet<BString>>, FatalError> {
    let subject = harness.subject("scan", &[]);
    let heard = scan(harness, &subject)?;
    let entities = heard.and_then(|heard| parse(harness, &subject, &heard.stdout));
    Ok(entities.map(|entities| entities.into_iter().map(|entity| entity.id).collect()))
}

/// Scans in a new run. Returns `None` if that fails.
fn scan(harness: &mut Harness<'_, '_>, subject: &str) -> Result<Option<Heard>, FatalError> {
    harness.begin_run()?;
    let before = harness.scratch.snapshot();
    let heard = harness.scan()?;
    harness.unchanged_since(Rule::Scan, subject, &before, true, "has changed");
    let Some(ended_well) = heard.ended_well() else { return Ok(None) };
    let text = format!("{}, where exit status 0 is expected", heard.failure());
    let text_of_size = format!("reports over {MAX_KEPT} bytes, which is more than is looked at");
    let is_usable = harness.fail_unless(Rule::Scan, subject, ended_well, text)
        && harness.fail_unless(Rule::Scan, subject, heard.stdout.len() < MAX_KEPT, text_of_size);
    Ok(is_usable.then_some(heard))
}

fn parse(harness: &mut Harness<'_, '_>, subject: &str, report: &[u8]) -> Option<Vec<EntityReport>> {
    let parsed = EntityReport::parse_all(report, harness.manner.api_version);
    for error in parsed.as_ref().err().into_iter().flatten() {
        let what = match &error.kind {
            ReportErrorKind::Syntax(line) => format!("is {}, where \"KEY: VALUE\" is expected", quoted(line)),
            ReportErrorKind::Asset(key, value) => {
                format!("is \"{key}: {}\", where \"{key}: KIND VALUE\" is expected", plain(value))
            }
            ReportErrorKind::Written(value) => {
                format!("is \"WRITTEN: {}\", where \"WRITTEN: LOCATION: ID\" is expected", plain(value))
            }
            ReportErrorKind::Control { key, value, error } => format!("is \"{key}: {}\": {error}", plain(value)),
            ReportErrorKind::Receipt(value) => {
                format!("is \"RECEIVES: {}\", where \"RECEIVES: KEY ENTITY#NAME\" is expected", plain(value))
            }
            ReportErrorKind::Name(value) => {
                format!("is \"SENDS: {}\", where a name of letters, digits and _ is expected", plain(value))
            }
            ReportErrorKind::TooMany(most) => format!("is an entity beyond the maximum of {most}"),
            ReportErrorKind::OutsideEntity(line) => format!("is {}, where \"ENTITY: ID\" is expected", quoted(line)),
        };
        harness.fail_unless(Rule::Scan, subject, false, format!("line {} {what}", error.line));
    }
    parsed.ok()
}

fn judge_id(harness: &mut Harness<'_, '_>, subject: &str, id: &BStr) {
    let shown = quoted(id);
    let (kind, name) = id.split_once_str(":").unwrap_or_default();
    let has_form = !kind.is_empty() && !name.is_empty();
    let is_path = [&b"/"[..], b"./", b"../"].iter().any(|start| id.starts_with(start)) || kind.contains(&b'/');
    let text = format!("reports the entity {shown}, which looks like a path");
    harness.fail_unless(Rule::Names, subject, !is_path, text);
    let text = format!("reports the entity {shown}, where an ID of the form TYPE:NAME is expected");
    harness.fail_unless(Rule::Names, subject, has_form || is_path, text);
    let text = format!("reports the entity {shown}; no program can be called with a NUL byte");
    harness.fail_unless(Rule::Names, subject, !id.contains(&0), text);
    let is_odd = id.iter().any(|&byte| byte != 0 && byte.is_ascii_control()) || id.trim() != id.as_bytes();
    let text = format!("reports the entity {shown}, with blanks at its ends or control characters");
    harness.warn_unless(Rule::Names, subject, !is_odd, text);
}

fn judge_sources(harness: &mut Harness<'_, '_>, subject: &str, entity: &EntityReport) {
    let resources = harness.scratch.directories().resources.clone();
    // A file that a resource file refers to may be an additional source.
    let any_inside = entity.sources.iter().any(|source| source.to_path_lossy().starts_with(&resources));
    for source in &entity.sources {
        let path = source.to_path_lossy();
        let of = format!("SOURCE of {} is {}", plain(&entity.id), quoted(source));
        let problem = path.symlink_metadata().err();
        let why = problem.as_ref().map(reason).unwrap_or_default();
        let exists = harness.fail_unless(Rule::Scan, subject, problem.is_none(), format!("{of}: {why}"));
        let text = format!("{of}, which is not in $HOLO_RESOURCE_DIR");
        harness.warn_unless(Rule::Environment, subject, any_inside || !exists, text);
    }
}

fn judge_keys(harness: &mut Harness<'_, '_>, subject: &str, entity: &EntityReport) {
    for information in &entity.information {
        let letters = || information.key.iter();
        let is_capital = letters().any(u8::is_ascii_uppercase) && !letters().any(u8::is_ascii_lowercase);
        let (key, version) = (plain(&information.key), harness.manner.api_version);
        let text = format!("the key {key} of {} means nothing in version {version}", plain(&entity.id));
        harness.warn_unless(Rule::Scan, subject, !is_capital, text);
    }
}

/// Expects the paths of assets to be absolute.
fn judge_assets(harness: &mut Harness<'_, '_>, subject: &str, entity: &EntityReport) {
    let edges = &entity.edges;
    for (key, assets) in [("PROVIDES", &edges.provides), ("NEEDS", &edges.needs), ("OWNS", &edges.owns)] {
        let kinds = ["path", "path-tree", "path-shared", "path-edited", "path-access"];
        for asset in assets.iter().filter(|asset| kinds.iter().any(|kind| asset.kind == *kind)) {
            let (kind, value) = (plain(&asset.kind), quoted(&asset.value));
            let text =
                format!("{key} of {} is the {kind} {value}, where an absolute path is expected", plain(&entity.id));
            harness.fail_unless(Rule::Dependencies, subject, asset.value.starts_with(b"/"), text);
        }
    }
    for path in &edges.watch {
        let text = format!("WATCH of {} is {}, where an absolute path is expected", plain(&entity.id), quoted(path));
        harness.fail_unless(Rule::Dependencies, subject, path.starts_with(b"/"), text);
    }
}

/// Judges keys that have only one valid value.
fn judge_answers(harness: &mut Harness<'_, '_>, subject: &str, report: &[u8]) {
    if harness.manner.api_version < API_VERSION_4 {
        return;
    }
    for line in report.lines() {
        let Some((key, value)) = line.trim().split_once_str(": ") else { continue };
        if [&b"ORPHAN"[..], b"ALWAYS"].contains(&key) {
            let text = format!("says {}, where \"{}: yes\" is expected, or nothing", quoted(line.trim()), plain(key));
            harness.fail_unless(Rule::Dependencies, subject, value.trim() == b"yes", text);
        }
    }
}

/// Expects that a second scan gives the same report.
fn scan_again(harness: &mut Harness<'_, '_>, subject: &str, first: &Heard) -> Result<(), FatalError> {
    let Some(second) = scan(harness, subject)? else { return Ok(()) };
    let sorted = |report: &[u8]| {
        let mut entities = EntityReport::parse_all(report, harness.manner.api_version).unwrap_or_default();
        entities.sort_by(|one, other| one.id.cmp(&other.id));
        entities
    };
    let same = sorted(&first.stdout) == sorted(&second.stdout);
    harness.fail_unless(Rule::Scan, subject, same, "a second scan reports something else, though nothing has changed");
    Ok(())
}

/// Expects a scan in a different environment to report the same entities.
fn scan_otherwise(
    harness: &mut Harness<'_, '_>,
    expected: &[EntityReport],
    directories: &crate::plugin::Directories,
    api_version: u32,
    how: &str,
) -> Result<(), FatalError> {
    harness.begin_run()?;
    let heard = harness.scan_in(directories, api_version)?;
    let Some(ended_well) = heard.ended_well() else { return Ok(()) };
    let subject = harness.subject("scan", &[]);
    if harness.fail_unless(Rule::Environment, &subject, ended_well, format!("{} {how}", heard.failure())) {
        let found = EntityReport::parse_all(&heard.stdout, api_version).unwrap_or_default();
        let ids = |entities: &[EntityReport]| -> HashSet<BString> { entities.iter().map(|e| e.id.clone()).collect() };
        let same = ids(expected) == ids(&found);
        harness.fail_unless(Rule::Environment, &subject, same, format!("reports other entities {how}"));
    }
    Ok(())
}

/// Returns the entities in the order in which they are worked on.
fn sets(harness: &mut Harness<'_, '_>, subject: &str, entities: &[EntityReport]) -> Vec<Vec<BString>> {
    let mut entities: Vec<&EntityReport> = entities.iter().filter(|entity| !entity.id.contains(&0)).collect();
    entities.sort_by(|one, other| one.id.cmp(&other.id));
    let neighbours = entities.iter().zip(entities.iter().skip(1));
    let twice: Vec<String> =
        neighbours.filter(|(one, other)| one.id == other.id).map(|(one, _)| plain(&one.id)).collect();
    let text = format!("reports {} twice; IDs should be unique", listed(&twice));
    harness.fail_unless(Rule::Names, subject, twice.is_empty(), text);
    entities.dedup_by(|one, other| one.id == other.id);
    let edges: Vec<_> = entities.iter().map(|entity| entity.edges.borrowed()).collect();
    let node = |(entity, edges)| {
        let entity: &EntityReport = entity;
        Node { id: entity.id.as_ref(), plugin: 0.into(), edges, origin: BStr::new("") }
    };
    let nodes: PerEntity<Node<'_>> = entities.iter().copied().zip(&edges).map(node).collect();
    match Plan::new(&nodes) {
        Ok(plan) => {
            let all = nodes.iter().map(|_| true).collect();
            let ids = |set: &Vec<EntityIndex>| set.iter().map(|&entity| nodes[entity].id.to_owned()).collect();
            plan.sets(&all).iter().map(ids).collect()
        }
        Err(cycle) => {
            harness.fail_unless(Rule::Dependencies, subject, false, format!("reports a {cycle}"));
            nodes.iter().map(|node| vec![node.id.to_owned()]).collect()
        }
    }
}
