//! The work for many edits of one file.

use super::*;

/// Returns the ID and the definition of an edit, given its number and a value.
type Edit<'e> = &'e dyn Fn(usize, &str) -> (String, EditDefinition);
use crate::edits::ledger::operations;

/// Returns the numbers of operations of a first apply, one without changes, one in which every definition has changed, and one that takes all
/// edits back.
fn operations_of(count: usize, edit: Edit<'_>) -> [usize; 4] {
    let content: String = (0..count).map(|number| format!("theirs {number:03}\n#key{number:03} 0\n")).collect();
    let mut ledger = Ledger::new(&Text::parse(content.as_bytes()));
    let mut apply = |value: Option<&str>, is_known: bool, changes: bool| {
        operations::of(|| {
            let mut draft = Draft::from(&ledger);
            for number in 0..count {
                let (id, definition) = edit(number, value.unwrap_or_default());
                let outcome = match value {
                    Some(_) => make(&mut draft, &id, &definition, is_known).unwrap(),
                    None => take_back(&mut draft, &id),
                };
                assert_eq!(outcome.changes, changes, "{id} {definition:?}");
                draft.commit();
            }
            ledger = Ledger::from(&draft);
        })
    };
    let operations = [apply(Some("1"), false, true), apply(Some("1"), true, false), apply(Some("2"), false, true)];
    let gone = apply(None, false, true);
    assert_eq!(ledger.text().content(), content.as_bytes());
    let [first, again, changed] = operations;
    [first, again, changed, gone]
}

#[test]
fn work_grows_no_faster_than_the_number_of_edits() {
    let line = |number: usize, keys: Value| {
        let id = format!("line:{number}");
        (id.clone(), definition(&id, &keys))
    };
    let ini = |number: usize, section: &str, value: &str| {
        let id = format!("ini:{number}");
        let keys = json!({"section": section, "key": format!("k{number}"), "value": value});
        (id.clone(), definition(&id, &keys))
    };
    let edits: [(&str, Edit<'_>); 7] = [
        ("lines", &|number, value| line(number, json!({"line": format!("own {number} {value}")}))),
        ("lines at the beginning", &|number, value| {
            line(number, json!({"line": format!("own {number} {value}"), "insert_before": "BOF"}))
        }),
        ("replaced lines", &|number, value| {
            let pattern = format!("^\\s*#?\\s*key{number:03}\\s");
            line(number, json!({"line": format!("key{number:03} {value}"), "match": pattern}))
        }),
        ("lines behind others", &|number, value| {
            line(
                number,
                json!({"line": format!("own {number} {value}"), "insert_after": format!("^theirs {number:03}$")}),
            )
        }),
        ("blocks", &|number, value| {
            let id = format!("block:{number}");
            (id.clone(), definition(&id, &json!({"name": number.to_string(), "content": value})))
        }),
        ("values in one section", &|number, value| ini(number, "s", value)),
        ("values in many sections", &|number, value| ini(number, &format!("s{}", number / 2), value)),
    ];
    for (name, edit) in edits {
        for (few, many) in operations_of(50, edit).into_iter().zip(operations_of(200, edit)) {
            assert!(many <= 4 * few + few / 5, "{name}: {few} operations for 50 edits, {many} for 200");
        }
    }
}
