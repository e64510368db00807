//! Asks the plugins which entities there are: all at the same time, and shown in the order of the configuration.

use crate::entity::{Account, Entity};
use crate::error::Fatal;
use crate::interrupt::Interrupt;
use crate::plugin::{OperationError, Plugin};
use crate::report::Console;
use crate::resources::Resources;
use crate::side_by_side::side_by_side;
use bstr::ByteSlice;
use holo_protocol::API_VERSION_4;
use holo_protocol::session::Stream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the plugins have listed.
pub struct Scanned {
    /// The entities of all plugins: plugin after plugin, each plugin's by their IDs.
    pub entities: Vec<Entity>,
    /// Whether a plugin of version 4 has said that something is wrong: an entity may be missing, as its definition cannot be used.
    pub is_flawed: bool,
}

/// Asks all plugins.
///
/// # Errors
/// If a plugin fails or its report cannot be read; the first one's trouble is shown, whichever was first to be in trouble.
pub fn all(
    plugins: &mut [Plugin],
    resources: &Arc<Resources>,
    interrupt: &Interrupt,
    console: &mut Console,
) -> Result<Scanned, Fatal> {
    let is_flawed = AtomicBool::new(false);
    let accounts: Vec<(String, u32)> = plugins.iter().map(|plugin| (plugin.id.clone(), plugin.api_version())).collect();
    let mut accounts = accounts.into_iter();
    let of_plugins = side_by_side(
        plugins,
        console,
        |plugin, on_output| {
            let is_honest = plugin.api_version() >= API_VERSION_4;
            plugin.scan(interrupt, &mut |stream, bytes| {
                if is_honest && stream == Stream::Stderr && bytes.lines().any(|line| line.starts_with(b"!! ")) {
                    is_flawed.store(true, Ordering::Relaxed);
                }
                on_output(stream, bytes);
            })
        },
        |index, answer, console| {
            let (plugin_id, version) = accounts.next().unwrap_or_default();
            let report = take(&plugin_id, answer, console)?;
            let account = Account { plugin_id, version, report, resources: Arc::clone(resources) };
            entities(index, account, console)
        },
    )?;
    // Most often one plugin has nearly all entities: those are not moved.
    let mut of_plugins = of_plugins.into_iter();
    let first = of_plugins.next().unwrap_or_default();
    let entities = of_plugins.fold(first, |mut all, some| {
        all.extend(some);
        all
    });
    Ok(Scanned { entities, is_flawed: is_flawed.into_inner() })
}

/// The scan report, if there is one; otherwise it is shown why there is none.
fn take(plugin_id: &str, answer: Result<Vec<u8>, OperationError>, console: &mut Console) -> Result<Vec<u8>, Fatal> {
    if let Err(OperationError::Failed(reason)) = &answer {
        console.error(format!("scan with plugin {plugin_id} failed: {reason}"));
    }
    console.end_paragraph();
    answer.map_err(|error| match error {
        OperationError::Failed(_) => Fatal::Reported,
        OperationError::Fatal(fatal) => fatal,
    })
}

fn entities(plugin: usize, account: Account, console: &mut Console) -> Result<Vec<Entity>, Fatal> {
    let plugin_id = account.plugin_id.clone();
    let mut entities = Entity::all_of(plugin, account).map_err(|errors| {
        for error in errors {
            console.error(format!("error in scan report of {plugin_id}, {error}"));
        }
        Fatal::Reported
    })?;
    entities.sort_by(|one, other| one.id().cmp(other.id()));
    Ok(entities)
}
