//! Drafts: the order of labels, reverting changes, and comparing texts.

use super::*;

fn draft(lines: &[&str]) -> Draft {
    Draft::from(&Ledger::new(&Text::parse(lines.join("\n").as_bytes())))
}

fn texts(draft: &Draft) -> Vec<String> {
    draft.text().lines.into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
}

fn insert(draft: &mut Draft, edit: &str, at: Spot) -> ItemIndex {
    let plan = Plan { hide: Vec::new(), insert: Some((at, vec![edit.as_bytes().to_vec()])) };
    draft.make(edit, plan, None).unwrap();
    draft.equal(edit.as_bytes())[0]
}

#[test]
fn lines_come_in_their_order_when_there_is_no_room_between_labels() {
    let mut draft = draft(&["first", "last"]);
    let mut at = Spot::Before(draft.equal(b"last")[0]);
    let mut expected = vec!["last".to_owned()];
    // Each comes right before the line before, or the one before that: so the distances are halved.
    for number in 0..400 {
        let inserted = insert(&mut draft, &format!("line {number}"), at);
        let position = texts(&draft).iter().rev().position(|line| *line == format!("line {number}")).unwrap();
        expected.insert(position, format!("line {number}"));
        if number % 2 == 0 {
            at = Spot::Before(inserted);
        }
        draft.commit();
    }
    expected.push("first".to_owned());
    expected.reverse();
    assert_eq!(texts(&draft), expected);
    let labels: Vec<Label> = draft.order.keys().copied().collect();
    assert!(labels.is_sorted() && draft.order.iter().all(|(label, index)| draft.items[*index].label == *label));
    assert_eq!(draft.equal(b"line 399").len(), 1, "an index is made again");
}

#[test]
fn what_is_rolled_back_is_as_if_it_had_not_been() {
    let mut draft = draft(&["a", "b"]);
    insert(&mut draft, "made", Spot::End);
    draft.commit();
    let before = Ledger::from(&draft);
    let hide = draft.equal(b"a");
    draft.make("other", Plan { hide, insert: Some((Spot::End, vec![b"new".to_vec()])) }, None).unwrap();
    draft.take_back("made", false);
    assert_eq!(texts(&draft), ["b", "new"]);
    assert!(draft.changes_text() && draft.knows("other") && !draft.knows("made"));
    draft.roll_back();
    assert_eq!(Ledger::from(&draft), before);
    assert!(!draft.changes_text() && !draft.knows("other") && draft.knows("made"));
    assert!(draft.contains(b"a") && draft.contains(b"made") && !draft.contains(b"new"));
}

#[test]
fn a_text_is_the_same_if_the_same_lines_have_come_and_gone() {
    let same = |place: usize| {
        let mut draft = draft(&["x", "x", "y"]);
        let hide = draft.equal(b"x")[..1].to_vec();
        draft.make("edit", Plan { hide, insert: None }, None).unwrap();
        let at = [Spot::Before(draft.equal(b"x")[0]), Spot::Before(draft.equal(b"y")[0]), Spot::End][place];
        draft.make("edit", Plan { hide: Vec::new(), insert: Some((at, vec![b"x".to_vec()])) }, None).unwrap();
        !draft.changes_text()
    };
    assert_eq!([same(0), same(1), same(2)], [true, true, false]);
}
