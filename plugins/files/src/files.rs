//! The plugin: scans for managed files and applies sets of them.

use crate::adoption;
use crate::declared;
use crate::edits::{self, EditEntity};
use crate::known_files::{News, ScannedFiles};
use crate::managed::{ManagedFile, tidy_up};
use crate::overlay::{self, FileEntity};
use crate::read::Read;
use bstr::{BStr, BString};
use holo_change::claims::{self, Layers};
use holo_change::tracked::EditedFiles;
use holo_plugin::declared::apply_together;
use holo_plugin::index::Table;
use holo_plugin::{
    Adopted, Adoption, Applied, Candidate, Diagnosis, Entity, Host, Job, Output, Part, Plugin, ScanError, ScanLimit,
    SetAnswers, Sink, Stream, Verdict, Witness, in_threads,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[derive(Default)]
pub(crate) struct Files {
    /// True if valid definition files are recorded in test mode too. By default they are not, because scenarios compare all remaining files.
    pub(crate) records_in_test_mode: bool,
    pub(crate) tidying: Tidying,
    pub(crate) known_files: News,
}

/// Decides when to remove records that are no longer needed. As that requires all records to be read, it is done once per run: with the
/// last set or, if not all files were selected, at the end of the run. A run that is limited to few files leaves it to the next full run.
#[derive(Default)]
pub(crate) struct Tidying {
    /// The number of scanned files that have not been applied yet.
    left: AtomicUsize,
    is_due: AtomicBool,
    is_limited: AtomicBool,
    /// True if a scanned file may be put back. The records of such files must be removed, or they would be listed again.
    puts_back: AtomicBool,
    /// True if there are no managed files at all, so that no set follows.
    is_empty: AtomicBool,
}

impl Tidying {
    fn found(&self, files: &[ManagedFile], is_limited: bool) {
        let count = files.iter().filter(|file| file.is_declared()).count();
        let puts_back = files.iter().any(ManagedFile::may_be_put_back);
        // A limited scan may be one of several.
        let (before, put_back_before) = match is_limited {
            true => (self.left.load(Ordering::Relaxed), self.puts_back.load(Ordering::Relaxed)),
            false => (0, false),
        };
        self.left.store(before + count, Ordering::Relaxed);
        self.puts_back.store(put_back_before || puts_back, Ordering::Relaxed);
        self.is_empty.store(files.is_empty() && !is_limited, Ordering::Relaxed);
        self.is_limited.store(is_limited, Ordering::Relaxed);
    }

    /// Counts applied files. Returns true if they were the last.
    fn applied(&self, count: usize) -> bool {
        let left = self.left.load(Ordering::Relaxed).saturating_sub(count);
        self.left.store(left, Ordering::Relaxed);
        let is_ours = !self.is_limited.load(Ordering::Relaxed) || self.puts_back.load(Ordering::Relaxed);
        self.is_due.store(is_ours && left > 0, Ordering::Relaxed);
        is_ours && left == 0
    }
}

impl Files {
    /// Returns true if valid definition files are recorded.
    fn records(&self, host: &Host) -> bool {
        self.records_in_test_mode || !host.test_mode()
    }

    /// Publishes and records the results of a scan: managed files, and files with edits.
    fn found(
        &self,
        host: &Host,
        (files, mut layers): (&[ManagedFile], Layers),
        limit: Option<ScanLimit<'_>>,
        output: &mut Output<'_>,
    ) {
        layers.extend(files.iter().flat_map(ManagedFile::layers));
        if let Some(ScanLimit::Ids(ids)) = limit {
            layers.extend(overlay::scan::pending_in(host, ids).into_iter().map(|path| (path, None)));
        }
        if let Err(error) = claims::publish_layers(host.locations(), layers, limit.is_some()) {
            output.error(error.to_string());
        }
        let leaving = overlay::scrub::all_restored(files.iter().filter_map(ManagedFile::leaving), host);
        let gone = edits::gone_with(files.iter().filter_map(ManagedFile::orphaned_edit), host);
        let publish = |leaving| claims::publish_leaving(host.locations(), leaving, gone, limit.is_some());
        let published = leaving.and_then(publish);
        if let Err(error) = published {
            output.error(error.to_string());
        }
        self.tidying.found(files, limit.is_some());
        if files.iter().any(|file| matches!(file, ManagedFile::Contradicted(_))) {
            self.known_files.forget();
        }
    }

    /// Reads the definition files and the records.
    fn read(&self, host: &Host, limit: Option<ScanLimit<'_>>, output: &mut Output<'_>) -> Result<Read, ScanError> {
        Read::new(host, &ScannedFiles::new(host, limit, &self.known_files), output)
    }
}

impl Plugin for Files {
    type Entity = ManagedFile;

    const READS: &'static [&'static str] = &["*.toml", "*.toml.jinja", "*/**"];

    const CONCURRENT: bool = true;
    const ADOPTS: bool = true;
    const FINDS_OWNERS: bool = true;

    const SENDS: &'static [&'static str] = &["file#sha256"];

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<ManagedFile>, ScanError> {
        let overlays = overlay::scan::all(host, output)?;
        let read = self.read(host, None, output)?;
        let edited = read.edits.kept();
        let files = read.into_entities(host, overlays, output);
        self.found(host, (&files, edited), None, output);
        Ok(files)
    }

    fn scan_witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        // New and removed bases change the times of their directories.
        let bases = overlay::scan::base_directories(host)?.into_iter().map(|path| Witness::file(&path));
        Some(bases.chain(overlay::of_plugin(host)).collect())
    }

    fn scan_limited(
        &self,
        host: &Host,
        limit: ScanLimit<'_>,
        output: &mut Output<'_>,
    ) -> Result<Vec<ManagedFile>, ScanError> {
        let read = self.read(host, Some(limit), output)?;
        // A declared path may refer to the same file as any overlay.
        let overlays = match limit {
            ScanLimit::Ids(ids) if read.declared.is_empty() && read.edits.is_empty() => {
                overlay::scan::some(host, ids, output)?
            }
            ScanLimit::Prefix(prefix) if read.edits.is_empty() => overlay::scan::beginning(host, prefix, output)?,
            ScanLimit::Neighbours { needs, provides } if read.declared.is_empty() && read.edits.is_empty() => {
                overlay::scan::neighbours(host, needs, provides, output)?
            }
            // Overlays own nothing.
            ScanLimit::Owners(_) if read.declared.is_empty() && read.edits.is_empty() => Vec::new(),
            _ => overlay::scan::all(host, output)?,
        };
        let edited = read.edits.kept();
        let files = read.into_entities(host, overlays, output);
        self.found(host, (&files, edited), Some(limit), output);
        Ok(files)
    }

    fn find(&self, host: &Host, id: &BStr, output: &mut Output<'_>) -> Result<Option<ManagedFile>, ScanError> {
        let read = self.read(host, None, output)?;
        let overlays = match read.edits.is_empty() {
            true => overlay::scan::one(host, id, output)?.into_iter().collect(),
            false => overlay::scan::all(host, output)?,
        };
        let all = read.into_entities(host, overlays, output);
        Ok(all.into_iter().find(|file| file.report().id == id))
    }

    fn find_again(&self, host: &Host, ids: &[BString], output: &mut Output<'_>) -> Vec<ManagedFile> {
        // Unlike a scan, this must not count files again.
        let overlays = overlay::scan::some(host, ids, output).unwrap_or_default();
        let Ok(read) = self.read(host, None, output) else { return Vec::new() };
        let mut found = read.into_entities(host, overlays, output);
        found.retain(|file| ids.contains(&file.report().id));
        found
    }

    fn check_set(&self, host: &Host, set: &[Job<'_, ManagedFile>], answers: &mut dyn SetAnswers<Verdict>) {
        let overlays: Vec<Job<'_, FileEntity>> = set
            .iter()
            .filter_map(|job| match job.entity {
                ManagedFile::Overlay(entity) => Some(Job { entity, mode: job.mode }),
                _ => None,
            })
            .collect();
        let edited = EditedFiles::of(host.locations());
        let restored = claims::recursive(host.locations());
        let is_restored = |entity: &FileEntity| {
            let may_be = || entity.path.ancestors().any(|above| restored.contains_key(above));
            !entity.has_base && (edited.contain(&entity.path).unwrap_or(true) || may_be())
        };
        let mut checked = overlay::check_many(host, &overlays).into_iter();
        let declared = declared::Checks::open(host);
        let edits: Vec<Job<'_, EditEntity>> = set
            .iter()
            .filter_map(|job| match job.entity {
                ManagedFile::Edit(edit) if edit.common.skipped.is_none() => Some(edit.job(job.mode)),
                _ => None,
            })
            .collect();
        let mut edits = edits::check(host, &edits).into_iter();
        let mut with_scripts = Vec::new();
        for (place, job) in set.iter().enumerate() {
            let verdict = match job.entity {
                ManagedFile::WithSidecar(_) => {
                    with_scripts.push((place, job));
                    continue;
                }
                ManagedFile::Overlay(entity) => match checked.next().flatten().filter(|_| !is_restored(entity)) {
                    Some(checked) => checked.tell(&mut answers.output(place)),
                    None => {
                        with_scripts.push((place, job));
                        continue;
                    }
                },
                ManagedFile::Declared(entity) => declared.check(entity, job.mode, &mut answers.output(place)),
                ManagedFile::Edit(edit) if edit.common.skipped.is_none() => {
                    let checked = edits.next();
                    checked.map_or(Verdict::Failed, |checked| checked.tell(&mut answers.output(place)))
                }
                _ => job.entity.check(host, job.mode, &mut answers.output(place)),
            };
            answers.end(place, verdict);
        }
        // Holoscripts only print the desired content. As nothing is changed, their order does not matter.
        in_threads(with_scripts, host.jobs(), answers, &|(place, job), answers| {
            let verdict = job.entity.check(host, job.mode, &mut answers.output(place));
            answers.end(place, verdict);
        });
    }

    fn apply_set(&self, host: &Host, set: &[Job<'_, ManagedFile>], answers: &mut dyn SetAnswers) {
        let (mut overlays, mut places) = (Vec::new(), Table::new());
        for (place, job) in set.iter().enumerate() {
            if let ManagedFile::Overlay(entity) = job.entity {
                overlays.push(Job { entity, mode: job.mode });
                places.push(place);
            }
        }
        if !overlays.is_empty() {
            overlay::apply(host, &overlays, &mut Part { places, answers });
        }
        apply_with_sidecars(host, set, answers);
        apply_edits(host, set, answers);
        let left = set.iter().filter(|job| job.entity.is_declared()).count();
        if left > 0 {
            let mut answers = LastLater { answers, left, last: None };
            apply_declared(host, set, &mut answers);
            let is_last = self.tidying.applied(left);
            if let Some((place, applied)) = answers.last.take() {
                if is_last {
                    tidy_up(host, |_| true, &mut answers.output(place));
                }
                answers.answers.end(place, applied);
            }
        } else if self.tidying.applied(0) {
            // A killed run may have left something.
            tidy_up(host, |_| true, &mut Output::new(&mut DiscardOutput));
        }
        if self.records(host) {
            self.known_files.keep(host);
        }
    }

    fn candidates(
        &self,
        host: &Host,
        include: &[PathBuf],
        output: &mut Output<'_>,
    ) -> Result<Vec<Candidate>, ScanError> {
        let managed = self.scan(host, output)?;
        Ok(adoption::candidates(host, &managed, include))
    }

    fn adopt(&self, host: &Host, adoption: Adoption<'_>, output: &mut Output<'_>) -> Adopted {
        let edits = || self.scan(host, &mut Output::new(&mut DiscardOutput)).unwrap_or_default();
        adoption::adopt(host, adoption, output, |id, output| self.find(host, id, output), &edits)
    }

    fn doctor(&self, host: &Host, _: &mut Output<'_>) -> Vec<Diagnosis> {
        overlay::doctor::diagnose(host)
    }

    fn end(&self, host: &Host) {
        if self.tidying.is_due.load(Ordering::Relaxed) {
            // The output is no longer read. The next apply finds and reports what cannot be removed.
            tidy_up(host, |_| true, &mut Output::new(&mut DiscardOutput));
        }
        // A killed run may have left files, and then the definitions have gone. Version 3 scans in any command.
        if !host.only_reads() && host.api_version() > 3 {
            overlay::recover(host);
            if self.tidying.is_empty.load(Ordering::Relaxed) {
                tidy_up(host, |_| true, &mut Output::new(&mut DiscardOutput));
            }
        }
    }
}

/// A sink that discards the output.
struct DiscardOutput;

impl Sink for DiscardOutput {
    fn write(&mut self, _: Stream, _: &[u8]) {}
}

/// Applies the overlays of a set that have sidecars.
fn apply_with_sidecars(host: &Host, set: &[Job<'_, ManagedFile>], answers: &mut dyn SetAnswers) {
    let (mut overlays, mut places) = (Vec::new(), Table::new());
    for (place, job) in set.iter().enumerate() {
        if let ManagedFile::WithSidecar(entity) = job.entity {
            overlays.push(Job { entity: &**entity, mode: job.mode });
            places.push(place);
        }
    }
    let mut part = Part { places, answers };
    apply_together(host, &overlays, &mut part, |jobs, answers| overlay::apply(host, jobs, answers));
}

/// Applies the declared files of a set.
fn apply_declared(host: &Host, set: &[Job<'_, ManagedFile>], answers: &mut dyn SetAnswers) {
    let (mut declared, mut places) = (Vec::new(), Table::new());
    for (place, job) in set.iter().enumerate() {
        if let ManagedFile::Declared(entity) = job.entity {
            declared.push(Job { entity: &**entity, mode: job.mode });
            places.push(place);
        }
    }
    let mut part = Part { places, answers };
    apply_together(host, &declared, &mut part, |jobs, answers| declared::apply(host, jobs, answers));
    for (place, job) in set.iter().enumerate() {
        if matches!(job.entity, ManagedFile::OverlayAfter(..) | ManagedFile::Contradicted(_)) {
            answers.begin(place);
            let applied = job.entity.apply_alone(host, job.mode, &mut answers.output(place));
            answers.end(place, applied);
        }
    }
}

/// Applies the edits of a set in order, because several may concern the same file.
fn apply_edits(host: &Host, set: &[Job<'_, ManagedFile>], answers: &mut dyn SetAnswers) {
    let (mut edits, mut places) = (Vec::new(), Table::new());
    for (place, job) in set.iter().enumerate() {
        if let ManagedFile::Edit(edit) = job.entity {
            edits.push(Job { entity: &**edit, mode: job.mode });
            places.push(place);
        }
    }
    if !edits.is_empty() {
        let mut part = Part { places, answers };
        apply_together(host, &edits, &mut part, |jobs, answers| edits::apply(host, jobs, answers));
    }
}

/// Holds back the last answer until the final step is done.
struct LastLater<'a> {
    answers: &'a mut dyn SetAnswers,
    left: usize,
    last: Option<(usize, Applied)>,
}

impl SetAnswers for LastLater<'_> {
    fn begin(&mut self, place: usize) {
        self.answers.begin(place);
    }

    fn output(&mut self, place: usize) -> Output<'_> {
        self.answers.output(place)
    }

    fn hold_back(&mut self) {
        self.answers.hold_back();
    }

    fn flush(&mut self) {
        self.answers.flush();
    }

    fn end(&mut self, place: usize, applied: Applied) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.last = Some((place, applied));
        } else {
            self.answers.end(place, applied);
        }
    }
}
