//! Sessions of version 4: one process serves a whole run, with JSON Lines in both directions.
//!
//! The dispatcher writes [`Request`]s to the plugin's standard input, and the plugin writes [`Answer`]s to file
//! descriptor 3. Every answer includes the number of its request. Requests are processed one after the other; the
//! entities of a request may be processed in any order or concurrently.

mod fields;

use crate::report::Asset;
use crate::{ScanLimit, Text};
use serde::de::IntoDeserializer;
use serde::{Deserialize, Serialize};

/// A request of the dispatcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The number of the request, counted from 1 and repeated in every answer.
    pub request: u64,
    /// The requested operation.
    pub operation: Operation,
    /// The IDs of the entities, which do not depend on each other. Empty for a scan that is not limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entities: Vec<Text>,
    /// The ID prefix to which a scan is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<Text>,
    /// The assets, each `KIND VALUE`, needed by the entity to whose neighbours a scan is limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Text>,
    /// The assets, each `KIND VALUE`, provided by the entity to whose neighbours a scan is limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provides: Vec<Text>,
    /// The assets, each `KIND VALUE`, to whose owners a scan is limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owns: Vec<Text>,
    /// Entities to refresh while they are applied, because an entity that they depend on has changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refresh: Vec<Text>,
    /// The times from which these refreshes have been due, as far as they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub due: Vec<Due>,
    /// Entities to check that may lack the effect of an earlier entity of the run that is not in its desired state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<Text>,
    /// The values sent to entities that are refreshed, and those that their definitions receive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub received: Vec<Received>,
    /// The names of the values that other entities receive: these must be sent if they are known, even if the entity
    /// does not change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wanted: Vec<Wanted>,
    /// Entities whose received values have changed since the scan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renewed: Vec<Text>,
    /// Whether the answers include their witnesses: those of the scan as [`Answer::Text`], those of an unchanged entity as
    /// messages.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remembers: bool,
    /// Whether the answers include the parts of the entities, which are watched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watches: bool,
    /// All directories of resource files in order of precedence, highest first. Only in the first request of a session,
    /// and only if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_dirs: Vec<Text>,
    /// The requested file of an entity that can have several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Text>,
    /// The empty directory to which the plugin writes resource files for the adopted entity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt_dir: Option<Text>,
    /// The file in which the user has resolved a conflict reported earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt_resolved: Option<Text>,
    /// The IDs of the entities adopted in the same group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adopt_with: Vec<Text>,
    /// The directories that are searched in addition if candidates for adoption are requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adopt_include: Vec<Text>,
}

impl Request {
    /// Returns a request that only contains the operation.
    #[must_use]
    pub fn new(request: u64, operation: Operation) -> Request {
        Request {
            request,
            operation,
            entities: Vec::new(),
            prefix: None,
            needs: Vec::new(),
            provides: Vec::new(),
            owns: Vec::new(),
            refresh: Vec::new(),
            due: Vec::new(),
            pending: Vec::new(),
            received: Vec::new(),
            wanted: Vec::new(),
            renewed: Vec::new(),
            remembers: false,
            watches: false,
            resource_dirs: Vec::new(),
            path: None,
            adopt_dir: None,
            adopt_resolved: None,
            adopt_with: Vec::new(),
            adopt_include: Vec::new(),
        }
    }

    /// Returns the request for a scan; the session assigns the number.
    #[must_use]
    pub fn scan(limit: Option<ScanLimit<'_>>) -> Request {
        let request = Request::new(0, Operation::Scan);
        let texts = |assets: &[Asset]| assets.iter().map(|asset| Text(asset.to_text())).collect();
        match limit {
            Some(ScanLimit::Ids(ids)) => Request { entities: ids.iter().cloned().map(Text).collect(), ..request },
            Some(ScanLimit::Prefix(prefix)) => Request { prefix: Some(Text::from(prefix)), ..request },
            Some(ScanLimit::Neighbours { needs, provides }) => {
                Request { needs: texts(needs), provides: texts(provides), ..request }
            }
            Some(ScanLimit::Owners(assets)) => Request { owns: texts(assets), ..request },
            None => request,
        }
    }

    /// Returns the needed, the provided and the owned assets to which a scan is limited. Invalid assets are left out.
    #[must_use]
    pub fn assets(&self) -> [Vec<Asset>; 3] {
        [&self.needs, &self.provides, &self.owns]
            .map(|texts| texts.iter().filter_map(|text| Asset::from_text(&text.0)).collect())
    }
}

/// The values sent to an entity by those whose changes refresh it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Received {
    /// The ID of the refreshed entity.
    pub entity: Text,
    /// The values, each `KEY=VALUE`.
    pub values: Vec<Text>,
}

/// The time from which the refresh of an entity has been due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Due {
    /// The ID of the refreshed entity.
    pub entity: Text,
    /// The time of the last change that caused it, in seconds since the epoch, rounded down.
    pub since: i64,
}

/// The names of the values that other entities receive from this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// The ID of the entity.
    pub entity: Text,
    /// The names.
    pub names: Vec<Text>,
}

/// The operations of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// List the entities. Answered by [`Answer::Report`]s.
    Scan,
    /// Report what applying the entities would change. Makes no changes.
    Check,
    /// Bring the entities to their desired state.
    Apply,
    /// Like `Apply`, but overwrite manual changes.
    ForceApply,
    /// Remove the records of entities without definition, and leave the system as it is.
    Forget,
    /// Name two files that show an entity's manual changes. Answered by [`Answer::Diff`], or by no such answer if there
    /// is no difference to show.
    Diff,
    /// Name two files that show what applying an entity would change. Answered like [`Operation::Diff`].
    Preview,
    /// Diagnose problems outside of entities. Answered by [`Answer::Report`]s, whose lines are
    /// [`Diagnosis`](crate::Diagnosis)es.
    Doctor,
    /// Run the health checks of the entities. Answered by [`Answer::Report`]s, whose lines are [`Health`](crate::Health).
    Health,
    /// Report the origins of the lines of an entity's file. Answered by [`Answer::Text`]: [`Span`](crate::Span)s.
    Blame,
    /// List candidates for adoption, or write resource files for one entity. Answered by [`Answer::Text`]:
    /// [`Candidate`](crate::Candidate)s, or a definition.
    Adopt,
}

impl Operation {
    /// The operations that a plugin need not support. `info` lists them with their names in capitals: `PREVIEW=1`. For
    /// `SCAN`, this refers to scans that are limited to some entities.
    pub const OPTIONAL: [Operation; 7] = [
        Operation::Preview,
        Operation::Doctor,
        Operation::Health,
        Operation::Blame,
        Operation::Scan,
        Operation::Adopt,
        Operation::Forget,
    ];

    /// Returns the operation with this name.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Operation> {
        Operation::deserialize(IntoDeserializer::<serde::de::value::Error>::into_deserializer(word)).ok()
    }

    /// Returns the name used in requests and command lines.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Operation::Scan => "scan",
            Operation::Check => "check",
            Operation::Apply => "apply",
            Operation::ForceApply => "force-apply",
            Operation::Forget => "forget",
            Operation::Diff => "diff",
            Operation::Preview => "preview",
            Operation::Doctor => "doctor",
            Operation::Health => "health",
            Operation::Blame => "blame",
            Operation::Adopt => "adopt",
        }
    }
}

/// An answer of the plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case", try_from = "fields::AnswerFields")]
pub enum Answer {
    /// Whole lines of the scan report (in the form of version 3), of diagnoses or of health.
    Report {
        /// The number of the answered request.
        request: u64,
        /// The lines, including their newlines.
        text: Text,
    },
    /// Work on the entity starts: if the plugin dies, this entity fails too.
    Begin {
        /// The number of the answered request.
        request: u64,
        /// The entity's ID.
        entity: Text,
    },
    /// Output for the user.
    Output {
        /// The number of the answered request.
        request: u64,
        /// The entity; `None` while scanning.
        #[serde(skip_serializing_if = "Option::is_none")]
        entity: Option<Text>,
        /// The stream on which the user sees it.
        stream: Stream,
        /// The bytes, not necessarily whole lines.
        text: Text,
    },
    /// The progress of the entity's operation.
    Progress {
        /// The number of the answered request.
        request: u64,
        /// The entity's ID.
        entity: Text,
        /// A [`Progress`](crate::Progress).
        text: Text,
    },
    /// The two files that show the entity's difference, like `diff` of version 3.
    Diff {
        /// The number of the answered request.
        request: u64,
        /// The entity's ID.
        entity: Text,
        /// The entity as last applied.
        from: Text,
        /// The entity as it is now.
        to: Text,
        /// The label shown instead of the first path.
        #[serde(skip_serializing_if = "Option::is_none")]
        from_label: Option<Text>,
        /// The label shown instead of the second path.
        #[serde(skip_serializing_if = "Option::is_none")]
        to_label: Option<Text>,
        /// Whether both files have the modes to show.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        modes: bool,
    },
    /// A piece of the requested text.
    Text {
        /// The number of the answered request.
        request: u64,
        /// The entity, if the text is about a single one.
        #[serde(skip_serializing_if = "Option::is_none")]
        entity: Option<Text>,
        /// The text, as the plugin would write it to a stream outside of a session.
        text: Text,
    },
    /// The entity is finished: no further answer names it.
    Result {
        /// The number of the answered request.
        request: u64,
        /// The entity's ID.
        entity: Text,
        /// The messages, without newlines, that the plugin would write to file descriptor 3 outside of a session.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        messages: Vec<Text>,
        /// The outcome of the operation.
        result: Outcome,
    },
    /// The request is finished.
    End {
        /// The number of the answered request.
        request: u64,
        /// The outcome. For requests with entities, it only reports whether they could be processed at all.
        result: Outcome,
    },
}

impl Answer {
    /// Returns the number of the answered request.
    #[must_use]
    pub fn request(&self) -> u64 {
        match self {
            Answer::Report { request, .. }
            | Answer::Begin { request, .. }
            | Answer::Output { request, .. }
            | Answer::Progress { request, .. }
            | Answer::Diff { request, .. }
            | Answer::Text { request, .. }
            | Answer::Result { request, .. }
            | Answer::End { request, .. } => *request,
        }
    }
}

/// An output stream for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The outcome of an operation. Before `failed`, the plugin must have shown the user the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Success; messages report entities refused without `--force`.
    Done,
    /// Failure.
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_documented_form() {
        let entities = vec![Text::from("file:/etc/motd")];
        let request = Request { entities, ..Request::new(2, Operation::ForceApply) };
        let json = r#"{"request":2,"operation":"force-apply","entities":["file:/etc/motd"]}"#;
        assert_eq!(serde_json::to_string(&request).unwrap(), json);
        assert_eq!(serde_json::from_str::<Request>(json).unwrap(), request);
        let entity = Text::from("service:x");
        let received = vec![Received { entity: entity.clone(), values: vec!["MODE=a".into()] }];
        let (entities, refresh) = (vec![entity.clone()], vec![entity]);
        let resource_dirs = vec!["/etc/x".into(), "/usr/x".into()];
        let request = Request { entities, refresh, received, resource_dirs, ..Request::new(3, Operation::Apply) };
        let json = r#"{"request":3,"operation":"apply","entities":["service:x"],"refresh":["service:x"],"received":[{"entity":"service:x","values":["MODE=a"]}],"resource_dirs":["/etc/x","/usr/x"]}"#;
        assert_eq!(serde_json::to_string(&request).unwrap(), json);
        assert_eq!(serde_json::from_str::<Request>(json).unwrap(), request);
        let adopted = Request {
            entities: vec!["x:y".into()],
            adopt_dir: Some("/tmp/a".into()),
            adopt_resolved: Some("/tmp/b".into()),
            adopt_with: vec!["x:z".into()],
            ..Request::new(4, Operation::Adopt)
        };
        let searched = Request { adopt_include: vec!["/srv".into()], ..Request::new(5, Operation::Adopt) };
        let limited = Request { prefix: Some("file:/etc/m".into()), ..Request::new(1, Operation::Scan) };
        let (needs, provides) = ([Asset::new("path", "/srv")], [Asset::new("path", "/srv/a b"), Asset::new("x", "y")]);
        let neighbours = Request::scan(Some(ScanLimit::Neighbours { needs: &needs, provides: &provides }));
        assert_eq!(neighbours.assets(), [needs.to_vec(), provides.to_vec(), Vec::new()]);
        let owners = Request::scan(Some(ScanLimit::Owners(&provides)));
        assert_eq!(owners.assets(), [Vec::new(), Vec::new(), provides.to_vec()]);
        for (json, request) in [
            (r#"{"request":1,"operation":"scan"}"#, Request::new(1, Operation::Scan)),
            (r#"{"request":1,"operation":"scan","prefix":"file:/etc/m"}"#, limited),
            (
                r#"{"request":0,"operation":"scan","needs":["path /srv"],"provides":["path /srv/a b","x y"]}"#,
                neighbours,
            ),
            (r#"{"request":0,"operation":"scan","owns":["path /srv/a b","x y"]}"#, owners),
            (
                r#"{"request":4,"operation":"adopt","entities":["x:y"],"adopt_dir":"/tmp/a","adopt_resolved":"/tmp/b","adopt_with":["x:z"]}"#,
                adopted,
            ),
            (r#"{"request":5,"operation":"adopt","adopt_include":["/srv"]}"#, searched),
        ] {
            assert_eq!(serde_json::to_string(&request).unwrap(), json);
            assert_eq!(serde_json::from_str::<Request>(json).unwrap(), request);
        }
    }

    #[test]
    fn answers_have_the_documented_form() {
        let entity = Text::from("x:y");
        for (answer, json) in [
            (
                Answer::Output { request: 1, entity: None, stream: Stream::Stderr, text: "!! no\n".into() },
                r#"{"answer":"output","request":1,"stream":"stderr","text":"!! no\n"}"#,
            ),
            (
                Answer::Result {
                    request: 3,
                    entity: entity.clone(),
                    messages: vec!["not changed".into()],
                    result: Outcome::Done,
                },
                r#"{"answer":"result","request":3,"entity":"x:y","messages":["not changed"],"result":"done"}"#,
            ),
            (
                Answer::Progress { request: 3, entity: entity.clone(), text: "3/8 x".into() },
                r#"{"answer":"progress","request":3,"entity":"x:y","text":"3/8 x"}"#,
            ),
            (
                Answer::Diff {
                    request: 3,
                    entity: entity.clone(),
                    from: "a".into(),
                    to: "b".into(),
                    from_label: None,
                    to_label: None,
                    modes: false,
                },
                r#"{"answer":"diff","request":3,"entity":"x:y","from":"a","to":"b"}"#,
            ),
            (
                Answer::Diff {
                    request: 3,
                    entity,
                    from: "a".into(),
                    to: "b".into(),
                    from_label: Some("x:y (applied)".into()),
                    to_label: Some("z".into()),
                    modes: true,
                },
                r#"{"answer":"diff","request":3,"entity":"x:y","from":"a","to":"b","from_label":"x:y (applied)","to_label":"z","modes":true}"#,
            ),
            (
                Answer::Text { request: 3, entity: None, text: "x:y\tz\n".into() },
                r#"{"answer":"text","request":3,"text":"x:y\tz\n"}"#,
            ),
            (Answer::End { request: 9, result: Outcome::Failed }, r#"{"answer":"end","request":9,"result":"failed"}"#),
        ] {
            assert_eq!(serde_json::to_string(&answer).unwrap(), json);
            assert_eq!(serde_json::from_str::<Answer>(json).unwrap(), answer);
        }
    }

    #[test]
    fn a_misspelt_answer_is_not_understood() {
        for json in [
            r#"{"answer":"done","request":1}"#,
            r#"{"answer":"begin","request":1}"#,
            r#"{"answer":"begin","request":1,"entity":"x","extra":1}"#,
            r#"{"answer":"begin","request":1,"entity":"x","result":"done"}"#,
            r#"{"answer":"begin","request":1,"entity":"x","entity":"y"}"#,
            r#"{"answer":"end","result":"done"}"#,
            r#"{"answer":"end","request":1,"result":"won"}"#,
            r#"{"request":1,"entity":"x"}"#,
            "not json",
        ] {
            assert!(serde_json::from_str::<Answer>(json).is_err(), "{json}");
        }
    }
}
