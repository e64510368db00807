//! Which entities a command is about.

use crate::entity::Entity;
use crate::root;
use bstr::{BStr, BString, ByteSlice};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Which entities any of the selectors names; all of them if there is no selector.
///
/// A path may also be given in a form that only cleaning makes equal to the one a plugin reports, as completion in a shell does.
///
/// # Errors
/// The selectors that name nothing.
pub fn select(entities: &[Entity], selectors: &[OsString]) -> Result<Vec<bool>, Vec<BString>> {
    if selectors.is_empty() {
        return Ok(vec![true; entities.len()]);
    }
    let mut selected = vec![false; entities.len()];
    let mut unknown = Vec::new();
    let index = index(entities);
    for selector in selectors {
        let given = BString::from(selector.clone().into_vec());
        let cleaned = root::clean(given.to_path_lossy().as_ref()).into_os_string().into_vec();
        match index.get(given.as_bstr()).or_else(|| index.get(cleaned.as_bstr())) {
            Some(places) => places.iter().for_each(|&at| selected[at] = true),
            None => unknown.push(given),
        }
    }
    if unknown.is_empty() { Ok(selected) } else { Err(unknown) }
}

fn index(entities: &[Entity]) -> HashMap<&BStr, Vec<usize>> {
    let mut index: HashMap<&BStr, Vec<usize>> = HashMap::new();
    for (at, entity) in entities.iter().enumerate() {
        for selector in &entity.selectors {
            index.entry(selector.as_ref()).or_default().push(at);
        }
    }
    index
}

/// Every string that selects something, sorted.
#[must_use]
pub fn all(entities: &[Entity]) -> BTreeSet<&BStr> {
    entities.iter().flat_map(|entity| &entity.selectors).map(AsRef::as_ref).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use holo_protocol::EntityReport;

    fn entity(id: &str, selectors: &[&str]) -> Entity {
        let selectors = selectors.iter().chain(&[id]).map(|&selector| BString::from(selector)).collect();
        Entity { plugin: 0, report: EntityReport::new(id), selectors }
    }

    fn ids(selectors: &[&str]) -> Result<Vec<String>, Vec<String>> {
        let entities = vec![entity("a:1", &["p", "t/x"]), entity("b:1", &["p"]), entity("c:1", &["t/x"])];
        let selectors: Vec<OsString> = selectors.iter().map(OsString::from).collect();
        let ids = |selected: Vec<bool>| {
            entities.iter().zip(selected).filter(|(_, is)| *is).map(|(entity, _)| entity.id().to_string()).collect()
        };
        select(&entities, &selectors).map(ids).map_err(|unknown| unknown.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn selects_by_any_of_the_strings_in_the_entities_order() {
        assert_eq!(ids(&[]).unwrap(), ["a:1", "b:1", "c:1"]);
        assert_eq!(ids(&["c:1", "a:1"]).unwrap(), ["a:1", "c:1"]);
        assert_eq!(ids(&["p"]).unwrap(), ["a:1", "b:1"]);
        assert_eq!(ids(&["t/x", "c:1"]).unwrap(), ["a:1", "c:1"]);
        assert_eq!(ids(&["./t//x"]).unwrap(), ["a:1", "c:1"]);
    }

    #[test]
    fn names_all_that_is_unknown() {
        assert_eq!(ids(&["a:1", "q", "--what"]).unwrap_err(), ["q", "--what"]);
    }
}
