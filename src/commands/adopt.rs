//! `holo adopt`: what there is becomes resource files, and nothing else is changed.

mod definitions;
mod gather;
mod request;
mod write;

use super::Context;
use crate::cli::Adopt;
use crate::discovery::discover;
use crate::error::FatalError;
use crate::exit;
use crate::inventory::Purpose;
use crate::report::{Adopted, Event, Remarks, Reporter};
use gather::Gathered;
use request::Request;
use write::Plan;

pub(super) fn run(arguments: &Adopt, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    // It is given back when the sessions of the plugins have ended.
    let _lock;
    let selectors = request::for_scan(&arguments.selectors);
    let mut inventory = discover(settings, Purpose::Check, selectors, interrupt, *reporter)?;
    if !arguments.dry_run {
        _lock = super::apply::acquire(&settings.root.lock(), *reporter)?;
    }
    let mut has_failed = false;
    let requests = if arguments.all {
        let found = request::candidates(&mut inventory, interrupt, *reporter)?;
        has_failed |= found.has_failed;
        found.requests
    } else {
        request::named(&arguments.selectors, &inventory, &settings.root)?
    };
    let editor = settings.editor.as_deref().filter(|_| arguments.edit);
    let mut plan = Plan::new(&settings.root, inventory.cache());
    for mut request in requests {
        match gather::gather(&mut request, &mut inventory, editor, interrupt, *reporter)? {
            Gathered::Unknown => {
                reporter.event(Event::UnknownSelector(request.id.as_ref()));
                return Err(FatalError::Reported);
            }
            Gathered::Unchanged if !arguments.all => {
                reporter.warning(format!("Nothing to adopt: {} is as its resource files have it", request.id));
            }
            Gathered::Unchanged => {}
            Gathered::Failed => has_failed = true,
            Gathered::Resources(resources) => {
                has_failed |= !plan.add(&request, resources, *reporter)?;
            }
        }
        reporter.end_paragraph();
    }
    let is_pending = arguments.dry_run && !plan.is_empty();
    let adopted = if arguments.dry_run { plan.preview() } else { plan.carry_out()? };
    show(&adopted, *reporter);
    Ok(match (has_failed, is_pending) {
        (true, _) => exit::FAILED,
        (false, true) => exit::PENDING,
        (false, false) => exit::DONE,
    })
}

/// Shows what was adopted, group by group.
fn show(adopted: &[Adopted], reporter: &mut dyn Reporter) {
    let mut sorted: Vec<&Adopted> = adopted.iter().collect();
    sorted.sort_by(|one, other| (&one.group, &one.plugin, &one.id).cmp(&(&other.group, &other.plugin, &other.id)));
    sorted.into_iter().for_each(|adopted| reporter.event(Event::Adopted(adopted)));
}

impl Request {
    /// Returns the adoption as it is shown.
    fn to_adopted(&self, plugin: &str) -> Adopted {
        Adopted {
            id: self.id.clone(),
            plugin: plugin.to_owned(),
            reason: self.reason.clone(),
            group: self.group.clone(),
            written: Vec::new(),
            removed: Vec::new(),
            is_pending: false,
        }
    }
}
