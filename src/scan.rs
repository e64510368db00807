//! Asks the plugins which entities there are: all at the same time, and shown in the order of the configuration.

use crate::entity::{Account, Entity};
use crate::error::Fatal;
use crate::interrupt::Interrupt;
use crate::plugin::{OperationError, Plugin};
use crate::report::Console;
use crate::resources::Resources;
use holo_protocol::session::Stream;
use std::sync::Arc;
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
    resources: &Arc<Resources>,
    interrupt: &Interrupt,
    console: &mut Console,
) -> Result<Vec<Entity>, Fatal> {
    console.flush();
    std::thread::scope(|scope| {
        let mut scans = Vec::new();
        for plugin in plugins {
            let (sender, receiver) = channel();
            let (plugin_id, version) = (plugin.id.clone(), plugin.api_version());
            scans.push(Scan { plugin_id, version, resources: Arc::clone(resources), receiver });
            scope.spawn(move || scan(plugin, interrupt, &sender));
        }
        let mut entities = Vec::new();
        for (index, scan) in scans.into_iter().enumerate() {
            let of_plugin = scan.finish(index, console)?;
            // Most often one plugin has nearly all of them.
            if entities.is_empty() {
                entities = of_plugin;
            } else {
                entities.extend(of_plugin);
            }
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
    plugin_id: String,
    version: u32,
    resources: Arc<Resources>,
    receiver: Receiver<Said>,
}

impl Scan {
    /// Shows what the plugin says, and takes its report; `plugin` is its place in the configuration.
    fn finish(self, plugin: usize, console: &mut Console) -> Result<Vec<Entity>, Fatal> {
        let Scan { plugin_id, version, resources, receiver } = self;
        let mut end = Err(OperationError::Failed("it ended without a report".to_owned()));
        for said in &receiver {
            match said {
                Said::Output(stream, bytes) => {
                    console.write(stream, &bytes);
                    console.flush();
                }
                Said::End(how) => end = how,
            }
        }
        if let Err(OperationError::Failed(reason)) = &end {
            console.error(format!("scan with plugin {plugin_id} failed: {reason}"));
        }
        console.end_paragraph();
        let report = end.map_err(|error| match error {
            OperationError::Failed(_) => Fatal::Reported,
            OperationError::Fatal(fatal) => fatal,
        })?;
        let account = Account { plugin_id: plugin_id.clone(), version, report, resources };
        let mut entities = Entity::all_of(plugin, account).map_err(|errors| {
            for error in errors {
                console.error(format!("error in scan report of {plugin_id}, {error}"));
            }
            Fatal::Reported
        })?;
        entities.sort_by(|one, other| one.id().cmp(other.id()));
        Ok(entities)
    }
}
