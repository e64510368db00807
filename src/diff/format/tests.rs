//! Tests of the format.

use super::*;
use crate::diff::{Content, Side};
use bstr::ByteSlice;

fn text(content: impl AsRef<[u8]>) -> Content {
    Content::File { content: content.as_ref().to_vec(), mode: 0o644 }
}

fn executable(content: &str) -> Content {
    Content::File { content: content.into(), mode: 0o755 }
}

fn link(target: &str) -> Content {
    Content::Symlink { target: target.into() }
}

#[track_caller]
fn check(old: Content, new: Content, expected: &str) {
    check_named("a", old, "/b", new, expected);
}

#[track_caller]
fn check_named(old_name: &str, old: Content, new_name: &str, new: Content, expected: &str) {
    let old = Side { name: old_name.into(), content: old };
    let new = Side { name: new_name.into(), content: new };
    assert_eq!(render(&old, &new).as_bstr(), expected);
}

#[test]
fn equal_sides_have_an_empty_difference() {
    check(Content::Missing, Content::Missing, "");
    check(text("x\n"), text("x\n"), "");
    check(text("\0"), text("\0"), "");
    check(link("x"), link("x"), "");
}

#[test]
fn texts_are_compared_by_lines() {
    let expected = "diff --holo a /b\n--- a\n+++ /b\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n";
    check(text("x\ny\n"), text("x\nz\n"), expected);
    let expected = "diff --holo a /b\n--- a\n+++ /b\n@@ -0,0 +1 @@\n+x\n";
    check(text(""), text("x\n"), expected);
}

#[test]
fn missing_newline_is_noted() {
    let expected = "diff --holo a /b\n--- a\n+++ /b\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+x\n";
    check(text("x"), text("x\n"), expected);
    let expected = "diff --holo a /b\n--- a\n+++ /b\n@@ -1 +1 @@\n-x\n+x\n\\ No newline at end of file\n";
    check(text("x\n"), text("x"), expected);
    let end = "\\ No newline at end of file\n";
    let expected = format!("diff --holo a /b\n--- a\n+++ /b\n@@ -1,2 +1 @@\n-y\n x\n{end}");
    check(text("y\nx"), text("x"), &expected);
}

#[test]
fn new_and_deleted_files_use_dev_null() {
    let expected = "diff --holo a /b\nnew file mode 100644\n--- /dev/null\n+++ /b\n@@ -0,0 +1 @@\n+x\n";
    check(Content::Missing, text("x\n"), expected);
    let expected = "diff --holo a /b\ndeleted file mode 100755\n--- a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
    check(executable("x\n"), Content::Missing, expected);
    check(Content::Missing, text(""), "diff --holo a /b\nnew file mode 100644\n");
    check(executable(""), Content::Missing, "diff --holo a /b\ndeleted file mode 100755\n");
}

#[test]
fn mode_change_is_shown_with_and_without_content() {
    let modes = "diff --holo a /b\nold mode 100644\nnew mode 100755\n";
    check(text("x\n"), executable("x\n"), modes);
    let expected = format!("{modes}--- a\n+++ /b\n@@ -1 +1 @@\n-x\n+y\n");
    check(text("x\n"), executable("y\n"), &expected);
}

#[test]
fn all_bits_of_a_mode_are_shown() {
    let file = |mode| Content::File { content: b"x\n".to_vec(), mode };
    check(file(0o640), file(0o4755), "diff --holo a /b\nold mode 100640\nnew mode 104755\n");
    check(
        file(0o600),
        Content::Missing,
        "diff --holo a /b\ndeleted file mode 100600\n--- a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
    );
    let directory = |mode| Content::Directory { mode };
    check(directory(0o750), directory(0o1777), "diff --holo a /b\nold mode 040750\nnew mode 041777\n");
    check(directory(0o750), directory(0o750), "");
    let expected = "diff --holo a /b\ndeleted file mode 040750\ndiff --holo a /b\nnew file mode 120000\n";
    let expected = format!("{expected}--- /dev/null\n+++ /b\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n");
    check(directory(0o750), link("x"), &expected);
}

#[test]
fn binary_files_only_differ() {
    check(text("\0"), text("x"), "diff --holo a /b\nBinary files a/a and b/b differ\n");
    let expected = "diff --holo a /b\nnew file mode 100644\nBinary files /dev/null and b/b differ\n";
    check(Content::Missing, text("\0"), expected);
    let expected = "diff --holo a /b\ndeleted file mode 100644\nBinary files a/a and /dev/null differ\n";
    check(text("\0"), Content::Missing, expected);
    let expected = "diff --holo /x/a \"b\\\"\"\nBinary files a/x/a and \"b/b\\\"\" differ\n";
    check_named("/x/a", text("\0"), "b\"", text("x"), expected);
}

#[test]
fn late_nul_does_not_make_a_file_binary() {
    let mut content = vec![b'\n'; 8000];
    content[7999] = 0;
    assert!(is_binary(&content));
    content[7999] = b'\n';
    content.push(0);
    assert!(!is_binary(&content));
}

#[test]
fn symlinks_are_compared_by_their_targets() {
    let end = "\\ No newline at end of file\n";
    let expected = format!("diff --holo a /b\n--- a\n+++ /b\n@@ -1 +1 @@\n-x\n{end}+y\n{end}");
    check(link("x"), link("y"), &expected);
    let expected = format!("diff --holo a /b\nnew file mode 120000\n--- /dev/null\n+++ /b\n@@ -0,0 +1 @@\n+y\n{end}");
    check(Content::Missing, link("y"), &expected);
}

#[test]
fn type_change_is_a_deletion_and_a_creation() {
    let expected = "\
diff --holo a /b
deleted file mode 100644
--- a
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --holo a /b
new file mode 120000
--- /dev/null
+++ /b
@@ -0,0 +1 @@
+x
\\ No newline at end of file
";
    check(text("x\n"), link("x"), expected);
    let expected = "\
diff --holo a /b
deleted file mode 120000
--- a
+++ /dev/null
@@ -1 +0,0 @@
-x
\\ No newline at end of file
diff --holo a /b
new file mode 100755
";
    check(link("x"), executable(""), expected);
}

#[test]
fn special_names_are_quoted() {
    let expected = "diff --holo a b \"c\\\"\\t\\001\\\\\"\n--- a b\n+++ \"c\\\"\\t\\001\\\\\"\n@@ -1 +1 @@\n-x\n+y\n";
    check_named("a b", text("x\n"), "c\"\t\u{1}\\", text("y\n"), expected);
    let expected = "diff --holo é \"\\177 é\"\n--- é\n+++ \"\\177 é\"\n@@ -1 +1 @@\n-x\n+y\n";
    check_named("é", text("x\n"), "\u{7f} é", text("y\n"), expected);
}

#[test]
fn texts_have_a_short_header() {
    let difference = render_texts("a".into(), b"x\n", "b c".into(), b"y\n");
    assert_eq!(difference.as_bstr(), "--- a\n+++ b c\n@@ -1 +1 @@\n-x\n+y\n");
    assert_eq!(render_texts("a".into(), b"x\n", "b".into(), b"x\n"), b"");
}
