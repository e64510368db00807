//! Tests of the validation.
use super::*;
use serde_json::{Map, Value};

const VECTORS: &str = include_str!("vectors.tsv");

/// Rows that contradict holo-archives(8), by property, value and note.
const OVERRULED: [(&str, &str, &str); 11] = [
    // The format is detected from the content, regardless of the name.
    ("url", "\"https://example.com/archive.exe\"", "url with .exe extension"),
    ("url", "\"https://example.com/archive.tar.xz\"", "url with .tar.xz extension"),
    ("path", "\"/tmp/archive.bin\"", "name with invalid extension"),
    ("url", "\"https://example.com/archive.tar.gz\"", "tar.gz url with zip name"),
    ("url", "\"https://example.com/archive.zip\"", "zip url with tar.gz name"),
    ("url", "\"https://example.com/archive.tar\"", "tar url with tar.gz name"),
    ("url", "\"https://example.com/archive.tar.gz\"", "tar.gz url with tar name"),
    // Extraction is recorded even without `creates`.
    ("cleanup", "true", "cleanup without creates"),
    // Paths must be absolute, and ftp is not supported.
    ("extract_to", "\"opt/app\"", "derived from code"),
    ("creates", "\"app/bin\"", "derived from code"),
    ("url", "\"ftp://example.com/archive.tar.gz\"", "derived"),
];

fn read(definition: &Map<String, Value>) -> Result<(), String> {
    let text = toml::to_string(&Value::Object(definition.clone())).unwrap();
    let archive: Archive = toml::from_str(&text).map_err(|error| error.message().to_owned())?;
    archive.invalid().first().map_or(Ok(()), |invalid| Err(format!("{invalid:?}")))
}

#[test]
fn the_vectors_are_followed_unless_overruled() {
    let mut overruled = 0;
    for row in VECTORS.lines().skip(1) {
        let fields: Vec<&str> = row.split('\t').collect();
        let [property, value, expected, context, note] = fields[..] else { panic!("{row}") };
        let mut definition: Map<String, Value> = serde_json::from_str(context).unwrap();
        definition.insert(property.to_owned(), serde_json::from_str(value).unwrap());
        let is_overruled = OVERRULED.contains(&(property, value, note));
        overruled += usize::from(is_overruled);
        let valid = (expected == "valid") != is_overruled;
        let result = read(&definition);
        assert_eq!(result.is_ok(), valid, "{row}: {result:?}");
    }
    assert_eq!(overruled, OVERRULED.len());
}

fn with(lines: &str) -> Result<Archive, String> {
    let text = format!("path = \"/srv/app.tgz\"\n{lines}");
    let archive: Archive = toml::from_str(&text).map_err(|error| error.message().to_owned())?;
    archive.invalid().first().map_or(Ok(()), |invalid| Err(format!("{invalid:?}")))?;
    Ok(archive)
}

#[test]
fn what_cannot_be_is_named() {
    let url = "url = \"https://example.org/app.tgz\"";
    for (lines, key) in [
        ("", "url"),
        ("urll = \"https://example.org/x\"", "urll"),
        (&format!("{url}\nmirrors = [\"ftp://example.org/x\"]"), "mirrors"),
        (&format!("{url}\nusername = \"fred\""), "username"),
        (&format!("{url}\npassword = \"secret\""), "password"),
        (&format!("{url}\npassword_file = \"/etc/secret\""), "password_file"),
        (&format!("{url}\nusername = \"f\"\npassword = \"secret\"\npassword_file = \"/x\""), "password"),
        (&format!("{url}\nusername = \"fred:x\"\npassword = \"secret\""), "username"),
        ("url = \"https://a:secret@example.org/x\"\nusername = \"f\"\npassword = \"secret\"", "username"),
        ("url = \"https://fred@example.org/x\"", "url"),
        (&format!("{url}\nheaders = {{ \"X Y\" = \"secret\" }}"), "headers"),
        (&format!("{url}\nheaders = {{ X = \"secret\\nY: z\" }}"), "headers"),
        (&format!("{url}\nheaders = {{ Range = \"bytes=0-\" }}"), "headers"),
        (&format!("{url}\nchecksum = \"sha256:abc\""), "checksum"),
        (&format!("{url}\nchecksum = \"md5:d41d8cd98f00b204e9800998ecf8427e\""), "checksum"),
        (&format!("{url}\nmode = \"888\""), "mode"),
        (&format!("{url}\nmode = \"\""), "mode"),
        (&format!("{url}\nmode = \"00017777\""), "mode"),
        (&format!("{url}\nmode = 644"), "invalid type"),
        (&format!("{url}\nowner = \"-x\""), "owner"),
        (&format!("{url}\ncleanup = true"), "cleanup"),
        (&format!("{url}\nstrip_components = 1"), "strip_components"),
        (&format!("{url}\nextract_to = \"/opt//app\""), "extract_to"),
        (&format!("{url}\nextract_to = \"/opt/app/\""), "extract_to"),
    ] {
        let wrong = with(lines).unwrap_err();
        assert!(wrong.contains(key), "{lines}: {wrong}");
        assert!(!wrong.contains("secret"), "{wrong}");
    }
}

#[test]
fn modes_are_octal_however_they_are_written() {
    for (text, mode) in
        [("644", 0o644), ("0644", 0o644), ("0o640", 0o640), ("0O755", 0o755), ("4755", 0o4755), ("0", 0)]
    {
        let archive = with(&format!("url = \"file:///x\"\nmode = \"{text}\"")).unwrap();
        assert_eq!(archive.mode(), mode, "{text}");
    }
    assert_eq!(with("url = \"file:///x\"").unwrap().mode(), 0o644);
    assert_eq!(with("ensure = \"absent\"").unwrap().addresses().len(), 0);
}

#[test]
fn a_definition_does_not_show_its_secrets() {
    let archive = with("url = \"https://a:secret@example.org/x\"\nheaders = { X = \"secret\" }").unwrap();
    assert!(!format!("{archive:?}").contains("secret"));
}

#[test]
fn the_schema_is_that_of_the_types() {
    let schema = holo_plugin::definitions::schema::<Archive>("Definitions of holo's plugin archives");
    holo_testing::schema_is_kept("holo-archives.schema.json", &schema);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let valid =
        |text: &str| validator.is_valid(&serde_json::to_value(toml::from_str::<toml::Value>(text).unwrap()).unwrap());
    let good = "[[archive]]\npath = \"/x\"\nurl = \"file:///x\"\ntimeout = \"5m\"\nheaders = { A = \"b\" }\n";
    assert!(valid(good));
    assert!(!valid(&good.replace("url", "urll")) && !valid(&good.replace("{ A = \"b\" }", "3")));
}
