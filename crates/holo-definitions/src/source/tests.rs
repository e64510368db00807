//! Tests of parsing a file table by table: the result equals that of parsing the whole file, or is `None`.

use super::*;
use crate::outline::tests::file;
use holo_testing::random;

const TABLES: &[&str] = &["thing", "other"];

fn sources(text: &str) -> Sources {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("1.toml"), folder.path().join("2.toml"));
    fs::write(one, "# The places in the second file begin after this.\n").unwrap();
    fs::write(two, text).unwrap();
    Sources::read(&folder.path().to_owned().into(), &crate::testing::NoTemplates).0
}

/// Returns the tables of the last file with their spans, parsed as a whole; `None` if the file has errors.
fn whole(sources: &Sources) -> Option<Vec<String>> {
    let parsed = sources.0.last()?.parse().ok().filter(|parsed| parsed.duplicates.is_empty())?;
    let mut tables = Vec::new();
    for (key, value) in parsed.table.into_inner() {
        let DeValue::Array(list) = value.into_inner() else { return None };
        tables.extend(list.into_iter().map(|table| (key.get_ref().clone(), table)));
    }
    tables.sort_by_key(|(_, table)| table.span().start);
    tables
        .into_iter()
        .map(|(key, table)| Some(format!("{key} {} {:?}", table.span().start, table.get_ref().as_table()?)))
        .collect()
}

fn by_table(sources: &Sources) -> Option<Vec<String>> {
    let tables = sources.0.last()?.parse_by_table(|table| TABLES.contains(&table))?;
    let shown = |(name, table): (&str, CompactTable<'_>)| {
        let table = table.into_table();
        format!("{name} {} {:?}", table.span().start, table.get_ref())
    };
    Some(tables.into_iter().map(shown).collect())
}

#[test]
fn tables_are_read_one_by_one_as_they_are_all_at_once() {
    random::cases(1000, |random| {
        let text = file(random);
        let sources = sources(&text);
        assert_eq!(by_table(&sources), whole(&sources).filter(|tables| !tables.is_empty()), "{text}");
    });
}

#[test]
fn a_file_in_which_something_is_wrong_is_read_as_a_whole() {
    const ODD: &[&str] = &["\"", "'", "\"\"\"", "#", "\n", "[", "]", "=", "\u{1}", "name = 1\n"];
    random::cases(3000, |random| {
        let mut text = file(random);
        let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
        if places.is_empty() {
            return;
        }
        let place = *random.pick(&places);
        match random.below(3) {
            0 => drop(text.remove(place)),
            1 => text.insert_str(place, random.pick::<&str>(ODD)),
            _ => text.truncate(place),
        }
        let sources = sources(&text);
        let read = by_table(&sources);
        assert!(read.is_none() || read == whole(&sources), "{text}\n{read:?}");
    });
}

#[test]
fn a_file_with_an_unknown_table_or_a_key_twice_is_read_as_a_whole() {
    for text in ["[[thing]]\n[[thigh]]\n", "[[thing]]\nname = 1\nname = 2\n", "[[thing]]\n# \u{1}\n[[thing]]\n"] {
        assert_eq!(by_table(&sources(text)), None, "{text}");
    }
    assert_eq!(by_table(&sources("[[thing]]\n[[other]]\n")).map(|tables| tables.len()), Some(2));
}

#[test]
fn a_line_is_counted_wherever_it_is_in_a_long_file() {
    random::cases(50, |random| {
        let folder = tempfile::tempdir().unwrap();
        let mut texts = Vec::new();
        for name in ["a.toml", "b.toml"] {
            let lines = (0..random.below(300)).map(|_| "x".repeat(*random.pick(&[0, 1, 20, 1500])) + "\n");
            texts.push(lines.collect::<String>());
            fs::write(folder.path().join(name), texts.last().unwrap()).unwrap();
        }
        let (sources, unread) = Sources::read(&folder.path().to_owned().into(), &crate::testing::NoTemplates);
        assert!(unread.is_empty());
        let whole = texts.join(" ");
        for _ in 0..100 {
            let at = random.below(whole.len() + 1);
            let (name, before) = match at.checked_sub(texts[0].len() + 1) {
                Some(within) => ("b.toml", &texts[1][..within]),
                None => ("a.toml", &texts[0][..at]),
            };
            let line = 1 + before.matches('\n').count();
            let expected = format!("{}:{line}", folder.path().join(name).display());
            assert_eq!(sources.location(&(at..at)).to_string(), expected, "{at}");
        }
    });
}

#[test]
fn expressions_in_plain_files_are_doubtful() {
    let findings = |name: &str, text: &str| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), text).unwrap();
        let (_, findings) = Sources::read(&folder.path().to_owned().into(), &crate::testing::NoTemplates);
        let shown = |finding: &Finding| match finding {
            Finding::Unrendered(warning) => warning.to_string().replace(&folder.path().display().to_string(), ""),
            other => format!("{other:?}"),
        };
        findings.iter().map(shown).collect::<Vec<_>>()
    };
    let doubt = "/x.toml:3: {{ }} has no effect here: rename the file to .toml.jinja to make it a template, \
        or write {\\u007B to keep the braces";
    assert_eq!(findings("x.toml", "# {{ a }}\n[[thing]]\nname = \"{{ port }}\"\n"), [doubt]);
    for other in ["{{", "docker ps --format {{.Names}}", "{{json .}}", "{{ range .Mounts }}", "find -exec x {} +"] {
        assert!(findings("x.toml", &format!("name = '{other}'\n")).is_empty(), "{other}");
    }
    assert!(findings("x.toml", "vars.url = '{{ host }}/x'\nvars = { url = '{{ host }}/x' }\n").is_empty());
}
