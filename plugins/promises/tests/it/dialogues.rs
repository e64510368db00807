//! Replays recorded dialogues of CFEngine's agent 3.21 with modules: the answers are played back, and the requests must
//! be the same.

use crate::machine::{Machine, PYTHON, RESOURCES, trials_of};
use libtest_mimic::Trial;
use serde_json::{Map, Value};
use std::fs;
use std::path::Path;

pub(crate) fn trials() -> Vec<Trial> {
    trials_of(
        PYTHON,
        &[
            ("links that are made, and what is wrong with others", links),
            ("links that are there already", links_again),
            ("values of every type", types),
            ("a clone that succeeds and one that fails", clone),
            ("a clone that is there already", clone_again),
            ("bodies are tables", bodies),
            ("a module of the line-based protocol", lines),
            ("only warnings are promised", only_warnings),
            ("a module that changes something all the same", fake),
            ("odd answers", odd),
            ("an answer without JSON", no_json),
            ("a crash", crash),
            ("an answer that is no JSON", broken_json),
            ("two objects in an answer", two_objects),
            ("lines and their values", line_types),
            ("a page that is fetched", fetched),
            ("levels that are asked for", levels),
            ("several types and their order", order),
        ],
    )
}

/// A recorded dialogue without its last request.
struct Dialogue {
    header: String,
    exchanges: Vec<Exchange>,
    is_json: bool,
}

/// A request and its answer, each including the empty line that ends it.
#[derive(Clone)]
struct Exchange {
    request: String,
    answer: String,
    fields: Map<String, Value>,
}

impl Exchange {
    /// Creates an exchange; `None` if one request follows another.
    fn new(request: String, answer: String) -> Option<Exchange> {
        let fields = if request.starts_with('{') {
            serde_json::from_str(&request).ok()?
        } else {
            // The second line of a value with a newline has no key.
            let pairs = request.lines().filter_map(|line| line.split_once('='));
            let (attributes, mut fields): (Map<_, _>, Map<_, _>) = pairs
                .map(|(key, value)| (key.to_owned(), Value::from(value)))
                .partition(|(key, _)| key.starts_with("attribute_"));
            let names = attributes.into_iter().map(|(key, value)| (key["attribute_".len()..].to_owned(), value));
            fields.insert("attributes".into(), Value::Object(names.collect()));
            fields
        };
        Some(Exchange { request, answer, fields })
    }

    fn text(&self, key: &str) -> &str {
        self.fields[key].as_str().unwrap()
    }
}

impl Dialogue {
    /// Reads the dialogue with this number, between the agent and a module process.
    fn read(number: &str) -> Dialogue {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/dialogues");
        let mut files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let file = files.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(number)).unwrap();
        // TOML has no null, and its numbers no trailing zeros.
        let text = fs::read_to_string(file).unwrap().replace("null,2.5000", "0,2.5").replace("null, 2.5", "0, 2.5");
        let (_, dialogue) = text.split_once("\n== dialogue").unwrap();
        let mut parts: Vec<(bool, String)> = Vec::new();
        for line in dialogue.lines() {
            let agent = line.strip_prefix("agent> ").or_else(|| line.strip_prefix("agent>"));
            let module = line.strip_prefix("module> ").or_else(|| line.strip_prefix("module>"));
            let Some((is_agent, text)) = agent.map(|text| (true, text)).or(module.map(|text| (false, text))) else {
                continue;
            };
            match parts.last_mut() {
                Some((last, all)) if *last == is_agent => *all += &format!("{text}\n"),
                _ => parts.push((is_agent, format!("{text}\n"))),
            }
        }
        let mut parts = parts.into_iter().map(|(_, text)| text);
        assert_eq!(parts.next().unwrap(), "cf-agent 3.21.0 v1\n\n");
        let header = parts.next().unwrap();
        let mut exchanges = Vec::new();
        while let Some(request) = parts.next() {
            let Some(exchange) = Exchange::new(request, parts.next().unwrap_or_default()) else { break };
            exchanges.push(exchange);
        }
        let ends = exchanges.pop().unwrap();
        if ends.fields["operation"] != "terminate" {
            exchanges.push(ends);
        }
        Dialogue { is_json: header.contains("json_based"), header, exchanges }
    }

    /// Removes all exchanges about these promisers.
    fn without(mut self, promisers: &[&str]) -> Dialogue {
        self.exchanges.retain(|exchange| !promisers.contains(&exchange.text("promiser")));
        self
    }

    /// Returns definitions of the recorded promises: one for each validation.
    fn definitions(&self) -> String {
        let mut kinds: Vec<&str> = self.exchanges.iter().map(|exchange| exchange.text("promise_type")).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let player = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/player.py");
        let module = |kind: &&str| {
            format!(
                "[[module]]\ntype = \"{kind}\"\npath = \"dialogue\"\nrespects_root = true\n\
                 interpreter = [\"/usr/bin/env\", \"python3\", {:?}]\n",
                player.display().to_string()
            )
        };
        let mut definitions: String = kinds.iter().map(module).collect();
        let asked = self.exchanges.iter().filter(|exchange| exchange.text("operation") == "validate_promise");
        for (number, exchange) in asked.enumerate() {
            let mut attributes = exchange.fields.get("attributes").cloned().unwrap_or_else(|| Map::new().into());
            let policy = attributes.as_object_mut().unwrap().remove("action_policy");
            let mut table = toml::Table::new();
            for key in ["promiser", "log_level"] {
                table.insert(key.into(), exchange.text(key).into());
            }
            table.insert("type".into(), exchange.text("promise_type").into());
            table.insert("name".into(), format!("{number:02}").into());
            if let Some(policy) = policy {
                table.insert("action_policy".into(), policy.as_str().unwrap().into());
            }
            table.insert("attributes".into(), toml::Value::try_from(attributes).unwrap());
            let promises = toml::Table::from_iter([("promise".to_owned(), toml::Value::Array(vec![table.into()]))]);
            definitions += &toml::to_string(&promises).unwrap();
        }
        definitions
    }

    /// Plays the dialogue, and returns the results of the promises in order.
    fn play(&self) -> Played {
        let machine = Machine::new(&self.definitions());
        let answers: Vec<&String> =
            [&self.header].into_iter().chain(self.exchanges.iter().map(|exchange| &exchange.answer)).collect();
        machine.root.write(format!("{RESOURCES}/dialogue"), serde_json::to_string(&answers).unwrap());
        let ends = machine.apply();
        let kind = |number: usize| {
            let mut asked = self.exchanges.iter().filter(|exchange| exchange.text("operation") == "validate_promise");
            asked.nth(number).map(|exchange| exchange.text("promise_type").to_owned())
        };
        let ids = (0..).map_while(|number| Some(format!("{}:{number:02}", kind(number)?)));
        let ends = ids.map(|id| ends.of(&id)).collect();
        let heard = machine.root.read(format!("{RESOURCES}/dialogue.heard")).to_string();
        Played { heard: without_places(&heard), ends }
    }

    /// Returns all recorded requests to the module.
    fn requests(&self) -> String {
        let end = match self.is_json {
            true => "{\"log_level\":\"info\",\"operation\":\"terminate\"}\n\n",
            false => "operation=terminate\nlog_level=info\n\n",
        };
        let requests: String = self.exchanges.iter().map(|exchange| exchange.request.as_str()).collect();
        without_places(&format!("cf-agent 3.21.0 v1\n\n{requests}{end}"))
    }
}

/// The requests that a module received, and the results of the promises.
struct Played {
    heard: String,
    ends: Vec<crate::machine::End>,
}

impl Played {
    fn results(&self) -> Vec<&str> {
        self.ends.iter().map(|end| end.result.as_str()).collect()
    }
}

/// Removes the locations of definitions, which differ from the recorded ones.
fn without_places(requests: &str) -> String {
    let mut lines = String::new();
    for line in requests.lines() {
        let line = match (line.split_once(",\"filename\":"), line.split_once(",\"log_level\":")) {
            (Some((before, _)), Some((_, after))) => format!("{before},PLACE,\"log_level\":{after}"),
            _ if line.starts_with("{\"filename\":") => {
                format!("{{PLACE,\"log_level\":{}", line.split_once(",\"log_level\":").unwrap().1)
            }
            _ if line.starts_with("line_number=") || line.starts_with("filename=") => {
                format!("{}=PLACE", line.split_once('=').unwrap().0)
            }
            _ => line.to_owned(),
        };
        lines += &line;
        lines.push('\n');
    }
    lines
}

/// Plays a dialogue, and checks that the requests are the recorded ones.
#[track_caller]
fn replay(dialogue: &Dialogue) -> Played {
    let played = dialogue.play();
    assert_eq!(played.heard, dialogue.requests());
    played
}

fn links() {
    let played = replay(&Dialogue::read("01"));
    assert_eq!(played.results(), ["changed", "failed", "failed", "failed", "failed"]);
    assert_eq!(played.ends[0].changes, ["Created symlink '/scratch/link-ok' -> '/scratch/target.txt'"]);
    assert!(played.ends[1].stderr.starts_with("!! Unknown attribute 'comment' for symlinks promise"));
    assert_eq!(played.ends[4].stderr, "!! Symlink '/scratch/plainfile' is already a path\n");
}

fn links_again() {
    assert_eq!(replay(&Dialogue::read("02")).results(), ["unchanged", "failed", "failed", "failed", "failed"]);
}

fn types() {
    let results = replay(&Dialogue::read("03"));
    assert_eq!(results.results(), [&["changed"; 6][..], &["failed"]].concat());
}

fn clone() {
    let played = replay(&Dialogue::read("04"));
    assert_eq!(played.results(), ["changed", "failed"]);
    assert_eq!(played.ends[0].changes, ["Cloning '/scratch/gsrc:main' to '/scratch/gdst'"]);
    // Its last step is shown too.
    assert_eq!(played.ends[1].stdout, "Cloning '/scratch/nonexist:main' to '/scratch/gdst2'\n");
    assert_eq!(played.ends[1].stderr.lines().count(), 2);
}

fn clone_again() {
    assert_eq!(replay(&Dialogue::read("05")).results(), ["unchanged", "failed"]);
}

fn bodies() {
    let played = replay(&Dialogue::read("06"));
    assert_eq!(played.ends[0].changes, ["Created group 'cfwgrpa'", "Added user 'root' to group 'cfwgrpa'"]);
    assert_eq!(played.results(), ["changed", "changed"]);
}

fn lines() {
    let played = replay(&Dialogue::read("07"));
    assert_eq!(played.ends[0].changes, ["Updated file '/scratch/ex-lb' with content 'hello, modules'"]);
}

fn only_warnings() {
    for number in ["08", "09", "12"] {
        let played = replay(&Dialogue::read(number));
        let said = &played.ends[0].stderr;
        assert!(said.starts_with(">> Should update file '/scratch/ex-") && !said.contains("but only"), "{said}");
        assert!(said.ends_with("\n!! only warnings are promised\n"), "{said}");
    }
}

fn fake() {
    let played = replay(&Dialogue::read("11"));
    let said = &played.ends[0].stderr;
    let bug = "changed the system when asked only to look; its action_policy is not trusted any more\n";
    assert!(said.ends_with(bug), "{said}");
}

fn odd() {
    let dialogue = Dialogue::read("15");
    let played = dialogue.play();
    let (failed, changed, same) = ("failed", "changed", "unchanged");
    // An echo of another operation ends the conversation, and the player supports only one.
    let before =
        ["ok", "invalid-no-log", "validate-error", "validate-kept", "no-result", "weird-result", "error-result"];
    assert_eq!(played.results()[..before.len()], [same, failed, failed, failed, failed, failed, failed]);
    assert_eq!(played.results()[before.len()..12], [failed, changed, changed, changed, failed]);
    assert_eq!(played.ends[8].changes, ["repaired"]);
    assert_eq!(played.ends[9].changes, ["from json log"]);
    assert_eq!(played.ends[10].changes, ["from line log", "from json log"]);
    assert_eq!(played.ends[10].stderr, ">> warning line\n>> notice line\n");
    assert!(played.ends[11].stderr.contains("answered to \"banana\" when it was asked for \"evaluate_promise\""));
    // An unknown level crashed the recorded agent.
    let level = dialogue.without(
        &[&before[..], &["not-kept-no-log", "repaired-no-log", "json-log", "line-and-json-log", "wrong-operation"]]
            .concat(),
    );
    let played = replay(&level);
    assert_eq!(played.results(), [same, same]);
    assert!(played.ends[1].stderr.contains("\"banana\" is no level"));
}

fn no_json() {
    let played = replay(&Dialogue::read("16"));
    assert_eq!(played.results(), ["unchanged", "failed", "unchanged"]);
    assert_eq!(played.ends[1].stdout, "only a log line\n");
}

fn crash() {
    let played = Dialogue::read("17").play();
    assert_eq!(played.results(), ["unchanged", "failed"]);
    assert!(played.ends[1].stderr.contains("ended before its answer was complete"));
}

fn broken_json() {
    // The recorded agent then sent two requests in a row, and mixed up the answers.
    let played = Dialogue::read("18").play();
    assert_eq!(played.results(), ["unchanged", "failed"]);
    assert!(played.ends[1].stderr.contains("its answer is not valid JSON"));
}

fn two_objects() {
    let played = replay(&Dialogue::read("19"));
    assert_eq!(played.results(), ["unchanged", "unchanged", "unchanged"]);
    assert!(played.ends[1].stderr.contains("a JSON object is there twice"));
}

fn line_types() {
    // A value with a newline would become two lines, so it is not sent; and an unknown attribute ends the conversation.
    let dialogue = Dialogue::read("22").without(&["/scratch/ex-nl", "/scratch/ex-unk"]);
    let played = replay(&dialogue);
    assert_eq!(played.ends[0].changes, ["Updated file '/scratch/ex-lvl' with content 'xyz'"]);
    assert_eq!(played.ends[1].changes, ["Updated file '/scratch/ex-eq' with content 'a=b=c'"]);
    let unknown = Dialogue::read("22").without(&["/scratch/ex-nl", "/scratch/ex-lvl", "/scratch/ex-eq"]);
    let played = replay(&unknown);
    assert_eq!(played.ends[0].stderr, "!! Unknown attribute: 'bogus'\n!! Attribute 'message' is missing or empty\n");
}

fn fetched() {
    let played = replay(&Dialogue::read("23"));
    assert_eq!(played.results(), ["changed", "unchanged", "failed"]);
}

fn levels() {
    // CFEngine reserves the attribute `with`, so it was not sent.
    let played = replay(&Dialogue::read("25"));
    assert_eq!(played.results(), [&["changed"; 3][..], &["unchanged"; 3]].concat());
}

fn order() {
    let played = replay(&Dialogue::read("28"));
    assert_eq!(played.results(), ["unchanged"; 3]);
}
