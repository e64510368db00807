//! Sessions of version 4: one process serves a whole run, with JSON Lines both ways.
//!
//! The dispatcher writes [`Request`]s to the plugin's standard input, the plugin writes [`Answer`]s to file descriptor 3. Every answer
//! names its request. Requests are worked on one after the other, the entities of one request in any order or at once.

mod fields;

use crate::report::Asset;
use crate::{ScanLimit, Text};
use serde::{Deserialize, Serialize};

/// A request of the dispatcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Counts up from 1; every answer repeats it.
    pub request: u64,
    /// The operation that is asked for.
    pub operation: Operation,
    /// The IDs of the entities it is asked for, of which none depends on another. A scan that is not limited has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entities: Vec<Text>,
    /// The beginning of the IDs that a scan is limited to, if it is limited so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<Text>,
    /// What the entity needs whose neighbours a scan is limited to, each `KIND VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Text>,
    /// What the entity provides whose neighbours a scan is limited to, each `KIND VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provides: Vec<Text>,
    /// Those of the entities to apply that are to be refreshed, as something that they depend on has changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refresh: Vec<Text>,
    /// Those of the entities to check of which something earlier in the run, and not in its desired state, may bring what they lack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<Text>,
    /// The values that have been sent to those of them that are to be refreshed, and those that they receive by their definitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub received: Vec<Received>,
    /// The names of the values that others receive from them: these are to be sent, if they are known, even if nothing changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wanted: Vec<Wanted>,
    /// Those of them whose received values are others than when they were listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renewed: Vec<Text>,
    /// All directories of resource files, the strongest first. Only in the first request of a session, and only if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_dirs: Vec<Text>,
    /// The file that is meant, of an entity that can have several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Text>,
    /// The empty directory into which resource files are to be written for the one entity that is adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt_dir: Option<Text>,
    /// The file in which a person has resolved the conflict about it that was named before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt_resolved: Option<Text>,
    /// The IDs of what is adopted in the same group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adopt_with: Vec<Text>,
}

impl Request {
    /// Returns a request that says nothing but the operation.
    #[must_use]
    pub fn new(request: u64, operation: Operation) -> Request {
        Request {
            request,
            operation,
            entities: Vec::new(),
            prefix: None,
            needs: Vec::new(),
            provides: Vec::new(),
            refresh: Vec::new(),
            pending: Vec::new(),
            received: Vec::new(),
            wanted: Vec::new(),
            renewed: Vec::new(),
            resource_dirs: Vec::new(),
            path: None,
            adopt_dir: None,
            adopt_resolved: None,
            adopt_with: Vec::new(),
        }
    }

    /// Returns the request for a scan, which a session numbers.
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
            None => request,
        }
    }

    /// Returns what the entity needs whose neighbours are asked for. What is no asset is left out.
    #[must_use]
    pub fn needs(&self) -> Vec<Asset> {
        self.needs.iter().filter_map(|text| Asset::from_text(&text.0)).collect()
    }

    /// Returns what it provides, in the same way.
    #[must_use]
    pub fn provides(&self) -> Vec<Asset> {
        self.provides.iter().filter_map(|text| Asset::from_text(&text.0)).collect()
    }
}

/// The values that an entity was sent by those whose change has it refreshed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Received {
    /// The ID of the entity that is to be refreshed.
    pub entity: Text,
    /// Each `KEY=VALUE`.
    pub values: Vec<Text>,
}

/// The names of the values that others receive from an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// The ID of the entity.
    pub entity: Text,
    /// The names.
    pub names: Vec<Text>,
}

/// The operations of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// List the entities. Answered by [`Answer::Report`]s.
    Scan,
    /// Tell what applying the entities would do. Nothing is changed.
    Check,
    /// Bring the entities into their desired state.
    Apply,
    /// The same, overwriting what a person changed.
    ForceApply,
    /// Name two files that show an entity's difference. Answered by [`Answer::Diff`], or without one if there is none to show.
    Diff,
    /// Name two files that show what applying the entities would make of them. Answered as [`Operation::Diff`].
    Preview,
    /// Say what is wrong, or well, beside the entities. Answered by [`Answer::Report`]s, whose lines are [`Diagnosis`](crate::Diagnosis)es.
    Doctor,
    /// Run the health checks of the entities. Answered by [`Answer::Report`]s, whose lines are [`Health`](crate::Health).
    Health,
    /// Tell where the lines of a file of one entity have come from. Answered by [`Answer::Text`]: [`Span`](crate::Span)s.
    Blame,
    /// Tell what could get resource files, or write those of one entity. Answered by [`Answer::Text`]: [`Candidate`](crate::Candidate)s, or
    /// a definition.
    Adopt,
}

impl Operation {
    /// Returns its name, as requests and command lines have it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Operation::Scan => "scan",
            Operation::Check => "check",
            Operation::Apply => "apply",
            Operation::ForceApply => "force-apply",
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
    /// Lines of the scan report, in the form of version 3, diagnoses, or the health of entities; each answer holds whole lines.
    Report {
        /// Returns the number of the request that is answered.
        request: u64,
        /// The lines, each with its newline.
        text: Text,
    },
    /// The entity is being worked on from now on: if the plugin dies, this one fails with it.
    Begin {
        /// The request that is answered.
        request: u64,
        /// The entity's ID.
        entity: Text,
    },
    /// Something for the user to see.
    Output {
        /// The request that is answered.
        request: u64,
        /// The entity that it belongs to; none while scanning.
        #[serde(skip_serializing_if = "Option::is_none")]
        entity: Option<Text>,
        /// The stream on which the user shall see it.
        stream: Stream,
        /// The bytes, not necessarily whole lines.
        text: Text,
    },
    /// The progress of the work on the entity, for a person who waits.
    Progress {
        /// The request that is answered.
        request: u64,
        /// The entity's ID.
        entity: Text,
        /// A [`Progress`](crate::Progress).
        text: Text,
    },
    /// The two files that show the entity's difference, as version 3's `diff`.
    Diff {
        /// The request that is answered.
        request: u64,
        /// The entity's ID.
        entity: Text,
        /// The entity as it was last applied.
        from: Text,
        /// The entity as it is.
        to: Text,
        /// The name to show instead of the first path.
        #[serde(skip_serializing_if = "Option::is_none")]
        from_label: Option<Text>,
        /// The name to show instead of the second path.
        #[serde(skip_serializing_if = "Option::is_none")]
        to_label: Option<Text>,
    },
    /// A piece of the text that was asked for.
    Text {
        /// The request that is answered.
        request: u64,
        /// The entity that it is about, if it is about one.
        #[serde(skip_serializing_if = "Option::is_none")]
        entity: Option<Text>,
        /// The text, as it would be written to a stream without a session.
        text: Text,
    },
    /// The entity is done with: no further answer names it.
    Result {
        /// The request that is answered.
        request: u64,
        /// The entity's ID.
        entity: Text,
        /// The messages that would be written to file descriptor 3 without a session, without newlines.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        messages: Vec<Text>,
        /// The outcome of the operation.
        result: Outcome,
    },
    /// The request is done with.
    End {
        /// The request that is answered.
        request: u64,
        /// The outcome. For requests with entities it says only if they could be worked on at all.
        result: Outcome,
    },
}

impl Answer {
    /// The request that is answered.
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

/// One of the two streams that a user sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The outcome of an operation. The plugin has told the user the reason before it says `failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As asked; what was refused for want of `--force` is in the messages.
    Done,
    /// Something went wrong.
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
        let limited = Request { prefix: Some("file:/etc/m".into()), ..Request::new(1, Operation::Scan) };
        let (needs, provides) = ([Asset::new("path", "/srv")], [Asset::new("path", "/srv/a b"), Asset::new("x", "y")]);
        let neighbours = Request::scan(Some(ScanLimit::Neighbours { needs: &needs, provides: &provides }));
        assert_eq!((neighbours.needs(), neighbours.provides()), (needs.to_vec(), provides.to_vec()));
        for (json, request) in [
            (r#"{"request":1,"operation":"scan"}"#, Request::new(1, Operation::Scan)),
            (r#"{"request":1,"operation":"scan","prefix":"file:/etc/m"}"#, limited),
            (
                r#"{"request":0,"operation":"scan","needs":["path /srv"],"provides":["path /srv/a b","x y"]}"#,
                neighbours,
            ),
            (
                r#"{"request":4,"operation":"adopt","entities":["x:y"],"adopt_dir":"/tmp/a","adopt_resolved":"/tmp/b","adopt_with":["x:z"]}"#,
                adopted,
            ),
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
                },
                r#"{"answer":"diff","request":3,"entity":"x:y","from":"a","to":"b","from_label":"x:y (applied)","to_label":"z"}"#,
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
