//! Apply, check and preview of key sets. Those of one user are applied together, so that the user's file is read and replaced only once.

use crate::home::{Change, DONE, PENDING, Verbs};
use crate::keyset::{Family, KeySet, KeySetError, Name, at_home_of};
use crate::record::{self, Record};
use crate::section::{Edit, Section, SectionIndex, Sections, Source};
use bstr::{BString, ByteSlice};
use holo_change::error::PathError;
use holo_plugin::{
    Action, Applied, Asset, Entity, EntityReport, FilePair, ForgetError, Host, Job, Mode, Output, SetAnswers, Verdict,
    apply_one,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, PoisonError};

/// The result for one key set, with its messages.
pub(crate) struct Outcome<R> {
    error: Option<String>,
    warnings: Vec<String>,
    result: R,
}

impl<R> Outcome<R> {
    fn new(result: R) -> Outcome<R> {
        Outcome { error: None, warnings: Vec::new(), result }
    }

    /// Returns the outcome of a key set that failed.
    fn failed(set: &KeySet, error: &KeySetError, result: R) -> Outcome<R> {
        let is_unknown = matches!(error, KeySetError::Account(account) if account.is_missing() && set.is_orphan());
        let hint =
            is_unknown.then(|| "keys may be left in an unknown home directory; use --force to forget them".to_owned());
        Outcome { error: Some(error.to_string()), warnings: hint.into_iter().collect(), result }
    }

    /// Prints the messages, and returns the result.
    pub(crate) fn report(self, output: &mut Output<'_>) -> R {
        self.error.iter().for_each(|error| output.error(error));
        self.warnings.iter().for_each(|warning| output.warning(warning));
        self.result
    }
}

impl Family {
    /// Returns the sections of all key sets of the user, with the given ones marked as applied.
    fn sections(&self, host: &Host, applied: &[&KeySet]) -> Result<Sections, PathError> {
        let mut all = Vec::new();
        let recorded = match self.living.first() {
            Some((name, _)) => record::sets(host, &name.user)?,
            None => BTreeSet::new(),
        };
        for (name, source) in &self.living {
            let is_recorded = recorded.contains(OsStr::from_bytes(&name.set));
            let counted = if is_recorded { record::read(host, name.parts())? } else { Vec::new() };
            all.push(Section::new(name.id(), source.clone()).with_counted(counted));
        }
        // Orphans own only marked lines. Unmarked lines that they counted stay.
        all.extend(self.orphans.iter().map(|name| Section::new(name.id(), Source::gone())));
        let names = self.living.iter().map(|(name, _)| name).chain(&self.orphans);
        let indexes: BTreeMap<&Name, SectionIndex> = names.zip((0..).map(SectionIndex::from)).collect();
        let applied = applied.iter().filter_map(|set| indexes.get(&set.name).copied()).collect();
        Ok(Sections { all: all.into(), applied })
    }
}

/// Groups key sets by user, with their indexes.
fn by_user<'s>(sets: impl Iterator<Item = &'s KeySet>) -> Vec<Vec<(usize, &'s KeySet)>> {
    let mut users: BTreeMap<&str, Vec<(usize, &KeySet)>> = BTreeMap::new();
    for (place, set) in sets.enumerate() {
        users.entry(&set.name.user).or_default().push((place, set));
    }
    users.into_values().collect()
}

/// Applies key sets, user by user.
pub(crate) fn apply(host: &Host, jobs: &[Job<'_, KeySet>], answers: &mut dyn SetAnswers) {
    for sets in by_user(jobs.iter().map(|job| job.entity)) {
        sets.iter().for_each(|(place, _)| answers.begin(*place));
        let (held_back, sets): (Vec<_>, Vec<_>) = sets.into_iter().partition(|(_, set)| set.held_back().is_some());
        for (place, set) in held_back {
            if let Some(error) = set.held_back() {
                let outcome = Outcome::failed(set, &error, Applied::FAILED_UNCHANGED);
                let applied = outcome.report(&mut answers.output(place));
                answers.end(place, applied);
            }
        }
        let (places, sets): (Vec<usize>, Vec<&KeySet>) = sets.into_iter().unzip();
        let outcomes = match try_apply(host, &sets) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                let forced = places.iter().map(|&place| jobs.get(place).is_some_and(|job| job.mode.force));
                let forced = sets.iter().zip(forced).map(|(set, force)| (*set, force));
                forced.map(|(set, force)| ApplyOutcome::new(fail_or_forget(host, set, &error, force))).collect()
            }
        };
        for ((place, set), ApplyOutcome { outcome, contents }) in places.into_iter().zip(sets).zip(outcomes) {
            let mut output = answers.output(place);
            if let Some((before, after)) = contents {
                host.keep_change(|| set.show_change(host, before, after).ok(), &mut output);
            }
            let applied = outcome.report(&mut output);
            answers.end(place, applied);
        }
    }
}

/// The outcome of applying one key set.
struct ApplyOutcome {
    outcome: Outcome<Applied>,
    /// The user's file before and after, if it was changed and the contents are kept.
    contents: Option<Contents>,
}

/// The file before and after a change. The former is `None` if it did not exist.
type Contents = (Option<Vec<u8>>, Vec<u8>);

impl ApplyOutcome {
    fn new(outcome: Outcome<Applied>) -> ApplyOutcome {
        ApplyOutcome { outcome, contents: None }
    }
}

/// Applies key sets of one user.
///
/// # Errors If no key set was changed.
fn try_apply(host: &Host, sets: &[&KeySet]) -> Result<Vec<ApplyOutcome>, KeySetError> {
    let Some(first) = sets.first() else { return Ok(Vec::new()) };
    let (family, user) = (&first.family, &first.name.user);
    let sections = Arc::new(family.sections(host, sets)?);
    let mut record = Record::hold(host)?;
    let to_compare = Arc::clone(&sections);
    let found = at_home_of(host, user, move |home| {
        let change = home.compare(&to_compare)?;
        if change.is_empty() {
            home.tidy()?;
        }
        Ok(change)
    })?;
    // An apply that is killed from here on may leave keys behind. The next one must find them in the record.
    let heirs = found.edits.each.iter().flat_map(|edit| &edit.handed_over).map(|handover| &handover.to);
    let wanting = sections.applied().filter(|section| !section.is_empty());
    record.add(heirs.chain(wanting.map(Section::id)))?;
    let change = if found.is_empty() {
        found
    } else {
        let to_provision = Arc::clone(&sections);
        match at_home_of(host, user, move |home| home.provision(&to_provision)) {
            Ok(change) => change,
            Err(error) => {
                let each = sets.iter().zip(changes(&sections, &found, &DONE));
                let outcome = each.map(|(set, changes)| match changes.is_empty() {
                    true => Outcome::new(Applied::Unchanged),
                    false => Outcome::failed(set, &error, Applied::FAILED),
                });
                return Ok(outcome.map(ApplyOutcome::new).collect());
            }
        }
    };
    let words = changes(&sections, &change, &DONE);
    let mut outcomes = Vec::new();
    for ((set, words), edit) in sets.iter().zip(words).zip(change.edits.each) {
        let nothing_changed = words.is_empty();
        let mut outcome = match record::write(host, set.name.parts(), &edit.unmarked) {
            Ok(()) => Outcome::new(family.applied(set, &edit, words)),
            Err(error) => Outcome::failed(set, &error.into(), Applied::Failed { version_3_status: 1, nothing_changed }),
        };
        outcome.warnings.extend(edit.handovers().iter().map(|(from, to)| format!("{to} takes over from {from}")));
        let is_new_file = change.is_new_file;
        let before = |content: Vec<u8>| Some(content).filter(|content| !is_new_file || !content.is_empty());
        let contents = edit.contents.map(|(content, after)| (before(content), after));
        outcomes.push(ApplyOutcome { outcome, contents });
    }
    // Only after the change: had the apply been killed before it, the next one must still find the keys.
    let done = sections.applied().zip(&outcomes).filter(|(_, applied)| !applied.outcome.result.has_failed());
    let gone = done.filter(|(section, _)| section.is_empty()).map(|(section, _)| section.id());
    if let Err(error) = record.remove(gone) {
        let error = KeySetError::from(error);
        for ((set, section), applied) in sets.iter().zip(sections.applied()).zip(&mut outcomes) {
            if section.is_empty() {
                let nothing_changed = !applied.outcome.result.may_have_changed();
                applied.outcome =
                    Outcome::failed(set, &error, Applied::Failed { version_3_status: 1, nothing_changed });
            }
        }
    }
    Ok(outcomes)
}

/// Returns the outcome of a key set that cannot be applied. An orphan is forgotten with `--force` if its user or home directory is missing.
fn fail_or_forget(host: &Host, set: &KeySet, error: &KeySetError, force: bool) -> Outcome<Applied> {
    let is_missing = matches!(error, KeySetError::Account(account) if account.is_missing());
    if !(force && is_missing && set.is_orphan()) {
        return Outcome::failed(set, error, Applied::FAILED_UNCHANGED);
    }
    let id = set.name.id();
    let forgotten = forget(host, set)
        .map(|()| Outcome::new(Applied::ChangedQuietly(vec![format!("forgot {id}, whose keys cannot be located")])));
    forgotten.unwrap_or_else(|error| Outcome::failed(set, &error.into(), Applied::FAILED_UNCHANGED))
}

/// Removes the record of a key set, and leaves its keys.
fn forget(host: &Host, set: &KeySet) -> Result<(), PathError> {
    record::write(host, set.name.parts(), &[])?;
    Record::hold(host)?.remove([&set.name.id()])
}

/// Returns the changes of each key set as messages. A change of mode is attributed to the first key set that has keys.
fn changes(sections: &Sections, change: &Change, verbs: &Verbs) -> Vec<Vec<String>> {
    let mut modes = change.modes_in_words(verbs);
    let each = sections.applied().zip(&change.edits.each).map(|(section, edit)| {
        let mut words = edit.in_words(verbs);
        if !section.is_empty() {
            words.append(&mut modes);
        }
        words
    });
    each.collect()
}

impl Family {
    /// Returns the result of a key set that was applied with these changes. Keys that other key sets handed to it count as changes.
    fn applied(&self, set: &KeySet, edit: &Edit, changes: Vec<String>) -> Applied {
        let id = set.name.id();
        let mut done_by_others = self.done_by_others.lock().unwrap_or_else(PoisonError::into_inner);
        for handover in edit.handed_over.iter().filter(|handover| handover.to != id) {
            done_by_others.entry(handover.to.clone()).or_default().push(handover.in_words("gave"));
        }
        let by_others = done_by_others.remove(&id).unwrap_or_default();
        let changes = if changes.is_empty() { by_others } else { changes };
        if changes.is_empty() { Applied::Unchanged } else { Applied::ChangedQuietly(changes) }
    }
}

/// Checks key sets, and returns each verdict with the index of its key set.
pub(crate) fn check(host: &Host, sets: &[&KeySet]) -> Vec<(usize, Outcome<Verdict>)> {
    let mut verdicts = Vec::new();
    for sets in by_user(sets.iter().copied()) {
        let (held_back, sets): (Vec<_>, Vec<_>) = sets.into_iter().partition(|(_, set)| set.held_back().is_some());
        for (place, set) in held_back {
            verdicts.extend(set.held_back().map(|error| (place, Outcome::failed(set, &error, Verdict::Failed))));
        }
        let (places, sets): (Vec<usize>, Vec<&KeySet>) = sets.into_iter().unzip();
        verdicts.extend(places.into_iter().zip(check_of_user(host, &sets)));
    }
    verdicts
}

fn check_of_user(host: &Host, sets: &[&KeySet]) -> Vec<Outcome<Verdict>> {
    let failed = |set: &&KeySet, error: &KeySetError| Outcome::failed(set, error, Verdict::Failed);
    let Some(first) = sets.first() else { return Vec::new() };
    let sections = match first.family.sections(host, sets) {
        Ok(sections) => Arc::new(sections),
        Err(error) => {
            let error = error.into();
            return sets.iter().map(|set| failed(set, &error)).collect();
        }
    };
    let to_compare = Arc::clone(&sections);
    let found = at_home_of(host, &first.name.user, move |home| home.compare(&to_compare));
    match found {
        Ok(change) => verdicts(&sections, &change).into_iter().map(Outcome::new).collect(),
        Err(KeySetError::Account(account)) if account.is_missing() && account.may_come() => {
            // Another entity may create the user before the apply.
            let verdicts = verdicts(&sections, &Change::of_new_file(&sections));
            let (warning, error) = (format!("{account}, so far"), KeySetError::Account(account));
            let outcome = |(set, verdict): (&&KeySet, Verdict)| match set.is_orphan() {
                true => failed(set, &error),
                false => Outcome { warnings: vec![warning.clone()], ..Outcome::new(verdict) },
            };
            sets.iter().zip(verdicts).map(outcome).collect()
        }
        Err(error) => sets.iter().map(|set| failed(set, &error)).collect(),
    }
}

fn verdicts(sections: &Sections, change: &Change) -> Vec<Verdict> {
    let mut by_others: HashMap<&BString, Vec<String>> = HashMap::new();
    let mut verdicts = Vec::new();
    let words = changes(sections, change, &PENDING);
    for ((section, edit), mut words) in sections.applied().zip(&change.edits.each).zip(words) {
        for handover in edit.handed_over.iter().filter(|handover| handover.to != *section.id()) {
            by_others.entry(&handover.to).or_default().push(handover.in_words("would give"));
        }
        if words.is_empty() {
            words = by_others.remove(section.id()).unwrap_or_default();
        }
        verdicts.push(if words.is_empty() { Verdict::InDesiredState } else { Verdict::WouldChange(words) });
    }
    verdicts
}

/// Returns the files that show what an apply of a key set would do, or `None` if it would not change the user's file.
pub(crate) fn preview(set: &KeySet, host: &Host) -> Result<Option<FilePair>, KeySetError> {
    if let Some(error) = set.held_back() {
        return Err(error);
    }
    // Most key sets are in their desired state, and need not be compared with those of all others.
    if set.has_its_keys(host)? {
        return Ok(None);
    }
    let sections = Arc::new(set.family.sections(host, &[set])?);
    let to_compare = Arc::clone(&sections);
    let change = match at_home_of(host, &set.name.user, move |home| home.compare(&to_compare)) {
        Err(KeySetError::Account(account)) if account.is_missing() && !set.is_orphan() => {
            Change::of_new_file(&sections)
        }
        change => change?,
    };
    let Some((before, after)) = change.edits.each.into_iter().find_map(|edit| edit.contents) else { return Ok(None) };
    let before = Some(before).filter(|_| !change.is_new_file);
    Ok(Some(set.show_change(host, before, after)?))
}

impl Entity for KeySet {
    fn report(&self) -> EntityReport {
        let mut report = EntityReport::new(self.name.id());
        report.edges.needs.push(Asset::new("user", self.name.user.as_str()));
        report.edges.owns.push(Asset::new("ssh-keys", [self.name.user.as_bytes(), b"/", &self.name.set].concat()));
        report.edges.watch.extend(self.watched.as_ref().map(|path| path.as_os_str().as_bytes().into()));
        let Some(source) = &self.source else {
            report.action = Action::because("Scrubbing", "source file has been deleted");
            report.edges.orphan = true;
            return report;
        };
        let path: BString = self.path.as_os_str().as_bytes().into();
        report.sources.push(path.clone());
        report.inform("found in", path);
        for key in source.keys() {
            report.inform("key is", key.listed());
        }
        if source.keys().next().is_none() {
            report.inform("is", "empty!");
        }
        report
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply_one(self, mode, output, |jobs, answers| apply(host, jobs, answers))
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        let outcomes = check(host, &[self]);
        outcomes.into_iter().next().map_or(Verdict::Failed, |(_, outcome)| outcome.report(output))
    }

    fn forget(&self, host: &Host, _: &mut Output<'_>) -> Result<(), ForgetError> {
        Ok(forget(host, self)?)
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        let name = [&self.name.set, &b"@"[..], self.name.user.as_bytes()].concat();
        let to = host.cache_dir().join(OsStr::from_bytes(&name));
        let is_there = self.copy_section(host, name.as_bstr()).unwrap_or_else(|_| {
            // An unreadable file must not be shown as an empty one. The dispatcher compares no directories.
            let _ = std::fs::remove_file(&to);
            let _ = std::fs::create_dir(&to);
            true
        });
        let pair = is_there.then(|| FilePair::new(&self.path, to))?;
        // The path of the copy differs between runs. In test mode, the path of version 3 is shown.
        let shown = self.watched.as_ref().filter(|_| !host.test_mode()).map(|path| host.below_root(path));
        Some(match shown {
            Some(shown) => pair.with_to_label(shown.as_os_str().as_bytes()),
            None => pair,
        })
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        preview(self, host).ok().flatten()
    }
}
