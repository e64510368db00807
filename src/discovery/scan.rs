//! Scans all plugins concurrently, and shows the results in the order of the configuration.

use super::inventory::Failures;
use crate::entities::node::{PerEntity, PluginIndex, Table};
use crate::entities::resources::Resources;
use crate::entities::{Account, Entity};
use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use crate::plugin::{OperationError, Plugin, PluginError};
use crate::report::{Provisional, RemarkKind, Remarks, Severity};
use bstr::ByteSlice;
use holo_protocol::API_VERSION_4;
use holo_protocol::report::{Outline, OutlinedReport};
use holo_protocol::session::Stream;
use holo_protocol::words::reason;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, Builder};
use std::{io, mem};

/// The entities that the plugins have listed.
pub struct Scanned {
    /// The entities of all plugins, grouped by plugin and sorted by ID.
    pub entities: PerEntity<Entity>,
    /// For each plugin, whether an entity may be missing: the plugin has failed, or it speaks version 4 and has
    /// reported an error, such as an invalid definition.
    pub flaws: Table<PluginIndex, bool>,
    /// For each plugin, whether it was scanned for some entities only.
    pub limited: Table<PluginIndex, bool>,
}

/// The answer of a plugin to a scan.
pub struct Answered {
    /// The output that preceded the answer.
    pub output: Vec<(Stream, Vec<u8>)>,
    /// The report, or the error.
    pub answer: Result<OutlinedReport, OperationError>,
    /// Whether the scan was limited to some entities.
    pub is_limited: bool,
}

/// Scans all plugins except those that have answered already, whose answers are given by plugin index.
///
/// # Errors
/// If a plugin fails or its report cannot be read, and that is not tolerated. If several fail, the first in the order
/// of the configuration is shown.
pub fn all(
    plugins: &mut Table<PluginIndex, Plugin>,
    mut answered: HashMap<usize, Answered>,
    at_once: usize,
    resources: &Arc<Resources>,
    failures: &mut Failures,
    interrupt: &Interrupt,
    remarks: &mut Provisional<'_>,
) -> Result<Scanned, FatalError> {
    let scanned: Vec<(String, u32)> = plugins.iter().map(|plugin| (plugin.id.clone(), plugin.api_version())).collect();
    let limited = (0..plugins.len()).map(|index| answered.get(&index).is_some_and(|answered| answered.is_limited));
    let limited: Table<PluginIndex, bool> = limited.collect();
    let mut diagnostics = Diagnostics::default();
    let mut of_plugins = Vec::new();
    let mut flaws = Table::new();
    let ask = |(plugin, answered): (&mut Plugin, Option<Answered>), on_output: &mut dyn FnMut(Stream, &[u8])| {
        let Some(Answered { output, answer, .. }) = answered else { return plugin.scan(None, interrupt, on_output) };
        output.iter().for_each(|(stream, bytes)| on_output(*stream, bytes));
        answer
    };
    let items: Vec<_> =
        plugins.iter_mut().enumerate().map(|(index, plugin)| (plugin, answered.remove(&index))).collect();
    concurrently(items, at_once, ask, |index, heard| {
        let Some((plugin_id, version)) = scanned.get(index) else { return Ok(()) };
        match heard {
            Heard::Output(stream, bytes) => {
                let shown = resources.show_originals(bytes.as_bstr());
                match stream {
                    Stream::Stderr if *version >= API_VERSION_4 => diagnostics.read(&shown, remarks),
                    stream => remarks.output(stream, &shown),
                }
            }
            Heard::Answer(answer) => {
                let is_flawed = diagnostics.finish(remarks);
                let entities = report_of(plugin_id, answer, remarks)?.map(|OutlinedReport { text, outlines }| {
                    let resources = Arc::clone(resources);
                    let account = Account { plugin_id: plugin_id.clone(), version: *version, report: text, resources };
                    entities(index.into(), account, outlines)
                });
                flaws.push(is_flawed || entities.is_none());
                if entities.is_none() {
                    failures.add(plugin_id, Some(*version), remarks)?;
                }
                of_plugins.push(entities.unwrap_or_default());
            }
        }
        Ok(())
    })?;
    // Usually one plugin has nearly all entities; avoid moving those.
    let mut of_plugins = of_plugins.into_iter();
    let first = of_plugins.next().unwrap_or_default();
    let entities = of_plugins.fold(first, |mut all, some| {
        all.extend(some);
        all
    });
    Ok(Scanned { entities: entities.into(), flaws, limited })
}

/// The lines that plugins of version 4 write to stderr during a scan: errors begin with `!! `, warnings with `>> `.
#[derive(Default)]
struct Diagnostics {
    unfinished: Vec<u8>,
    is_flawed: bool,
}

impl Diagnostics {
    /// Takes output, which may end in the middle of a line.
    fn read(&mut self, bytes: &[u8], remarks: &mut impl Remarks) {
        self.unfinished.extend_from_slice(bytes);
        let end = self.unfinished.rfind_byte(b'\n').map_or(0, |last| last + 1);
        let rest = self.unfinished.split_off(end);
        let whole = mem::replace(&mut self.unfinished, rest);
        whole.lines_with_terminator().for_each(|line| self.line(line, remarks));
        remarks.say(RemarkKind::UnsortedOutput, bytes);
    }

    /// Ends a plugin's scan, and an unfinished line with it. Returns true if there was an error.
    fn finish(&mut self, remarks: &mut impl Remarks) -> bool {
        let line = mem::take(&mut self.unfinished);
        if !line.is_empty() {
            self.line(&line, remarks);
        }
        mem::take(&mut self.is_flawed)
    }

    fn line(&mut self, line: &[u8], remarks: &mut impl Remarks) {
        let text = |severity: Severity| line.strip_prefix(severity.mark().as_bytes());
        let marked =
            [Severity::Error, Severity::Warning].into_iter().find_map(|severity| Some((severity, text(severity)?)));
        let Some((severity, text)) = marked else { return remarks.say(RemarkKind::Diagnostic(None), line) };
        self.is_flawed |= severity == Severity::Error;
        remarks.say(RemarkKind::Diagnostic(Some(severity)), text.trim_end_with(|letter| letter == '\n'));
    }
}

/// Returns the scan report if it can be read; otherwise reports the reason.
fn report_of(
    plugin_id: &str,
    answer: Result<OutlinedReport, OperationError>,
    remarks: &mut impl Remarks,
) -> Result<Option<OutlinedReport>, FatalError> {
    match answer {
        Ok(report) => {
            remarks.end_paragraph();
            Ok(Some(report))
        }
        Err(OperationError::Failed(PluginError::Report(errors))) => {
            remarks.end_paragraph();
            for error in errors {
                remarks.error(format!("error in scan report of {plugin_id}, {error}"));
            }
            Ok(None)
        }
        Err(OperationError::Failed(reason)) => {
            // As in version 3, this does not end a paragraph.
            remarks.error(format!("scan with plugin {plugin_id} failed: {reason}"));
            Ok(None)
        }
        Err(OperationError::Fatal(fatal)) => Err(fatal),
    }
}

/// Returns the entities of a report, sorted by ID.
fn entities(plugin: PluginIndex, account: Account, outlines: Vec<Outline>) -> Vec<Entity> {
    let mut entities = Entity::of_account(plugin, account, outlines);
    entities.sort_by(|one, other| one.id().cmp(other.id()));
    entities
}

/// Output or answer that belongs to an item.
pub enum Heard<'a, A> {
    /// A piece of output.
    Output(Stream, &'a [u8]),
    /// The answer, which comes last.
    Answer(A),
}

/// Runs `ask` on up to `at_once` items at a time, each in its own thread, and delivers output and answers to `hear` in
/// the order of the items.
///
/// Output of the first unfinished item is delivered immediately, that of the others when their turn comes. If `hear`
/// returns an error, the run ends, and output of later items is dropped.
///
/// # Errors
/// The first error of `hear`, or a thread that cannot be started.
pub fn concurrently<T: Send, A: Send>(
    items: impl IntoIterator<Item = T>,
    at_once: usize,
    ask: impl Fn(T, &mut dyn FnMut(Stream, &[u8])) -> A + Sync,
    mut hear: impl FnMut(usize, Heard<'_, A>) -> Result<(), FatalError>,
) -> Result<(), FatalError> {
    let (ask, permits) = (&ask, &Permits::new(at_once));
    thread::scope(|scope| {
        let mut asked = Vec::new();
        for item in items {
            let (sender, receiver) = channel();
            let work = move || {
                let _permit = permits.take();
                // The receiver is gone if an earlier item has ended the run.
                ask(item, &mut |stream, bytes| drop(sender.send((stream, bytes.to_vec()))))
            };
            let thread = Builder::new()
                .spawn_scoped(scope, work)
                .map_err(|error| FatalError::could_not_run(ThreadError::NotStarted(error)))?;
            asked.push((receiver, thread));
        }
        for (index, (receiver, thread)) in asked.into_iter().enumerate() {
            for (stream, bytes) in receiver {
                hear(index, Heard::Output(stream, &bytes))?;
            }
            let answer = thread.join().map_err(|_| FatalError::could_not_run(ThreadError::EndedEarly))?;
            hear(index, Heard::Answer(answer))?;
        }
        Ok(())
    })
}

/// A counting semaphore that limits the number of threads at work.
struct Permits {
    left: Mutex<usize>,
    given_back: Condvar,
}

/// A permit, which is returned on drop.
struct Permit<'a>(&'a Permits);

impl Permits {
    fn new(count: usize) -> Permits {
        Permits { left: Mutex::new(count.max(1)), given_back: Condvar::new() }
    }

    /// Waits for a permit.
    fn take(&self) -> Permit<'_> {
        // The counter is consistent even if a thread panicked while holding the lock.
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = self.given_back.wait_while(left, |left| *left == 0).unwrap_or_else(PoisonError::into_inner);
        *left -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}

/// A plugin cannot be queried in a thread of its own.
#[derive(Debug, thiserror::Error)]
enum ThreadError {
    #[error("cannot ask a plugin in a thread: {}", reason(.0))]
    NotStarted(io::Error),
    #[error("cannot ask a plugin in a thread: it ended early")]
    EndedEarly,
}

/// The number of descriptors that a plugin takes while it starts: its pipes, and the notification of its exit.
const PER_PLUGIN: u64 = 12;
/// The number of descriptors reserved for everything else.
const RESERVE: u64 = 64;

/// Raises the limit of open files for this number of plugins, as far as the system allows. Returns the number of
/// plugins that fit, at least 1.
///
/// The limit is raised no further than needed because child processes inherit it, and some of them close every
/// descriptor up to the limit.
pub(crate) fn make_room(plugins: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let count = u64::try_from(plugins).unwrap_or(u64::MAX);
    let needed = count.saturating_mul(PER_PLUGIN).saturating_add(RESERVE);
    let raised = maximum.map_or(needed, |maximum| needed.min(maximum));
    let limit = match current {
        None => return plugins.max(1),
        Some(current) if current >= raised => current,
        Some(current) => match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
            Ok(()) => raised,
            Err(_) => current,
        },
    };
    let room = limit.saturating_sub(RESERVE) / PER_PLUGIN;
    usize::try_from(room).unwrap_or(usize::MAX).clamp(1, plugins.max(1))
}
