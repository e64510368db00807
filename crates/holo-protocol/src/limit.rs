//! Limited scans, which report only some entities.

use crate::EntityReport;
use crate::report::{Asset, Edges, parts};
use bstr::{BStr, BString, ByteSlice};
use std::collections::{BTreeSet, HashSet};

/// The entities that a limited scan reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanLimit<'a> {
    /// Entities with these IDs, and all that reference other entities. Instead of an ID, the part after its colon, a
    /// resource file or a provided asset, such as a path, may be given.
    Ids(&'a [BString]),
    /// Entities whose IDs start with this prefix.
    Prefix(&'a BStr),
    /// Entities that may come directly before or after an entity because one needs an asset of the other.
    Neighbours {
        /// The assets that the entity needs.
        needs: &'a [Asset],
        /// The assets that it provides.
        provides: &'a [Asset],
    },
    /// Entities that own an asset which [overlaps](Claims::overlap) one of these.
    Owners(&'a [Asset]),
}

impl ScanLimit<'_> {
    /// Returns, for each report, true if the limited scan must include it. `all` are the reports of all entities of the
    /// plugin, which supports [`ScanLimit::Owners`] if `finds_owners`.
    ///
    /// An entity that owns an asset may contradict an entity of another plugin. Unless the plugin is asked for such
    /// entities afterwards, one can therefore only be left out if every requested entity belongs to this plugin and none
    /// of them owns an asset that overlaps.
    pub fn wanted<'r>(&self, all: impl Iterator<Item = &'r EntityReport> + Clone, finds_owners: bool) -> Vec<bool> {
        let ids: HashSet<&BStr> = match self {
            ScanLimit::Ids(ids) => ids.iter().map(|id| id.as_bstr()).collect(),
            ScanLimit::Prefix(prefix) => return all.map(|report| report.id.starts_with_str(prefix)).collect(),
            ScanLimit::Neighbours { needs, provides } => {
                return all.map(|report| is_neighbour(&report.edges, needs, provides)).collect();
            }
            ScanLimit::Owners(assets) => {
                let claims: Claims = assets.iter().cloned().collect();
                return all.map(|report| claims.overlap(&report.edges.owns)).collect();
            }
        };
        let mut found = HashSet::new();
        let mut asked = Vec::new();
        for report in all.clone() {
            let names: Vec<&BStr> = names(report).filter(|name| ids.contains(name)).collect();
            asked.push(!names.is_empty() || report.edges.named().next().is_some());
            found.extend(names);
        }
        let of_asked = all.clone().zip(&asked).filter(|(_, asked)| **asked);
        let claims: Claims = of_asked.flat_map(|(report, _)| &report.edges.owns).cloned().collect();
        let may_contradict = |report: &EntityReport| {
            let owns = &report.edges.owns;
            match finds_owners || found.len() == ids.len() {
                true => claims.overlap(owns),
                false => !owns.is_empty(),
            }
        };
        all.zip(asked).map(|(report, asked)| asked || may_contradict(report)).collect()
    }
}

/// Assets whose owners may contradict or replace each other: the same ones, and paths of which one is within the other,
/// whatever their kinds mean for what is below them.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// Normalised, with a slash before each component.
    paths: BTreeSet<Vec<u8>>,
    others: HashSet<Asset>,
}

impl Claims {
    /// Adds an asset. Returns false if it is known already, maybe as a path of another kind.
    pub fn insert(&mut self, asset: Asset) -> bool {
        match path_of(&asset) {
            Some(path) => self.paths.insert(path),
            None => self.others.insert(asset),
        }
    }

    /// Returns true if one of these assets overlaps one of the claims.
    #[must_use]
    pub fn overlap<'a>(&self, assets: impl IntoIterator<Item = &'a Asset>) -> bool {
        assets.into_iter().any(|asset| {
            let Some(path) = path_of(asset) else { return self.others.contains(asset) };
            let mut around = path.find_iter("/").map(|end| path.get(..end).unwrap_or_default()).chain([&path[..]]);
            let within = [&path[..], b"/"].concat();
            around.any(|path| self.paths.contains(path))
                || self.paths.range(within.clone()..).next().is_some_and(|next| next.starts_with(&within))
        })
    }
}

impl FromIterator<Asset> for Claims {
    fn from_iter<I: IntoIterator<Item = Asset>>(assets: I) -> Claims {
        let mut claims = Claims::default();
        for asset in assets {
            claims.insert(asset);
        }
        claims
    }
}

fn path_of(asset: &Asset) -> Option<Vec<u8>> {
    let is_path = asset.kind == "path" || asset.kind.starts_with(b"path-");
    is_path.then(|| parts(&asset.value).iter().flat_map(|part| [b"/", part.as_bytes()].concat()).collect())
}

/// Returns true if an entity with these edges can come directly before or after one that needs and provides these
/// assets. An entity that provides a part of the other's assets counts, as it may come between that and a third entity.
fn is_neighbour(edges: &Edges, needs: &[Asset], provides: &[Asset]) -> bool {
    let is_within =
        |inner: &[Asset], outer: &[Asset]| inner.iter().any(|inner| outer.iter().any(|outer| inner.is_within(outer)));
    is_within(needs, &edges.provides) || is_within(&edges.needs, provides) || is_within(&edges.provides, provides)
}

/// Returns the names that select an entity.
fn names(report: &EntityReport) -> impl Iterator<Item = &BStr> {
    let EntityReport { id, sources, edges, .. } = report;
    let name = id.split_once_str(":").map(|(_, name)| name.as_bstr());
    let assets = edges.provides.iter().map(|asset| asset.value.as_bstr());
    [id.as_bstr()].into_iter().chain(name).chain(sources.iter().map(|source| source.as_bstr())).chain(assets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_is_wanted_if_it_is_named_or_names_others() {
        let wants = |limit: ScanLimit<'_>, lines: &str| {
            let report = EntityReport::parse_all(lines.as_bytes(), 4).unwrap();
            limit.wanted(report.iter(), false)[0]
        };
        let ids = ["a:b".into(), "c:d".into(), "/p".into()];
        for lines in [
            "ENTITY: c:d",
            "ENTITY: x:y\nSOURCE: /s\nSOURCE: a:b",
            "ENTITY: x:y\nAFTER: z",
            "ENTITY: x:y\nBEFORE: z",
            "ENTITY: x:y\nREQUIRES: z",
            "ENTITY: x:y\nSUBSCRIBES: z",
            "ENTITY: x:y\nNOTIFIES: z",
            "ENTITY: x:y\nOWNS: user z",
            "ENTITY: x:/p",
            "ENTITY: x:y\nPROVIDES: path /p",
        ] {
            assert!(wants(ScanLimit::Ids(&ids), lines), "{lines}");
        }
        let lines = "ENTITY: a:\nSOURCE: /s\nORPHAN: yes\nPROVIDES: path /x\nNEEDS: path /\nWATCH: a:b\nfound in: a:b";
        assert!(!wants(ScanLimit::Ids(&ids), lines));
        assert!(wants(ScanLimit::Prefix("a".into()), lines));
        assert!(wants(ScanLimit::Prefix("a:".into()), lines));
        assert!(!wants(ScanLimit::Prefix("a:b".into()), lines));
    }

    #[test]
    fn neighbours_need_or_provide_what_the_other_one_provides_or_needs() {
        let asset = |value: &str| match value.split_once(' ') {
            Some((kind, value)) => Asset::new(kind, value),
            None => Asset::new("path", value),
        };
        let (needs, provides) = (["/srv/a", "user fred"].map(asset), ["/srv/a/b"].map(asset));
        let is_wanted = |lines: &str| {
            let report = EntityReport::parse_all(format!("ENTITY: x:y\n{lines}\n").as_bytes(), 4).unwrap();
            ScanLimit::Neighbours { needs: &needs, provides: &provides }.wanted(report.iter(), true)[0]
        };
        for lines in [
            "PROVIDES: path /srv/a",
            "PROVIDES: path /",
            "PROVIDES: path /srv/./x/../a/",
            "PROVIDES: user fred",
            "NEEDS: path /srv/a/b",
            "NEEDS: path /srv/a/b/c",
            "NEEDS: path /srv/a//b/c/",
            "PROVIDES: path /srv/a/b/c",
        ] {
            assert!(is_wanted(lines), "{lines}");
        }
        for lines in [
            "PROVIDES: path /srv/c",
            "PROVIDES: group fred",
            "NEEDS: path /srv/a",
            "NEEDS: path /srv/a/bc",
            "NEEDS: user fred",
            "AFTER: z\nOWNS: path /srv/a/b",
        ] {
            assert!(!is_wanted(lines), "{lines}");
        }
    }

    #[test]
    fn what_owns_something_is_left_out_only_if_all_that_is_asked_for_is_there_and_does_not_own_it() {
        let lines = "ENTITY: a:b\nOWNS: path /x\n\nENTITY: c:d\nOWNS: path /y\nOWNS: path /x\n\nENTITY: e:f\nOWNS: user /x\n\n\
                     ENTITY: g:h\n";
        let reports = EntityReport::parse_all(lines.as_bytes(), 4).unwrap();
        let wanted = |ids: &[BString]| ScanLimit::Ids(ids).wanted(reports.iter(), false);
        assert_eq!(wanted(&["a:b".into()]), [true, true, false, false]);
        assert_eq!(wanted(&["e:f".into(), "g:h".into()]), [false, false, true, true]);
        assert_eq!(wanted(&["g:h".into(), "z:z".into()]), [true; 4]);
        let found_later = |ids: &[BString]| ScanLimit::Ids(ids).wanted(reports.iter(), true);
        assert_eq!(found_later(&["g:h".into(), "z:z".into()]), [false, false, false, true]);
        assert_eq!(found_later(&["a:b".into(), "z:z".into()]), [true, true, false, false]);
    }

    #[test]
    fn owners_own_the_same_asset_or_one_whose_path_overlaps() {
        let lines = "ENTITY: a:b\nOWNS: path-tree /srv/x\n\nENTITY: c:d\nOWNS: path-access /srv\n\n\
                     ENTITY: e:f\nOWNS: user fred\n\nENTITY: g:h\nPROVIDES: path /srv/x\n";
        let reports = EntityReport::parse_all(lines.as_bytes(), 4).unwrap();
        let wanted = |kind: &str, value: &str| {
            ScanLimit::Owners(&[Asset::new("none", "of them"), Asset::new(kind, value)]).wanted(reports.iter(), true)
        };
        assert_eq!(wanted("path", "/srv/x/y"), [true, true, false, false]);
        assert_eq!(wanted("path-shared", "/srv/./z/../x/"), [true, true, false, false]);
        assert_eq!(wanted("path", "/"), [true, true, false, false]);
        assert_eq!(wanted("path", "/srv/xy"), [false, true, false, false]);
        assert_eq!(wanted("user", "fred"), [false, false, true, false]);
        assert_eq!(wanted("group", "fred"), [false; 4]);
    }
}
