//! Tests of scan reports.

use super::*;

fn parse(report: &str) -> Result<Vec<EntityReport>, Vec<String>> {
    EntityReport::parse_all(report.as_bytes(), 3).map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

#[test]
fn reads_what_it_writes() {
    let report = "ENTITY: file:/etc/motd\nACTION: Scrubbing (target was deleted)\nSOURCE: /a\nSOURCE: /b\ndelete: /c\n\
                  ENTITY: x\nACTION: Executing\n";
    let entities = parse(report).unwrap();
    let mut text = Vec::new();
    entities.iter().for_each(|entity| entity.write(&mut text, 3));
    assert_eq!(text.as_bstr(), report);
}

#[test]
fn newline_in_a_value_cannot_begin_another_line() {
    let mut report = EntityReport::new("file:/etc/link");
    report.inform("symlink to", "x\nENTITY: file:/etc/passwd\nACTION: Removing");
    report.sources.push("/a\n\nSOURCE: /b".into());
    let mut text = Vec::new();
    report.write(&mut text, 4);
    let expected = "ENTITY: file:/etc/link\nSOURCE: /a\\n\\nSOURCE: /b\n\
                    symlink to: x\\nENTITY: file:/etc/passwd\\nACTION: Removing\n";
    assert_eq!(text.as_bstr(), expected);
}

#[test]
fn understands_the_special_keys() {
    let entity =
        &parse("ENTITY: a:b\n  found in: x: y \nSOURCE: /s\nACTION: Removing (no (longer) wanted)\n").unwrap()[0];
    assert_eq!(entity.id, "a:b");
    assert_eq!(entity.sources, ["/s"]);
    assert_eq!(entity.action, Action::because("Removing", "no (longer) wanted"));
    assert_eq!(entity.information, [Information { key: "found in".into(), value: "x: y ".into() }]);
}

#[test]
fn edges_are_keys_of_version_4() {
    let report = "ENTITY: a\nORPHAN: yes\nLISTED: no\nALWAYS: yes\nAFTER: b\nBEFORE: c\nREQUIRES: d\nREQUIRES: e f\nSUBSCRIBES: g\nNOTIFIES: h\n\
                  WATCH: /i\nPROVIDES: path /j k\nNEEDS: user l\nOWNS: path /j k\nWRITTEN: /x/y:3: b: c\nfound in: m\n";
    let entities = EntityReport::parse_all(report.as_bytes(), 4).unwrap();
    let edges = &entities[0].edges;
    assert!(edges.orphan && edges.unlisted && edges.always);
    assert_eq!(edges.requires, ["d", "e f"]);
    assert_eq!(edges.provides, [Asset::new("path", "/j k")]);
    assert_eq!(edges.owns, [Asset::new("path", "/j k")]);
    assert_eq!(entities[0].information.len(), 1);
    let mut text = Vec::new();
    entities[0].write(&mut text, 4);
    assert_eq!(text.as_bstr(), report);
    let as_version_3 = &parse(report).unwrap()[0];
    assert_eq!(as_version_3.edges, Edges::default());
    assert_eq!(as_version_3.information.len(), 15);
    let errors = EntityReport::parse_all(b"ENTITY: a\nNEEDS: user\n", 4).unwrap_err();
    assert_eq!(errors[0].to_string(), "line 2: expected \"NEEDS: KIND VALUE\" (value was \"user\")");
}

#[test]
fn a_line_says_when_an_entity_may_be_worked_on() {
    let report = "ENTITY: a\nNOOP: yes\nPOLL: 1m\nLIMIT: 3/10m\nSEMAPHORE: db:2\nSCHEDULE: hours=2-5\nfound in: m\nENTITY: b\nAFTER: a\n";
    let [a, b] = &EntityReport::parse_all(report.as_bytes(), 4).unwrap()[..] else { panic!("two entities") };
    assert!(a.controls.noop && a.controls.schedule.is_some() && a.information.len() == 1);
    assert_eq!(b.controls, Controls::NONE);
    let mut text = Vec::new();
    [a, b].iter().for_each(|entity| entity.write(&mut text, 4));
    assert_eq!(text.as_bstr(), report);
    let outlined = outline::whole(report.as_bytes(), 4).unwrap();
    assert_eq!(outlined.iter().map(|of| of.has_controls).collect::<Vec<_>>(), [true, false]);
    assert_eq!(controls(&report.as_bytes()[outlined[0].lines.clone()]), a.controls);
    assert_eq!(parse(report).unwrap()[0].information.len(), 6);
    let errors = EntityReport::parse_all(b"ENTITY: a\nLIMIT: often\n", 4).unwrap_err();
    let says = "line 2: expected a number, a slash and a duration, as in \"3/10m\" (line was \"LIMIT: often\")";
    assert_eq!(errors[0].to_string(), says);
}

#[test]
fn an_action_without_a_whole_parenthesis_is_a_verb() {
    for value in ["Executing", "Executing (now", "now)", "(now)", "Executing(now)"] {
        let entities = parse(&format!("ENTITY: a\nACTION: {value}\n")).unwrap();
        assert_eq!(entities[0].action, Action { verb: value.into(), reason: None });
    }
}

#[test]
fn the_lines_of_an_entity_alone_make_it_again() {
    let report = b"\n ENTITY: a\nSOURCE: /s\n\nAFTER: b\nENTITY: a\nx: y\r\nENTITY: c";
    for version in [3, 4] {
        let all = EntityReport::parse_all(report, version).unwrap();
        // The result must not depend on how the report is split.
        for size in [1, 2, 7, 9, report.len()] {
            let mut reader = ReportReader::new(version);
            report.chunks(size).for_each(|piece| reader.take(piece));
            let OutlinedReport { text, outlines } = reader.finish().unwrap();
            assert_eq!(text, report);
            let alone = |outline: &Outline| EntityReport::parse_all(&report[outline.lines.clone()], version).unwrap();
            assert_eq!(outlines.iter().flat_map(alone).collect::<Vec<_>>(), all);
            let ids = outlines.iter().map(|outline| report[outline.id.clone()].as_bstr());
            assert_eq!(ids.collect::<Vec<_>>(), ["a", "a", "c"]);
            let have_edges = outlines.iter().map(|outline| outline.has_edges).collect::<Vec<_>>();
            assert_eq!(have_edges, [version == 4, false, false]);
        }
    }
}

#[test]
fn what_an_outline_leaves_out_is_in_its_lines() {
    let report = b"ENTITY: a\nLISTED: no\nSOURCE: /s\nNEEDS: user b\nSOURCE: /t\nENTITY: b\nLISTED: yes\n";
    let mut reader = ReportReader::new(4);
    reader.take(report);
    let OutlinedReport { text, outlines } = reader.finish().unwrap();
    assert_eq!(outlines.iter().map(|outline| outline.is_listed).collect::<Vec<_>>(), [false, true]);
    let lines = &text[outlines[0].lines.clone()];
    assert_eq!(sources(lines).collect::<Vec<_>>(), ["/s", "/t"]);
    assert_eq!(Edges::from_lines(lines), EntityReport::parse_all(lines, 4).unwrap()[0].edges);
}

#[test]
fn a_report_takes_from_another_what_it_does_not_have() {
    let read = |report: &str| {
        let mut reader = ReportReader::new(4);
        reader.take(report.as_bytes());
        reader.finish().unwrap()
    };
    for first in ["", "ENTITY: b\nAFTER: c", "ENTITY: b\nAFTER: c\n"] {
        let mut report = read(first);
        report.add(&read("  ENTITY: b\nAFTER: d\n ENTITY: e\nLISTED: no\nBEFORE: b\nENTITY: f"));
        let lines = |outline: &Outline| report.text[outline.lines.clone()].as_bstr().to_string();
        let entities: Vec<(String, String)> =
            report.ids().map(ToString::to_string).zip(report.outlines.iter().map(lines)).collect();
        let of_first = if first.is_empty() { "  ENTITY: b\nAFTER: d\n" } else { first };
        let expected = [("b", of_first), ("e", " ENTITY: e\nLISTED: no\nBEFORE: b\n"), ("f", "ENTITY: f")];
        assert_eq!(entities, expected.map(|(id, lines)| (id.to_owned(), lines.to_owned())));
        assert!(!report.outlines[1].is_listed && report.outlines[1].has_edges);
        let named: Vec<BString> = report
            .edges()
            .flat_map(|(_, edges)| edges.named().map(|id| BString::from(*id)).collect::<Vec<_>>())
            .collect();
        assert_eq!(named, [if first.is_empty() { "d" } else { "c" }, "b"]);
    }
}

#[test]
fn values_without_a_line_of_their_own_are_omitted_or_escaped() {
    let mut report = EntityReport::new("a:b");
    report.action = Action::because("Skipping", "x\n== y is false");
    report.inform("command", "");
    report.inform("with", "one\ntwo");
    report.edges.requires.push("file:/a\nb".into());
    report.edges.owns.push(Asset::new("unit", ""));
    let mut text = Vec::new();
    report.write(&mut text, 4);
    let expected = "ENTITY: a:b\nACTION: Skipping (x\\n== y is false)\nREQUIRES: file:/a\\nb\nwith: one\\ntwo\n";
    assert_eq!(text.as_bstr(), expected);
}

#[test]
fn reports_every_bad_line() {
    assert_eq!(
        parse("\nfound in: x\nnonsense\nENTITY:x\nENTITY: \nENTITY: a\n: no key\n"),
        Err(vec![
            "line 2: expected entity ID, found attribute \"found in: x\"".into(),
            "line 3: parse error (line was \"nonsense\")".into(),
            "line 4: parse error (line was \"ENTITY:x\")".into(),
            "line 5: parse error (line was \"ENTITY: \")".into(),
            "line 7: parse error (line was \": no key\")".into(),
        ])
    );
}

#[test]
fn an_empty_report_has_no_entities() {
    assert_eq!(parse(""), Ok(vec![]));
    assert_eq!(parse("\n\n"), Ok(vec![]));
}

#[test]
fn ids_need_not_be_utf8() {
    let entities = EntityReport::parse_all(b"ENTITY: file:/caf\xe9\n", 3).unwrap();
    assert_eq!(entities[0].id, &b"file:/caf\xe9"[..]);
}
