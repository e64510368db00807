//! Plugins that notice by themselves what happens to their entities: the operation `watch`, a process each.

use super::paths::Heard;
use crate::index::{PluginIndex, Table};
use crate::plugin::Plugin;
use crate::plugin::process::{Channel, Event, Process};
use crate::report::{Remarks, Reporter};
use bstr::ByteSlice;
use holo_protocol::session::Stream;
use holo_protocol::{Touched, WatchLine};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// The longest line that can name an entity. What goes on longer is none.
const MAX_LINE: usize = 1 << 16;

/// The plugins that watch. They are killed when nobody listens to them any more: they change nothing.
#[derive(Debug, Default)]
pub(super) struct Sources(Vec<Source>);

/// A plugin that watches.
#[derive(Debug)]
struct Source {
    index: PluginIndex,
    plugin: String,
    process: Process,
    /// The line that is not whole yet.
    unfinished: Vec<u8>,
    has_ended: bool,
}

impl Sources {
    /// Starts those plugins that can watch. One that cannot be started is warned of.
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

    /// Waits until a plugin says something, or one of the other descriptors can be read, or until this time. Returns of each of the others if it
    /// can be read.
    pub(super) fn wait(&mut self, others: &[BorrowedFd<'_>], until: Option<Instant>) -> io::Result<Vec<bool>> {
        Process::wait_for_any(self.0.iter_mut().map(|source| &mut source.process), others, until)
    }

    /// Takes all that plugins have said by now. Returns true if there was anything.
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

/// Takes the lines that are whole, and leaves the rest.
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
    format!("The watch of plugin {plugin} has ended: {reason}; only changes at paths are noticed of its entities")
}
