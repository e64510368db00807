//! Asks the plugins which entities there are: all at the same time, and shown in the order of the configuration.

use crate::concurrently::concurrently;
use crate::entity::{Account, Entity};
use crate::error::Fatal;
use crate::failures::Failures;
use crate::interrupt::Interrupt;
use crate::plugin::{OperationError, Plugin};
use crate::report::Console;
use crate::resources::Resources;
use bstr::ByteSlice;
use holo_protocol::API_VERSION_4;
use holo_protocol::session::Stream;
use std::cell::RefCell;
use std::mem;
use std::sync::Arc;

/// The entities that the plugins have listed.
pub struct Scanned {
    /// The entities of all plugins: plugin after plugin, each plugin's by their IDs.
    pub entities: Vec<Entity>,
    /// For each plugin, whether an entity may be missing: it speaks version 4 and has said that something is wrong, as a definition cannot
    /// be used, or it has failed.
    pub flaws: Vec<bool>,
}

/// Asks all plugins.
///
/// # Errors
/// If a plugin fails or its report cannot be read, and that is not tolerated; the first one's trouble is shown, whichever was first to be
/// in trouble.
pub fn all(
    plugins: &mut [Plugin],
    at_once: usize,
    resources: &Arc<Resources>,
    failures: &mut Failures,
    interrupt: &Interrupt,
    console: &mut Console,
) -> Result<Scanned, Fatal> {
    let diagnostics = RefCell::new(Diagnostics::default());
    let mut flaws = Vec::new();
    let accounts: Vec<(String, u32)> = plugins.iter().map(|plugin| (plugin.id.clone(), plugin.api_version())).collect();
    let versions: Vec<u32> = accounts.iter().map(|(_, version)| *version).collect();
    let mut accounts = accounts.into_iter();
    let of_plugins = concurrently(
        plugins,
        at_once,
        console,
        |plugin, on_output| plugin.scan(interrupt, on_output),
        |index, stream, bytes, console| match versions.get(index) {
            Some(&(API_VERSION_4..)) if stream == Stream::Stderr => diagnostics.borrow_mut().read(bytes, console),
            _ => console.write(stream, bytes),
        },
        |index, answer, console| {
            let is_flawed = diagnostics.borrow_mut().finish(console);
            let (plugin_id, version) = accounts.next().unwrap_or_default();
            let report = take(&plugin_id, answer, console)?;
            let account =
                |report| Account { plugin_id: plugin_id.clone(), version, report, resources: Arc::clone(resources) };
            let entities = report.and_then(|report| entities(index, account(report), console));
            flaws.push(is_flawed || entities.is_none());
            if entities.is_none() {
                failures.add(&plugin_id, Some(version), console)?;
            }
            Ok(entities.unwrap_or_default())
        },
    )?;
    // Most often one plugin has nearly all entities: those are not moved.
    let mut of_plugins = of_plugins.into_iter();
    let first = of_plugins.next().unwrap_or_default();
    let entities = of_plugins.fold(first, |mut all, some| {
        all.extend(some);
        all
    });
    Ok(Scanned { entities, flaws })
}

/// The lines that plugins of version 4 write to stderr while they scan: `!! ` stands before an error, `>> ` before a warning.
#[derive(Default)]
struct Diagnostics {
    unfinished: Vec<u8>,
    is_flawed: bool,
}

impl Diagnostics {
    /// Takes what arrives, which need not be whole lines. People see it at once, JSON has lines of whole errors and warnings.
    fn read(&mut self, bytes: &[u8], console: &mut Console) {
        self.unfinished.extend_from_slice(bytes);
        let end = self.unfinished.rfind_byte(b'\n').map_or(0, |last| last + 1);
        let rest = self.unfinished.split_off(end);
        let whole = mem::replace(&mut self.unfinished, rest);
        whole.lines_with_terminator().for_each(|line| self.line(line, console));
        if !console.speaks_json() {
            console.write(Stream::Stderr, bytes);
        }
    }

    /// Takes the end of a plugin's scan, which ends an unfinished line too; whether there was an error.
    fn finish(&mut self, console: &mut Console) -> bool {
        let line = mem::take(&mut self.unfinished);
        if !line.is_empty() {
            self.line(&line, console);
        }
        mem::take(&mut self.is_flawed)
    }

    fn line(&mut self, line: &[u8], console: &mut Console) {
        let (error, warning) = (line.strip_prefix(b"!! "), line.strip_prefix(b">> "));
        self.is_flawed |= error.is_some();
        if !console.speaks_json() {
            return;
        }
        match (error, warning) {
            (Some(text), _) => console.error(text.trim_end_with(|letter| letter == '\n')),
            (_, Some(text)) => console.warning(text.trim_end_with(|letter| letter == '\n')),
            (None, None) => console.write(Stream::Stderr, line),
        }
    }
}

/// The scan report, if there is one; otherwise it is shown why there is none.
fn take(
    plugin_id: &str,
    answer: Result<Vec<u8>, OperationError>,
    console: &mut Console,
) -> Result<Option<Vec<u8>>, Fatal> {
    match answer {
        Ok(report) => {
            console.end_paragraph();
            Ok(Some(report))
        }
        Err(OperationError::Failed(reason)) => {
            // As in version 3, this ends no paragraph.
            console.error(format!("scan with plugin {plugin_id} failed: {reason}"));
            Ok(None)
        }
        Err(OperationError::Fatal(fatal)) => Err(fatal),
    }
}

/// The entities of a report, if it can be read; otherwise it is shown why it cannot.
fn entities(plugin: usize, account: Account, console: &mut Console) -> Option<Vec<Entity>> {
    let plugin_id = account.plugin_id.clone();
    match Entity::all_of(plugin, account) {
        Ok(mut entities) => {
            entities.sort_by(|one, other| one.id().cmp(other.id()));
            Some(entities)
        }
        Err(errors) => {
            for error in errors {
                console.error(format!("error in scan report of {plugin_id}, {error}"));
            }
            None
        }
    }
}
