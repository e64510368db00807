//! The selection of entities by the command line.

use crate::entities::Entity;
use crate::entities::Subject;
use crate::entities::node::{EntityIndex, PerEntity, Table};
use crate::host::root::{self, Root};
use bstr::{BStr, BString, ByteSlice};
use glob::Pattern;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The selected entities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected(Vec<bool>);

impl Selected {
    /// Returns true if the entity is selected.
    #[must_use]
    pub fn contains(&self, entity: EntityIndex) -> bool {
        self.0.get(usize::from(entity)) == Some(&true)
    }
}

impl FromIterator<bool> for Selected {
    /// Takes one flag per entity, in inventory order.
    fn from_iter<I: IntoIterator<Item = bool>>(are_selected: I) -> Selected {
        Selected(are_selected.into_iter().collect())
    }
}

/// Returns the entities that any of the selectors matches, or all entities if there are none. The ID of a plugin
/// without entities is valid.
///
/// Paths match after normalisation, because shell completion may produce another form than plugins report. A path that
/// is not a resource file selects the entities that manage it, and a pattern all entities with a selector that it
/// matches.
///
/// # Errors
/// The selectors that match no entity.
pub fn select(
    entities: &PerEntity<Entity>,
    plugins: &[&str],
    selectors: &[OsString],
    root: &Root,
) -> Result<Selected, Vec<BString>> {
    if selectors.is_empty() {
        return Ok(entities.iter().map(|_| true).collect());
    }
    let forms: Vec<(BString, BString)> = selectors.iter().map(forms).collect();
    let mut found: HashMap<&BStr, Vec<EntityIndex>> = HashMap::new();
    for (given, normalised) in &forms {
        found.extend([(given.as_bstr(), Vec::new()), (normalised.as_bstr(), Vec::new())]);
    }
    for (index, entity) in entities.entries() {
        for selector in entity.selectors() {
            if let Some(indexes) = found.get_mut(selector.as_bstr()) {
                indexes.push(index);
            }
        }
    }
    let mut selected: PerEntity<bool> = Table::filled(false, entities.len());
    let mut unknown = Vec::new();
    for (selector, (given, normalised)) in selectors.iter().zip(&forms) {
        let exact = |form: &BString| found.get(form.as_bstr()).filter(|indexes| !indexes.is_empty());
        let others;
        let indexes = match exact(given).or_else(|| exact(normalised)) {
            Some(indexes) => indexes,
            None if plugins.iter().any(|id| given == id) => continue,
            None => {
                others = described(entities, &Subject::new(selector, root));
                &others
            }
        };
        if indexes.is_empty() {
            unknown.push(given.clone());
        }
        indexes.iter().for_each(|&index| selected[index] = true);
    }
    if unknown.is_empty() { Ok(selected.into_iter().collect()) } else { Err(unknown) }
}

/// Returns the entities that manage a path, or that a pattern matches.
fn described(entities: &PerEntity<Entity>, subject: &Subject) -> Vec<EntityIndex> {
    let pattern = subject.given.to_str().ok().filter(|given| given.contains(['*', '?', '[']));
    let pattern = pattern.and_then(|given| Pattern::new(given).ok());
    let is_matched = |selector: &BString| pattern.as_ref().is_some_and(|it| it.matches(&selector.to_str_lossy()));
    let is_meant = |entity: &Entity| {
        let manages = subject.is_path() && entity.is_listed() && subject.is_of(entity.id(), &entity.edges());
        manages || (pattern.is_some() && entity.selectors().iter().any(is_matched))
    };
    entities.entries().filter(|(_, entity)| is_meant(entity)).map(|(index, _)| index).collect()
}

/// Returns true if a selector looks like an entity ID rather than a path.
#[must_use]
pub fn looks_like_id(selector: &BStr) -> bool {
    selector.split_once_str(":").is_some_and(|(kind, _)| !kind.is_empty() && !kind.contains(&b'/'))
}

/// Returns a selector as given, and as a normalised path.
fn forms(selector: &OsString) -> (BString, BString) {
    let given = BString::from(selector.clone().into_vec());
    let normalised = root::normalise(given.to_path_lossy().as_ref()).into_os_string().into_vec();
    (given, normalised.into())
}

/// Returns every string that is a valid selector, sorted.
#[must_use]
pub fn all(entities: &PerEntity<Entity>) -> BTreeSet<BString> {
    entities.iter().filter(|entity| entity.is_listed()).flat_map(Entity::selectors).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entities::Account;
    use crate::entities::resources::Resources;
    use holo_protocol::report::{OutlinedReport, ReportReader};
    use std::sync::Arc;

    fn entities(plugin_id: &str, report: &str) -> Vec<Entity> {
        let resources = Arc::new(Resources::only_static("/usr/share/holo"));
        let mut reader = ReportReader::new(3);
        reader.take(report.as_bytes());
        let OutlinedReport { text: report, outlines } = reader.finish().unwrap();
        let account = Account { plugin_id: plugin_id.to_owned(), version: 3, report, resources };
        Entity::of_account(0.into(), account, outlines)
    }

    fn ids(selectors: &[&str]) -> Result<Vec<String>, Vec<String>> {
        let mut entities = entities("p", "ENTITY: a:1\nSOURCE: t/x\nENTITY: b:1\n");
        entities.extend(self::entities("r", "ENTITY: c:1\nSOURCE: t/x\n"));
        let entities = PerEntity::from(entities);
        let selectors: Vec<OsString> = selectors.iter().map(OsString::from).collect();
        let ids = |selected: Selected| {
            let selected = entities.entries().filter(|(index, _)| selected.contains(*index));
            selected.map(|(_, entity)| entity.id().to_string()).collect()
        };
        select(&entities, &["p", "q", "r"], &selectors, &Root::new(Some("/srv/root".into())))
            .map(ids)
            .map_err(|unknown| unknown.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn selectors_match_in_inventory_order() {
        assert_eq!(ids(&[]).unwrap(), ["a:1", "b:1", "c:1"]);
        assert_eq!(ids(&["c:1", "a:1"]).unwrap(), ["a:1", "c:1"]);
        assert_eq!(ids(&["p"]).unwrap(), ["a:1", "b:1"]);
        assert_eq!(ids(&["t/x", "c:1"]).unwrap(), ["a:1", "c:1"]);
        assert_eq!(ids(&["./t//x"]).unwrap(), ["a:1", "c:1"]);
    }

    #[test]
    fn paths_and_patterns_select_what_they_describe() {
        let entities = PerEntity::from(entities("p", "ENTITY: file:/etc/a\nENTITY: file:/etc/b.d\nENTITY: x:[1]\n"));
        let ids = |selector: &str| {
            let selected = select(&entities, &["p"], &[selector.into()], &Root::new(Some("/srv/root".into())));
            let ids = |selected: Selected| {
                let selected = entities.entries().filter(|(index, _)| selected.contains(*index));
                selected.map(|(_, entity)| entity.id().to_string()).collect::<Vec<_>>()
            };
            selected.map(ids).unwrap_or_default().join(" ")
        };
        assert_eq!((ids("/etc/a"), ids("/srv/root/etc//a")), ("file:/etc/a".into(), "file:/etc/a".into()));
        assert_eq!(ids("file:/etc/*"), "file:/etc/a file:/etc/b.d");
        assert_eq!((ids("file:/etc/?"), ids("*.d")), ("file:/etc/a".into(), "file:/etc/b.d".into()));
        // An ID is not a pattern.
        assert_eq!((ids("x:[1]"), ids("x:[12]")), ("x:[1]".into(), String::new()));
        assert_eq!((ids("a"), ids("/etc"), ids("file:/usr/*")), Default::default());
    }

    #[test]
    fn id_does_not_look_like_a_path() {
        assert!(looks_like_id("file:/etc/motd".into()) && looks_like_id("x:".into()));
        for other in ["files", "/usr/share/holo/files/a:b", "./x:y", "target/x:y", ":x"] {
            assert!(!looks_like_id(other.into()), "{other}");
        }
    }

    #[test]
    fn unknown_selectors_are_all_reported() {
        assert_eq!(ids(&["a:1", "s", "--what"]).unwrap_err(), ["s", "--what"]);
    }

    #[test]
    fn plugin_without_entities_can_be_selected() {
        assert!(ids(&["q"]).unwrap().is_empty());
        assert_eq!(ids(&["q", "b:1"]).unwrap(), ["b:1"]);
        assert_eq!(ids(&["q", "./q"]).unwrap_err(), ["./q"]);
    }
}
