//! Asks the plugins which entities there are: all at the same time, and shown in the order of the configuration.

use crate::entity::Entity;
use crate::error::Fatal;
use crate::interrupt::Interrupt;
use crate::plugin::{OperationError, Plugin};
use crate::report::Console;
use crate::resources::Resources;
use bstr::BString;
use holo_protocol::EntityReport;
use holo_protocol::session::Stream;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What comes from a plugin that scans.
enum Said {
    Output(Stream, Vec<u8>),
    End(Result<Vec<u8>, OperationError>),
}

/// The entities of all plugins: plugin after plugin, each plugin's by their IDs.
///
/// # Errors
/// If a plugin fails or its report cannot be read; the first one's trouble is shown, whichever was first to be in trouble.
pub fn all(
    plugins: &mut [Plugin],
    resources: &Resources,
    interrupt: &Interrupt,
    console: &mut Console,
) -> Result<Vec<Entity>, Fatal> {
    console.flush();
    std::thread::scope(|scope| {
        let mut scans = Vec::new();
        for plugin in plugins {
            let (sender, receiver) = channel();
            scans.push(Scan { id: plugin.id.clone(), version: plugin.api_version(), receiver });
            scope.spawn(move || scan(plugin, interrupt, &sender));
        }
        let mut entities = Vec::new();
        for (index, scan) in scans.into_iter().enumerate() {
            let reports = scan.finish(console)?;
            entities.extend(reports.into_iter().map(|report| to_entity(index, &scan.id, report, resources)));
        }
        Ok(entities)
    })
}

fn scan(plugin: &mut Plugin, interrupt: &Interrupt, sender: &Sender<Said>) {
    // If nobody listens, an earlier plugin has ended the run.
    let say = |said| drop(sender.send(said));
    let end = plugin.scan(interrupt, &mut |stream, bytes| say(Said::Output(stream, bytes.to_vec())));
    say(Said::End(end));
}

/// A scan that has been begun.
struct Scan {
    id: String,
    version: u32,
    receiver: Receiver<Said>,
}

impl Scan {
    /// Shows what the plugin says, and takes its report.
    fn finish(&self, console: &mut Console) -> Result<Vec<EntityReport>, Fatal> {
        let mut end = Err(OperationError::Failed("it ended without a report".to_owned()));
        for said in &self.receiver {
            match said {
                Said::Output(stream, bytes) => {
                    console.write(stream, &bytes);
                    console.flush();
                }
                Said::End(how) => end = how,
            }
        }
        if let Err(OperationError::Failed(reason)) = &end {
            console.error(format!("scan with plugin {} failed: {reason}", self.id));
        }
        console.end_paragraph();
        let report = end.map_err(|error| match error {
            OperationError::Failed(_) => Fatal::Reported,
            OperationError::Fatal(fatal) => fatal,
        })?;
        let mut reports = EntityReport::parse_all(&report, self.version).map_err(|errors| {
            for error in errors {
                console.error(format!("error in scan report of {}, {error}", self.id));
            }
            Fatal::Reported
        })?;
        reports.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(reports)
    }
}

/// The entity as the user sees it, with everything that selects it.
fn to_entity(plugin: usize, plugin_id: &str, mut report: EntityReport, resources: &Resources) -> Entity {
    let mut selectors: Vec<BString> = vec![report.id.clone(), plugin_id.into()];
    selectors.extend(report.sources.iter().flat_map(|source| resources.selectors(source.as_ref())));
    for source in &mut report.sources {
        *source = resources.show(source.as_ref());
    }
    for information in &mut report.information {
        information.value = resources.show(information.value.as_ref());
    }
    Entity { plugin, report, selectors }
}
