//! Limited scans: those that are about some entities only.

use crate::EntityReport;
use bstr::{BStr, BString, ByteSlice};

/// The entities that a limited scan is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanLimit<'a> {
    /// Those with these IDs, and all that others have to know of. In place of an ID there may be the part of it behind the colon, a resource
    /// file, or something that is provided, such as a path.
    Ids(&'a [BString]),
    /// Those whose IDs begin so.
    Prefix(&'a BStr),
}

impl ScanLimit<'_> {
    /// Returns true if the scan report has to have an entity.
    #[must_use]
    pub fn wants(&self, report: &EntityReport) -> bool {
        match self {
            ScanLimit::Ids(ids) => {
                ids.contains(&report.id)
                    || report.edges.concern_others()
                    || report.sources.iter().any(|source| ids.contains(source))
                    || report.edges.provides.iter().any(|asset| ids.contains(&asset.value))
                    || report.id.split_once_str(":").is_some_and(|(_, name)| ids.iter().any(|id| id == name))
            }
            ScanLimit::Prefix(prefix) => report.id.starts_with_str(prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_is_wanted_if_it_is_named_or_names_others() {
        let wants = |limit: ScanLimit<'_>, lines: &str| {
            let report = EntityReport::parse_all(lines.as_bytes(), 4).unwrap();
            limit.wants(&report[0])
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
}
