//! The events of the agent, read as they come: none may be lost, and none may occur twice.

use crate::harness::{program, validated};
use holo_testing::ScratchRoot;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// All events up to now.
pub(super) struct Ledger<'r> {
    root: &'r ScratchRoot,
    ids: BTreeSet<String>,
    last: u64,
    /// How often each kind of event has occurred, storms included.
    pub(super) totals: BTreeMap<String, u64>,
}

/// The events since some time.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The number of events by kind and entity.
    single: BTreeMap<(String, String), u64>,
    /// The numbers of entities in storms, by kind of their events.
    storms: BTreeMap<String, u64>,
    /// The number of events by kind.
    kinds: BTreeMap<String, u64>,
    /// The number of entities that runs have changed.
    pub(super) changed_by_runs: u64,
}

impl Page {
    /// Returns how often an entity has events of a kind of its own.
    pub(super) fn single(&self, kind: &str, entity: &str) -> u64 {
        self.single.get(&(kind.to_owned(), entity.to_owned())).copied().unwrap_or(0)
    }

    /// Returns the entities that have events of their own.
    pub(super) fn entities(&self) -> impl Iterator<Item = &String> {
        self.single.keys().map(|(_, entity)| entity)
    }

    /// Returns the number of events of a kind about any entity.
    pub(super) fn number(&self, kind: &str) -> u64 {
        self.kinds.get(kind).copied().unwrap_or(0) + self.storms.get(kind).copied().unwrap_or(0)
    }
}

impl<'r> Ledger<'r> {
    pub(super) fn new(root: &'r ScratchRoot) -> Ledger<'r> {
        Ledger { root, ids: BTreeSet::new(), last: 0, totals: BTreeMap::new() }
    }

    /// Adds the events since the last time to a page.
    #[track_caller]
    pub(super) fn read(&mut self, page: &mut Page) {
        let output = program(self.root, &["events", "--json"]).output().unwrap();
        assert_eq!(output.ended.failure(), None, "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let number = |line: &str| serde_json::from_str::<Value>(line).ok()?["seq"].as_u64();
        // The last lines are the new ones; the file may have thousands.
        let known = |line: &&str| number(line).is_none_or(|seq| seq > self.last);
        let mut new: Vec<&str> = text.lines().rev().take_while(known).collect();
        new.reverse();
        for line in new {
            let event = validated(serde_json::from_str(line).unwrap());
            let seq = event["seq"].as_u64().unwrap();
            assert_eq!(seq, self.last + 1, "an event is missing before {event}");
            self.last = seq;
            assert!(self.ids.insert(event["id"].as_str().unwrap().to_owned()), "there are two of {event}");
            self.enter(&event, page);
        }
    }

    fn enter(&mut self, event: &Value, page: &mut Page) {
        let kind = event["kind"].as_str().unwrap();
        *page.kinds.entry(kind.to_owned()).or_default() += 1;
        let (of, count) = match kind {
            "storm" => {
                let (of, count) = (event["of"].as_str().unwrap(), event["count"].as_u64().unwrap());
                *page.storms.entry(of.to_owned()).or_default() += count;
                (of, count)
            }
            _ => (kind, 1),
        };
        *self.totals.entry(of.to_owned()).or_default() += count;
        if let Some(entity) = event["entity"].as_str() {
            *page.single.entry((kind.to_owned(), entity.to_owned())).or_default() += 1;
        }
        page.changed_by_runs += event["tally"]["changed"].as_u64().unwrap_or(0);
    }
}
