//! Limited scans, which ask plugins for a few entities instead of all of them.
//!
//! The entities that a limited scan leaves out have no edges that name other entities, and own no assets that matter to
//! the selection, so they are relevant only if a selected entity names them. Therefore entities that the selected ones
//! name are scanned for too, and those that own the same assets. If an entity is not found, plugins are scanned in full:
//! the name may refer to an asset or a path, and error messages suggest names from the full list.

use super::scan::{Answered, Heard, concurrently};
use crate::entities::Subject;
use crate::entities::node::{PluginIndex, Table};
use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use crate::plan::select;
use crate::plugin::{OperationError, Plugin};
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::report::OutlinedReport;
use holo_protocol::{Asset, Claims, Edges, ScanLimit};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// The number of entities above which a limited scan is no faster than a full one.
const MOST: usize = 1000;

/// The entities that a run is about.
#[derive(Clone, Copy, Debug)]
pub enum Interest<'a> {
    /// The entities that these select; all if there are none.
    Selectors(&'a [OsString]),
    /// The entities that a selector with this prefix could select.
    Prefix(&'a BStr),
    /// The entities that this subject is about, and their neighbours.
    Subject(&'a Subject),
}

impl<'a> Interest<'a> {
    /// Returns the selectors.
    #[must_use]
    pub fn selectors(self) -> &'a [OsString] {
        match self {
            Interest::Selectors(selectors) => selectors,
            Interest::Prefix(_) | Interest::Subject(_) => &[],
        }
    }
}

/// Scans plugins for the entities that the run is about. Returns the usable answers by plugin index, or none if the run
/// may be about any entity.
///
/// # Errors
/// Only what ends the run. The failure of a plugin is an answer.
pub fn scan(
    plugins: &mut Table<PluginIndex, Plugin>,
    interest: Interest<'_>,
    at_once: usize,
    interrupt: &Interrupt,
) -> Result<HashMap<usize, Answered>, FatalError> {
    let ids: Vec<BString> = match interest {
        // Text that looks like an ID is hardly ever a path, and a path would require a full scan.
        Interest::Subject(subject) if !subject.is_path() && select::looks_like_id(subject.given.as_bstr()) => {
            vec![subject.given.clone()]
        }
        Interest::Subject(subject) => subject.names(),
        _ => interest.selectors().iter().map(|selector| selector.as_bytes().into()).collect(),
    };
    let limit = match interest {
        Interest::Subject(_) => ScanLimit::Ids(&ids),
        Interest::Prefix(prefix) => ScanLimit::Prefix(prefix),
        Interest::Selectors(_) if (1..=MOST).contains(&ids.len()) => ScanLimit::Ids(&ids),
        Interest::Selectors(_) => return Ok(HashMap::new()),
    };
    let looks_limited = match limit {
        _ if matches!(interest, Interest::Subject(_)) => true,
        ScanLimit::Prefix(prefix) => select::looks_like_id(prefix),
        _ => ids.iter().all(|id| select::looks_like_id(id.as_bstr())),
    };
    if !looks_limited || !plugins.iter().any(|plugin| plugin.can_limit(limit)) {
        return Ok(HashMap::new());
    }
    let mut answers = Answers::default();
    answers.ask(plugins.iter_mut().enumerate(), limit, at_once, interrupt)?;
    let suffices = match (interest, limit) {
        (Interest::Subject(subject), _) => {
            let mut about = answers.about(subject);
            if !about.is_found && ids.len() < subject.names().len() {
                let all = subject.names();
                answers.ask_again(plugins, ScanLimit::Ids(&all), at_once, interrupt)?;
                about = answers.about(subject);
            }
            let About { is_found, named, needs, provides } = about;
            let others = answers.missing(named);
            if !others.is_empty() {
                answers.ask_again(plugins, ScanLimit::Ids(&others), at_once, interrupt)?;
            }
            if is_found && !(needs.is_empty() && provides.is_empty()) {
                let neighbours = ScanLimit::Neighbours { needs: &needs, provides: &provides };
                answers.ask_again(plugins, neighbours, at_once, interrupt)?;
            }
            answers.ask_owners(plugins, |id, edges| subject.is_of(id, edges), at_once, interrupt)?;
            is_found
        }
        (_, ScanLimit::Prefix(prefix)) => answers.ids().any(|id| id.starts_with(prefix)),
        _ => {
            let others = answers.missing(answers.named_by(&ids));
            if !others.is_empty() {
                answers.ask_again(plugins, ScanLimit::Ids(&others), at_once, interrupt)?;
            }
            let ids: HashSet<&BStr> = ids.iter().chain(&others).map(|id| id.as_bstr()).collect();
            let is_found = answers.missing(ids.iter().map(|id| BString::from(*id))).is_empty();
            if is_found {
                answers.ask_owners(plugins, |id, _| ids.contains(id), at_once, interrupt)?;
            }
            is_found
        }
    };
    answers.0.retain(|_, answered| suffices || !answered.is_limited);
    Ok(answers.0)
}

/// Data about the entities that match a subject.
#[derive(Default)]
struct About {
    is_found: bool,
    /// The IDs that they name.
    named: HashSet<BString>,
    needs: Vec<Asset>,
    provides: Vec<Asset>,
}

/// The answers of plugins, by plugin index.
#[derive(Default)]
struct Answers(HashMap<usize, Answered>);

impl Answers {
    /// Scans plugins, those that support this limit with it, the others in full.
    fn ask<'p>(
        &mut self,
        plugins: impl Iterator<Item = (usize, &'p mut Plugin)>,
        limit: ScanLimit<'_>,
        at_once: usize,
        interrupt: &Interrupt,
    ) -> Result<(), FatalError> {
        let (indexes, plugins): (Vec<usize>, Vec<&mut Plugin>) = plugins.unzip();
        let limited: Vec<bool> = plugins.iter().map(|plugin| plugin.can_limit(limit)).collect();
        let ask =
            |plugin: &mut Plugin, on_output: &mut dyn FnMut(_, &[u8])| plugin.scan(Some(limit), interrupt, on_output);
        let mut output = Vec::new();
        concurrently(plugins, at_once, ask, |asked, heard| {
            match heard {
                Heard::Output(stream, bytes) => output.push((stream, bytes.to_vec())),
                Heard::Answer(Err(OperationError::Fatal(fatal))) => return Err(fatal),
                Heard::Answer(answer) => {
                    let output = std::mem::take(&mut output);
                    let is_limited = limited.get(asked) == Some(&true);
                    self.add(indexes.get(asked).copied().unwrap_or_default(), Answered { output, answer, is_limited });
                }
            }
            Ok(())
        })
    }

    /// Scans the plugins that had a limited scan again: with another limit, or in full if they do not support that one.
    fn ask_again(
        &mut self,
        plugins: &mut Table<PluginIndex, Plugin>,
        limit: ScanLimit<'_>,
        at_once: usize,
        interrupt: &Interrupt,
    ) -> Result<(), FatalError> {
        let was_limited = |index: &usize| self.0.get(index).is_some_and(|answered| answered.is_limited);
        let limited: HashSet<usize> = (0..plugins.len()).filter(was_limited).collect();
        let again = plugins.iter_mut().enumerate().filter(|(index, _)| limited.contains(index));
        self.ask(again, limit, at_once, interrupt)
    }

    /// Asks the plugins that [leave out](ScanLimit::wanted) owners of assets for those that may contradict the meant
    /// entities of other plugins, or entities that may contradict these.
    fn ask_owners(
        &mut self,
        plugins: &mut Table<PluginIndex, Plugin>,
        is_meant: impl Fn(&BStr, &Edges<&BStr>) -> bool,
        at_once: usize,
        interrupt: &Interrupt,
    ) -> Result<(), FatalError> {
        let was_limited = |index: &usize| self.0.get(index).is_some_and(|answered| answered.is_limited);
        let finders = plugins.iter().enumerate().filter(|(_, plugin)| plugin.can_limit(ScanLimit::Owners(&[])));
        let finders: Vec<usize> = finders.map(|(index, _)| index).filter(was_limited).collect();
        let (mut claims, mut by_plugin) = (Claims::default(), Vec::new());
        while !finders.is_empty() {
            let known = by_plugin.len();
            for (plugin, answered) in &self.0 {
                for (id, edges) in answered.answer.iter().flat_map(OutlinedReport::edges) {
                    let owns: Vec<Asset> = edges.owns.iter().map(Asset::owned).collect();
                    if is_meant(id, &edges) || claims.overlap(&owns) {
                        let assets = owns.into_iter().chain(edges.provides.iter().map(Asset::owned));
                        by_plugin.extend(assets.filter(|it| claims.insert(it.clone())).map(|asset| (*plugin, asset)));
                    }
                }
            }
            if by_plugin.len() == known {
                break;
            }
            for finder in &finders {
                let of_others = by_plugin.iter().filter(|(plugin, _)| plugin != finder);
                let of_others: Vec<Asset> = of_others.map(|(_, asset)| asset.clone()).collect();
                if !of_others.is_empty() {
                    let asked = plugins.iter_mut().enumerate().filter(|(index, _)| index == finder);
                    self.ask(asked, ScanLimit::Owners(&of_others), at_once, interrupt)?;
                }
            }
        }
        Ok(())
    }

    /// Adds an answer, or merges it into the plugin's first one. The rest of an earlier answer, such as its output, has
    /// been shown already.
    fn add(&mut self, plugin: usize, new: Answered) {
        match self.0.get_mut(&plugin) {
            None => drop(self.0.insert(plugin, new)),
            Some(Answered { answer: Ok(report), .. }) => new.answer.iter().for_each(|new| report.add(new)),
            Some(Answered { answer: Err(_), .. }) => {}
        }
    }

    fn ids(&self) -> impl Iterator<Item = &BStr> {
        self.0.values().flat_map(|answered| &answered.answer).flat_map(OutlinedReport::ids)
    }

    /// Returns the IDs that these entities name.
    fn named_by(&self, ids: &[BString]) -> HashSet<BString> {
        let ids: HashSet<&BStr> = ids.iter().map(|id| id.as_bstr()).collect();
        let reports = self.0.values().flat_map(|answered| &answered.answer);
        let of_ids = reports.flat_map(OutlinedReport::edges).filter(|(id, _)| ids.contains(id));
        of_ids.flat_map(|(_, edges)| edges.named().map(|id| BString::from(*id)).collect::<Vec<_>>()).collect()
    }

    /// Collects data about the entities that match a subject.
    fn about(&self, subject: &Subject) -> About {
        let reports = self.0.values().flat_map(|answered| &answered.answer);
        let with_edges = reports.flat_map(OutlinedReport::edges);
        let is_found = self.ids().any(|id| subject.is_of(id, &Edges::NONE));
        let mut about = About { is_found, ..About::default() };
        for (_, edges) in with_edges.filter(|(id, edges)| subject.is_of(id, edges)) {
            about.is_found = true;
            about.named.extend(edges.named().map(|id| BString::from(*id)));
            about.needs.extend(edges.needs.iter().map(Asset::owned));
            about.provides.extend(edges.provides.iter().map(Asset::owned));
        }
        about
    }

    /// Returns those of the IDs that no entity has.
    fn missing(&self, ids: impl IntoIterator<Item = BString>) -> Vec<BString> {
        let known: HashSet<&BStr> = self.ids().collect();
        ids.into_iter().filter(|id| !known.contains(id.as_bstr())).collect()
    }
}
