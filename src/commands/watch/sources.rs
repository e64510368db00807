//! Plugins that detect changes to their entities themselves: one process each, with the operation `watch`.

use super::paths::Heard;
use super::timers::{LONGEST_PAUSE, Retry};
use crate::entities::node::{PluginIndex, Table};
use crate::plugin::process::{Channel, Event, Process};
use crate::plugin::{Plugin, PluginWatch};
use crate::report::{Remarks, Reporter};
use bstr::ByteSlice;
use holo_protocol::session::Stream;
use holo_protocol::{Touched, WatchLine};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// The maximum length of a line that names an entity, in bytes. Longer lines are discarded.
const MAX_LINE: usize = 1 << 16;

/// The plugins that watch. They change no files, so they are killed on drop.
#[derive(Debug, Default)]
pub(super) struct Sources(Vec<Source>);

/// A plugin that watches.
#[derive(Debug)]
struct Source {
    index: PluginIndex,
    plugin: String,
    watch: PluginWatch,
    /// `None` while none runs.
    process: Option<Process>,
    started: Instant,
    /// An incomplete line.
    unfinished: Vec<u8>,
    /// When it is started again, if it has ended.
    retry: Retry,
}

impl Sources {
    /// Starts the plugins that can watch. A plugin that cannot be started causes a warning.
    pub(super) fn start(plugins: &Table<PluginIndex, Plugin>, reporter: &mut (impl Reporter + ?Sized)) -> Sources {
        let mut sources = Sources::default();
        for (index, plugin) in plugins.entries() {
            let Some(watch) = plugin.watch() else { continue };
            let (plugin, started, unfinished) = (plugin.id.clone(), Instant::now(), Vec::new());
            let mut source =
                Source { index, plugin, watch, process: None, started, unfinished, retry: Retry::default() };
            source.start(reporter);
            sources.0.push(source);
        }
        sources
    }

    /// Returns the time at which a plugin that has ended is started again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.iter().filter_map(|source| source.retry.at()).min()
    }

    /// Starts the plugins again that have ended, if it is time. Changes may have been missed since they have.
    pub(super) fn start_again(&mut self, heard: &mut Heard, reporter: &mut dyn Reporter) {
        let now = Instant::now();
        for source in self.0.iter_mut().filter_map(|source| source.retry.is_due(now).then_some(source)) {
            source.start(reporter);
            heard.listening.push(source.index);
        }
    }

    /// Waits until a plugin has output, one of the other descriptors is readable, or this time has come. Returns for
    /// each of the other descriptors whether it is readable.
    pub(super) fn wait(&mut self, others: &[BorrowedFd<'_>], until: Option<Instant>) -> io::Result<Vec<bool>> {
        Process::wait_for_any(self.0.iter_mut().filter_map(|source| source.process.as_mut()), others, until)
    }

    /// Takes all pending output of plugins. Returns true if there was any.
    pub(super) fn take(&mut self, heard: &mut Heard, reporter: &mut dyn Reporter) -> io::Result<bool> {
        let mut any = false;
        for source in &mut self.0 {
            any |= source.take(heard, reporter)?;
        }
        Ok(any)
    }
}

impl Source {
    /// Starts its process.
    fn start(&mut self, reporter: &mut (impl Reporter + ?Sized)) {
        self.started = Instant::now();
        match self.watch.start() {
            Ok(process) => self.process = Some(process),
            Err(error) => self.ended(&error.to_string(), reporter),
        }
    }

    /// Schedules another start. Only the first failure in a row causes a warning.
    fn ended(&mut self, reason: &str, reporter: &mut (impl Reporter + ?Sized)) {
        (self.process, self.unfinished) = (None, Vec::new());
        if self.started.elapsed() > LONGEST_PAUSE {
            self.retry = Retry::default();
        }
        if self.retry.is_new() {
            reporter.warning(gone(&self.plugin, reason));
        }
        self.retry.again(Instant::now());
    }

    fn take(&mut self, heard: &mut Heard, reporter: &mut dyn Reporter) -> io::Result<bool> {
        let Source { index, plugin, process: Some(process), unfinished, .. } = self else { return Ok(false) };
        let (mut any, mut end) = (false, None);
        process.take(&mut |event| {
            any = true;
            match event {
                Event::Chunk(Channel::Stdout, bytes) => reporter.output(Stream::Stdout, bytes),
                Event::Chunk(Channel::Stderr, bytes) => reporter.output(Stream::Stderr, bytes),
                Event::Chunk(Channel::Extra, bytes) => {
                    unfinished.extend_from_slice(bytes);
                    for line in whole_lines(unfinished).lines() {
                        match WatchLine::parse(line) {
                            Ok(WatchLine::Touched(Touched { id, reason })) => drop(heard.touched.insert(id, reason)),
                            Ok(WatchLine::Listening) => heard.listening.push(*index),
                            Err(error) => reporter.warning(format!("plugin {plugin} said during watch: {error}")),
                        }
                    }
                }
                Event::Ended(exit) => {
                    end = Some(exit.status.failure().unwrap_or_else(|| "exit status 0".to_owned()));
                }
                Event::Waiting | Event::Stopped(_) => {}
            }
        })?;
        end.iter().for_each(|reason| self.ended(reason, reporter));
        Ok(any)
    }
}

/// Takes the complete lines, and leaves the rest.
fn whole_lines(unfinished: &mut Vec<u8>) -> Vec<u8> {
    let end = unfinished.rfind_byte(b'\n').map_or(0, |last| last + 1);
    let rest = unfinished.split_off(end);
    let whole = std::mem::replace(unfinished, rest);
    if unfinished.len() > MAX_LINE {
        unfinished.clear();
    }
    whole
}

fn gone(plugin: &str, reason: &str) -> String {
    format!(
        "The watch of plugin {plugin} has ended: {reason}; it is started again, and until then only path changes of its entities are noticed"
    )
}
