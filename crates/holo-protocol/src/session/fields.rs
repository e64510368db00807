//! Fields of answers, deserialized in a single pass for speed: there are as many answers as entities.

use super::{Answer, Outcome, Stream};
use crate::Text;
use serde::Deserialize;

/// The fields of any kind of answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerFields {
    answer: Kind,
    request: u64,
    entity: Option<Text>,
    stream: Option<Stream>,
    text: Option<Text>,
    from: Option<Text>,
    to: Option<Text>,
    from_label: Option<Text>,
    to_label: Option<Text>,
    modes: Option<bool>,
    messages: Option<Vec<Text>>,
    result: Option<Outcome>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Report,
    Begin,
    Output,
    Progress,
    Diff,
    Text,
    Result,
    End,
}

/// A missing or unexpected field of an answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum FieldError {
    #[error("missing field `{0}`")]
    Missing(&'static str),
    #[error("unknown field `{0}`")]
    Unknown(&'static str),
}

impl AnswerFields {
    /// Returns the name of a field that was not used.
    fn left(&self) -> Option<&'static str> {
        let fields = [
            ("entity", self.entity.is_some()),
            ("stream", self.stream.is_some()),
            ("text", self.text.is_some()),
            ("from", self.from.is_some()),
            ("to", self.to.is_some()),
            ("from_label", self.from_label.is_some()),
            ("to_label", self.to_label.is_some()),
            ("modes", self.modes.is_some()),
            ("messages", self.messages.is_some()),
            ("result", self.result.is_some()),
        ];
        fields.into_iter().find(|(_, is_there)| *is_there).map(|(name, _)| name)
    }
}

/// Takes a required field.
fn required<T>(field: &mut Option<T>, name: &'static str) -> Result<T, FieldError> {
    field.take().ok_or(FieldError::Missing(name))
}

impl TryFrom<AnswerFields> for Answer {
    type Error = FieldError;

    fn try_from(mut fields: AnswerFields) -> Result<Answer, FieldError> {
        let request = fields.request;
        let answer = match fields.answer {
            Kind::Report => Answer::Report { request, text: required(&mut fields.text, "text")? },
            Kind::Begin => Answer::Begin { request, entity: required(&mut fields.entity, "entity")? },
            Kind::Output => Answer::Output {
                request,
                entity: fields.entity.take(),
                stream: required(&mut fields.stream, "stream")?,
                text: required(&mut fields.text, "text")?,
            },
            Kind::Progress => Answer::Progress {
                request,
                entity: required(&mut fields.entity, "entity")?,
                text: required(&mut fields.text, "text")?,
            },
            Kind::Diff => Answer::Diff {
                request,
                entity: required(&mut fields.entity, "entity")?,
                from: required(&mut fields.from, "from")?,
                to: required(&mut fields.to, "to")?,
                from_label: fields.from_label.take(),
                to_label: fields.to_label.take(),
                modes: fields.modes.take().unwrap_or_default(),
            },
            Kind::Text => {
                Answer::Text { request, entity: fields.entity.take(), text: required(&mut fields.text, "text")? }
            }
            Kind::Result => Answer::Result {
                request,
                entity: required(&mut fields.entity, "entity")?,
                messages: fields.messages.take().unwrap_or_default(),
                result: required(&mut fields.result, "result")?,
            },
            Kind::End => Answer::End { request, result: required(&mut fields.result, "result")? },
        };
        fields.left().map_or(Ok(answer), |name| Err(FieldError::Unknown(name)))
    }
}
