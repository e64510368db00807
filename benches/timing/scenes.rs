//! The measured scenes: one for each table, with steps as rows.

mod archives;
mod declared;
mod files;
mod packages;
mod peers;
mod scaffold;
mod services;

use crate::timing::limits::Least;
use crate::timing::probe;
use crate::timing::results::{Calls, Measurement};
use crate::timing::site::{Site, Words, create_folder, holo};
use anyhow::{Context, Result, ensure};
use holo_testing::{Need, Overlay, require};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A table of related measurements.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    /// The name of its entities.
    pub(crate) entities: &'static str,
    sizes: &'static [usize],
    pub(crate) needs: &'static [&'static [Need]],
    /// Creates the system of the scene, if it needs one of its own.
    pub(crate) system: Option<fn() -> Overlay>,
    pub(crate) prepare: fn(&Site) -> Result<()>,
    pub(crate) steps: Vec<Step>,
    /// Pairs of steps that are compared with each other.
    pub(crate) ratios: &'static [(&'static str, &'static str)],
    /// What a sceptical reader should know.
    pub(crate) remarks: &'static str,
}

/// A step of a scene.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// Preparation that is not timed.
    pub(crate) before: fn(&Site) -> Result<()>,
    pub(crate) words: fn(&Site) -> Result<Words>,
    /// Checks the output and the files on disk.
    pub(crate) is_right: fn(&Site, &[u8]) -> Result<bool>,
    /// Whether it removes files, in which case it runs after all others.
    pub(crate) is_late: bool,
    /// Whether its order with the next step alternates from round to round.
    pub(crate) takes_turns: bool,
    /// The minimum work; `None` for steps of other programs.
    pub(crate) least: Option<Least>,
}

impl Step {
    fn new(name: &'static str, words: fn(&Site) -> Result<Words>) -> Step {
        Step {
            name,
            before: |_| Ok(()),
            words,
            is_right: |_, _| Ok(true),
            is_late: false,
            takes_turns: false,
            least: None,
        }
    }

    fn after(self, before: fn(&Site) -> Result<()>) -> Step {
        Step { before, ..self }
    }

    fn checked(self, is_right: fn(&Site, &[u8]) -> Result<bool>) -> Step {
        Step { is_right, ..self }
    }

    /// Expects no output, because holo shows only changes.
    fn changes_nothing(self) -> Step {
        self.checked(|_, output| Ok(output.trim_ascii().is_empty()))
    }

    fn late(self) -> Step {
        Step { is_late: true, ..self }
    }

    fn at_least(self, least: Least) -> Step {
        Step { least: Some(least), ..self }
    }

    fn takes_turns(self) -> Step {
        Step { takes_turns: true, ..self }
    }

    /// Runs the step, and returns its cost.
    pub(crate) fn measure(&self, site: &Site) -> Result<Measurement> {
        (self.before)(site)?;
        let result = site.scratch_file("result");
        let [probe, word] = probe::words()?;
        let mut words = vec![probe, word, result.clone().into()];
        words.extend((self.words)(site)?);
        words.splice(0..0, site.pinned());
        let output = site.output(&words)?;
        self.judge(site, &output)?;
        serde_json::from_str(&site.read(&result)?).context("parse the measurement")
    }

    /// Runs the step, and returns its system calls.
    pub(crate) fn count(&self, site: &Site) -> Result<Calls> {
        (self.before)(site)?;
        let result = site.scratch_file("calls");
        let mut words = probe::counting(&result);
        words.extend((self.words)(site)?);
        let output = site.output(&words)?;
        self.judge(site, &output)?;
        probe::parse_calls(&site.read(&result)?)
    }

    fn judge(&self, site: &Site, output: &[u8]) -> Result<()> {
        let is_right = (self.is_right)(site, output)?;
        ensure!(is_right, "the timed program gave a wrong result:\n{}", String::from_utf8_lossy(output));
        Ok(())
    }
}

impl Scene {
    /// Creates a site for a round.
    pub(crate) fn site(&self, size: usize, cores: usize) -> Result<Site> {
        let system = self.system.map(|system| system().time_limit(Duration::from_secs(600)));
        let site = Site::make(system, size, cores)?;
        (self.prepare)(&site)?;
        Ok(site)
    }

    /// Returns the numbers of entities, limited to a maximum.
    pub(crate) fn sizes(&self, at_most: usize) -> Vec<usize> {
        let mut sizes: Vec<_> = self.sizes.iter().map(|size| *size.min(&at_most)).collect();
        sizes.dedup();
        sizes
    }

    /// Returns true if operations can be compared with a minimum.
    pub(crate) fn has_limits(&self) -> bool {
        self.steps.iter().any(|step| step.least.is_some())
    }

    /// Returns what this machine lacks for the scene, if anything.
    pub(crate) fn missing(&self) -> Option<String> {
        self.needs.iter().find_map(|needs| require::missing(needs))
    }

    /// Returns the steps in the order of a round; pairs of steps that take turns alternate.
    pub(crate) fn in_order(&self, round: usize) -> impl Iterator<Item = &Step> {
        let (mut in_order, mut steps) = (Vec::new(), self.steps.iter());
        while let Some(step) = steps.next() {
            if step.takes_turns && !round.is_multiple_of(2) {
                in_order.extend(steps.next());
            }
            in_order.push(step);
        }
        in_order.into_iter()
    }
}

pub(crate) fn all() -> Vec<Scene> {
    vec![
        files::scene(),
        declared::scene(),
        declared::chain(),
        scaffold::scene(),
        archives::scene(),
        packages::scene(),
        services::scene(),
        peers::twelve_plugins(),
        peers::scene(),
    ]
}

/// Returns a content of a few hundred bytes that differs from file to file.
fn content(word: &str, number: usize) -> String {
    const SIZE: usize = 400;
    let mut text = format!("{word} {number}\n").repeat(SIZE);
    text.truncate(SIZE);
    text
}

/// Returns the path of an entity's target, relative to the root.
fn target(number: usize) -> String {
    const FILES_IN_FOLDER: usize = 100;
    format!("srv/{:04}/{number:06}.conf", number / FILES_IN_FOLDER)
}

/// Returns true if all targets below a directory have the content with this word.
fn is_filled(site: &Site, dir: &Path, word: &str) -> Result<bool> {
    for number in 0..site.size {
        let path = dir.join(target(number));
        let found = fs::read(&path);
        if !found.is_ok_and(|found| found == content(word, number).as_bytes()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the command line that copies the contents of a directory.
fn rsync(options: &str, from: &Path, to: &Path) -> Words {
    // Without the slash, rsync would copy the directory itself.
    vec!["rsync".into(), options.into(), from.join("").into(), to.into()]
}

/// Returns the steps that find everything as it should be, alternating with those of rsync, which compare the same:
/// sizes and times, then contents. `copy` and `copy_contents` are the command lines of rsync.
fn nothing_to_do(
    compared: Least,
    verified: Least,
    copy: fn(&Site) -> Result<Words>,
    copy_contents: fn(&Site) -> Result<Words>,
) -> [Step; 5] {
    let apply = Step::new("apply, nothing to do", |_| holo(&["apply"])).at_least(compared).after(Site::settle);
    let verify = Step::new("apply --verify, nothing to do", |_| holo(&["apply", "--verify"])).at_least(verified);
    let steps = [
        apply,
        Step::new("`rsync -a`, all equal", copy),
        verify,
        Step::new("`rsync -ac`, all equal", copy_contents),
        Step::new("check", |_| holo(&["check"])).at_least(compared),
    ];
    steps.map(Step::changes_nothing)
}

/// Writes a file that was last modified an hour ago, so that rsync takes it for another version of one of the same size.
fn write_old(path: &Path, text: &str) -> Result<()> {
    create_folder(path.parent().unwrap_or(path))?;
    fs::write(path, text)?;
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    Ok(File::options().write(true).open(path)?.set_modified(hour_ago)?)
}
