//! The operations on resources that the dispatcher requests, and their differences as files.

use crate::apply;
use crate::entity::ResourceEntity;
use crate::item::Item;
use crate::record::as_toml;
use holo_bridge::{digest, shown};
use holo_plugin::{Applied, Entity, EntityReport, FilePair, Host, Mode, Output, Verdict, apply_one};
use std::fs;

impl Entity for ResourceEntity {
    fn report(&self) -> EntityReport {
        let mut report = self.own_report();
        let provider = match &self.provider {
            Some(name) => format!("{}::{name}", self.kind),
            None => self.kind.clone(),
        };
        report.inform("provider", provider);
        shown::inform(&mut report, &self.attributes, &self.sensitive);
        report
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply_one(self, mode, output, |set, answers| apply::apply(host, set, answers))
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        if !self.is_mocked(host) {
            return Item::new(0, self, mode.force).check(host, output);
        }
        match self.context.mocks.is_known(host, &self.id, &self.digest()) {
            Ok(true) => Verdict::InDesiredState,
            Ok(false) => Verdict::WouldChange(vec![format!("would ask a provider of type {}", self.kind)]),
            Err(error) => {
                output.error(error);
                Verdict::Failed
            }
        }
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        if self.is_mocked(host) { None } else { files(self, host) }
    }
}

/// Writes both files. A resource that does not exist has none.
pub(crate) fn files(entity: &ResourceEntity, host: &Host) -> Option<FilePair> {
    let (desired, actual) = Item::new(0, entity, false).states(host)?;
    let name: String = digest(&entity.id).chars().take(16).collect();
    let folder = host.cache_dir().join(format!("ral-{name}"));
    fs::create_dir_all(&folder).ok()?;
    let pair = FilePair::new(folder.join("desired.toml"), folder.join("actual.toml"));
    let hides = |name: &str| entity.sensitive.hides(name);
    fs::write(&pair.from, as_toml(&desired, &desired, hides)).ok()?;
    match actual {
        Some(actual) => fs::write(&pair.to, as_toml(&actual, &desired, hides)).ok()?,
        // It may exist from an earlier diff in this run.
        None if pair.to.exists() => fs::remove_file(&pair.to).ok()?,
        None => {}
    }
    // The paths of the copies differ in each run.
    Some(pair.with_applied_label(&entity.id).with_to_label(entity.id.as_bytes()))
}
