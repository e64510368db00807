//! `holo report`: the page shows everything except sensitive data, and does not let a browser interpret any of it.

use bstr::ByteSlice;
use holo_testing::require::HTML_VALIDATE;
use holo_testing::{Run, ScratchRoot, binaries::built, page_is_valid, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::PermissionsExt;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = holo_testing::trials![
        page_shows_changes_findings_and_runs,
        names_and_contents_are_escaped,
        page_contains_no_secrets,
        page_of_many_entities_is_limited,
        long_difference_is_truncated,
        without_configuration_a_page_is_written,
        page_file_is_private
    ];
    trials.push(trial_of("pages_are_valid", &[HTML_VALIDATE], pages_are_valid));
    trials
}

const STYLE_END: &str = "</style>";

/// Returns a machine with one file of each kind: one with pending changes, one with manual changes, and a sensitive
/// one.
fn machine() -> ScratchRoot {
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .plugin("users-groups")
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/motd", "stock\n")
        .file("etc/issue", "stock\n")
        .file("etc/passwd", "")
        .file("etc/group", "")
        .resource("files/10-x/etc/motd", "own\n")
        .resource("users-groups/x.toml", "[[group]]\nname = \"web\"\n[[user]]\nname = \"web\"\ngroup = \"web\"\n");
    assert!(root.holo(&["apply", "files"]).success());
    root.write("etc/motd", "own\nedited by jane\n");
    fs::create_dir_all(root.join("usr/share/holo/files/20-y/etc")).unwrap();
    root.write("usr/share/holo/files/20-y/etc/issue", "pending\n");
    let secret = "[[file]]\npath = \"/etc/key\"\ncontent = \"xyzzy-secret\"\nsensitive = true\nmode = \"0600\"\n";
    root.write("usr/share/holo/files/key.toml", secret);
    root
}

/// Entity IDs with characters that are special for browsers and terminals, in printf notation.
const HOSTILE: &str = r#"#!/bin/sh
case $1 in
info) printf 'MIN_API_VERSION=4\nMAX_API_VERSION=4\nDOCTOR=1\n' ;;
scan)
    printf 'ENTITY: x:<script>alert(1)</script>\nSOURCE: /a"b'"'"'&lt;\nBEFORE: x:b\n'
    printf 'ENTITY: x:b\nSOURCE: /\342\200\256cod.exe\n'
    printf 'ENTITY: x:\327\220\327\221\n'
    printf 'ENTITY: x:\033[31m\007\177\302\205\n'
    printf 'ENTITY: x:\377\376\357\277\277\n'
    printf 'ENTITY: x:{{ 7 * 7 }}{%% raw %%}\n' ;;
check)
    printf '!! </pre></details><img src=x onerror=alert(1)>\033[0m\n' >&2
    printf 'would change: would write </span><script src=//evil></script>\n' >&3 ;;
preview)
    printf '<b>\033]0;evil\007\377</pre><script>\n' >"$HOLO_CACHE_DIR/to"
    printf '%s\0%s\0' "$HOLO_ROOT_DIR/etc/none" "$HOLO_CACHE_DIR/to" >&3 ;;
doctor) printf 'error\t<script>alert(2)</script>\t<a href="javascript:alert(3)">mend</a>\n' >&3 ;;
esac
"#;

fn hostile() -> ScratchRoot {
    ScratchRoot::new()
        .binary(built("holo"))
        .holorc("plugin x\n")
        .script("usr/lib/holo/holo-x", HOSTILE)
        .dir("usr/share/holo/x")
}

fn page(root: &ScratchRoot) -> String {
    let run: Run = root.holo(&["report"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    String::from_utf8(run.stdout.to_vec()).unwrap()
}

/// Returns the page without the style sheet.
fn body(page: &str) -> &str {
    page.split_once(STYLE_END).unwrap().1
}

fn page_shows_changes_findings_and_runs() {
    let page = page(&machine()).replace("&#x2f;", "/");
    for text in [
        "5 of 5 entities are not as desired",
        "edited by jane",
        "<span class=\"add\">+pending",
        "<h3>users-groups</h3>",
        "usr/share/holo/files/20-y/etc/issue",
        "<svg ",
        "no interrupted run has left files behind",
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    for elsewhere in ["http://", "https://", "src=", "<script", "@import", "url("] {
        let rest = page.replace("http://www.w3.org/2000/svg", "").replace("url(#", "");
        assert!(!rest.contains(elsewhere), "{elsewhere}\n{page}");
    }
}

fn names_and_contents_are_escaped() {
    let page = page(&hostile());
    let body = body(&page);
    for bad in ["<script", "<img", "<b>", "href=\"javascript", "</pre><", "onerror=alert(1)>"] {
        assert!(!body.contains(bad), "{bad}\n{body}");
    }
    assert!(body.contains("x:&lt;script&gt;alert(1)"), "{body}");
    assert!(body.contains("x:{{ 7 * 7 }}{% raw %}"), "{body}");
    assert!(body.contains("<bdi>x:אב</bdi>"), "{body}");
    let is_bad = |letter: char| (letter.is_control() && letter != '\n') || ('\u{202a}'..='\u{202e}').contains(&letter);
    assert_eq!(page.chars().find(|letter| is_bad(*letter)), None);
}

fn page_contains_no_secrets() {
    let root = machine();
    assert!(!page(&root).contains("xyzzy"));
    assert!(root.holo(&["apply", "file:/etc/key"]).success());
    assert!(!page(&root).contains("xyzzy"));
    root.write("etc/key", "plugh-secret");
    let page = page(&root);
    assert!(page.contains("file:/etc/key") && !page.contains("xyzzy") && !page.contains("plugh"), "{page}");
}

fn page_of_many_entities_is_limited() {
    let many = r#"#!/bin/sh
case $1 in
info) printf 'MIN_API_VERSION=4\nMAX_API_VERSION=4\nSESSION=1\n' ;;
session)
    while read -r line; do
        number=${line#*:}; number=${number%%,*}
        case $line in
        *'"scan"'*) awk -v n="$number" 'BEGIN { for (i = 0; i < 30000; i++) printf "{\"answer\":\"report\",\"request\":%d,\"text\":\"ENTITY: x:%05d-%080d\\nSOURCE: ////////////////////%060d\\n\"}\n", n, i, 0, i }' ;;
        *'"check"'*) awk -v n="$number" 'BEGIN { for (i = 0; i < 30000; i++) printf "{\"answer\":\"result\",\"request\":%d,\"entity\":\"x:%05d-%080d\",\"messages\":[\"would change: x\"],\"result\":\"done\"}\n", n, i, 0 }' ;;
        esac >&3
        printf '{"answer":"end","request":%d,"result":"done"}\n' "$number" >&3
    done ;;
esac
"#;
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .holorc("plugin x\n")
        .script("usr/lib/holo/holo-x", many)
        .dir("usr/share/holo/x");
    let page = page(&root);
    assert!(page.len() < 5_000_000, "{}", page.len());
    assert!(page.contains("30,000</span> would change") && page.contains("29,500 more are in the"));
    assert!(page.contains(" more: <code>holo scan x</code>") && page.ends_with("</html>"));
}

fn long_difference_is_truncated() {
    let root = machine();
    root.write("usr/share/holo/files/20-y/etc/issue", "line\n".repeat(100_000));
    let page = page(&root);
    assert!(page.len() < 200_000, "{}", page.len());
    assert!(page.contains(" more lines: <code>"), "{page}");
}

fn without_configuration_a_page_is_written() {
    let root = ScratchRoot::new().binary(built("holo"));
    fs::remove_file(root.join("etc/holorc")).ok();
    let page = page(&root);
    assert!(page.contains("Something is wrong: 1 error was found."), "{page}");
    assert!(page.contains("cannot parse configuration: open"), "{page}");
}

fn page_file_is_private() {
    let root = machine();
    for _ in 0..2 {
        let run = root.holo(&["report", "--output", "page.html"]);
        assert!(run.success() && run.stdout.is_empty(), "{run}");
        let metadata = fs::metadata(root.join("page.html")).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        assert!(root.read("page.html").starts_with(b"<!DOCTYPE html>"));
    }
    let run = root.holo(&["report", "--output", "none/page.html"]);
    assert_eq!(run.status, Some(255), "{run}");
    assert!(run.stderr.contains_str("!! write none/page.html: no such file or directory"), "{run}");
    assert_eq!(fs::read_dir(root.path()).unwrap().filter(|entry| is_new(entry.as_ref().unwrap())).count(), 0);
}

fn is_new(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().ends_with(".new")
}

fn pages_are_valid() {
    let empty = ScratchRoot::new().binary(built("holo")).holorc("# nothing\n");
    for root in [machine(), hostile(), empty] {
        page_is_valid(&page(&root));
    }
}
