//! systemd units, managed with its own tool. All managers of a host are combined, and each unit is passed to its own.

mod adoption;
mod bus;
mod files;
mod install;
mod lists;
mod live;
mod offline;
mod show;
mod signals;
mod tool;
mod words;

use crate::plan::{Step, Wanted};
use crate::providers::{
    Done, Links, Manager, ManagerError, Noticed, Relations, ServiceProvider, Subject, Task, UnitEvent,
};
use crate::state::{Enablement, Load, UnitState};
use crate::unit::{Scope, UnitName, UnitNameError};
use files::Directories;
use holo_plugin::provider::Provider;
use holo_plugin::system::{self, Root};
use holo_plugin::{Asset, Edges, Host, KnownUser, reason};
use live::Live;
use offline::Offline;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};
use tool::Tool;

/// The name in definitions and messages.
const NAME: &str = "systemd";

/// systemd.
pub(crate) struct Systemd;

impl Provider for Systemd {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Used wherever units can be enabled by files, even if it does not run.
    fn rank(&self, _: &Host) -> Option<u8> {
        Some(1)
    }
}

impl ServiceProvider for Systemd {
    fn has_users(&self) -> bool {
        true
    }

    fn unit_name(&self, name: &str) -> Result<UnitName, UnitNameError> {
        words::complete(name)
    }

    fn short_name<'a>(&self, name: &'a UnitName) -> &'a str {
        name.as_str().strip_suffix(".service").unwrap_or(name.as_str())
    }

    fn main_name(&self, root: &Root, name: &UnitName) -> UnitName {
        files::main_name(root, name)
    }

    fn also(&self, root: &Root, name: &UnitName) -> Vec<UnitName> {
        install::also(root, name)
    }

    fn links(&self, root: &Root, name: &UnitName) -> Links {
        install::links(root, name)
    }

    fn relink(&self, root: &Root, name: &UnitName, links: &Links) -> io::Result<bool> {
        install::relink(root, name, links)
    }

    fn file_names(&self, name: &UnitName) -> Vec<String> {
        if !name.scope().is_system() {
            return Vec::new();
        }
        words::files(name).into_iter().flat_map(|file| [format!("{file}.d"), file]).collect()
    }

    fn unsupported(&self, _: &Scope, wanted: &Wanted) -> Option<(&'static str, &'static str)> {
        (!wanted.runlevels.is_empty()).then_some(("runlevels", "systemd has none"))
    }

    fn add_edges(&self, root: &Root, name: &UnitName, given: &UnitName, edges: &mut Edges) {
        let mut need = |kind: &str, value: &str| edges.needs.push(Asset::new(kind, value));
        // Packages often have the names of their units.
        need("package", words::stem(name));
        if let Some(user) = name.scope().user() {
            need("user", user);
        }
        let mut files = words::files(name);
        files.extend(words::files(given).into_iter().filter(|file| !words::files(name).contains(file)));
        let (directories, of_packages) = files::of_people(root, name.scope());
        for (directory, file) in
            directories.iter().flat_map(|directory| files.iter().map(move |file| (directory, file)))
        {
            let path = format!("{}/{file}", directory.display());
            need("path", &path);
            need("path", &format!("{path}.d"));
            edges.watch.extend([path.as_str().into(), format!("{path}.d/").into()]);
        }
        edges.watch.push(format!("{of_packages}/{}", words::files(name).pop().unwrap_or_default()).into());
    }

    fn accounts(&self, root: &Root, names: &BTreeMap<String, UnitName>) -> BTreeMap<String, Vec<Asset>> {
        let files = files::FileNames::read(root);
        let of_system = names.iter().filter(|(_, name)| name.scope().is_system());
        of_system.map(|(id, name)| (id.clone(), files.accounts(root, name))).collect()
    }

    fn listen(&self, host: &Host, hear: &mut dyn FnMut(UnitEvent<'_>) -> bool) -> Result<(), ManagerError> {
        while !is_live(host) {
            // Changes of files are detected by watching their paths.
            std::thread::park();
        }
        signals::listen(hear)
    }

    fn programs(&self) -> &'static [&'static str] {
        &["systemctl"]
    }

    fn how_to_read_files(&self) -> &'static str {
        "systemctl daemon-reload"
    }

    fn reading_files(&self, host: &Host) -> Option<&'static str> {
        is_live(host).then_some("systemd:unit-files")
    }

    fn noticed(&self, host: &Host) -> Result<Vec<Noticed>, ManagerError> {
        adoption::noticed(host.root(), is_live(host))
    }

    /// Returns systemd for the system or a user if it runs; otherwise a manager that only changes files.
    fn manager(&self, host: &Host) -> Box<dyn Manager> {
        Box::new(Managers::new(host, is_live(host)))
    }
}

/// Returns true if systemd runs and manages the units of this host.
fn is_live(host: &Host) -> bool {
    !host.test_mode() && !host.is_offline() && system::is_run_by_systemd()
}

/// The directory with a directory for each user whose manager runs.
const RUNTIME: &str = "/run/user";
/// The socket of a user's manager in that directory.
const SOCKET: &str = "systemd/private";

struct Managers {
    system: Box<dyn Manager>,
    root: PathBuf,
    mocks: bool,
    is_offline: bool,
}

impl Managers {
    fn new(host: &Host, is_live: bool) -> Managers {
        let (root, mocks, is_offline) = (host.root().to_owned(), host.test_mode(), host.is_offline());
        // Without a running systemd, such as while an image is built, units can be enabled, but not started.
        let system: Box<dyn Manager> =
            if is_live { Box::new(Live::of_system()) } else { Box::new(Offline::of_system(&root, mocks)) };
        Managers { system, root, mocks, is_offline }
    }

    /// Calls a manager; `nobody` returns the result for a user who does not exist.
    fn ask<T>(
        &self,
        scope: &Scope,
        nobody: impl FnOnce() -> T,
        ask: impl FnOnce(&dyn Manager) -> T,
    ) -> Result<T, ManagerError> {
        let user = match scope {
            Scope::System => return Ok(ask(&*self.system)),
            Scope::AllUsers => return Ok(ask(&Offline::of_all_users(&self.root, self.mocks))),
            Scope::User(_) if self.mocks => return Ok(ask(&Offline::of_unknown_user(&self.root))),
            Scope::User(user) => user,
        };
        let failed = |error| ManagerError::Failed(format!("cannot look up user {user}: {}", reason(&error)));
        let Some(known) = KnownUser::find(user).map_err(failed)? else { return Ok(nobody()) };
        let uid = known.credentials.uid;
        let runtime = Path::new(RUNTIME).join(uid.to_string());
        let runs = !self.is_offline
            && fs::symlink_metadata(runtime.join(SOCKET)).is_ok_and(|socket| socket.file_type().is_socket());
        Ok(if runs {
            ask(&Live { tool: Tool::of_user(user, uid, Some(runtime)), directories: Directories::of_user(&known) })
        } else {
            ask(&Offline::of_user(Tool::of_user(user, uid, None)))
        })
    }

    /// Returns the state of a unit, with enablement by its own user distinguished from that for all users.
    fn own(&self, unit: &UnitName, state: UnitState) -> UnitState {
        let is_own = || unit.scope().user().is_none() || !install::links(&Root::new(&self.root), unit).is_empty();
        let enablement = match state.enablement {
            Enablement::Enabled if !state.is_imagined && !is_own() => Enablement::EnabledForAll,
            enablement => enablement,
        };
        UnitState { enablement, ..state }
    }

    /// Passes subjects to their managers, and returns the answers in the original order.
    fn each<S: Copy, T>(
        subjects: &[S],
        scope: impl Fn(&S) -> &Scope,
        mut ask: impl FnMut(&Scope, &[S]) -> Vec<T>,
    ) -> Vec<T> {
        let mut all: BTreeMap<&Scope, Vec<(usize, S)>> = BTreeMap::new();
        for (index, subject) in subjects.iter().enumerate() {
            all.entry(scope(subject)).or_default().push((index, *subject));
        }
        let mut answers: BTreeMap<usize, T> = BTreeMap::new();
        for (scope, subjects) in all {
            let (indexes, subjects): (Vec<usize>, Vec<S>) = subjects.into_iter().unzip();
            answers.extend(indexes.into_iter().zip(ask(scope, &subjects)));
        }
        answers.into_values().collect()
    }
}

type States = Result<Vec<Result<UnitState, ManagerError>>, ManagerError>;

impl Managers {
    /// Returns the states of units, which also in test mode do not run if the system does not.
    fn found(&self, subjects: &[Subject<'_>]) -> States {
        if subjects.iter().all(|subject| subject.unit.scope().is_system()) {
            return self.system.states(subjects);
        }
        Ok(Managers::each(
            subjects,
            |subject| subject.unit.scope(),
            |scope, subjects| {
                let nobody = || Ok(vec![Ok(UnitState { load: Load::NoUser, ..UnitState::default() }); subjects.len()]);
                let states = self.ask(scope, nobody, |manager| manager.states(subjects)).flatten();
                // If one manager fails, the others are not affected.
                let states = states.unwrap_or_else(|error| vec![Err(error); subjects.len()]);
                let state = |(subject, state): (&Subject<'_>, Result<UnitState, _>)| Ok(self.own(subject.unit, state?));
                subjects.iter().zip(states).map(state).collect()
            },
        ))
    }
}

impl Manager for Managers {
    fn states(&self, subjects: &[Subject<'_>]) -> States {
        let mut states = self.found(subjects)?;
        if self.is_offline {
            states.iter_mut().flatten().for_each(|state| state.phase = None);
        }
        Ok(states)
    }

    fn unread_files(&self) -> Result<BTreeSet<String>, ManagerError> {
        self.system.unread_files()
    }

    fn read_files(&self, scope: &Scope) -> Result<(), ManagerError> {
        self.ask(scope, || Ok(()), |manager| manager.read_files(scope)).flatten()
    }

    fn act(&self, step: Step, tasks: &[Task<'_>], timeout: Option<Duration>) -> Vec<Done> {
        let failed = |error: &str, tasks: &[Task<'_>]| vec![Done::Failed(vec![error.to_owned()]); tasks.len()];
        Managers::each(
            tasks,
            |task| task.unit.scope(),
            |scope, tasks| {
                let nobody = || failed("there is no such user", tasks);
                let done = self.ask(scope, nobody, |manager| manager.act(step, tasks, timeout));
                done.unwrap_or_else(|error| failed(&error.to_string(), tasks))
            },
        )
    }

    fn last_words(&self, unit: &UnitName) -> Vec<String> {
        self.ask(unit.scope(), Vec::new, |manager| manager.last_words(unit)).unwrap_or_default()
    }

    fn main_pid(&self, unit: &UnitName) -> Option<u32> {
        self.ask(unit.scope(), || None, |manager| manager.main_pid(unit)).ok().flatten()
    }

    fn boot(&self) -> Option<String> {
        self.system.boot()
    }

    fn relations(&self, units: &[&UnitName]) -> Relations {
        let of_scope = |scope: &Scope, units: &[&UnitName]| {
            let relations = self.ask(scope, Relations::new, |manager| manager.relations(units)).unwrap_or_default();
            units.iter().map(|unit| relations.get(&unit.qualified()).cloned().unwrap_or_default()).collect()
        };
        let all = Managers::each(units, |unit| unit.scope(), of_scope);
        units.iter().map(|unit| unit.qualified()).zip(all).collect()
    }
}
