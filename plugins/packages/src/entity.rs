//! The entity of a package.

use crate::check::{CheckResult, Finding, check_all};
use crate::providers::{PackageProvider, ProviderError};
use crate::records::Base;
use crate::repositories::{self, RepositoryEntity};
use crate::simulate::Names;
use crate::source;
use crate::wanted::{Ensure, Wanted};
use holo_change::base_store::{Legacy, Orphan};
use holo_plugin::declared::Declared;
use holo_plugin::system::package_manager::INDEX;
use holo_plugin::{Asset, EntityReport, Host, Information, Output};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of packages in a check for which the packages that come along are listed. Each takes a simulation.
const MOST_IN_DETAIL: usize = 8;

/// A defined package, or an orphan.
pub(crate) struct PackageEntity {
    pub(crate) wanted: Wanted,
    /// The package manager, or the reason why there is none.
    pub(crate) provider: Result<&'static dyn PackageProvider, ProviderError>,
    /// The full name, which is unique among packages.
    pub(crate) owned: String,
    pub(crate) records: PackageRecords,
    /// True if what configures its manager, such as repositories, is applied first.
    pub(crate) comes_after_configuration: bool,
    pub(crate) shared: Arc<Shared>,
}

/// The records about a package.
pub(crate) enum PackageRecords {
    /// The package is defined. It may have been recorded under another name.
    Living(Legacy<Base>),
    /// The package is an orphan.
    Orphan(Box<Orphan<Base>>),
}

/// Data that all packages of a scan share.
#[derive(Default)]
pub(crate) struct Shared {
    /// All packages that are not skipped, with their managers.
    pub(crate) all: Vec<(Wanted, &'static dyn PackageProvider)>,
    /// The repositories that packages come from.
    repositories: Vec<Arc<Declared<RepositoryEntity>>>,
    /// The cached results of a check of all packages, by ID.
    findings: Mutex<Option<BTreeMap<String, Finding>>>,
    /// The versions of packages when they were last applied or checked, by ID.
    versions: Mutex<BTreeMap<String, String>>,
    /// True if too many packages are selected to list the packages that come along with each.
    is_crowd: AtomicBool,
}

impl Shared {
    pub(crate) fn new(
        all: Vec<(Wanted, &'static dyn PackageProvider)>,
        repositories: Vec<Arc<Declared<RepositoryEntity>>>,
    ) -> Shared {
        Shared { all, repositories, ..Shared::default() }
    }

    /// Returns true if an apply of a repository of this manager could change the available packages.
    fn has_pending_sources(&self, host: &Host, manager: &str) -> bool {
        let living = self.repositories.iter().filter(|one| one.common.skipped.is_none());
        let of_manager = |one: &&Arc<Declared<RepositoryEntity>>| {
            one.entity.provider.as_ref().is_ok_and(|provider| provider.name() == manager)
        };
        living.filter(of_manager).any(|one| repositories::is_pending(host, &one.entity))
    }

    /// Returns the names of all packages of a manager.
    pub(crate) fn names(&self, provider: &dyn PackageProvider) -> Names {
        let mut names = Names::default();
        for wanted in self.wanted_of(provider.name()) {
            let list = if wanted.ensure.is_gone() { &mut names.unwanted } else { &mut names.wanted };
            list.insert(wanted.key.name.clone());
            if !wanted.is_orphan {
                names.defined.insert(wanted.key.clone(), !wanted.ensure.is_gone());
            }
        }
        names
    }

    fn wanted_of(&self, manager: &str) -> Vec<&Wanted> {
        self.all.iter().filter(|(_, provider)| provider.name() == manager).map(|(wanted, _)| wanted).collect()
    }

    /// PackageRecords how many packages are selected.
    pub(crate) fn expect(&self, count: usize) {
        self.is_crowd.store(count > MOST_IN_DETAIL, Ordering::Relaxed);
    }

    /// Returns true if checks list the packages that come along.
    pub(crate) fn tells_others(&self) -> bool {
        !self.is_crowd.load(Ordering::Relaxed)
    }

    /// PackageRecords the installed version of a package.
    pub(crate) fn note_version(&self, id: &str, version: Option<&str>) {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        match version {
            Some(version) => drop(versions.insert(id.to_owned(), version.to_owned())),
            None => drop(versions.remove(id)),
        }
    }

    /// Returns the installed version of a package that was applied or checked. It is empty if the mock manager has none.
    pub(crate) fn version(&self, id: &str) -> Option<String> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// Clears the cached results.
    pub(crate) fn forget(&self) {
        *self.findings.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the effect of applying a package. All packages are checked on the first call.
    pub(crate) fn finding(&self, id: &str, host: &Host, output: &mut Output<'_>) -> Option<Finding> {
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        let findings = findings.get_or_insert_with(|| {
            let mut findings = BTreeMap::new();
            let mut managers: BTreeMap<&str, &'static dyn PackageProvider> = BTreeMap::new();
            for (_, provider) in &self.all {
                managers.insert(provider.name(), *provider);
            }
            for (name, provider) in managers {
                let (wanted, names) = (self.wanted_of(name), self.names(provider));
                let has_pending_sources = self.has_pending_sources(host, name);
                let found = check_all(host, provider, &wanted, &names, has_pending_sources, output);
                for (id, CheckResult { finding, version }) in found {
                    self.note_version(&id, version.as_deref());
                    findings.insert(id, finding);
                }
            }
            findings
        });
        findings.get(id).cloned()
    }
}

impl PackageEntity {
    /// Returns the report to store for the package as an orphan. Its ownership is derived from its base.
    pub(crate) fn report_to_keep(&self) -> EntityReport {
        let mut report = self.full_report();
        report.edges.owns.clear();
        report.edges.watch.clear();
        report
    }

    /// Returns the full report.
    pub(crate) fn full_report(&self) -> EntityReport {
        let mut report = match &self.records {
            PackageRecords::Orphan(orphan) => orphan.remembered.orphan_report(),
            PackageRecords::Living(_) => EntityReport::new(self.wanted.id.as_str()),
        };
        report.edges.owns = [Asset::new("package", self.owned.as_str())].into();
        if let Ok(provider) = &self.provider
            && self.comes_after_configuration
        {
            let index = Asset::new(INDEX, provider.name());
            if !report.edges.needs.contains(&index) {
                report.edges.needs.push(index);
            }
        }
        if matches!(self.records, PackageRecords::Orphan(_)) {
            return report;
        }
        if let Ok(provider) = &self.provider {
            report.edges.watch.extend(provider.manager().watched().map(Into::into));
        }
        let mut tell = |key: &str, value: &str| {
            report.information.push(Information { key: key.into(), value: value.into() });
        };
        let ensure = match &self.wanted.ensure {
            Ensure::Present => "present".to_owned(),
            Ensure::Absent => "absent".to_owned(),
            Ensure::Purged => "purged".to_owned(),
            Ensure::Latest => "latest".to_owned(),
            Ensure::Version(versions) => versions.to_string(),
        };
        tell("ensure", &ensure);
        if let Some(hold) = self.wanted.hold {
            tell("hold", if hold { "yes" } else { "no" });
        }
        if let Some(answers) = &self.wanted.answers {
            let questions: Vec<&str> = answers.all.keys().map(String::as_str).collect();
            tell("debconf", &questions.join(" "));
        }
        if let Some(source) = &self.wanted.source {
            if let Some(address) = source::address(source) {
                tell("source", &address.to_string());
            } else {
                tell("source", source);
                report.edges.needs.push(Asset::new("path", source.as_str()));
            }
        }
        if !self.wanted.ensure.is_gone() {
            report.edges.provides.push(Asset::new("package", self.wanted.key.name.as_str()));
        }
        report
    }
}
