//! Random edits of random texts.

use super::super::super::ledger::model;
use super::*;
use holo_testing::random::{Random, cases};

/// A random file, with lines that come more than once.
fn random_content(random: &mut Random) -> Vec<u8> {
    let lines = ["a = 1", "b=2", "", "[s]", "[t]", "# c", "k = 1", "k = 2", "Port 22", "x", "\u{e4}", "  k = 3"];
    let crlf = random.chance(20);
    let mut content = Vec::new();
    for _ in 0..random.below(12) {
        content.extend_from_slice(random.pick(&lines).as_bytes());
        content.extend_from_slice(if crlf || random.chance(3) { b"\r\n" } else { b"\n" });
    }
    if random.chance(10) {
        content.extend_from_slice(b"\xff\xfe");
    }
    if random.chance(20) {
        content.pop();
    }
    content
}

fn random_edit(random: &mut Random, number: usize) -> (String, EditDefinition) {
    let kind = *random.pick(&["line", "block", "ini"]);
    let id = format!("{kind}:{number}");
    let absent = random.chance(25);
    let keys = match (kind, absent) {
        ("line", true) => json!({"match": random.pick(&["^a", "Port", "^$", "x"]), "ensure": "absent"}),
        ("line", false) => {
            let mut keys =
                json!({"line": format!("own {number}"), "match": random.pick(&["^a", "^Port", "k", "none"])});
            if random.chance(50) {
                let anchor = *random.pick(&["insert_after", "insert_before"]);
                let at = *random.pick(&["^b", "^\\[", "BOF", "EOF", "none"]);
                keys.as_object_mut().unwrap().insert(anchor.to_owned(), json!(at));
            }
            keys
        }
        ("block", true) => json!({"name": "other", "ensure": "absent"}),
        ("block", false) => {
            json!({"name": number.to_string(), "content": "one\ntwo\n", "insert_before": random.pick(&["^x", "EOF"])})
        }
        (_, true) => json!({"section": random.pick(&["s", "t"]), "key": "k", "ensure": "absent"}),
        (_, false) => {
            json!({"section": random.pick(&["s", "t", "new"]), "key": format!("k{}", random.below(3)), "value": number.to_string()})
        }
    };
    (id.clone(), definition(&id, &keys))
}

#[test]
fn random_edits_in_random_order_leave_what_others_have_written() {
    cases(3000, |random| {
        let content = random_content(random);
        let mut file = File::new(&content);
        let mut edits: Vec<(String, EditDefinition)> = (0..=random.below(5)).map(|n| random_edit(random, n)).collect();
        for _ in 0..=random.below(12) {
            let (id, definition) = random.pick(&edits).clone();
            let is_known = file.knows(&id);
            if random.chance(70) {
                // Two may be about one line.
                let Ok(mut made) = file.made(&id, &definition, is_known) else { continue };
                assert!(definition.holds(&mut made.0).unwrap(), "{id} {definition:?} {:?}", made.0);
                assert!(!file.take(made));
                let (again, _) = file.made(&id, &definition, file.knows(&id)).unwrap();
                assert_eq!(Ledger::from(&again), file.ledger, "{id} is made once");
            } else {
                assert!(!file.take_back(&id));
            }
            let mut followed = file.ledger.clone();
            follow(&mut followed, &Text::parse(&file.content));
            assert_eq!(followed, file.ledger, "nothing has changed");
            let written = serde_json::to_string(&crate::edits::ledger::Segments::from(&file.ledger)).unwrap();
            let read: crate::edits::ledger::Segments = serde_json::from_str(&written).unwrap();
            assert_eq!(Ledger::from(read), file.ledger);
        }
        random.shuffle(&mut edits);
        for (id, _) in &edits {
            file.take_back(id);
        }
        assert_eq!(file.content.as_bstr(), content.as_bstr());
    });
}

/// Changes lines of others: returns the same of what the file would be without edits.
fn disturb(random: &mut Random, file: &mut File, base: &mut Vec<String>, number: usize) {
    let text = Text::parse(&file.content);
    let makers: Vec<bool> = file.ledger.makers().iter().map(Option::is_some).collect();
    let mut lines: Vec<String> = text.lines.iter().map(|line| String::from_utf8(line.clone()).unwrap()).collect();
    let theirs: Vec<usize> = (0..lines.len()).filter(|&index| !makers[index]).collect();
    if theirs.is_empty() {
        return;
    }
    let at = *random.pick(&theirs);
    let in_base = base.iter().position(|line| *line == lines[at]).unwrap();
    if random.chance(30) {
        base.remove(in_base);
        lines.remove(at);
    } else if random.chance(30) {
        let new = format!("{}, changed {number}", lines[at]);
        base[in_base].clone_from(&new);
        lines[at] = new;
    } else {
        // Where no edit has a line, so that there is no doubt which side of it is meant.
        let new = format!("theirs {number}");
        base.insert(in_base, new.clone());
        lines.insert(at, new);
    }
    file.content = Text { lines: lines.iter().map(|line| line.clone().into_bytes()).collect(), ..text }.content();
}

#[test]
fn what_others_change_meanwhile_stays() {
    cases(3000, |random| {
        let mut base: Vec<String> = (0..random.below(10) + 1)
            .map(|number| format!("{} {number}", random.pick(&["a", "k =", "x", "Port"])))
            .collect();
        let content = |base: &[String]| base.iter().map(|line| format!("{line}\n")).collect::<String>();
        let mut file = File::new(content(&base));
        let mut edits: Vec<(String, EditDefinition)> = (0..=random.below(4)).map(|n| random_edit(random, n)).collect();
        edits.retain(|(id, _)| !id.starts_with("ini"));
        for step in 0..=random.below(12) {
            disturb(random, &mut file, &mut base, step);
            follow(&mut file.ledger, &Text::parse(&file.content));
            let Some((id, definition)) = (!edits.is_empty()).then(|| random.pick(&edits).clone()) else { continue };
            if random.chance(70) {
                let Ok(made) = file.made(&id, &definition, file.knows(&id)) else { continue };
                assert!(!file.take(made), "{:?}", file.ledger);
            } else {
                assert!(!file.take_back(&id));
            }
        }
        random.shuffle(&mut edits);
        for (id, _) in &edits {
            assert!(!file.take_back(id));
        }
        // An edit may hide a line before which another one is put: those two may come in another order.
        let mut found: Vec<String> = file.content.to_str_lossy().lines().map(str::to_owned).collect();
        let visible_in_order = found.clone();
        let mut expected = base.clone();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        let known: Vec<&String> = visible_in_order.iter().filter(|line| !line.starts_with("theirs")).collect();
        let in_base: Vec<&String> = base.iter().filter(|line| !line.starts_with("theirs")).collect();
        assert_eq!(known, in_base, "what was there keeps its order");
    });
}

/// Patterns that begin with a text, with white space, or with neither.
const PATTERNS: [&str; 15] = [
    "^a",
    "^k",
    "^\\s*k",
    "^#?\\s*(k|Port) ",
    "Port",
    "^own \\d",
    "^(?i)port",
    "^\\[s",
    "^$",
    "^\\s+",
    "^ +k = 3",
    "2$",
    "^b|x",
    "\\ba\\b",
    "none",
];

fn random_pattern(random: &mut Random) -> String {
    (*random.pick(&PATTERNS)).to_owned()
}

fn random_rival(random: &mut Random, number: usize) -> (String, EditDefinition) {
    let (id, definition) = random_edit(random, number);
    let EditDefinition::Line(mut line) = definition else { return (id, definition) };
    line.matches = (line.line.is_none() || random.chance(60)).then(|| random_pattern(random));
    if line.line.is_some() {
        line.line = Some((*random.pick(&["own 1", "own 2", "k = 2", "x", "", "[t]", "  k = 3"])).to_owned());
        line.insert_before = random.chance(30).then(|| random_pattern(random));
        line.insert_after = (line.insert_before.is_none() && random.chance(40)).then(|| random_pattern(random));
    }
    (id, EditDefinition::Line(line))
}

#[test]
fn a_draft_does_what_is_done_in_plain_lists() {
    cases(1500, |random| {
        let mut content = random_content(random);
        let mut ledger = Ledger::new(&Text::parse(&content));
        let edits: Vec<(String, EditDefinition)> = (0..=random.below(7)).map(|n| random_rival(random, n)).collect();
        for _ in 0..=random.below(3) {
            // Several edits of one draft.
            let mut draft = Draft::from(&ledger);
            for _ in 0..=random.below(8) {
                let (id, definition) = random.pick(&edits);
                let is_known = random.chance(50);
                let (expected, outcome) = match random.chance(75) {
                    true => (
                        model::make(&ledger, id, definition, is_known),
                        make(&mut draft, id, definition, is_known).ok(),
                    ),
                    false => (Some(model::take_back(&ledger, id)), Some(take_back(&mut draft, id))),
                };
                let Some((after, changes, needs_force)) = expected else {
                    assert_eq!(outcome, None, "{id} {definition:?} {ledger:?}");
                    draft.roll_back();
                    continue;
                };
                assert_eq!(Ledger::from(&draft), after, "{id} {definition:?} {ledger:?}");
                assert_eq!(outcome, Some(Outcome { changes, needs_force }), "{id} {definition:?} {ledger:?}");
                assert_eq!(draft.text(), after.text());
                if random.chance(70) {
                    draft.commit();
                    ledger = after;
                } else {
                    draft.roll_back();
                    assert_eq!(Ledger::from(&draft), ledger);
                }
            }
            // Others change lines, be they ours or theirs.
            let mut text = ledger.text();
            for _ in 0..random.below(3) {
                let at = random.below(text.lines.len() + 1);
                match random.below(3) {
                    0 => text.lines.insert(at, b"theirs".to_vec()),
                    1 if at < text.lines.len() => drop(text.lines.remove(at)),
                    _ => text.lines.get_mut(at).into_iter().for_each(|line| line.extend_from_slice(b" changed")),
                }
            }
            content = text.content();
            follow(&mut ledger, &Text::parse(&content));
        }
    });
}
