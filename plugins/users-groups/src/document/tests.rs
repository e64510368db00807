//! Tests of definition files and their errors.
use super::*;
use holo_plugin::definitions::ReceivedValue;

fn read_definitions(text: &[u8]) -> Document {
    parse(text, &NothingReceived)
}

fn problems(text: &str) -> Vec<String> {
    let entries = read_definitions(text.as_bytes()).entries.into_iter();
    entries.flat_map(|entry| if let Entry::Broken(_, problems) = entry { problems } else { Vec::new() }).collect()
}

#[test]
fn parse_reads_all_attributes() {
    let document = read_definitions(
        br#"
        user = [{ name = "u", Comment = "c", uid = 0x1_0, SYSTEM = true, home = "/h", group = "g", groups = ["b", "a"],
            shell = "/s", skipBaseGroups = true }]
        [[group]]
        name = "g"
        gid = 7
        "#,
    );
    let words: Vec<String> = document
        .entries
        .iter()
        .map(|entry| match entry {
            Entry::Definition(stated) => format!("{} {}", stated.definition.account.id, stated.definition.in_words()),
            Entry::Broken(..) => String::new(),
        })
        .collect();
    let user = "user:u type: system, UID: 16, home: /h, login group: g, exact groups: b,a, login shell: /s, comment: c";
    assert_eq!(words, ["group:g GID: 7", user]);
    assert!(document.unknown_keys.is_empty() && !document.is_unknowable);
}

#[test]
fn empty_values_are_unset() {
    let document =
        read_definitions(b"[[user]]\nname = 'u'\nhome = ''\ncomment = ''\ngroup = ''\ngroups = []\nshell = ''\n");
    let [Entry::Definition(stated)] = &document.entries[..] else { panic!("{document:?}") };
    assert!(stated.definition.account.is_bare());
}

#[test]
fn gid_zero_of_definition_is_unset_but_uid_zero_is_set() {
    let numbers = |document: Document| -> Vec<Option<u32>> {
        let entries = document.entries.into_iter();
        let stated = entries.map(|entry| match entry {
            Entry::Definition(stated) => stated.definition.account.number,
            Entry::Broken(_, problems) => panic!("{problems:?}"),
        });
        stated.collect()
    };
    let text = b"[[group]]\nname = 'g'\ngid = 0\n[[user]]\nname = 'u'\nuid = 0\n";
    assert_eq!(numbers(read_definitions(text)), [None, Some(0)]);
    // The image of an existing group with GID 0 must differ from that of a group that did not exist.
    assert_eq!(numbers(parse_image(text)), [Some(0), Some(0)]);
}

#[test]
fn problems_name_location_and_line() {
    let text = "[[group]]\n[[user]]\nname = ''\n[[user]]\nname = 'a b'\n[[user]]\nname = 'u'\nuid = -1\nhome = '/a:/b'\n\
                system = 1\ngroups = ['x,y']\ngroup = '-x'\n[[user]]\nname = 'v'\ngroups = [1]\nuid = 4294967295\n";
    assert_eq!(
        problems(text),
        [
            "groups[0] is missing required 'name' attribute",
            "users[0] is missing required 'name' attribute",
            "line 5: name \"a b\" of users[1] is not valid: \
             a name must not contain blanks, colons, commas, slashes or quotes",
            "line 8: uid of users[2]: expected a whole number that is not negative, found -1",
            "line 9: home of users[2]: must not contain colons or control characters",
            "line 10: system of users[2]: expected true or false, found 1",
            "line 11: groups of users[2]: is not valid: a name must not contain blanks, colons, commas, slashes or quotes",
            "line 12: group of users[2]: is not valid: a name must not begin with a sign",
            "line 15: groups[0] of users[3]: expected a string, found 1; write it in quotes: \"1\"",
            "line 16: uid of users[3]: 4294967295 is out of range",
        ]
    );
    assert!(!read_definitions(text.as_bytes()).is_unknowable);
}

#[test]
fn damaged_file_has_unknown_accounts() {
    for (text, problem) in [
        ("[[user]]\nname = 'u'\nuid =\n", "line 3: uid: has no value"),
        ("[user]\nname = 'u'\n", "line 1: expected [[user]], found a table"),
        ("group = [1]\n", "line 1: groups[0]: expected a table, found a number"),
        ("[[user]]\nname = 1\n", "line 2: name of users[0]: expected a string, found a number"),
    ] {
        assert_eq!(problems(text), [problem]);
        assert!(read_definitions(text.as_bytes()).is_unknowable);
    }
    let document = read_definitions(b"[[user]]\nname = '\xff'\n");
    assert!(document.is_unknowable);
}

#[test]
fn unknown_keys_are_reported() {
    let document = read_definitions(b"colour = 1\n[[user]]\nname = 'u'\ngid = 7\n[[group]]\nname = 'g'\nuid = 7\n");
    let of = |line, key: &str, of: &str| UnknownKey { line, key: key.into(), of: of.into(), hint: None };
    assert_eq!(document.unknown_keys, [of(1, "colour", ""), of(4, "gid", "users[0]"), of(7, "uid", "groups[0]")]);
    assert_eq!(document.entries.len(), 2);
}

#[test]
fn common_keys_are_read() {
    let text = "[[group]]\nname = 'g'\n\n[[user]]\nname = 'u'\nrequires = ['file:/x']\nif = 'true'\nretries = 2\n";
    let document = read_definitions(text.as_bytes());
    let [Entry::Definition(group), Entry::Definition(user)] = &document.entries[..] else { panic!("{document:?}") };
    assert_eq!((group.common.retries, &*user.common.requires), (0, &["file:/x".to_owned()][..]));
    assert_eq!(
        (user.common.only_if.as_deref(), user.common.retries, &*user.place),
        (Some("true"), 2, "line 4: users[0]")
    );
    assert!(document.unknown_keys.is_empty());
    // Images have no common keys.
    assert!(
        matches!(&parse_image(text.as_bytes()).entries[..], [_, Entry::Definition(user)] if user.common.retries == 0)
    );
}

#[test]
fn errors_in_common_keys_are_reported() {
    let text = "[[user]]\nname = 'u'\nuid = 'x'\nafter = ['user:a',\n  '']\n\
                [[user]]\nname = 'v'\nhealth_check = [{ command = 'a', speed = 1 }]\n[[group]]\nname = 'g'\nprovider = 'x'\n\
                [[group]]\nname = 'h'\nreceive = { gid = 'exec:x#stdout' }\ngid = 3\n\
                [[user]]\nname = 'w'\nreceive = { homee = 'exec:x#stdout' }\n[[user]]\nname = 'x'\nreceive = {}\n";
    assert_eq!(
        problems(text),
        [
            "line 14: groups[1]: receive: gid is also set in the definition",
            "line 3: uid of users[0]: expected a whole number that is not negative, found a string",
            "line 4: after of users[0]: \"\" is not an entity ID",
            "line 8: health_check[0].speed of users[1]: unknown key, expected one of command, http, status, contains, tcp, unit, tries, interval, timeout",
            "line 18: users[2]: receive: homee: unknown key; did you mean home?",
            "line 21: receive of users[3]: names no key: write KEY = \"ENTITY#NAME\", or remove it",
        ]
    );
    let unknown = &read_definitions(text.as_bytes()).unknown_keys;
    assert!(matches!(&unknown[..], [UnknownKey { key, .. }] if key == "provider"), "{unknown:?}");
}

#[test]
fn common_keys_are_case_sensitive() {
    let document = read_definitions(b"[[user]]\nname = 'u'\nRequires = ['a:b']\nUID = 7\n");
    let [Entry::Definition(user)] = &document.entries[..] else { panic!("{document:?}") };
    assert_eq!((user.definition.account.number, user.common.requires.len()), (Some(7), 0));
    assert!(matches!(&document.unknown_keys[..], [UnknownKey { key, .. }] if key == "Requires"));
}

/// Provides the same value under every name.
struct SameValue(&'static [u8], bool);

impl Received for SameValue {
    fn value(&self, _: &str, _: &str) -> Option<ReceivedValue> {
        Some(ReceivedValue { bytes: self.0.to_vec(), is_sensitive: self.1 })
    }
}

/// Returns the only definition of a text, and its problems.
fn receiving(keys: &str, received: &dyn Received) -> (Definition, Vec<String>) {
    let text = format!("[[user]]\nname = 'u'\n{keys}\n");
    let mut entries = parse(text.as_bytes(), received).entries;
    let Some(Entry::Definition(stated)) = entries.pop() else { panic!("{entries:?}") };
    (stated.definition, stated.hindrances.iter().map(ToString::to_string).collect())
}

#[test]
fn received_attributes_are_converted_to_their_types() {
    let (definition, hindrances) =
        receiving("receive = { UID = 'exec:x#stdout', comment = 'exec:x#stdout' }", &SameValue(b"7", false));
    assert_eq!((definition.account.number, definition.account.comment.as_deref()), (Some(7), Some("7")));
    assert_eq!(hindrances, [""; 0]);
    let (definition, hindrances) = receiving("receive = { system = 'exec:x#stdout' }", &SameValue(b"true", false));
    assert!(definition.system && hindrances.is_empty());
}

#[test]
fn unsuitable_received_values_are_reported_and_ignored() {
    let from = " (sent by exec:x as stdout)";
    for (keys, sent, said) in [
        (
            "receive = { uid = 'exec:x#stdout' }",
            "joe",
            "uid: expected a whole number that is not negative, found a string",
        ),
        ("receive = { uid = 'exec:x#stdout' }", "4294967295", "uid: 4294967295 is out of range"),
        ("receive = { home = 'exec:x#stdout' }", "/a:b", "home: must not contain colons or control characters"),
        ("receive = { comment = 'exec:x#stdout' }", "a\nb", "comment: must not contain colons or control characters"),
        ("receive = { group = 'exec:x#stdout' }", "-x", "group: is not valid: a name must not begin with a sign"),
        (
            "receive = { groups = 'exec:x#stdout' }",
            "a",
            "groups: expected a list, found a string; write it in brackets: [...]",
        ),
        ("Uid = 3\nreceive = { uid = 'exec:x#stdout' }", "7", "receive: uid is also set in the definition"),
    ] {
        let line = if keys.starts_with("Uid") { 4 } else { 3 };
        let (definition, hindrances) = receiving(keys, &SameValue(sent.as_bytes(), false));
        assert_eq!(hindrances, [format!("line {line}: users[0]: {said}{from}")]);
        assert!(definition.account.number.is_none_or(|number| number == 3));
    }
    let (_, hindrances) = receiving("receive = { uid = 'exec:x#stdout' }", &NothingReceived);
    assert_eq!(hindrances, ["receives uid from exec:x#stdout, which has not been sent yet"]);
    let (_, hindrances) = receiving("receive = { home = 'exec:x#stdout' }", &SameValue(b"\xff", false));
    assert_eq!(hindrances, [format!("line 3: users[0]: home: the value is not UTF-8{from}")]);
}

#[test]
fn sensitive_values_are_not_received() {
    let (definition, hindrances) = receiving("receive = { comment = 'exec:x#stdout' }", &SameValue(b"hush", true));
    let said = "comment: a sensitive value cannot be received here, because it would be shown";
    assert!(hindrances[0].contains(said) && !hindrances[0].contains("hush"), "{hindrances:?}");
    assert_eq!(definition.account.comment, None);
    let (_, hindrances) = receiving("receive = { uid = 'exec:x#stdout' }", &SameValue(b"hush", true));
    assert!(!hindrances[0].contains("hush"), "{hindrances:?}");
}

#[test]
fn definitions_among_other_tables_are_checked() {
    let text = "[package]\nname = 'x'\n[[user]]\nname = 'u'\nuid = 'x'\nhmoe = '/'\n[[group]]\ngid = 1\n";
    let findings = check_definitions(text);
    let shown: Vec<_> = findings.iter().map(|finding| (finding.line, finding.is_error, &*finding.text)).collect();
    assert_eq!(
        shown,
        [
            (None, true, "groups[0] is missing required 'name' attribute"),
            (Some(5), true, "uid of users[0]: expected a whole number that is not negative, found a string"),
            (Some(6), false, "unknown key \"hmoe\" of users[0] is ignored; did you mean home?"),
        ]
    );
}
