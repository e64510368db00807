//! Runs the programs of a package manager on a system, and retries while another process has locked it.

use crate::action::Action;
use crate::mock::Mock;
use crate::model::{Installed, PackageError, name};
use crate::providers::{PackageProvider, Repair, RepairBy};
use crate::system::{LOOK_AGAIN, System};
use holo_change::error::PathError;
use holo_plugin::process::{self, Program};
use holo_plugin::system::Root;
use holo_plugin::system::transaction;
use holo_plugin::{Applied, Host, Output};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// The time that a transaction has to finish after its timeout, or after a signal to the plugin.
const FINISH_LIMIT: Duration = Duration::from_secs(30 * 60);

/// A package manager and the system that it works on.
pub(crate) struct Manager<'a> {
    pub(crate) provider: &'static dyn PackageProvider,
    pub(crate) system: System<'a>,
}

impl<'a> Manager<'a> {
    /// Creates the manager of the host's system. In test mode, the real manager is used only if it can work on that root.
    pub(crate) fn new(host: &'a Host, provider: &'static dyn PackageProvider) -> Result<Manager<'a>, PackageError> {
        let mut system = if !host.test_mode() {
            System::new(host)
        } else if !is_mocked(host, provider) {
            System::below_root(host)?
        } else {
            let native = provider.native_arch(&Root::new(host.root()));
            System::mocked(host, Mock::open(host, provider.name(), native)?)
        };
        if system.mock.is_none() {
            system.inside = transaction::program(host.root());
            system.only_looks = system.inside.is_some();
        }
        Ok(Manager { provider, system })
    }

    /// Returns the result of an entity that cannot be changed because holo runs inside of a transaction.
    pub(crate) fn deferral(&self) -> Option<Applied> {
        self.system.inside.map(|program| Applied::Deferred(format!("{program} is running")))
    }

    pub(crate) fn installed(&self) -> Result<Installed, PackageError> {
        self.system.mock.as_ref().map_or_else(|| self.provider.installed(&self.system), |mock| Ok(mock.installed()))
    }

    /// Returns true if the index was refreshed in this run.
    pub(crate) fn has_refreshed(&self) -> bool {
        self.marker().exists()
    }

    /// Refreshes the index.
    pub(crate) fn refresh(&self, output: &mut Output<'_>) -> Result<(), PackageError> {
        let refreshed = self.provider.refresh(&self.system);
        let refreshed = refreshed.and_then(|mut program| self.fetch(&mut program, output));
        if refreshed.is_ok() && self.system.mock.is_none() {
            self.note_index();
        }
        // Without the marker, the index is refreshed once more than necessary.
        let _ = fs::create_dir_all(self.system.cache_dir()).and_then(|()| fs::write(self.marker(), ""));
        refreshed
    }

    fn marker(&self) -> PathBuf {
        self.system.cache_dir().join(format!("refreshed-{}", self.provider.name()))
    }

    /// Runs a program that downloads files. It can be terminated at any time.
    pub(crate) fn fetch(&self, program: &mut Program, output: &mut Output<'_>) -> Result<(), PackageError> {
        program.timeout(self.system.fetch_limit());
        self.change(program, output)
    }

    /// Runs a program that changes installed packages. Once started, it is not terminated before [`FINISH_LIMIT`].
    pub(crate) fn transact(&self, program: &mut Program, output: &mut Output<'_>) -> Result<(), PackageError> {
        program.let_finish(FINISH_LIMIT).timeout(self.system.timeout);
        self.change(program, output)
    }

    /// Runs a program that makes changes. Retries while another process has locked the package manager.
    fn change(&self, program: &mut Program, output: &mut Output<'_>) -> Result<(), PackageError> {
        if self.system.mock.is_some() {
            output.print(format!("MOCK: {program}\n"));
            return Ok(());
        }
        let mut took = Duration::ZERO;
        let captured = self.system.wait_for_others(
            |captured| self.provider.is_locked(captured),
            || {
                let begun = Instant::now();
                let _uninterrupted = program.is_let_finish().then(|| self.system.host().uninterrupted());
                let captured = self.system.run(program);
                took = begun.elapsed();
                captured
            },
        )?;
        let Some(failure) = captured.ended.failure() else {
            if let Some(timeout) = self.system.timeout.filter(|timeout| took > *timeout) {
                let name = name(program);
                output.warning(format!(
                    "{name} took {took:.1?}, longer than its timeout of {timeout:?}, but was not interrupted"
                ));
            }
            return Ok(());
        };
        let is_locked = self.provider.is_locked(&captured);
        let is_general = is_locked || captured.ended.timed_out.is_some() || self.provider.is_general(&captured);
        Err(PackageError { is_general, ..PackageError::from_program(program, &failure, &captured) })
    }

    fn next_repair(&self) -> Result<Option<Repair>, PackageError> {
        Ok(self.provider.interrupted(&self.system)?.into_iter().next())
    }

    /// Repairs the state after an interrupted transaction, in several steps if one repair is only the beginning. Returns false if no repair was
    /// needed.
    ///
    /// # Errors If a repair fails, or is not allowed.
    pub(crate) fn repair<E: From<PackageError>>(
        &self,
        allow: impl Fn(&Repair) -> Result<(), E>,
        output: &mut Output<'_>,
    ) -> Result<bool, E> {
        if self.system.mock.is_some() {
            return Ok(false);
        }
        let end = Instant::now() + self.system.lock_limit();
        let mut is_repaired = false;
        let mut next = self.next_repair()?;
        while let Some(repair) = next {
            allow(&repair)?;
            let said = repair.with_actions(&repair.said, Action::done);
            let done = match repair.by {
                RepairBy::Running(mut program) => {
                    program.let_finish(FINISH_LIMIT);
                    let _uninterrupted = self.system.host().uninterrupted();
                    let captured = self.system.run(&mut program)?;
                    if self.provider.is_locked(&captured) && Instant::now() < end {
                        // The transaction is not interrupted, but still running in another process.
                        thread::sleep(LOOK_AGAIN);
                        next = self.next_repair()?;
                        continue;
                    }
                    let failure = captured.ended.failure();
                    failure.map_or(Ok(()), |failure| Err(PackageError::from_program(&program, &failure, &captured)))
                }
                RepairBy::Removing(path) => fs::remove_file(&path)
                    .map_err(|error| PackageError::new(PathError::new("remove", path, error).to_string())),
            };
            next = self.next_repair()?;
            let is_needed_still = next.as_ref().is_some_and(|next| next.command == repair.command);
            match done {
                Err(problem) if is_needed_still => {
                    let summary = format!("{}; run {}", problem.summary, repair.command);
                    return Err(PackageError { summary, is_general: true, ..problem }.into());
                }
                // The error of a single package must not stop the others. The next repair is for what is left.
                Err(problem) if next.is_none() => {
                    problem.lines.iter().chain([&problem.summary]).for_each(|line| output.warning(line));
                }
                Err(_) => {}
                Ok(()) => output.warning(said),
            }
            is_repaired = true;
            next = next.filter(|_| !is_needed_still);
        }
        Ok(is_repaired)
    }
}

/// Returns true if the manager is replaced by a mock, because this is a test and it cannot work on that root.
pub(crate) fn is_mocked(host: &Host, provider: &dyn PackageProvider) -> bool {
    let (manager, root) = (provider.manager(), Root::new(host.root()));
    let may_begin = provider.begins_from_nothing() && manager.has_configuration(&root);
    let can_work = || (manager.has_database(&root) || may_begin) && process::find(manager.program).is_some();
    host.test_mode() && !can_work()
}
