//! A module's answer, line by line.

use crate::module_log::Level;
use crate::request::Protocol;
use serde_json::Value;
use std::collections::BTreeSet;

/// The prefix of a key whose rest is a log level.
const LOG: &str = "log_";
/// The prefix of an echoed key whose rest is an attribute.
const ATTRIBUTE: &str = "attribute_";

/// A partially read answer.
#[derive(Debug)]
pub(crate) struct Answer {
    protocol: Protocol,
    pub(crate) operation: Option<String>,
    pub(crate) result: Option<String>,
    pub(crate) classes: Vec<String>,
    /// The keys read so far, or an entry for a JSON object.
    seen: BTreeSet<String>,
    /// The error in its JSON.
    broken: Option<String>,
}

/// An event in an answer, for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LineEvent {
    Log {
        level: Level,
        text: String,
    },
    /// A log message of an unknown level.
    UnknownLevel {
        name: String,
        text: String,
    },
    /// A line that belongs to no answer.
    Stray(String),
    /// A repeated key or JSON object. The last one is used.
    Repeated(String),
}

impl Answer {
    pub(crate) fn new(protocol: Protocol) -> Answer {
        let (seen, classes) = (BTreeSet::new(), Vec::new());
        Answer { protocol, operation: None, result: None, classes, seen, broken: None }
    }

    /// Returns the reason why the answer is invalid, if it is.
    pub(crate) fn problem(&self) -> Option<String> {
        if let Some(reason) = &self.broken {
            return Some(format!("its answer is not valid JSON: {reason}"));
        }
        let is_missing = self.protocol == Protocol::Json && self.seen.is_empty();
        is_missing.then(|| "there is no JSON in its answer".to_owned())
    }

    /// Returns true if the JSON is invalid, so that the end of the answer may never come.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Reads another line.
    pub(crate) fn take(&mut self, line: &str) -> Vec<LineEvent> {
        let pair = line.split_once('=');
        if let Some((level, text)) = pair.and_then(|(key, text)| Some((key.strip_prefix(LOG)?, text)))
            && !level.is_empty()
            && level.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        {
            return vec![event(level, text)];
        }
        match (self.protocol, pair) {
            (Protocol::Json, _) if line.starts_with('{') => self.take_json(line),
            (Protocol::Lines, Some((key, value))) if is_key(key) => self.take_pair(key, value),
            _ => vec![LineEvent::Stray(line.to_owned())],
        }
    }

    fn take_json(&mut self, line: &str) -> Vec<LineEvent> {
        let mut events: Vec<LineEvent> = self.repeated("a JSON object").into_iter().collect();
        (self.operation, self.result, self.broken) = (None, None, None);
        self.classes.clear();
        let mut object = match serde_json::from_str::<Value>(line) {
            Ok(Value::Object(object)) => object,
            Ok(_) => return events,
            Err(error) => {
                self.broken = Some(error.to_string());
                return events;
            }
        };
        let mut take = |key: &str| object.remove(key).filter(|value| !value.is_null());
        self.operation = take("operation").map(plain);
        self.result = take("result").map(plain);
        self.classes = match take("result_classes") {
            Some(Value::Array(classes)) => classes.into_iter().map(plain).collect(),
            Some(Value::String(classes)) => separated(&classes),
            _ => Vec::new(),
        };
        self.classes.retain(|class| !class.is_empty());
        let logs = match take("log") {
            Some(Value::Array(logs)) => logs,
            Some(log @ Value::Object(_)) => vec![log],
            _ => Vec::new(),
        };
        events.extend(logs.into_iter().map(logged));
        events
    }

    fn take_pair(&mut self, key: &str, value: &str) -> Vec<LineEvent> {
        let events = self.repeated(key).into_iter().collect();
        match key {
            "operation" => self.operation = Some(value.to_owned()),
            "result" => self.result = Some(value.to_owned()),
            "result_classes" => self.classes = separated(value),
            // An echo of the request.
            _ => {}
        }
        events
    }

    fn repeated(&mut self, key: &str) -> Option<LineEvent> {
        (!self.seen.insert(key.to_owned())).then(|| LineEvent::Repeated(key.to_owned()))
    }
}

/// Returns true if a line of an answer may start with this key. Echoed attributes have the names that were sent.
fn is_key(key: &str) -> bool {
    let is_echo = key.strip_prefix(ATTRIBUTE).is_some_and(crate::names::is_identifier);
    is_echo || (!key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
}

fn separated(classes: &str) -> Vec<String> {
    classes.split(',').map(str::trim).filter(|class| !class.is_empty()).map(str::to_owned).collect()
}

/// Returns a string unchanged, and any other value as JSON.
fn plain(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Returns the event for an element of the list of logs.
fn logged(mut log: Value) -> LineEvent {
    let mut take = |key: &str| log.get_mut(key).map(Value::take).filter(|value| !value.is_null());
    let (level, message) = (take("level").map(plain), take("message").map(plain));
    match (level, message) {
        (Some(level), Some(message)) => event(&level, &message),
        (level, message) => event(level.as_deref().unwrap_or("info"), &message.unwrap_or_else(|| log.to_string())),
    }
}

fn event(level: &str, text: &str) -> LineEvent {
    match Level::parse(level) {
        Some(level) => LineEvent::Log { level, text: text.to_owned() },
        None => LineEvent::UnknownLevel { name: level.to_owned(), text: text.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(protocol: Protocol, text: &str) -> (Answer, Vec<LineEvent>) {
        let mut answer = Answer::new(protocol);
        let events = text.lines().flat_map(|line| answer.take(line)).collect();
        (answer, events)
    }

    fn log(level: Level, text: &str) -> LineEvent {
        LineEvent::Log { level, text: text.into() }
    }

    #[test]
    fn no_answer_makes_the_reader_panic() {
        let words = ["log_", "=", "{", "}", "[", "\"result\":", "result_classes=", "null", "\n", "line_based", "v1"];
        let target = holo_testing::fuzz::Target::new(env!("CARGO_MANIFEST_DIR"), "answers").words(&words).inputs(2000);
        target.run(|input| {
            let text = String::from_utf8_lossy(input);
            drop(read(Protocol::Json, &text));
            drop(read(Protocol::Lines, &text));
            drop(text.lines().next().map(crate::request::Header::parse));
        });
    }

    #[test]
    fn json_with_logs_before_it_and_in_it() {
        let (answer, events) = read(
            Protocol::Json,
            "log_info=one=1\nlog_WARN=two\n{\"operation\": \"evaluate_promise\", \"result\": \"repaired\", \
             \"result_classes\": [\"a b\", \"\", \"c\"], \"log\": [{\"level\": \"inform\", \"message\": \"three\\nlines\"}]}",
        );
        assert_eq!(answer.operation.as_deref(), Some("evaluate_promise"));
        assert_eq!(answer.result.as_deref(), Some("repaired"));
        assert_eq!(answer.classes, ["a b", "c"]);
        assert_eq!(events, [log(Level::Info, "one=1"), log(Level::Warning, "two"), log(Level::Info, "three\nlines")]);
        assert_eq!(answer.problem(), None);
    }

    #[test]
    fn lines_in_any_order() {
        let (answer, events) = read(
            Protocol::Lines,
            "result=kept\nlog_verbose=x\nattribute_Some1=y\npromiser=/a=b\nresult_classes=a, b,,c\noperation=evaluate_promise",
        );
        assert_eq!((answer.result.as_deref(), answer.operation.as_deref()), (Some("kept"), Some("evaluate_promise")));
        assert_eq!(answer.classes, ["a", "b", "c"]);
        assert_eq!(events, [log(Level::Verbose, "x")]);
        assert!(read(Protocol::Lines, "result=kept\nresult_classes=").0.classes.is_empty());
    }

    #[test]
    fn what_a_program_prints_between_is_no_answer() {
        let text = "Files a and b differ\nResult=x\n=\nlog_=x\nlog_1=x\n{\"result\": \"kept\"}";
        let strays = |protocol| -> Vec<LineEvent> { read(protocol, text).1 };
        let stray = |line: &str| LineEvent::Stray(line.into());
        let common = ["Files a and b differ", "Result=x", "="].map(stray);
        assert_eq!(strays(Protocol::Json), [&common[..], &["log_=x", "log_1=x"].map(stray)].concat());
        // In this protocol, the former is an ordinary key, and the JSON an ordinary line.
        assert_eq!(strays(Protocol::Lines), [&common[..], &["log_1=x", "{\"result\": \"kept\"}"].map(stray)].concat());
        assert_eq!(read(Protocol::Json, "result=kept").1, [stray("result=kept")]);
    }

    #[test]
    fn of_several_the_last_counts() {
        let (answer, events) = read(Protocol::Json, "{\"result\": \"kept\"}\n{\"result\": \"repaired\"}");
        assert_eq!(answer.result.as_deref(), Some("repaired"));
        assert_eq!(events, [LineEvent::Repeated("a JSON object".into())]);
        let (answer, events) = read(Protocol::Lines, "result=kept\nresult=repaired\nlog_info=a\nlog_info=a");
        assert_eq!(answer.result.as_deref(), Some("repaired"));
        assert_eq!(events[0], LineEvent::Repeated("result".into()));
        assert_eq!(events.len(), 3);
        let (answer, _) = read(Protocol::Json, "{broken}\n{\"result\": \"kept\"}");
        assert_eq!((answer.problem(), answer.result.as_deref()), (None, Some("kept")));
    }

    #[test]
    fn json_that_is_none_is_named() {
        let (answer, _) = read(Protocol::Json, "{\"operation\": oops}");
        assert!(answer.is_broken() && answer.problem().unwrap().starts_with("its answer is not valid JSON: "));
        let (answer, _) = read(Protocol::Json, "log_info=only");
        assert_eq!(answer.problem().unwrap(), "there is no JSON in its answer");
        assert_eq!(read(Protocol::Lines, "log_info=only").0.problem(), None);
    }

    #[test]
    fn odd_values_are_shown_as_json() {
        let (answer, events) = read(
            Protocol::Json,
            "{\"result\": 3, \"result_classes\": \"a,b\", \"log\": [{\"level\": \"banana\", \"message\": {\"a\": 1}}, 7]}",
        );
        assert_eq!((answer.result.as_deref(), &*answer.classes), (Some("3"), &["a".to_owned(), "b".to_owned()][..]));
        let unknown = LineEvent::UnknownLevel { name: "banana".into(), text: "{\"a\":1}".into() };
        assert_eq!(events, [unknown, log(Level::Info, "7")]);
        assert_eq!(read(Protocol::Json, "{\"result\": null}").0.result, None);
        assert_eq!(read(Protocol::Lines, "log_banana=what").1.len(), 1);
    }
}
