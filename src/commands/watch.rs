//! `holo watch`
//!
//! Between two events, only the entities' IDs and states are kept: an event costs a `check` of the entities that it
//! concerns and, with `--apply`, an `apply` of those that have drifted.

mod known;
mod paths;
mod queue;
mod repairs;
mod requests;
mod sources;
mod timers;
mod writers;

use super::Context;
use super::check::{self, Finding, Findings, Told};
use super::inputs::Inputs;
use super::repairs::Repairs;
use super::repairs::definitions::Definitions;
use crate::apply::Walk;
use crate::cli::{Selection, Watch};
use crate::discovery::inventory::{Inventory, Purpose};
use crate::entities::Entity;
use crate::entities::node::EntityIndex;
use crate::error::{FatalError, exit};
use crate::host::cache::CacheDirectory;
use crate::host::engine::EngineSettings;
use crate::host::interrupt::{Interrupt, TimerError};
use crate::host::settings::Settings;
use crate::plan::refresh::Refreshes;
use crate::plan::sent::SentValues;
use crate::plugin::Task;
use crate::report::{End, Event, Noticed, Remarks, Reporter, output_pipe};
use bstr::{BStr, BString, ByteSlice};
use holo_events::{Line, RegisteredService, Text};
use holo_facts::REGISTRY_SNAPSHOT;
use holo_protocol::Registration;
use holo_state::Database;
use jiff::{Timestamp, Zoned};
use known::{Causes, Known, State, absolute, watch_definitions};
use paths::{Heard, WatchedPaths};
use queue::{Queue, Woken};
use requests::Requests;
use signal_hook::consts::SIGPIPE;
use sources::Sources;
use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use timers::Timers;

/// The time after which a failed operation is retried, for example because a plugin was just being replaced.
const TRY_AGAIN: Duration = Duration::from_secs(10);
/// The timeout for waiting for another apply.
const LOCK_PATIENCE: Duration = Duration::from_secs(10 * 60);

pub(super) fn run(arguments: &Watch, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    settings.on_edit = arguments.policy.on_edit.unwrap_or(settings.on_edit);
    settings.jobs = arguments.jobs.unwrap_or(settings.jobs);
    settings.watches = true;
    let watched = WatchedPaths::new(&absolute(&settings.root)?).map_err(FatalError::could_not_run)?;
    let mut watcher = Watcher {
        arguments,
        settings: settings.clone(),
        interrupt,
        reporter: *reporter,
        known: Known::default(),
        queue: Queue::new(watched, arguments.settle, arguments.requests.then(Requests::new)),
        surveyed_for: Heard::default(),
        cache: None,
        release: None,
        timers: Timers::default(),
        unseen: BTreeSet::new(),
        is_flawed: false,
        told: Told::default(),
        last_change: Instant::now(),
        is_blind: false,
        registry: Registry::default(),
    };
    // Without output, the end of the reader would go unnoticed.
    if let Some(pipe) = output_pipe() {
        if arguments.requests {
            let pipe = pipe.try_clone().map_err(|error| FatalError::could_not_run(TimerError::from(error)))?;
            interrupt.show_life(pipe, Line::Alive {}.to_bytes());
        }
        watcher.interrupt.when_unread(pipe).map_err(FatalError::could_not_run)?;
    }
    match watcher.go() {
        Err(FatalError::Interrupted { signal: SIGPIPE, .. }) => Ok(watcher.exit_code()),
        ended => ended,
    }
}

/// Watches entities from the first check to the end.
struct Watcher<'a> {
    arguments: &'a Watch,
    settings: Settings,
    interrupt: &'a Interrupt,
    reporter: &'a mut dyn Reporter,
    known: Known,
    queue: Queue,
    /// The events that triggered the survey.
    surveyed_for: Heard,
    /// The parent of the cache directories of plugins that watch.
    cache: Option<Arc<CacheDirectory>>,
    /// The time at which an entity that was repaired too often may be repaired again.
    release: Option<Instant>,
    timers: Timers,
    /// The entities with parts that may have changed before they were watched.
    unseen: BTreeSet<EntityIndex>,
    /// Whether there may be unknown entities because definitions are invalid.
    is_flawed: bool,
    told: Told,
    /// The last time at which an entity changed its state or was repaired.
    last_change: Instant,
    /// Whether the last survey has failed.
    is_blind: bool,
    /// The use of the registry that was reported last.
    registry: Registry,
}

/// What entities have to do with the registry of a fleet.
#[derive(Debug, Default, PartialEq)]
struct Registry {
    services: Vec<RegisteredService<'static>>,
    is_read: bool,
}

impl Watcher<'_> {
    fn go(&mut self) -> Result<u8, FatalError> {
        let drifted = self.survey()?;
        self.reporter.event(Event::Noticed(Noticed::Watching(self.known.entities.len())));
        self.repair(drifted)?;
        loop {
            if !self.reporter.is_read() {
                return Ok(self.exit_code());
            }
            if self.queue.paths().are_too_many() && !self.is_blind {
                let drifted = self.survey_or_postpone()?;
                self.repair(drifted)?;
            }
            // A survey has watched them only after it has checked them.
            self.look_at_unseen()?;
            let end = self.arguments.converged.and_then(|quiet| self.last_change.checked_add(quiet));
            let due = [self.release, self.timers.next(), self.queue.writers.next()].into_iter().flatten().min();
            match self.queue.wait(self.interrupt, self.reporter, due, end)? {
                Woken::Heard(heard) => {
                    let is_event = heard.is_event();
                    self.deal_with(heard)?;
                    if is_event && self.arguments.once {
                        return Ok(self.exit_code());
                    }
                }
                Woken::Asked(words) => self.run(words)?,
                Woken::Quiet => return Ok(self.exit_code()),
                Woken::Due => self.look_at_due()?,
            }
        }
    }

    /// Checks the entities with parts that were not watched until now.
    fn look_at_unseen(&mut self) -> Result<(), FatalError> {
        if self.unseen.is_empty() {
            return Ok(());
        }
        let unseen = std::mem::take(&mut self.unseen);
        let drifted = self.look(&unseen.into_iter().map(|entity| (entity, None)).collect())?;
        self.repair(drifted)
    }

    /// Checks the entities whose time has come, without an event.
    fn look_at_due(&mut self) -> Result<(), FatalError> {
        let now = Instant::now();
        self.queue.writers.release(now);
        let released = if self.release.take_if(|at| *at <= now).is_some() {
            let mut repairs = self.repairs()?;
            let released = repairs.release(Timestamp::now());
            self.keep(&mut repairs)?;
            released
        } else {
            Vec::new()
        };
        let released = released.iter().filter_map(|id| self.known.find(id.as_bstr()));
        let causes = released.chain(self.timers.due(&Zoned::now(), now)).map(|entity| (entity, None));
        let drifted = self.look(&causes.collect())?;
        self.repair(drifted)
    }

    fn deal_with(&mut self, heard: Heard) -> Result<(), FatalError> {
        let drifted = if heard.definitions || heard.everything {
            self.surveyed_for = heard;
            self.survey_or_postpone()?
        } else {
            let causes = self.known.causes(heard);
            self.look(&causes)?
        };
        self.repair(drifted)
    }

    fn survey_or_postpone(&mut self) -> Result<Vec<EntityIndex>, FatalError> {
        let before = self.known.entities.len();
        match self.survey() {
            Ok(drifted) => {
                let entities = self.known.entities.len();
                if std::mem::take(&mut self.is_blind) || before != entities {
                    self.reporter.event(Event::Noticed(Noticed::Watching(entities)));
                }
                Ok(drifted)
            }
            Err(fatal) => {
                let reason = fatal.message().map(BString::from);
                self.postpone(fatal, Heard { everything: true, ..Heard::default() })?;
                if !std::mem::replace(&mut self.is_blind, true) {
                    let reason = reason.as_ref().map(Text::from);
                    self.reporter.event(Event::Line(&Line::Blind { reason }));
                }
                Ok(Vec::new())
            }
        }
    }

    /// Scans the plugins again, watches all paths, and checks all entities. Returns those that have drifted.
    fn survey(&mut self) -> Result<Vec<EntityIndex>, FatalError> {
        let selection = Selection { selectors: self.arguments.selection.selectors.clone() };
        self.told.begin();
        super::use_pinned(&mut self.settings, &mut Findings::new(self.reporter, &mut self.told))?;
        self.settings.max_output = EngineSettings::read(&self.settings.root).0.limits.output;
        let mut inputs = Inputs::new(&self.settings, &selection.selectors);
        let (mut inventory, selected, known, paths, is_missing) = loop {
            let mut findings = Findings::new(self.reporter, &mut self.told);
            let inventory = inputs.discover(Purpose::Check, self.interrupt, &mut findings)?;
            self.look_meanwhile(&inventory)?;
            let mut findings = Findings::new(self.reporter, &mut self.told);
            let root = &inputs.settings.root;
            let selected = super::select("watch", &inventory, &selection.selectors, findings.of_the_run())?;
            let entities: Vec<EntityIndex> = inventory.selected_of(&selected).map(|(entity, _)| entity).collect();
            let known = Known::new(&inventory, &entities, &self.known);
            let mut paths = WatchedPaths::new(&absolute(root)?).map_err(FatalError::could_not_run)?;
            known.watch(&inventory, root, &mut paths)?;
            let is_missing = watch_definitions(root, &inventory.missing, &mut paths)?;
            // Later events are reported, and earlier changes are found by the check below.
            paths.arm().map_err(FatalError::could_not_run)?;
            let has_come = || inventory.missing.iter().any(|program| program.exists());
            if inputs.is_consistent(&inventory, &selected, self.interrupt, &mut findings)? && !has_come() {
                break (inventory, selected, known, paths, is_missing);
            }
        };
        self.settings = inputs.settings;
        let mut findings = Findings::new(self.reporter, &mut self.told);
        super::show_slips(&inventory, &selected, &mut findings);
        if let Some(text) = paths.warning() {
            findings.warning(text);
        }
        let sources = Sources::start(&inventory.plugins, findings.of_the_run());
        let database = Rc::new(Database::snapshot(self.settings.root.state_database()));
        let refreshes = Refreshes::look(&database).map_err(FatalError::could_not_run)?.0;
        let kept = (refreshes, SentValues::look(&database, inventory.cache()).map_err(FatalError::could_not_run)?);
        let walk = Walk::new(&mut inventory, &selected, &self.settings, self.interrupt, Task::Check, kept);
        walk.with_force(self.arguments.force).go(&mut findings)?;
        let found = findings.into_found();
        self.told.end();
        self.cache = Some(Arc::clone(&inventory.cache));
        self.is_flawed = inventory.is_flawed_for(&selection);
        self.forget_repairs(&inventory, &known)?;
        drop(inventory);
        // The data that is kept lies above the memory of the scan on the heap. Moving it lets the C library return the
        // rest to the system.
        self.known = known.clone();
        drop(known);
        self.timers = self.known.timers(Instant::now());
        self.queue.watch(paths.moved(), sources);
        if is_missing {
            self.queue.postpone(Heard { everything: true, ..Heard::default() }, TRY_AGAIN);
        }
        self.unseen = self.watch_parts(&found)?;
        self.queue.paths().are_all();
        let is_read =
            found.iter().any(|finding| finding.parts.iter().any(|part| part.ends_with_str(REGISTRY_SNAPSHOT)));
        let drifted = self.learn(found, &Causes::new());
        self.report_registry(is_read);
        Ok(drifted)
    }

    /// Checks and repairs entities with events until the end of a survey's scan, because the check of everything takes as long again. If one
    /// of them is not defined any more, they all wait for that check.
    fn look_meanwhile(&mut self, inventory: &Inventory) -> Result<(), FatalError> {
        let mut heard = std::mem::take(&mut self.surveyed_for);
        self.queue.take(&mut heard, self.reporter)?;
        let causes = self.known.causes(heard);
        if causes.is_empty() {
            return Ok(());
        }
        let defined: HashSet<&BStr> = inventory.entities.iter().map(Entity::id).collect();
        let concerned: Vec<EntityIndex> = causes.keys().copied().collect();
        let mut asked = self.known.with_dependents(&concerned).into_iter();
        if !asked.all(|entity| defined.contains(self.known.entities[entity].id.as_bstr())) {
            return Ok(());
        }
        match self.look_at(&causes)? {
            Some(drifted) => self.repair(drifted),
            None => Ok(()),
        }
    }

    /// Reports the use of the registry, if it has changed. The services of entities that have drifted are among it.
    fn report_registry(&mut self, is_read: bool) {
        let services = self.known.entities.iter().flat_map(|entity| {
            let registered = |service: &Registration| {
                RegisteredService { id: Text::from(&entity.id), service: service.clone() }.into_owned()
            };
            entity.controls().register.iter().map(registered)
        });
        let registry = Registry { services: services.collect(), is_read };
        if registry != self.registry {
            let Registry { services, is_read } = &registry;
            self.reporter.event(Event::Line(&Line::Registry { services: services.clone(), read: *is_read }));
            self.registry = registry;
        }
    }

    /// Forgets the repairs of entities whose definitions have changed since.
    fn forget_repairs(&mut self, inventory: &Inventory, known: &Known) -> Result<(), FatalError> {
        if !self.arguments.apply {
            return Ok(());
        }
        let mut repairs = self.repairs()?;
        let mut definitions = Definitions::new(&known.beginnings, &self.settings.root);
        let repaired = inventory.entities.iter().filter(|entity| repairs.has(entity.id()));
        let found = repaired.map(|entity| (entity.id().to_owned(), definitions.fingerprint(&entity.report_sources())));
        let found = found.collect();
        repairs.forget_changed(&found);
        self.keep(&mut repairs)
    }

    /// Checks entities with events, and those that may be affected or fixed by the same change. Returns those that have
    /// drifted.
    fn look(&mut self, causes: &Causes) -> Result<Vec<EntityIndex>, FatalError> {
        match self.look_at(causes)? {
            Some(drifted) => Ok(drifted),
            None => self.survey_or_postpone(),
        }
    }

    /// Like [`look`](Watcher::look). Returns `None` if the set of entities may have changed.
    fn look_at(&mut self, causes: &Causes) -> Result<Option<Vec<EntityIndex>>, FatalError> {
        if causes.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let concerned: Vec<EntityIndex> = causes.keys().copied().collect();
        let mut asked = self.known.with_dependents(&concerned);
        let is_desired = |entity| self.known.entities[entity].state == Some(State::Desired);
        asked.retain(|&entity| causes.contains_key(&entity) || !is_desired(entity));
        let Some(mut found) = self.check(&asked)? else { return Ok(None) };
        let is_blocked = |finding: &&Finding| finding.end == End::DependencyFailed;
        let blocked: Vec<EntityIndex> =
            found.iter().filter(is_blocked).filter_map(|finding| self.known.find(finding.id.as_bstr())).collect();
        let required = self.known.with_required(&blocked);
        if !required.is_subset(&asked) {
            // It would block a repair, too.
            asked.extend(required);
            let Some(again) = self.check(&asked)? else { return Ok(None) };
            found = again;
        }
        Ok(Some(self.learn(found, causes)))
    }

    /// Checks these entities, and returns their states. Returns `None` if the set of entities may have changed.
    fn check(&mut self, entities: &HashSet<EntityIndex>) -> Result<Option<Vec<Finding>>, FatalError> {
        let Some(mut found) = self.check_once(entities)? else { return Ok(None) };
        let unseen = self.watch_parts(&found)?;
        if !unseen.is_empty() {
            let Some(again) = self.check_once(&unseen.into_iter().collect())? else { return Ok(None) };
            // There may be other parts each time. For those, the next event is soon enough.
            self.watch_parts(&again)?;
            found.extend(again);
        }
        Ok(Some(found))
    }

    fn check_once(&mut self, entities: &HashSet<EntityIndex>) -> Result<Option<Vec<Finding>>, FatalError> {
        let selection = self.known.selection(entities.iter().copied());
        let preview = check::Preview { force: self.arguments.force, names_all: true, ..check::Preview::default() };
        let mut findings = Findings::new(self.reporter, &mut self.told);
        let done = check::walk(&self.settings, self.interrupt, &mut findings, &selection, preview);
        let found = findings.into_found();
        match done {
            Ok(_) => Ok(Some(found)),
            Err(FatalError::Reported) => Ok(None),
            Err(fatal) => {
                self.postpone(fatal, Heard { everything: true, ..Heard::default() })?;
                Ok(Some(Vec::new()))
            }
        }
    }

    /// Watches the parts of entities that plugins have reported. Returns the entities of which some were not watched before.
    fn watch_parts(&mut self, found: &[Finding]) -> Result<BTreeSet<EntityIndex>, FatalError> {
        self.known.watch_parts(found, &self.settings.root, self.queue.paths())
    }

    /// Records findings, and reports what is new. Returns the entities that have drifted.
    fn learn(&mut self, found: Vec<Finding>, causes: &Causes) -> Vec<EntityIndex> {
        let mut drifted = Vec::new();
        // Without them, it is at worst reported as drifted that an entity is left alone.
        let mut repairs = if self.arguments.apply { self.repairs().unwrap_or_default() } else { Repairs::default() };
        for finding in found {
            let Some(entity) = self.known.find(finding.id.as_bstr()) else { continue };
            let before = self.known.entities[entity].state;
            let (state, noticed) = match finding.end {
                _ if finding.is_unknown => continue,
                End::Pending if self.known.entities[entity].always_acts => {
                    (State::Desired, Noticed::Returned(finding.id.as_bstr()))
                }
                End::Pending | End::Refused => {
                    drifted.push(entity);
                    let reason = causes.get(&entity).cloned().flatten().or_else(|| finding.reason());
                    let needs_force = finding.end == End::Refused;
                    let writer = self.queue.writer_of(entity);
                    writer.iter().for_each(|writer| repairs.written(finding.id.as_bstr(), writer));
                    let (id, is_edited) = (finding.id.as_bstr(), needs_force && finding.is_edited);
                    let noticed = match repairs.left_alone_until(id, Timestamp::now()) {
                        Some(until) if !needs_force => repairs.notice(id, self.known.limit(entity), until),
                        _ => Noticed::Drifted { id, reason, writer, needs_force, is_edited },
                    };
                    (State::Drifted, noticed)
                }
                End::Failed | End::DependencyFailed => (State::Failed, finding.failure()),
                End::Unchanged | End::Changed | End::ConditionNotMet => {
                    (State::Desired, Noticed::Returned(finding.id.as_bstr()))
                }
            };
            let is_news = before != Some(state) && (before.is_some() || state != State::Desired);
            if is_news {
                self.reporter.event(Event::Noticed(noticed));
                self.last_change = Instant::now();
            }
            self.known.entities[entity].state = Some(state);
            // A check that works does not mean that a repair will.
            if finding.is_broken || state == State::Desired {
                self.timers.retry(entity, finding.is_broken, Instant::now());
            }
        }
        // Without a known writer, nothing is lost.
        let _ = self.keep(&mut repairs);
        drifted
    }

    /// Schedules a retry of a check that failed. Only a signal ends the watch.
    fn postpone(&mut self, fatal: FatalError, heard: Heard) -> Result<(), FatalError> {
        match fatal {
            FatalError::Interrupted { .. } | FatalError::TimeIsOver { .. } => return Err(fatal),
            FatalError::CouldNotRun(_) | FatalError::Generator(_) => {
                if let Some(message) = fatal.message().filter(|text| self.told.is_new(text.as_str().into())) {
                    self.reporter.error(message);
                }
            }
            FatalError::Reported | FatalError::Busy(_) | FatalError::LeftToTheNext => {}
        }
        self.queue.postpone(heard, TRY_AGAIN);
        Ok(())
    }

    /// Returns the exit code for the states of the entities.
    fn exit_code(&self) -> u8 {
        let any = |state| self.known.entities.iter().any(|entity| entity.state == Some(state));
        // Failed operations are waiting for a retry.
        if any(State::Failed) || self.is_flawed || self.queue.has_postponed() {
            exit::FAILED
        } else if any(State::Drifted) {
            exit::PENDING
        } else {
            exit::DONE
        }
    }
}

impl Finding {
    /// Returns the reason for which the entity has drifted, in the words of its plugin.
    fn reason(&self) -> Option<BString> {
        self.refusals.iter().chain(&self.changes).next().cloned()
    }

    fn failure(&self) -> Noticed<'_> {
        Noticed::Failed { id: self.id.as_bstr(), reason: self.error.as_ref().map(|text| text.as_bstr()) }
    }
}
