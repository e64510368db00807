//! Tests with unusual tables of dnf, versions 4 and 5.

use super::*;

const VERSION_4: &str = "\
Dependencies resolved.
================================================================================
 Package          Architecture        Version             Repository       Size
================================================================================
Installing:
 a-package-with-a-name-that-is-much-too-long-for-any-column
                  noarch              1.0-1               ci              6.2 k
 heir             noarch              1.0-1               ci              6.2 k
     replacing  baz.noarch 1.0-1
Upgrading:
 foo              noarch              2:1.1-1             ci              6.2 k
Downgrading:
 old              noarch              1.0-1               ci              6.2 k
Removing dependent packages:
 bar              noarch              1.0-1               @ci              15 

Transaction Summary
================================================================================
Install  2 Packages
";

const VERSION_5: &str = "\
Package  Arch   Version        Repository      Size
Upgrading:
 foo     noarch 0:1.1-1.fc41   updates     12.0 KiB
   replacing foo noarch 0:1.0-1.fc41 fedora 12.0 KiB
Installing:
 heir    noarch 0:1.0-1.fc41   fedora      12.0 KiB
   replacing baz noarch 0:1.0-1.fc41 fedora 12.0 KiB
Removing:
 bar     noarch 0:1.0-1.fc41   fedora      12.0 KiB

Transaction Summary:
 Upgrading: 1 package
";

fn steps(text: &str) -> Vec<String> {
    let told = |step: Step| format!("{} {} {}", step.name, step.from.unwrap_or_default(), step.to.unwrap_or_default());
    read_table(text).into_iter().map(told).collect()
}

#[test]
fn tables_are_parsed() {
    let long = "a-package-with-a-name-that-is-much-too-long-for-any-column  1.0-1";
    assert_eq!(steps(VERSION_4), [long, "heir  1.0-1", "baz 1.0-1 ", "foo  2:1.1-1", "old  1.0-1", "bar 1.0-1 "]);
    assert_eq!(steps(VERSION_5), ["foo  1.1-1.fc41", "heir  1.0-1.fc41", "baz 1.0-1.fc41 ", "bar 1.0-1.fc41 "]);
}

#[test]
fn locks_are_parsed() {
    let text = "# Added lock on Sat\nfoo-0:1.0-1.*\n!bar-0:1.0-1.*\na-b-c-2:3-4.*\nnonsense\n";
    assert_eq!(locked(text).collect::<Vec<_>>(), ["foo", "a-b-c"]);
}

#[test]
fn locks_of_version_5_are_parsed() {
    let text = "version = \"1.0\"\n[[packages]]\nname = \"foo\"\ncomment = \"x\"\n[[packages.conditions]]\nkey = \"evr\"\n\
        comparator = \"=\"\nvalue = \"1.0-1\"\n[[packages]]\nname = \"bar\"\n[[packages.conditions]]\nkey = \"evr\"\n\
        comparator = \"!=\"\nvalue = \"2-1\"\n";
    assert_eq!(locked_by_5(text).unwrap(), ["foo"]);
    assert!(locked_by_5("").unwrap().is_empty());
    assert!(locked_by_5("packages = 1").is_err());
}
