//! Tests with output of zypper from manuals and runs. `tests/it/rpm.rs` tests more where zypper is installed.

use super::*;

const SUMMARY: &str = r#"<?xml version='1.0'?>
<stream>
<message type="info">Resolving package dependencies...</message>
<install-summary download-size="12709" space-usage-diff="30" packages-to-change="5">
<to-install><solvable type="package" name="bar" edition="1.0-1" arch="noarch" summary="t"><description>t</description></solvable></to-install>
<to-upgrade><solvable type="package" name="foo" edition="0:1.1-1" arch="noarch" edition-old="1.0-1" arch-old="noarch"/></to-upgrade>
<to-downgrade><solvable type="package" name="old" edition="1.0-1" arch="noarch" edition-old="2:0.9-1" arch-old="noarch"/></to-downgrade>
<to-remove><solvable type="package" name="baz" edition="1.0-1" arch="noarch"/><solvable type="patch" name="x" edition="1"/></to-remove>
</install-summary>
</stream>
"#;

const SEARCH: &str = r#"<?xml version='1.0'?>
<stream>
<search-result version="0.0"><solvable-list>
<solvable status="installed" name="foo" kind="package" edition="1.1-1" arch="noarch" repository="(System Packages)"/>
<solvable status="other-version" name="foo" kind="package" edition="1.0-1" arch="noarch" repository="main"/>
<solvable status="other-version" name="foo" kind="package" edition="2:0.9-1" arch="noarch" repository="main"/>
<solvable status="other-version" name="foo" kind="package" edition="2:0.9-1" arch="i586" repository="main"/>
<solvable status="not-installed" name="foo" kind="pattern" edition="9-1" arch="noarch" repository="main"/>
</solvable-list></search-result>
</stream>
"#;

#[test]
fn simulation_is_parsed() {
    let steps: Vec<String> = read_summary(SUMMARY)
        .unwrap()
        .into_iter()
        .map(|step| format!("{} {} {}", step.name, step.from.unwrap_or_default(), step.to.unwrap_or_default()))
        .collect();
    assert_eq!(steps, ["bar  1.0-1", "foo 1.0-1 1.1-1", "old 2:0.9-1 1.0-1", "baz 1.0-1 "]);
    assert!(read_summary("no XML").is_err());
}

#[test]
fn offers_are_parsed() {
    let any = Key { name: "foo".to_owned(), arch: None };
    let other = Key { name: "foo".to_owned(), arch: Some("i586".to_owned()) };
    let offers = read_offers(SEARCH, &[&any, &other]).unwrap();
    assert_eq!(offers[&any].versions, ["2:0.9-1", "1.0-1"]);
    assert_eq!(offers[&any].candidate.as_deref(), Some("2:0.9-1"));
    assert_eq!(offers[&other].versions, ["2:0.9-1"]);
}

#[test]
fn locks_of_all_versions_are_parsed() {
    let text = "\ntype: package\nmatch_type: glob\ncase_sensitive: on\nsolvable_name: foo\n\n\
        type: package\nmatch_type: glob\nsolvable_name: bar\nversion: > 1\n";
    assert_eq!(locked(text).collect::<Vec<_>>(), ["foo"]);
}
