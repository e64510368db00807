//! Results of entities, as reported by `--json`.

use crate::Run;
use serde_json::Value;
use std::collections::BTreeMap;

/// The results of all entities of a run of `holo VERB --json`.
#[derive(Debug)]
pub struct Ends {
    /// The run.
    pub run: Run,
    entities: BTreeMap<String, End>,
}

/// The result of an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// A word such as `changed`; `unknown` if a check cannot determine it.
    pub result: String,
    /// The changes that were made or would be made.
    pub changes: Vec<String>,
    /// Its output on stdout.
    pub stdout: String,
    /// Its output on stderr.
    pub stderr: String,
}

impl Ends {
    /// Parses the output of a run.
    ///
    /// # Panics
    /// If it is not JSON Lines.
    #[track_caller]
    #[must_use]
    pub fn read(run: Run) -> Ends {
        let mut entities: BTreeMap<String, End> = BTreeMap::new();
        for line in run.stdout_lossy().lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else {
                crate::error::fail(&format!("not JSON: {line}\n{run}"))
            };
            let Some(id) = event.get("id").and_then(Value::as_str) else { continue };
            entities.entry(id.to_owned()).or_default().take(&event);
        }
        Ends { run, entities }
    }

    /// Returns the result of an entity.
    ///
    /// # Panics
    /// If the run did not report the entity.
    #[track_caller]
    #[must_use]
    pub fn of(&self, id: &str) -> &End {
        match self.entities.get(id) {
            Some(end) => end,
            None => crate::error::fail(&format!("nothing is said of {id}\n{}", self.run)),
        }
    }
}

impl End {
    fn take(&mut self, event: &Value) {
        let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
        match (text("event"), text("stream")) {
            ("output", "stdout") => self.stdout.push_str(text("text")),
            ("output", "stderr") => self.stderr.push_str(text("text")),
            ("end", _) => {
                let is_unknown = event.get("unknown").is_some_and(|unknown| unknown == true);
                self.result = if is_unknown { "unknown" } else { text("result") }.to_owned();
                let changes =
                    ["changed", "would_change"].iter().filter_map(|key| event.get(*key)?.as_array()).flatten();
                self.changes = changes.filter_map(Value::as_str).map(str::to_owned).collect();
            }
            _ => {}
        }
    }
}
