//! The contents of the page, which a template lays out.

use super::{Collected, Looked, RunRow};
use crate::discovery::inventory::Inventory;
use crate::entities::Entity;
use crate::host::settings::Settings;
use crate::report::{End, Finding};
use bstr::ByteSlice;
use holo_facts::page::{self, PageError, safe};
use holo_protocol::Level;
use jiff::Timestamp;
use minijinja::value::Value;
use serde::Serialize;
use std::path::Path;

const TEMPLATE: &str = include_str!("page.html");
/// The number of entities that are shown with their changes. The others appear only in the list of all entities.
const MOST_SHOWN: usize = 500;
/// The maximum size, in bytes, of that list.
const ROOM_FOR_ROWS: usize = 3 << 20;
/// Lists of up to this length are shown expanded.
const FEW: usize = 50;

/// The plan as a picture.
pub(super) enum Plan {
    /// SVG.
    Picture(String),
    /// Too many entities depend on each other for a readable picture.
    TooLarge(usize),
    /// There are no edges to draw.
    Nothing,
}

/// Everything on the page.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    host: String,
    root: Option<String>,
    version: &'static str,
    time: String,
    machine_time: String,
    total: usize,
    unchanged: usize,
    /// Entities that would be changed, or whose plugin cannot tell.
    pending: Group,
    /// Entities with manual changes, including deletions.
    edited: Group,
    /// Entities that fail, or are in conflict.
    failed: Group,
    skipped: Group,
    errors: Vec<FindingRow>,
    warnings: Vec<FindingRow>,
    fine: Vec<FindingRow>,
    runs: Vec<RunRow>,
    picture: Option<Value>,
    too_large: Option<usize>,
    plugins: Vec<PluginRows>,
    is_short: bool,
}

/// Entities with the same outcome.
#[derive(Debug, Default, Serialize)]
struct Group {
    count: usize,
    shown: Vec<Item>,
}

/// An entity and its pending changes.
#[derive(Debug, Serialize)]
struct Item {
    id: String,
    sources: Vec<String>,
    words: Vec<String>,
    output: String,
    diffs: Vec<Diff>,
}

#[derive(Debug, Serialize)]
struct FindingRow {
    check: String,
    title: String,
    remedy: String,
}

/// The entities of a plugin.
#[derive(Debug, Serialize)]
struct PluginRows {
    id: String,
    count: usize,
    rows: Vec<Row>,
    /// The number of omitted entities.
    left_out: usize,
}

#[derive(Debug, Serialize)]
struct Row {
    id: String,
    source: String,
    state: &'static str,
    tone: &'static str,
}

impl Page {
    /// Gathers the contents.
    pub(super) fn new(
        settings: &Settings,
        findings: &[Finding],
        found: Option<(&Inventory, Collected)>,
        plan: Plan,
    ) -> Page {
        let now = Timestamp::now();
        let root = settings.root.as_given();
        let of_level = |level| findings.iter().filter(|found| found.level() == level).map(finding_row).collect();
        let (picture, too_large) = match plan {
            Plan::Picture(svg) => (Some(Value::from_safe_string(svg)), None),
            Plan::TooLarge(entities) => (None, Some(entities)),
            Plan::Nothing => (None, None),
        };
        let mut page = Page {
            host: safe(rustix::system::uname().nodename().to_bytes()),
            root: (root != Path::new("/")).then(|| safe(root.as_os_str().as_encoded_bytes())),
            version: env!("CARGO_PKG_VERSION"),
            time: super::shown(now),
            machine_time: super::for_machines(now),
            total: 0,
            unchanged: 0,
            pending: Group::default(),
            edited: Group::default(),
            failed: Group::default(),
            skipped: Group::default(),
            errors: of_level(Level::Error),
            warnings: of_level(Level::Warning),
            fine: of_level(Level::Ok),
            runs: super::last(&settings.root),
            picture,
            too_large,
            plugins: Vec::new(),
            is_short: true,
        };
        if let Some((inventory, collected)) = found {
            page.add_entities(inventory, collected);
        }
        page
    }

    fn add_entities(&mut self, inventory: &Inventory, mut collected: Collected) {
        let mut room = Budget::new(ROOM_FOR_ROWS);
        for (plugin_index, plugin) in inventory.plugins.entries() {
            let mut of_plugin = PluginRows { id: safe(plugin.id.as_bytes()), count: 0, rows: Vec::new(), left_out: 0 };
            for entity in inventory.entities.iter().filter(|entity| entity.plugin == plugin_index) {
                let looked = collected.entities.remove(entity.id()).unwrap_or_default();
                if !entity.is_listed() && matches!(looked.end, None | Some(End::Unchanged)) {
                    continue;
                }
                of_plugin.count += 1;
                let row = row(entity, looked.end);
                if room.take(format!("{}{}", row.id, row.source).as_bytes(), MARKUP) {
                    of_plugin.rows.push(row);
                } else {
                    of_plugin.left_out += 1;
                }
                self.add_item(entity, looked);
            }
            self.total += of_plugin.count;
            if of_plugin.count > 0 {
                self.plugins.push(of_plugin);
            }
        }
        self.is_short = self.total <= FEW;
    }

    fn add_item(&mut self, entity: &Entity, looked: Looked) {
        let group = match looked.end {
            Some(End::Unchanged | End::Changed) => {
                self.unchanged += 1;
                return;
            }
            Some(End::Pending) => &mut self.pending,
            Some(End::Refused) => &mut self.edited,
            Some(End::Failed) | None => &mut self.failed,
            Some(End::ConditionNotMet | End::DependencyFailed) => &mut self.skipped,
        };
        group.count += 1;
        if group.shown.len() < MOST_SHOWN {
            let Looked { words, output, diffs, .. } = looked;
            let sources = entity.report().sources.iter().map(|source| safe(source)).collect();
            group.shown.push(Item { id: safe(entity.id()), sources, words, output, diffs });
        }
    }

    /// Renders the page.
    pub(super) fn render(&self) -> Result<String, PageError> {
        page::render(TEMPLATE, self)
    }
}

/// The size of a row's markup, in bytes.
const MARKUP: usize = 100;

fn row(entity: &Entity, end: Option<End>) -> Row {
    let (state, tone) = match end {
        Some(End::Unchanged | End::Changed) => ("as desired", ""),
        Some(End::Pending) => ("would change", "warn"),
        Some(End::Refused) => ("changed manually", "warn"),
        Some(End::ConditionNotMet) => ("not for this system", ""),
        Some(End::DependencyFailed) => ("skipped", "warn"),
        Some(End::Failed) => ("failed", "bad"),
        None => ("in conflict", "bad"),
    };
    Row { id: safe(entity.id()), source: safe(&entity.origin()), state, tone }
}

fn finding_row(finding: &Finding) -> FindingRow {
    FindingRow {
        check: safe(finding.check.as_bytes()),
        title: safe(finding.title()),
        remedy: finding.remedy().map(|remedy| safe(remedy)).unwrap_or_default(),
    }
}

/// The number of bytes left for texts of one kind.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Budget {
    pub(super) fn new(bytes: usize) -> Budget {
        Budget(bytes)
    }

    /// Takes the size of a text and its markup from the budget. Returns false if too little is left.
    pub(super) fn take(&mut self, text: &[u8], markup: usize) -> bool {
        let bytes = markup + text.iter().map(|&byte| escaped_length(byte)).sum::<usize>();
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// Returns the number of bytes that a byte takes in HTML.
fn escaped_length(byte: u8) -> usize {
    match byte {
        b'/' | b'"' | b'\'' => 6,
        b'&' => 5,
        b'<' | b'>' => 4,
        _ => 1,
    }
}

/// The number of bytes shown of a difference.
const MOST: usize = 32 << 10;

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Diff {
    pub(super) pieces: Vec<Piece>,
    /// The number of omitted lines.
    pub(super) left_out: usize,
}

/// Consecutive lines with the same style.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Piece {
    /// The CSS class; empty for context lines.
    pub(super) class: &'static str,
    pub(super) text: String,
}

impl Diff {
    /// Parses a difference in git's format, as far as the budget allows.
    pub(super) fn new(text: &[u8], budget: &mut Budget) -> Diff {
        let (mut pieces, mut left_out, mut size): (Vec<Piece>, usize, usize) = (Vec::new(), 0, 0);
        let mut is_header = true;
        // The entity is named above, and the next lines name both sides.
        for line in text.lines_with_terminator().filter(|line| !line.starts_with(b"diff --")) {
            is_header &= !line.starts_with(b"@@");
            size += line.len();
            if left_out > 0 || size > MOST || !budget.take(line, 0) {
                left_out += 1;
                continue;
            }
            let class = class(line, is_header);
            let text = safe(line);
            match pieces.last_mut().filter(|last| last.class == class) {
                Some(last) => last.text.push_str(&text),
                None => pieces.push(Piece { class, text }),
            }
        }
        Diff { pieces, left_out }
    }
}

fn class(line: &[u8], is_header: bool) -> &'static str {
    match line.first() {
        _ if is_header => "head",
        Some(b'@') => "hunk",
        Some(b'+') => "add",
        Some(b'-') => "del",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_characters_take_more_of_the_budget() {
        let mut budget = Budget::new(20);
        assert!(budget.take(b"ab", 3) && budget.take(b"a/b", 0));
        assert!(!budget.take(b"<&>", 0) && budget.take(b"abcdefg", 0) && !budget.take(b"a", 0));
    }

    const TEXT: &[u8] = b"diff --holo a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n a\n---b\n+++c\n+d\n";

    #[test]
    fn lines_of_the_same_style_are_grouped() {
        let diff = Diff::new(TEXT, &mut Budget::new(1000));
        let pieces: Vec<_> = diff.pieces.iter().map(|piece| (piece.class, piece.text.as_str())).collect();
        let head = "--- a/x\n+++ b/x\n";
        let expected =
            [("head", head), ("hunk", "@@ -1,2 +1,3 @@\n"), ("", " a\n"), ("del", "---b\n"), ("add", "+++c\n+d\n")];
        assert_eq!((pieces.as_slice(), diff.left_out), (&expected[..], 0));
    }

    #[test]
    fn lines_beyond_the_limit_are_counted() {
        let mut budget = Budget::new(26);
        assert_eq!(Diff::new(TEXT, &mut budget).left_out, 5);
        let long = [&TEXT[..36], &b"+x\n".repeat(MOST)].concat();
        let diff = Diff::new(&long, &mut Budget::new(usize::MAX));
        assert!(diff.left_out > MOST / 2 && diff.pieces.iter().map(|piece| piece.text.len()).sum::<usize>() <= MOST);
    }
}
