//! `holo adopt`: writes resource files that describe the current state. The entities themselves are not changed.

mod definitions;
mod gather;
mod package;
mod request;
mod verify;
mod write;

use super::Context;
use crate::cli::Adopt;
use crate::discovery::discover;
use crate::error::FatalError;
use crate::exit;
use crate::interrupt::Interrupt;
use crate::inventory::{Inventory, Purpose};
use crate::report::{Adopted, Event, Remarks, Reporter};
use crate::settings::Settings;
use bstr::{BStr, BString, ByteSlice};
use gather::{Gathered, Resources};
use request::Request;
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use verify::Unfit;
use write::Plan;

pub(super) fn run(arguments: &Adopt, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    // Declared first, so that it is released after the plugins' sessions have ended.
    let _lock;
    let selectors = request::for_scan(&arguments.selectors);
    let inventory = discover(settings, Purpose::Check, selectors, interrupt, *reporter)?;
    if !arguments.dry_run && arguments.package.is_none() {
        _lock = super::apply::acquire(&settings.root.lock(), *reporter)?;
    }
    let mut run = Run { arguments, settings, interrupt, reporter: *reporter, inventory, has_failed: false };
    let requests = run.requests()?;
    let adoptions = run.gather_all(requests)?;
    let plan = run.settle(adoptions)?;
    let is_pending = arguments.dry_run && !plan.is_empty();
    let adopted = match (&arguments.package, &arguments.description) {
        (Some(name), Some(output)) => package::describe(plan, name, output)?,
        _ if arguments.dry_run => plan.preview(),
        _ => plan.carry_out()?,
    };
    show(&adopted, run.reporter);
    Ok(match (run.has_failed, is_pending) {
        (true, _) => exit::FAILED,
        (false, true) => exit::PENDING,
        (false, false) => exit::DONE,
    })
}

/// An entity to adopt, with its resource files.
struct Adoption {
    request: Request,
    resources: Resources,
}

/// The state of the command.
struct Run<'a> {
    arguments: &'a Adopt,
    settings: &'a Settings,
    interrupt: &'a Interrupt,
    reporter: &'a mut dyn Reporter,
    inventory: Inventory,
    /// True if an entity could not be adopted.
    has_failed: bool,
}

impl Run<'_> {
    fn requests(&mut self) -> Result<Vec<Request>, FatalError> {
        if !self.arguments.all {
            return request::named(&self.arguments.selectors, &self.inventory, &self.settings.root);
        }
        let found = request::candidates(&mut self.inventory, self.interrupt, self.reporter)?;
        self.has_failed |= found.has_failed;
        Ok(found.requests)
    }

    fn gather_all(&mut self, requests: Vec<Request>) -> Result<Vec<Adoption>, FatalError> {
        let mut adoptions: Vec<Adoption> = Vec::new();
        for request in requests {
            let adoption = self.gather(request)?;
            // Two arguments can name the same entity.
            let is_new = |adoption: &Adoption| adoptions.iter().all(|other| other.request.id != adoption.request.id);
            adoptions.extend(adoption.filter(is_new));
        }
        Ok(adoptions)
    }

    /// Requests the resource files of one entity. Returns `None` if it is not adopted.
    fn gather(&mut self, mut request: Request) -> Result<Option<Adoption>, FatalError> {
        let editor = self.settings.editor.as_deref().filter(|_| self.arguments.edit);
        let answer = gather::gather(&mut request, &mut self.inventory, editor, self.interrupt, self.reporter)?;
        let adoption = match answer {
            Gathered::Resources(resources) => Some(Adoption { request, resources }),
            Gathered::Unknown if self.arguments.all => {
                self.leave_out(request.id.as_bstr(), "its plugin does not recognise it".into());
                None
            }
            Gathered::Unknown => {
                self.reporter.event(Event::UnknownSelector(request.id.as_ref()));
                return Err(FatalError::Reported);
            }
            Gathered::Unchanged if !self.arguments.all => {
                self.reporter.warning(format!("Nothing to adopt: {} matches its resource files", request.id));
                None
            }
            Gathered::Unchanged => None,
            Gathered::Failed => {
                self.has_failed = true;
                None
            }
        };
        self.reporter.end_paragraph();
        Ok(adoption)
    }

    /// Reports that an entity is not adopted.
    fn leave_out(&mut self, id: &BStr, reason: &BStr) {
        self.reporter.error(format!("cannot adopt {id}: {reason}"));
        self.has_failed = true;
    }

    /// Drops entities whose resource files cannot be written, or that fail the verification, until the rest passes.
    fn settle(&mut self, mut adoptions: Vec<Adoption>) -> Result<Plan, FatalError> {
        loop {
            self.gather_again(&mut adoptions)?;
            let (plan, is_whole) = self.plan(&mut adoptions)?;
            if !is_whole {
                continue;
            }
            if plan.is_empty() {
                return Ok(plan);
            }
            let unfit = self.verify(&plan)?;
            if unfit.is_empty() {
                return Ok(plan);
            }
            adoptions.retain(|adoption| unfit.iter().all(|unfit| unfit.id != adoption.request.id));
        }
    }

    /// Plans the files to write. Returns false if any entity was dropped because its files cannot be written.
    fn plan(&mut self, adoptions: &mut Vec<Adoption>) -> Result<(Plan, bool), FatalError> {
        let is_package = self.arguments.package.is_some();
        let mut plan = Plan::new(&self.settings.root, self.inventory.cache(), is_package);
        let count = adoptions.len();
        let mut kept = Vec::new();
        for adoption in adoptions.drain(..) {
            if plan.add(&adoption.request, &adoption.resources, self.reporter)? {
                kept.push(adoption);
            } else {
                self.reporter.end_paragraph();
                self.has_failed = true;
            }
        }
        *adoptions = kept;
        Ok((plan, adoptions.len() == count))
    }

    /// Reports and returns the entities that fail the verification. If an apply would act on an entity, that is a failure with `--all`, and a
    /// warning if the entity was named.
    fn verify(&mut self, plan: &Plan) -> Result<Vec<Unfit>, FatalError> {
        let directory = gather::fresh_directory(self.inventory.cache())?;
        // Without selectors, every entity is scanned, so that all conflicts are found.
        let named = plan.adopted().iter().filter(|_| !self.arguments.all);
        let selectors: Vec<OsString> = named.map(|adopted| OsString::from_vec(adopted.id.to_vec())).collect();
        let unfit = verify::verify(plan, &directory, &selectors, self.settings, self.interrupt, self.reporter)?;
        let (left_out, noted): (Vec<Unfit>, Vec<Unfit>) =
            unfit.into_iter().partition(|unfit| unfit.is_broken || self.arguments.all);
        for Unfit { id, reason, details, .. } in &left_out {
            self.leave_out(id.as_bstr(), reason.as_bstr());
            details.iter().for_each(|line| self.reporter.explain(line));
            self.reporter.end_paragraph();
        }
        if left_out.is_empty() {
            for Unfit { id, reason, .. } in noted {
                self.reporter.warning(format!("{id}: {reason}"));
                self.reporter.end_paragraph();
            }
        }
        Ok(left_out)
    }

    /// Requests resource files again that may refer to dropped entities.
    fn gather_again(&mut self, adoptions: &mut Vec<Adoption>) -> Result<(), FatalError> {
        loop {
            let adopted = adoptions.iter().map(|adoption| adoption.request.id.clone());
            let defined = self.inventory.entities.iter().map(|entity| entity.id().to_owned());
            let known: HashSet<BString> = adopted.chain(defined).collect();
            let (sound, stale): (Vec<Adoption>, Vec<Adoption>) =
                adoptions.drain(..).partition(|adoption| adoption.request.with.iter().all(|id| known.contains(id)));
            *adoptions = sound;
            if stale.is_empty() {
                return Ok(());
            }
            for Adoption { mut request, .. } in stale {
                request.with.retain(|id| known.contains(id));
                adoptions.extend(self.gather(request)?);
            }
        }
    }
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
