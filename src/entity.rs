//! Managed entities: a plugin's report of each, and what selects it.

use crate::index::PluginIndex;
use crate::resources::Resources;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::report::ReportError;
use holo_protocol::{Edges, EntityReport};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// An entity: a range of lines in the report of its plugin.
///
/// There may be very many, so of each only the range is kept, and its report is parsed anew when it is asked for.
#[derive(Clone)]
pub struct Entity {
    /// Its plugin.
    pub plugin: PluginIndex,
    account: Arc<Account>,
    lines: Range<usize>,
    id: Range<usize>,
    has_edges: bool,
    is_listed: bool,
}

/// A plugin's report of all its entities.
#[derive(Debug)]
pub struct Account {
    /// The plugin's ID.
    pub plugin_id: String,
    /// The version of the interface that it speaks.
    pub version: u32,
    /// The scan report, as it was given.
    pub report: Vec<u8>,
    /// The names that its paths are shown by.
    pub resources: Arc<Resources>,
}

impl Entity {
    /// Returns all entities of an account, in its order.
    ///
    /// # Errors
    /// All lines of the report that are wrong.
    pub fn parse_all(plugin: PluginIndex, mut account: Account) -> Result<Vec<Entity>, Vec<ReportError>> {
        account.report.shrink_to_fit();
        let account = Arc::new(account);
        let mut entities = Vec::new();
        EntityReport::parse_each(&account.report, account.version, |lines, entity| {
            // The ID is the end of the first line.
            let rest = account.report.get(lines.clone()).unwrap_or_default();
            let end = lines.start + rest.find_byte(b'\n').unwrap_or(rest.len());
            let id = end - entity.id.len()..end;
            let (has_edges, is_listed) = (entity.edges != Edges::NONE, !entity.edges.unlisted);
            entities.push(Entity { plugin, account: Arc::clone(&account), lines, id, has_edges, is_listed });
        })?;
        entities.shrink_to_fit();
        Ok(entities)
    }

    /// Returns its ID.
    #[must_use]
    pub fn id(&self) -> &BStr {
        self.account.report.get(self.id.clone()).unwrap_or_default().as_bstr()
    }

    /// Returns the ID of its plugin.
    #[must_use]
    pub fn plugin_id(&self) -> &str {
        &self.account.plugin_id
    }

    /// Returns true if lists of entities have it: others have to be selected.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Returns true if it declares any dependency, in either direction.
    #[must_use]
    pub fn has_edges(&self) -> bool {
        self.has_edges
    }

    /// Returns its plugin's report, with paths as the user knows them.
    #[must_use]
    pub fn report(&self) -> EntityReport {
        let mut report = self.report_as_given();
        let resources = &self.account.resources;
        for source in &mut report.sources {
            *source = resources.show(source.as_ref());
        }
        for information in &mut report.information {
            information.value = resources.show(information.value.as_ref());
        }
        report
    }

    /// Returns every string that selects it: its ID, its plugin's, its resource files and their generators.
    #[must_use]
    pub fn selectors(&self) -> Vec<BString> {
        let sources = self.report_as_given().sources;
        let of_sources = sources.iter().flat_map(|source| self.account.resources.selectors(source.as_ref()));
        [self.id().to_owned(), self.plugin_id().into()].into_iter().chain(of_sources).collect()
    }

    fn report_as_given(&self) -> EntityReport {
        let lines = self.account.report.get(self.lines.clone()).unwrap_or_default();
        let parsed = EntityReport::parse_all(lines, self.account.version).ok();
        // They were understood before.
        parsed.and_then(|mut entities| entities.pop()).unwrap_or_else(|| EntityReport::new(self.id()))
    }
}

impl fmt::Debug for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entity").field("plugin", &self.plugin).field("report", &self.report_as_given()).finish()
    }
}
