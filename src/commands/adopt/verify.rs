//! Verification of adopted resource files before they are written: the plugins scan and check them in a temporary directory.

use super::write::Plan;
use crate::commands::check::{self, Finding, Findings, Preview, Told};
use crate::discovery::discover;
use crate::discovery::inventory::{Inventory, Purpose};
use crate::entities::Entity;
use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use crate::host::settings::Settings;
use crate::plan::select::Selected;
use crate::report::{self, End, Event, Remark, RemarkKind, Remarks, Reporter, Severity};
use bstr::{BStr, BString, ByteSlice};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An entity that failed the verification.
pub(super) struct Unfit {
    pub(super) id: BString,
    /// The reason, as a fragment after `cannot adopt ID: `.
    pub(super) reason: BString,
    /// The diagnostics of plugins about it.
    pub(super) details: Vec<BString>,
    /// True if its resource files are not valid, false if an apply would act on it.
    pub(super) is_broken: bool,
}

/// The result of a verification.
pub(super) struct Verified {
    pub(super) unfit: Vec<Unfit>,
    /// The entities that are in the desired state.
    pub(super) in_order: Vec<BString>,
}

/// Checks the entities of a plan, with the administrator's resource files as they would be, which are staged in the given empty directory. The
/// selectors limit the scan.
pub(super) fn verify(
    plan: &Plan,
    directory: &Path,
    selectors: &[OsString],
    settings: &Settings,
    interrupt: &Interrupt,
    reporter: &mut dyn Reporter,
) -> Result<Verified, FatalError> {
    plan.stage(directory)?;
    let settings =
        Settings { root: settings.root.clone().with_own_resources(directory.to_owned()), ..settings.clone() };
    let (mut remarks, mut told) = (Kept::default(), Told::default());
    let mut findings = Findings::new(&mut remarks, &mut told);
    let checked = look(plan, selectors, &settings, interrupt, &mut findings);
    let found: BTreeMap<BString, Finding> =
        findings.into_found().into_iter().map(|finding| (finding.id.clone(), finding)).collect();
    for remark in &mut remarks.0 {
        remark.text = Cow::Owned(as_written(&remark.text, directory, plan));
    }
    let inventory = checked.inspect_err(|_| {
        remarks.0.iter().for_each(|remark| reporter.remark(remark.clone()));
    })?;
    let unfit = |adopted: &report::Adopted| {
        let (reason, details, is_broken) = match found.get(&adopted.id) {
            Some(finding) => {
                let reason = problem(finding, has_other_sources(adopted, &inventory))?;
                (as_written(reason.as_bytes(), directory, plan), Vec::new(), finding.end == End::Failed)
            }
            None => ("what would be written does not define it".into(), remarks.about(adopted), true),
        };
        Some(Unfit { id: adopted.id.clone(), reason, details, is_broken })
    };
    let is_in_order = |id: &&BString| found.get(*id).is_some_and(|finding| finding.end == End::Unchanged);
    let in_order = plan.adopted().iter().map(|adopted| &adopted.id).filter(is_in_order).cloned().collect();
    Ok(Verified { unfit: plan.adopted().iter().filter_map(unfit).collect(), in_order })
}

/// Replaces the paths of staged files with their final paths.
fn as_written(text: &[u8], directory: &Path, plan: &Plan) -> BString {
    text.replace(directory.as_os_str().as_bytes(), plan.root().as_os_str().as_bytes()).into()
}

fn look(
    plan: &Plan,
    selectors: &[OsString],
    settings: &Settings,
    interrupt: &Interrupt,
    findings: &mut Findings<'_>,
) -> Result<Inventory, FatalError> {
    let ids: HashSet<&BStr> = plan.adopted().iter().map(|adopted| adopted.id.as_bstr()).collect();
    let mut inventory = discover(settings, Purpose::Check, selectors, None, interrupt, findings)?;
    let selected: Selected = inventory.entities.iter().map(|entity| ids.contains(entity.id())).collect();
    check::look(&mut inventory, &selected, settings, interrupt, findings, Preview::default())?;
    Ok(inventory)
}

/// Returns true if an entity also has resource files that are not part of the adoption. They may have changed since the last apply.
fn has_other_sources(adopted: &report::Adopted, inventory: &Inventory) -> bool {
    let sources = inventory.entities.iter().filter(|entity| entity.id() == adopted.id).flat_map(Entity::report_sources);
    sources.into_iter().any(|source| !adopted.written.contains(&source.path))
}

/// Returns the reason why an entity fails the verification, if it does.
fn problem(finding: &Finding, has_others: bool) -> Option<String> {
    let Finding { end, changes, refusals, error, is_unknown, .. } = finding;
    let joined = |texts: &[BString]| bstr::join(", ", texts).to_str_lossy().into_owned();
    let error = || error.as_ref().map_or_else(|| "its check fails".to_owned(), ToString::to_string);
    Some(match end {
        End::Unchanged | End::ConditionNotMet => return None,
        End::Failed => error(),
        _ if has_others => return None,
        End::Refused => format!("an apply would need --force: {}", joined(refusals)),
        End::DependencyFailed => error(),
        End::Pending | End::Changed if *is_unknown => "the effect of an apply is unknown".to_owned(),
        End::Pending | End::Changed if changes.is_empty() => "an apply would change it".to_owned(),
        End::Pending | End::Changed => format!("an apply would act on it: {}", joined(changes)),
    })
}

/// Collects remarks, which are only shown if the verification fails.
#[derive(Default)]
struct Kept(Vec<Remark<'static>>);

impl Reporter for Kept {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Remark(remark) = event {
            self.0.push(remark.into_owned());
        }
    }
}

impl Kept {
    /// Returns the errors of plugins that mention an entity or its files, with the lines that follow each.
    fn about(&self, adopted: &report::Adopted) -> Vec<BString> {
        let names = |text: &BStr| {
            text.contains_str(&adopted.id)
                || adopted.written.iter().any(|path| text.contains_str(path.as_os_str().as_bytes()))
        };
        let mut lines = Vec::new();
        let mut is_about_it = false;
        for Remark { kind, text } in &self.0 {
            let RemarkKind::Diagnostic(severity) = kind else { continue };
            if *severity == Some(Severity::Error) {
                is_about_it = names(text);
            }
            if is_about_it {
                lines.push(text.clone().into_owned());
            }
        }
        lines
    }
}
