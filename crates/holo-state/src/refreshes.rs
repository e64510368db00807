//! Refreshes that are due.

use crate::{Database, Durability, StateError};
use bstr::{BStr, BString};
use holo_protocol::Text;
use rusqlite::types::Type;

/// A refresh that is due, or that becomes due if the change that is being made succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// The ID of the entity that changes.
    pub source: BString,
    /// The ID of the entity to refresh.
    pub target: BString,
    /// The ID of the target's plugin.
    pub plugin: String,
    /// Whether the source has changed. Otherwise it may have: the run that was about to change it did not live to tell.
    pub is_due: bool,
    /// When it became due, or was first expected, in seconds since the epoch.
    pub since: Option<i64>,
    /// The values that the source sends along, each `KEY=VALUE`.
    pub sent: Vec<BString>,
}

impl Database {
    /// Returns the refreshes that earlier runs have left.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn refreshes(&self) -> Result<Vec<Refresh>, StateError> {
        let read = self.read(|connection| {
            let mut query = connection.prepare("SELECT source, target, plugin, is_due, since, sent FROM refresh")?;
            let rows = query.query_map([], |row| {
                let sent: String = row.get(5)?;
                let sent: Vec<Text> = serde_json::from_str(&sent)
                    .map_err(|error| rusqlite::Error::FromSqlConversionFailure(5, Type::Text, error.into()))?;
                Ok(Refresh {
                    source: row.get::<_, Vec<u8>>(0)?.into(),
                    target: row.get::<_, Vec<u8>>(1)?.into(),
                    plugin: row.get(2)?,
                    is_due: row.get(3)?,
                    since: row.get(4)?,
                    sent: sent.into_iter().map(|Text(value)| value).collect(),
                })
            })?;
            rows.collect()
        });
        read.map(Option::unwrap_or_default)
    }

    /// Writes these refreshes, and removes those of these sources and targets.
    ///
    /// # Errors
    /// If the database cannot be written. No change is made then.
    pub fn write_refreshes<'a>(
        &self,
        put: &[Refresh],
        removed: impl IntoIterator<Item = (&'a BStr, &'a BStr)>,
        durability: Durability,
    ) -> Result<(), StateError> {
        self.write(durability, |transaction| {
            let mut insert = transaction.prepare(
                "INSERT OR REPLACE INTO refresh (source, target, plugin, is_due, since, sent) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?;
            for Refresh { source, target, plugin, is_due, since, sent } in put {
                let sent: Vec<Text> = sent.iter().cloned().map(Text).collect();
                let sent = serde_json::to_string(&sent).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
                insert.execute((source.as_slice(), target.as_slice(), plugin, is_due, since, sent))?;
            }
            let mut delete = transaction.prepare("DELETE FROM refresh WHERE source = ?1 AND target = ?2")?;
            for (source, target) in removed {
                delete.execute::<(&[u8], &[u8])>((source, target))?;
            }
            Ok(())
        })
    }
}
