//! Plugins that detect changes to their entities themselves: one process each, with the operation `watch`.

use super::paths::Heard;
use crate::entities::node::{PluginIndex, Table};
use crate::plugin::Plugin;
use crate::plugin::process::{Channel, Event, Process};
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
    process: Process,
    /// An incomplete line.
    unfinished: Vec<u8>,
    has_ended: bool,
}

impl Sources {
    /// Starts the plugins that can watch. A plugin that cannot be started causes a warning.
    pub(super) fn start(plugins: &Table<PluginIndex, Plugin>, reporter: &mut (impl Reporter + ?Sized)) -> Sources {
        let mut sources = Vec::new();
        for (index, plugin) in plugins.entries() {
            match plugin.watch() {
                None => {}
                Some(Ok(process)) => {
                    let plugin = plugin.id.clone();
                    sources.push(Source { index, plugin, process, unfinished: Vec::new(), has_ended: false });
                }
                Some(Err(error)) => reporter.warning(gone(&plugin.id, &error.to_string())),
            }
        }
        Sources(sources)
    }

    /// Waits until a plugin has output, one of the other descriptors is readable, or this time has come. Returns for
    /// each of the other descriptors whether it is readable.
    pub(super) fn wait(&mut self, others: &[BorrowedFd<'_>], until: Option<Instant>) -> io::Result<Vec<bool>> {
        Process::wait_for_any(self.0.iter_mut().map(|source| &mut source.process), others, until)
    }

    /// Takes all pending output of plugins. Returns true if there was any.
    pub(super) fn take(&mut self, heard: &mut Heard, reporter: &mut dyn Reporter) -> io::Result<bool> {
        let mut any = false;
        for source in &mut self.0 {
            any |= source.take(heard, reporter)?;
        }
        self.0.retain(|source| !source.has_ended);
        Ok(any)
    }
}

impl Source {
    fn take(&mut self, heard: &mut Heard, reporter: &mut dyn Reporter) -> io::Result<bool> {
        let Source { index, plugin, process, unfinished, has_ended } = self;
        let mut any = false;
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
                    let reason = exit.status.failure().unwrap_or_else(|| "exit status 0".to_owned());
                    reporter.warning(gone(plugin, &reason));
                    *has_ended = true;
                }
                Event::Waiting | Event::Stopped(_) => {}
            }
        })?;
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
    format!("The watch of plugin {plugin} has ended: {reason}; of its entities, only path changes are noticed")
}
