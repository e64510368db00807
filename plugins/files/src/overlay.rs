//! Overlays: resource files that change files which were installed otherwise.

pub(crate) mod adopt;
mod blame;
mod change;
mod check;
pub(crate) mod context;
mod desired;
pub(crate) mod doctor;
pub(crate) mod entity;
pub(crate) mod layout;
mod preparation;
mod preview;
mod provision;
pub(crate) mod scan;
pub(crate) mod scrub;
mod stock;

pub(crate) use change::FAILED_UNCHANGED;
pub(crate) use check::{Checked, check_many};
pub(crate) use entity::{
    FileEntity, OverlayDefinition, PATCH_SUFFIX, PREFIX, Resource, SCRIPT_SUFFIX, TEMPLATE_SUFFIX,
};
pub(crate) use preparation::BufferedOutput;

use change::{Change, Consequences, Outcome};
use check::Target;
use context::Context;
use holo_change::image_store::{ImageStore, STAGED};
use holo_change::tracked::{State, Unmanaged};
use holo_change::{Commits, Ended, Image};
use holo_plugin::system::OS_RELEASE_PATHS;
use holo_plugin::{
    Applied, Entity, EntityReport, FilePair, ForgetError, Host, Job, Mode, Output, SetAnswers, Span, Verdict, Witness,
    apply_one,
};
use preparation::Indexed;
use std::path::{Path, PathBuf};
use stock::Distribution;

/// The maximum number of entities that are inspected concurrently before the first of them is changed.
const LOOKED_AT_TOGETHER: usize = 512;

/// Applies entities.
pub(crate) fn apply(host: &Host, set: &[Job<'_, FileEntity>], answers: &mut dyn SetAnswers) {
    let opened = Context::open(host).and_then(|context| {
        let mut sensitive =
            set.iter().filter(|job| job.entity.sidecar.as_ref().is_some_and(|sidecar| sidecar.sensitive));
        sensitive.try_for_each(|job| entity::remember(&job.entity.path, &context.layout.images))?;
        Ok(context)
    });
    match opened {
        Ok(context) => work_on(set, context, answers),
        Err(error) => fail(set.len(), &error.to_string(), answers),
    }
}

fn work_on(set: &[Job<'_, FileEntity>], mut context: Context<'_>, answers: &mut dyn SetAnswers) {
    let mut commits = Commits::default();
    let mut own_bases = Vec::new();
    let jobs: Vec<Indexed<'_, '_>> = set.iter().enumerate().collect();
    let runs_programs = |(_, job): &Indexed<'_, '_>| job.entity.runs_programs();
    // At most one program per processor, so that no change waits for more than the programs started with it.
    let programs = context.programs_at_a_time();
    let size = |part: &[Indexed<'_, '_>]| if part.iter().any(runs_programs) { programs } else { LOOKED_AT_TOGETHER };
    // A program may change anything, so the entities after it are inspected only when it has ended.
    let parts = jobs.chunk_by(|one, other| runs_programs(one) == runs_programs(other));
    for part in parts.flat_map(|part| part.chunks(size(part))) {
        if part.iter().any(runs_programs) {
            // Programs must find earlier changes on disk. Besides, changes should not wait for slow programs.
            tell(commits.flush(&context.layout.images), &mut own_bases, answers);
            context.separate_bases(&mut own_bases);
        }
        let unchanged = context.find_unchanged(part);
        let is_concurrent = |((_, job), unchanged): &(&Indexed<'_, '_>, &bool)| {
            !**unchanged && context.can_prepare_concurrently(job.entity)
        };
        let concurrent: Vec<Indexed<'_, '_>> =
            part.iter().zip(&unchanged).filter(is_concurrent).map(|(job, _)| *job).collect();
        let mut prepared = context.prepare_many(&concurrent, answers).into_iter().peekable();
        for (&(index, job), is_unchanged) in part.iter().zip(unchanged) {
            if is_unchanged {
                answers.end(index, Applied::Unchanged);
            } else {
                let change = match prepared.next_if(|prepared| prepared.change.consequences.index == index) {
                    Some(prepared) => prepared.tell(&mut answers.output(index)),
                    None => {
                        answers.begin(index);
                        context.prepare((index, job), &mut answers.output(index))
                    }
                };
                if change.files.is_empty() {
                    answers.end(index, change.into_outcome());
                } else {
                    commits.add(change.files, change.consequences, &context.layout.images);
                }
            }
            let ended = commits.poll(&context.layout.images, context.commits_in_background());
            tell(ended, &mut own_bases, answers);
        }
    }
    tell(commits.flush(&context.layout.images), &mut own_bases, answers);
    context.separate_bases(&mut own_bases);
    let orphans = set.iter().filter(|job| job.entity.is_orphan()).map(|job| job.entity.path.as_path());
    entity::forget(orphans, context.host, &context.layout.images);
    context.close();
}

/// Removes what a killed apply has left, if there is no overlay any more.
pub(crate) fn recover(host: &Host) {
    if host.state_dir().join(STAGED).exists()
        && let Ok(context) = Context::open(host)
    {
        context.close();
    }
}

/// Returns the witnesses of all overlays: no apply was killed, and the distribution is the same.
pub(crate) fn of_plugin(host: &Host) -> Vec<Witness> {
    let staged = Witness::absent(&host.state_dir().join(STAGED));
    let releases = OS_RELEASE_PATHS.map(|path| Witness::file(&host.below_root(Path::new(path))));
    [staged].into_iter().chain(releases).collect()
}

/// Reports the results of changes, and collects targets whose original files have become their bases.
fn tell(ended: Vec<Ended<ImageStore, Consequences>>, own_bases: &mut Vec<PathBuf>, answers: &mut dyn SetAnswers) {
    if ended.is_empty() {
        return;
    }
    answers.hold_back();
    for Outcome { index, applied, failure, shares_base } in ended.into_iter().map(Outcome::from) {
        own_bases.extend(shares_base);
        if let Some(failure) = failure {
            answers.output(index).error(format!("skipping target: {failure}"));
        }
        answers.end(index, applied);
    }
    answers.flush();
}

impl FileEntity {
    /// Removes the images of an orphan, and leaves its target.
    fn forget_images(&self, host: &Host, output: &mut Output<'_>) -> Result<(), Unmanaged> {
        let context = Context::open(host)?;
        let images = &context.layout.images;
        let (base, target) = (images.base(&self.path), images.target(&self.path));
        if State::of(&base).ok() != State::of(&target).ok() {
            host.keep_original(self.id(), &self.path, &base, self.is_sensitive(), output)?;
        }
        let mut change = Change::new(0, &self.path);
        change.files.forget_target();
        let mut commits = Commits::default();
        commits.add(change.files, change.consequences, images);
        let ended = commits.flush(images);
        ended.into_iter().try_for_each(|(_, _, result)| result)?;
        entity::forget([self.path.as_path()].into_iter(), host, images);
        context.close();
        Ok(())
    }

    /// Checks an overlay whose target will have the image `before` when it is applied, or none.
    pub(crate) fn check_after(
        &self,
        before: Option<Image>,
        host: &Host,
        mode: Mode<'_>,
        output: &mut Output<'_>,
    ) -> Verdict {
        check::check(self, (host, mode), Target::Restored(before), output)
    }

    /// Returns the preview of an overlay whose target will have the content `before` when it is applied. `of_others` means that
    /// other entities are shown to make it.
    pub(crate) fn preview_after(&self, host: &Host, before: &Image, of_others: bool) -> Option<FilePair> {
        preview::preview_after(self, host, Some(before), of_others).ok().flatten()
    }
}

impl Entity for FileEntity {
    fn report(&self) -> EntityReport {
        self.to_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply_one(self, mode, output, |set, answers| apply(host, set, answers))
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        check::check(self, (host, mode), Target::Found, output)
    }

    fn forget(&self, host: &Host, output: &mut Output<'_>) -> Result<(), ForgetError> {
        Ok(self.forget_images(host, output)?)
    }

    fn witnesses(&self, host: &Host) -> Option<Vec<Witness>> {
        // Programs and templates may give another result each time.
        self.deciding_resources()?;
        let images = [self.shown_target(), self.shown_base(), self.shown_provisioned()];
        let images = images.map(|path| Witness::file(&path));
        let distribution = Distribution::of(host.system().os_release());
        let stock = distribution.suffixes().iter().map(|suffix| {
            let mut path = self.shown_target().into_os_string();
            path.push(suffix);
            Witness::absent(Path::new(&path))
        });
        Some(images.into_iter().chain(stock).chain(of_plugin(host)).collect())
    }

    fn diff(&self, _: &Host) -> Option<FilePair> {
        (!self.is_sensitive()).then(|| FilePair::new(self.shown_provisioned(), self.shown_target()))
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        preview::preview(self, host).ok().flatten()
    }

    fn blame(&self, host: &Host, _: Option<&Path>) -> Option<Vec<Span>> {
        if self.is_sensitive() { None } else { blame::blame(self, host).ok().flatten() }
    }
}

fn fail(count: usize, reason: &str, answers: &mut dyn SetAnswers) {
    for index in 0..count {
        answers.begin(index);
        answers.output(index).error(format!("skipping target: {reason}"));
        answers.end(index, FAILED_UNCHANGED);
    }
}
