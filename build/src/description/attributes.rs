//! The values of the table `[package]`.

use super::{Reader, values};
use crate::format::{Architecture, EPOCH_MAX, Format, Stage, Version};
use crate::relation::{Groups, Relation, RelationError, RelationList};
use crate::tables::{PackageTable, Table};

impl Reader<'_> {
    pub(super) fn name(&mut self, table: &Table<PackageTable>) -> Option<String> {
        let Some(name) = &table.value.name else {
            table.missing("name", &mut self.findings);
            return None;
        };
        let checked = self.source.format.check_name(name);
        checked.map_err(|error| self.findings.error(table.line_of("name"), format!("name: {error}"))).ok()?;
        Some(name.clone())
    }

    pub(super) fn version(&mut self, table: &Table<PackageTable>) -> Option<Version> {
        let PackageTable { version, alpha, beta, epoch, release, .. } = &table.value;
        let prerelease = match (alpha, beta) {
            (Some(_), Some(_)) => {
                self.findings.error(table.line_of("beta"), "beta: excludes alpha; remove one of them");
                None
            }
            (Some(alpha), None) => Some((Stage::Alpha, *alpha)),
            (None, beta) => beta.map(|beta| (Stage::Beta, beta)),
        };
        if *release == Some(0) {
            self.findings.error(table.line_of("release"), "release: is 0; releases are counted from 1");
        }
        if self.source.format == Format::Debian && epoch.is_some_and(|epoch| epoch > EPOCH_MAX) {
            let text = format!("epoch: is more than {EPOCH_MAX}, which is the greatest in packages for Debian");
            self.findings.error(table.line_of("epoch"), text);
        }
        let Some(number) = version.clone() else {
            table.missing("version", &mut self.findings);
            return None;
        };
        if let Err(error) = values::version(&number) {
            self.findings.error(table.line_of("version"), format!("version: {error}"));
        }
        Some(Version { number, prerelease, epoch: epoch.unwrap_or(0), release: release.unwrap_or(1) })
    }

    pub(super) fn author(&mut self, table: &Table<PackageTable>) {
        match &table.value.author {
            Some(author) => {
                if let Err(error) = values::author(author) {
                    self.findings.error(table.line_of("author"), format!("author: {error}"));
                }
            }
            None if self.source.format == Format::Debian => table.missing("author", &mut self.findings),
            None => {}
        }
    }

    pub(super) fn architecture(&mut self, table: &Table<PackageTable>) -> Option<Architecture> {
        let Some(name) = &table.value.architecture else { return Some(Architecture::Any) };
        let architecture = Architecture::parse(name);
        if architecture.is_none() {
            let names = Architecture::NAMES.iter().flat_map(|(_, names)| names.iter().copied());
            let hint = match holo_definitions::did_you_mean(name, names.clone()) {
                Some(hint) => hint,
                None => format!("expected one of {}", names.collect::<Vec<_>>().join(", ")),
            };
            let text = format!("architecture: {name:?} is unknown, {hint}");
            self.findings.error(table.line_of("architecture"), text);
        }
        architecture
    }

    pub(super) fn relations(
        &mut self,
        table: &Table<PackageTable>,
        key: &'static str,
        texts: &[String],
        groups: &mut Option<Groups>,
    ) -> Vec<Relation> {
        let mut list = RelationList::new(self.source.format, self.source.root);
        for text in texts {
            if let Err(error) = list.add(text, groups) {
                self.findings.error(table.line_of(key), format!("{key}: {error}"));
            }
        }
        let relations = list.finish();
        if key == "provides" && self.source.format == Format::Debian {
            for relation in relations.iter().filter(|relation| relation.constraint.is_some()) {
                let error = RelationError::Provided(relation.name.clone());
                self.findings.error(table.line_of(key), format!("provides: {error}"));
            }
        }
        relations
    }
}
