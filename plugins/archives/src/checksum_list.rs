//! Lists of checksums, as `sha256sum` and others write them.

use holo_download::Checksum;

/// Returns the checksum that a list has of a file with this name. A list that is nothing but a checksum is of any file.
pub(crate) fn find(list: &str, name: &str) -> Option<Checksum> {
    let mut lines = list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    if let Some(only) = lines.clone().next().filter(|_| lines.clone().count() == 1)
        && let Some(checksum) = checksum(only)
    {
        return Some(checksum);
    }
    lines.find_map(|line| in_line(line, name))
}

/// Parses `DIGITS  NAME`, `DIGITS *NAME`, and `SHA256 (NAME) = DIGITS`.
fn in_line(line: &str, name: &str) -> Option<Checksum> {
    let (digits, of) = match line.split_once(" (").and_then(|(_, rest)| rest.rsplit_once(") = ")) {
        Some((of, digits)) => (digits, of),
        None => line.split_once(char::is_whitespace)?,
    };
    let of = of.trim_start().trim_start_matches('*');
    let of = of.rsplit('/').next().unwrap_or(of);
    checksum(digits.trim()).filter(|_| of == name)
}

/// Returns a checksum by the number of its digits.
fn checksum(digits: &str) -> Option<Checksum> {
    let algorithm = match digits.len() {
        64 => "sha256",
        128 => "sha512",
        _ => return None,
    };
    format!("{algorithm}:{digits}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_list_is_read() {
        let (one, other, long) = ("1".repeat(64), "2".repeat(64), "a".repeat(128));
        let found = |list: &str| find(list, "app.tar").map(|checksum| checksum.to_string());
        let expected = Some(format!("sha256:{one}"));
        assert_eq!(found(&format!("{other}  app.tar.gz\n{one}  app.tar\n")), expected);
        assert_eq!(found(&format!("{other} *other\n{one} *./dist/app.tar\n")), expected);
        assert_eq!(found(&format!("# of today\n\nSHA256 (app.tar) = {one}\nSHA256 (b) = {other}\n")), expected);
        assert_eq!(found(&format!("{one}\n")), expected);
        assert_eq!(found(&format!("{long}  app.tar\n")), Some(format!("sha512:{long}")));
        for wrong in [String::new(), format!("{one}  app\n"), format!("{one}\n{other}\n"), "12  app.tar\n".to_owned()] {
            assert_eq!(found(&wrong), None, "{wrong}");
        }
    }
}
