//! Requests to a module, byte for byte.

use crate::names::Subject;
use holo_bridge::text;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The attribute of a dry run, which CFEngine sends last.
const ADDED: &str = "action_policy";

/// The operation that ends a conversation.
pub(crate) const TERMINATE: &str = "terminate";

/// An operation on a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Validate,
    Evaluate,
}

impl Operation {
    /// Returns its name in requests and answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Validate => "validate_promise",
            Operation::Evaluate => "evaluate_promise",
        }
    }
}

/// The request in JSON, with the keys in this order.
#[derive(Serialize)]
struct Request<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<&'a str, Value>,
    filename: &'a str,
    line_number: usize,
    log_level: &'static str,
    operation: &'static str,
    promise_type: &'a str,
    promiser: &'a str,
}

/// Returns the request, including the empty line that ends it.
///
/// # Errors
/// The name of an attribute that the protocol cannot express, with the reason.
pub(crate) fn request(protocol: Protocol, operation: Operation, subject: &Subject) -> Result<String, String> {
    match protocol {
        Protocol::Json => Ok(json(operation, subject)),
        Protocol::Lines => lines(operation, subject),
    }
}

/// Returns the request that ends a conversation.
pub(crate) fn terminate_request(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Json => "{\"log_level\":\"info\",\"operation\":\"terminate\"}\n\n",
        Protocol::Lines => "operation=terminate\nlog_level=info\n\n",
    }
}

fn json(operation: Operation, subject: &Subject) -> String {
    let sent = |value: &Value| text(value).map_or_else(|| value.clone(), Value::String);
    let request = Request {
        attributes: subject.attributes.iter().map(|(name, value)| (name, sent(value))).collect(),
        filename: &subject.filename,
        line_number: subject.line,
        log_level: subject.log_level.name(),
        operation: operation.name(),
        promise_type: &subject.kind,
        promiser: &subject.promiser,
    };
    // Cannot fail: all values were parsed from text.
    let mut line = serde_json::to_string(&request).unwrap_or_default();
    line.push_str("\n\n");
    line
}

fn lines(operation: Operation, subject: &Subject) -> Result<String, String> {
    let line_number = subject.line.to_string();
    let mut request = String::new();
    let mut add = |key: &str, value: &str| request.push_str(&format!("{key}={value}\n"));
    for (key, value) in [
        ("operation", operation.name()),
        ("log_level", subject.log_level.name()),
        ("promise_type", &subject.kind),
        ("promiser", &subject.promiser),
        ("line_number", &line_number),
        ("filename", &subject.filename),
    ] {
        if value.contains('\n') {
            return Err(unsendable(key, "a text with a newline"));
        }
        add(key, value);
    }
    let (added, own): (Vec<_>, Vec<_>) = subject.attributes.iter().partition(|(name, _)| *name == ADDED);
    for (name, value) in own.into_iter().chain(added) {
        let kind = match value {
            Value::Array(_) => Some("a list"),
            Value::Object(_) => Some("a table"),
            Value::String(text) if text.contains('\n') => Some("a text with a newline"),
            _ => None,
        };
        if let Some(kind) = kind {
            return Err(unsendable(name, kind));
        }
        add(&format!("attribute_{name}"), &text(value).unwrap_or_default());
    }
    request.push('\n');
    Ok(request)
}

fn unsendable(name: &str, kind: &str) -> String {
    format!("{name}: {kind} cannot be sent to a module of the line-based protocol")
}

/// The header sent to modules. Their libraries require a version of CFEngine that supports promise modules.
pub(crate) const GREETING: &str = "cf-agent 3.21.0 v1\n\n";
const PROTOCOL: &str = "v1";

/// The two forms of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Json,
    Lines,
}

/// The header of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) protocol: Protocol,
    /// True if the module can do a dry run.
    pub(crate) has_action_policy: bool,
    /// The reason why the protocol had to be guessed.
    pub(crate) doubt: Option<&'static str>,
}

/// An invalid header, worded to follow the module's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// The line is not a header.
    NoHeader(String),
    /// The version of the protocol is unknown.
    Protocol(String),
}

impl Header {
    /// Parses the line.
    pub(crate) fn parse(line: &str) -> Result<Header, HeaderError> {
        let no_header = || HeaderError::NoHeader(line.to_owned());
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, _, version, flags @ ..] = words.as_slice() else { return Err(no_header()) };
        let digits = version.strip_prefix('v').unwrap_or_default();
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) || flags.is_empty() {
            return Err(no_header());
        }
        if *version != PROTOCOL {
            return Err(HeaderError::Protocol((*version).to_owned()));
        }
        let protocols: Vec<Protocol> = flags.iter().filter_map(|flag| protocol(flag)).collect();
        let doubt = match protocols.iter().all(|protocol| Some(protocol) == protocols.first()) {
            _ if protocols.is_empty() => Some("does not say which protocol it has; line_based is assumed"),
            false => Some("says that it has both protocols; the last one counts"),
            true => None,
        };
        let protocol = protocols.last().copied().unwrap_or(Protocol::Lines);
        Ok(Header { protocol, has_action_policy: flags.contains(&"action_policy"), doubt })
    }
}

pub(crate) fn protocol(flag: &str) -> Option<Protocol> {
    match flag {
        "json_based" => Some(Protocol::Json),
        "line_based" => Some(Protocol::Lines),
        _ => None,
    }
}

impl std::fmt::Display for HeaderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HeaderError::NoHeader(line) => write!(f, ": {line:?} is no header"),
            HeaderError::Protocol(version) => write!(f, " asks for protocol {version}, and v1 is the highest"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module_log::LogLevel;
    use holo_bridge::Attributes;
    use serde_json::json;

    fn subject(attributes: Value) -> Subject {
        Subject {
            kind: "git".into(),
            promiser: "/opt/x".into(),
            attributes: serde_json::from_value::<Attributes>(attributes).unwrap(),
            log_level: LogLevel::Verbose,
            filename: "/usr/share/holo/promises/10.toml".into(),
            line: 7,
        }
    }

    #[test]
    fn scalars_are_sent_as_text_and_the_rest_as_it_is() {
        let subject =
            subject(json!({"d": ["a", 1, {"z": true, "b": null}], "b": true, "a": 42, "c": 2.5, "e": "x\n\"ü"}));
        assert_eq!(
            request(Protocol::Json, Operation::Validate, &subject).unwrap(),
            "{\"attributes\":{\"a\":\"42\",\"b\":\"true\",\"c\":\"2.5\",\"d\":[\"a\",1,{\"b\":null,\"z\":true}],\"e\":\"x\\n\\\"ü\"},\
         \"filename\":\"/usr/share/holo/promises/10.toml\",\"line_number\":7,\"log_level\":\"verbose\",\
         \"operation\":\"validate_promise\",\"promise_type\":\"git\",\"promiser\":\"/opt/x\"}\n\n"
        );
    }

    #[test]
    fn no_attributes_are_left_out() {
        let line = request(Protocol::Json, Operation::Evaluate, &subject(json!({}))).unwrap();
        assert!(line.starts_with("{\"filename\":") && line.contains("\"evaluate_promise\""), "{line}");
    }

    #[test]
    fn lines_have_their_order() {
        let subject = subject(json!({"b": "x=y", "action_policy": "warn", "c": 3, "a": ""}));
        assert_eq!(
            request(Protocol::Lines, Operation::Evaluate, &subject).unwrap(),
            "operation=evaluate_promise\nlog_level=verbose\npromise_type=git\npromiser=/opt/x\nline_number=7\n\
         filename=/usr/share/holo/promises/10.toml\nattribute_a=\nattribute_b=x=y\nattribute_c=3\n\
         attribute_action_policy=warn\n\n"
        );
    }

    #[test]
    fn what_lines_cannot_express_is_not_sent() {
        for (value, kind) in
            [(json!(["a"]), "a list"), (json!({}), "a table"), (json!("a\nb"), "a text with a newline")]
        {
            assert_eq!(
                request(Protocol::Lines, Operation::Validate, &subject(json!({ "x": value }))).unwrap_err(),
                format!("x: {kind} cannot be sent to a module of the line-based protocol")
            );
        }
    }

    #[test]
    fn flags_say_how_a_module_talks() {
        for (line, protocol, has_action_policy, has_doubt) in [
            ("git_promise_module 0.0.1 v1 json_based", Protocol::Json, false, false),
            ("git 1 v1 line_based action_policy", Protocol::Lines, true, false),
            ("git 1 v1 action_policy odd json_based", Protocol::Json, true, false),
            ("git 1 v1 json_based json_based", Protocol::Json, false, false),
            ("git 1 v1 action_policy", Protocol::Lines, true, true),
            ("git 1 v1 line_based json_based", Protocol::Json, false, true),
            ("git 1 v1 json_based line_based", Protocol::Lines, false, true),
            ("  git  1\tv1 json_based \r", Protocol::Json, false, false),
        ] {
            let header = Header::parse(line).unwrap();
            assert_eq!(
                (header.protocol, header.has_action_policy, header.doubt.is_some()),
                (protocol, has_action_policy, has_doubt),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_no_header_is_shown() {
        for line in ["", "hello", "git 1 v1", "git 1 v json_based", "git 1 1 json_based", "git 1 vx json_based"] {
            let error = Header::parse(line).unwrap_err();
            assert_eq!(error.to_string(), format!(": {line:?} is no header"));
        }
        let error = Header::parse("git 1 v9 json_based").unwrap_err();
        assert_eq!(error.to_string(), " asks for protocol v9, and v1 is the highest");
    }
}
