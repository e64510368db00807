//! Edits of all kinds in texts.

mod growth;
mod random;

use super::super::definition::{BlockDefinition, IniDefinition, LineDefinition};
use super::*;
use bstr::ByteSlice;
use holo_plugin::definitions::Definition;
use serde_json::{Value, json};

fn definition(id: &str, keys: &Value) -> EditDefinition {
    let mut keys = keys.clone();
    keys.as_object_mut().unwrap().insert("path".to_owned(), json!("/x"));
    fn read<D: Definition>(keys: Value) -> D {
        let read: D = serde_json::from_value(keys).unwrap();
        assert!(read.invalid().is_empty(), "{:?}", read.invalid());
        read
    }
    match id.split_once(':').unwrap().0 {
        "line" => EditDefinition::Line(read::<LineDefinition>(keys)),
        "block" => EditDefinition::Block(read::<BlockDefinition>(keys)),
        _ => EditDefinition::Ini(read::<IniDefinition>(keys)),
    }
}

/// A file and what is known of it.
struct File {
    ledger: Ledger,
    content: Vec<u8>,
}

impl File {
    fn new(content: impl AsRef<[u8]>) -> File {
        let content = content.as_ref().to_vec();
        File { ledger: Ledger::new(&Text::parse(&content)), content }
    }

    /// Takes what was made of a draft; returns if that needs force.
    fn take(&mut self, (draft, outcome): (Draft, Outcome)) -> bool {
        self.ledger = Ledger::from(&draft);
        self.content = self.ledger.text().content();
        outcome.needs_force
    }

    fn knows(&self, id: &str) -> bool {
        Draft::from(&self.ledger).knows(id)
    }

    fn made(&self, id: &str, definition: &EditDefinition, is_known: bool) -> Result<(Draft, Outcome), EditError> {
        let mut draft = Draft::from(&self.ledger);
        let outcome = make(&mut draft, id, definition, is_known)?;
        draft.commit();
        Ok((draft, outcome))
    }

    /// Makes an edit; returns if that needs force.
    #[track_caller]
    fn make(&mut self, id: &str, keys: &Value) -> bool {
        follow(&mut self.ledger, &Text::parse(&self.content));
        let definition = definition(id, keys);
        let mut made = self.made(id, &definition, self.knows(id)).unwrap();
        assert!(definition.holds(&mut made.0).unwrap(), "{:?}", made.0);
        self.take(made)
    }

    fn take_back(&mut self, id: &str) -> bool {
        follow(&mut self.ledger, &Text::parse(&self.content));
        let mut draft = Draft::from(&self.ledger);
        let outcome = take_back(&mut draft, id);
        self.take((draft, outcome))
    }

    #[track_caller]
    fn is(&self, expected: impl AsRef<[u8]>) {
        assert_eq!(self.content.as_bstr(), expected.as_ref().as_bstr());
    }
}

/// Makes an edit in a file, twice, and takes it back.
#[track_caller]
fn edited(id: &str, keys: &Value, before: &str, after: &str) {
    let mut file = File::new(before);
    for _ in 0..2 {
        assert!(!file.make(id, keys));
        file.is(after);
    }
    assert!(!file.take_back(id));
    file.is(before);
}

#[test]
fn lines_that_others_have_removed_come_back_in_their_order() {
    let line = |name: &str| json!({"line": name});
    for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
        for (before, rest) in [("head\n", ""), ("head\ntail\n", "tail\n")] {
            let anchored = |name: &str| match rest {
                "" => line(name),
                _ => json!({"line": name, "insert_before": "^tail"}),
            };
            let mut file = File::new(before);
            for name in ["a", "b", "c"] {
                file.make(&format!("line:{name}"), &anchored(name));
            }
            file.content = before.into();
            for name in order {
                file.make(&format!("line:{name}"), &anchored(name));
            }
            file.is(format!("head\na\nb\nc\n{rest}"));
        }
    }
}

#[test]
fn a_line_is_put_in_replaced_or_taken_out() {
    edited("line:a", &json!({"line": "new"}), "one\ntwo\n", "one\ntwo\nnew\n");
    edited("line:a", &json!({"line": "new"}), "one\ntwo", "one\ntwo\nnew");
    edited("line:a", &json!({"line": "new"}), "one\r\ntwo\r\n", "one\r\ntwo\r\nnew\r\n");
    edited("line:a", &json!({"line": "new"}), "", "new\n");
    edited("line:a", &json!({"line": "two"}), "one\ntwo\n", "one\ntwo\n");
    edited("line:a", &json!({"line": "two"}), "one\r\ntwo\r\n", "one\r\ntwo\r\n");
    edited("line:a", &json!({"line": "new", "insert_after": "^one"}), "one\none\ntwo\n", "one\none\nnew\ntwo\n");
    edited("line:a", &json!({"line": "new", "insert_before": "^one"}), "a\none\none\n", "a\nnew\none\none\n");
    edited("line:a", &json!({"line": "new", "insert_before": "BOF"}), "one\n", "new\none\n");
    edited("line:a", &json!({"line": "new", "insert_after": "missing"}), "one\n", "one\nnew\n");
    let keys = json!({"line": "Port 22", "match": "^#?Port "});
    edited("line:a", &keys, "#Port 1\nx\nPort 2\ny\n", "#Port 1\nx\nPort 22\ny\n");
    edited("line:a", &keys, "x\n", "x\nPort 22\n");
    edited("line:a", &keys, "Port 22\n", "Port 22\n");
    edited("line:a", &json!({"line": "b", "match": "^a$"}), "a\n", "b\n");
    edited("line:a", &json!({"line": "x", "ensure": "absent"}), "x\ny\nx\n", "y\n");
    edited("line:a", &json!({"match": "^x", "ensure": "absent"}), "x1\ny\nx2", "y");
    edited("line:a", &json!({"match": "^x", "ensure": "absent"}), "x1", "");
}

#[test]
fn a_block_stands_between_its_markers() {
    let keys = json!({"name": "n", "content": "a\nb\n"});
    edited("block:a", &keys, "x\n", "x\n# BEGIN holo n\na\nb\n# END holo n\n");
    edited("block:a", &keys, "x\r\n", "x\r\n# BEGIN holo n\r\na\r\nb\r\n# END holo n\r\n");
    let old = "x\n# BEGIN holo n\nold\n# END holo n\ny\n";
    edited("block:a", &keys, old, "x\n# BEGIN holo n\na\nb\n# END holo n\ny\n");
    edited("block:a", &json!({"name": "n", "ensure": "absent"}), old, "x\ny\n");
    let keys = json!({"content": "<a/>", "comment": ["<!--", "-->"], "insert_before": "</x>"});
    edited("block:a", &keys, "<x>\n</x>\n", "<x>\n<!-- BEGIN holo -->\n<a/>\n<!-- END holo -->\n</x>\n");
    edited("block:a", &json!({"content": "", "comment": "//"}), "", "// BEGIN holo\n// END holo\n");
}

#[test]
fn a_value_is_set_in_its_section() {
    let set = |section: Option<&str>, more: Value| {
        let mut keys = json!({"key": "k", "value": "v"});
        keys.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        if let Some(section) = section {
            keys.as_object_mut().unwrap().insert("section".to_owned(), json!(section));
        }
        keys
    };
    let in_s = |more| set(Some("s"), more);
    edited("ini:a", &in_s(json!({})), "# c\n[s]\n  k\t=  old\nother=1\n", "# c\n[s]\n  k\t=  v\nother=1\n");
    edited("ini:a", &in_s(json!({})), "[s]\na = 1\n\n[t]\nk = x\n", "[s]\na = 1\nk = v\n\n[t]\nk = x\n");
    edited("ini:a", &in_s(json!({})), "[t]\nk = v\n", "[t]\nk = v\n\n[s]\nk = v\n");
    edited("ini:a", &in_s(json!({})), "", "[s]\nk = v\n");
    edited("ini:a", &in_s(json!({})), "[s] ; c\nk=v\n", "[s] ; c\nk=v\n");
    edited("ini:a", &in_s(json!({})), "[s]\n#k = w\nkk = 1\n", "[s]\n#k = w\nkk = 1\nk = v\n");
    edited("ini:a", &in_s(json!({})), "[s]\nk=1\nk=2\n", "[s]\nk=1\nk=v\n");
    edited("ini:a", &in_s(json!({})), "[s]\n[t]\n", "[s]\nk = v\n[t]\n");
    edited("ini:a", &in_s(json!({"delimiter": "="})), "[s]\n", "[s]\nk=v\n");
    edited("ini:a", &in_s(json!({"delimiter": ": "})), "[s]\nk:1\n", "[s]\nk:v\n");
    edited("ini:a", &in_s(json!({"delimiter": " "})), "[s]\nk\t1\n", "[s]\nk\tv\n");
    edited("ini:a", &set(None, json!({})), "a = 1\n[s]\nk = 1\n", "a = 1\nk = v\n[s]\nk = 1\n");
    edited("ini:a", &set(None, json!({})), "[s]\nk = 1\n", "k = v\n[s]\nk = 1\n");
    edited(
        "ini:a",
        &json!({"section": "s", "key": "k", "ensure": "absent"}),
        "k=0\n[s]\nk=1\na=1\nk = 2\n",
        "k=0\n[s]\na=1\n",
    );
}

#[test]
fn others_may_write_elsewhere() {
    let keys = json!({"line": "Port 22", "match": "^#?Port "});
    let mut file = File::new("a\n#Port 1\nb\n");
    file.make("line:a", &keys);
    file.is("a\nPort 22\nb\n");
    file.content = b"new\na\nPort 22\nb2\nb\nlast\n".to_vec();
    assert!(!file.make("line:a", &keys));
    file.is("new\na\nPort 22\nb2\nb\nlast\n");
    assert!(!file.take_back("line:a"));
    file.is("new\na\n#Port 1\nb2\nb\nlast\n");
}

#[test]
fn a_change_of_our_line_needs_force() {
    let keys = json!({"line": "Port 22", "match": "^#?Port "});
    let mut file = File::new("a\n#Port 1\nb\n");
    file.make("line:a", &keys);
    file.content = b"a\nPort 2222\nb\nc\n".to_vec();
    // This is what force makes.
    assert!(file.make("line:a", &keys));
    file.is("a\nPort 22\nb\nc\n");
    file.content = b"a\nPort 2222\nb\nc\n".to_vec();
    assert!(file.take_back("line:a"));
    file.is("a\n#Port 1\nb\nc\n");
}

#[test]
fn lines_that_are_changed_with_those_around_them_keep_their_order() {
    let keys = json!({"line": "Port 22", "match": "^#?Port "});
    for changed in ["a2\nPort 2222\nb\n", "a2\nPort 2222\nb2\n", "a\nPort 2222\nb2\n", "a2\nnew\nPort 2222\nb2\n"] {
        let mut file = File::new("a\n#Port 1\nb\n");
        file.make("line:a", &keys);
        file.content = changed.into();
        assert!(file.take_back("line:a"), "{changed}");
        file.is(changed.replace("Port 2222", "#Port 1"));
    }
}

#[test]
fn a_line_that_others_have_removed_is_made_again_where_it_was() {
    let keys = json!({"line": "new", "insert_before": "BOF"});
    let mut file = File::new("a\nb\n");
    file.make("line:a", &keys);
    file.content = b"first\nnew\na\nb\n".to_vec();
    assert!(!file.make("line:a", &keys));
    file.is("first\nnew\na\nb\n");
    file.content = b"first\na\nb\n".to_vec();
    assert!(!file.make("line:a", &keys));
    file.is("first\nnew\na\nb\n");
    file.take_back("line:a");
    file.is("first\na\nb\n");
}

#[test]
fn what_others_bring_back_or_move_is_ours() {
    let keys = json!({"line": "new"});
    let mut file = File::new("a\nb\n");
    file.make("line:a", &keys);
    for content in ["a\nb\nnewer\n", "new\na\nb\n"] {
        file.content = content.into();
        follow(&mut file.ledger, &Text::parse(content.as_bytes()));
    }
    assert!(!file.make("line:a", &keys));
    file.is("new\na\nb\n");
    file.take_back("line:a");
    file.is("a\nb\n");
}

#[test]
fn another_definition_takes_the_place_of_the_first() {
    let mut file = File::new("a\n#Port 1\nb\n");
    file.make("line:a", &json!({"line": "Port 22", "match": "^#?Port "}));
    follow(&mut file.ledger, &Text::parse(&file.content));
    let other = definition("line:a", &json!({"line": "Listen 1", "insert_before": "BOF"}));
    let made = file.made("line:a", &other, false).unwrap();
    assert!(!file.take(made));
    file.is("a\nListen 1\n#Port 1\nb\n");
    file.take_back("line:a");
    file.is("a\n#Port 1\nb\n");
}

#[test]
fn two_edits_of_one_line_are_refused() {
    let mut file = File::new("a\n");
    file.make("line:a", &json!({"line": "Port 1"}));
    let other = definition("line:b", &json!({"line": "Port 2", "match": "^Port"}));
    let error = file.made("line:b", &other, false).unwrap_err();
    assert_eq!(error.to_string(), "a line of it is that of line:a, too; one of both has to go");
}

#[test]
fn a_new_section_stays_as_long_as_something_is_in_it() {
    let key = |key: &str| json!({"section": "s", "key": key, "value": "1"});
    let mut file = File::new("[t]\nx = 1\n");
    for name in ["k", "l"] {
        file.make(&format!("ini:{name}"), &key(name));
    }
    file.is("[t]\nx = 1\n\n[s]\nk = 1\nl = 1\n");
    file.take_back("ini:k");
    file.is("[t]\nx = 1\n\n[s]\nl = 1\n");
    file.content.extend_from_slice(b"mine = 2\n");
    file.take_back("ini:l");
    file.is("[t]\nx = 1\n\n[s]\nmine = 2\n");
}

#[test]
fn a_new_file_in_the_place_of_the_old_one_is_nobodys_work_on_our_lines() {
    let keys = json!({"line": "Port 22", "match": "^#?Port "});
    let mut file = File::new("one\n#Port 1\ntwo\n");
    file.make("line:a", &keys);
    file.content = b"alpha\nbeta\n#Port 99\ngamma\n".to_vec();
    assert!(!file.make("line:a", &keys));
    file.is("alpha\nbeta\nPort 22\ngamma\n");
}
