//! The managed lines of `authorized_keys`, and how they change. All other lines stay byte for byte.

use crate::key_line::{Grant, KeyLine, NoKey, is_blank_or_comment};
use bstr::{BString, ByteSlice};
use holo_plugin::index::{Table, define_index};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::mem;
use std::ops::Range;

/// The prefix of the comment that marks a managed key. The ID of the entity follows.
const MARK: &[u8] = b"holo=";

/// Returns true if a key is marked as managed, by any key set.
pub(crate) fn is_marked(key: &KeyLine<'_>) -> bool {
    key.comment().starts_with(MARK)
}

/// The lines that one key set wants in an `authorized_keys`.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    id: BString,
    mark: Vec<u8>,
    source: Source,
    /// Unmarked lines that this key set has counted as its own.
    counted: Vec<Vec<u8>>,
}

define_index! {
    /// The index of a key set among those of a user.
    pub(crate) SectionIndex
}

/// All key sets of a user, some of which are applied. One of them can take over a key that another one no longer wants.
#[derive(Clone, Debug)]
pub(crate) struct Sections {
    pub(crate) all: Table<SectionIndex, Section>,
    /// The key sets to apply, in this order.
    pub(crate) applied: Vec<SectionIndex>,
}

/// A key that moves to another key set in the same line, with a new mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handover {
    /// The key, as `ssh-keygen -l` lists it.
    pub(crate) key: String,
    pub(crate) from: BString,
    pub(crate) to: BString,
}

/// The changes for one key set.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The removed keys, as `ssh-keygen -l` lists them.
    pub(crate) removed: Vec<String>,
    /// The added keys, in the same form.
    pub(crate) added: Vec<String>,
    /// The keys that move from one key set to another.
    pub(crate) handed_over: Vec<Handover>,
    /// The lines of wanted keys that have no mark but are counted, without their comments.
    pub(crate) unmarked: Vec<Vec<u8>>,
    /// The file before and after these changes, if there are any and the contents are kept.
    pub(crate) contents: Option<(Vec<u8>, Vec<u8>)>,
}

/// The changes for all applied key sets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Edits {
    /// The changes for each applied key set, in order.
    pub(crate) each: Vec<Edit>,
    /// The new content of the file.
    pub(crate) content: Vec<u8>,
}

impl Handover {
    /// Returns the change as a message fragment with this verb.
    pub(crate) fn in_words(&self, give: &str) -> String {
        let Handover { key, from, to } = self;
        format!("{give} key {key} from {from} to {to}")
    }
}

impl Edit {
    /// Returns true if the keys in the file differ from the wanted ones.
    pub(crate) fn changes_keys(&self) -> bool {
        !self.removed.is_empty() || !self.added.is_empty() || !self.handed_over.is_empty()
    }

    /// Returns the pairs of key sets between which keys move, each pair once.
    pub(crate) fn handovers(&self) -> BTreeSet<(&BString, &BString)> {
        self.handed_over.iter().map(|Handover { from, to, .. }| (from, to)).collect()
    }
}

impl Section {
    /// Creates the section of the entity with this ID.
    pub(crate) fn new(id: BString, source: Source) -> Section {
        Section { mark: [MARK, &id].concat(), id, source, counted: Vec::new() }
    }

    /// Adds unmarked lines that the key set has counted as its own.
    pub(crate) fn with_counted(self, counted: Vec<Vec<u8>>) -> Section {
        Section { counted, ..self }
    }

    pub(crate) fn id(&self) -> &BString {
        &self.id
    }

    /// Returns true if the key set wants no keys.
    pub(crate) fn is_empty(&self) -> bool {
        self.source.keys().next().is_none()
    }

    /// Returns the managed part of a file, in the wording of the source. It is equal to the source if no change is needed.
    pub(crate) fn as_source(&self, file: &MarkedLines) -> Vec<u8> {
        let wanted = WantedKeys::new(self);
        let key = |line| Some((KeyLine::parse(line).ok().filter(|key| wanted.owns(key))?.grant(), line));
        // Most lines may belong to other key sets.
        let may_be_own: Vec<&[u8]> =
            if wanted.takes_unmarked() { file.all().collect() } else { file.of(&self.mark).collect() };
        let own: Vec<(Grant<'_>, &[u8])> = may_be_own.into_iter().filter_map(key).collect();
        let there: HashSet<Grant<'_>> = own.iter().map(|(grant, _)| *grant).collect();
        let mut text = Vec::new();
        // Without any managed key in the file, the comments of the source do not count as present either.
        if wanted.keys.iter().any(|key| there.contains(&key.grant())) || wanted.keys.is_empty() {
            let stays = |line: &&[u8]| KeyLine::parse(line).map_or(true, |key| there.contains(&key.grant()));
            text.extend(self.source.lines().filter(stays).flatten());
        }
        // Duplicates of a key are unwanted as well.
        let mut seen = HashSet::new();
        for (grant, line) in own {
            if wanted.grants.contains(&grant) && seen.insert(grant) {
                continue;
            }
            if !text.is_empty() && !text.ends_with(b"\n") {
                text.push(b'\n');
            }
            text.extend_from_slice(line);
        }
        text
    }
}

/// The content of a file, and the lines of each mark.
#[derive(Debug, Default)]
pub(crate) struct MarkedLines {
    content: Vec<u8>,
    marked: HashMap<Vec<u8>, Vec<Range<usize>>>,
}

impl MarkedLines {
    pub(crate) fn new(content: Vec<u8>) -> MarkedLines {
        let mut marked: HashMap<Vec<u8>, Vec<Range<usize>>> = HashMap::new();
        let mut start = 0;
        for line in content.lines_with_terminator() {
            let end = start + line.len();
            if let Some(key) = KeyLine::parse(line).ok().filter(is_marked) {
                marked.entry(key.comment().to_owned()).or_default().push(start..end);
            }
            start = end;
        }
        MarkedLines { content, marked }
    }

    fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.content.lines_with_terminator()
    }

    fn of(&self, mark: &[u8]) -> impl Iterator<Item = &[u8]> {
        let lines = self.marked.get(mark).into_iter().flatten();
        lines.filter_map(|line| self.content.get(line.clone()))
    }
}

/// The keys that a section wants and counts, indexed so that the time of a look-up does not depend on their number.
#[derive(Debug)]
struct WantedKeys<'a> {
    section: &'a Section,
    /// The keys in the order of the source, including duplicates.
    keys: Vec<KeyLine<'a>>,
    grants: HashSet<Grant<'a>>,
    /// Keys that had no mark when the key set began to count them.
    counted: HashSet<Grant<'a>>,
    /// True if the key set counts unmarked keys.
    counts_unmarked: bool,
}

impl<'a> WantedKeys<'a> {
    fn new(section: &'a Section) -> WantedKeys<'a> {
        let keys: Vec<KeyLine<'a>> = section.source.keys().collect();
        let counted = section.counted.iter().filter_map(|line| Some(KeyLine::parse(line).ok()?.grant()));
        WantedKeys {
            section,
            grants: keys.iter().map(KeyLine::grant).collect(),
            keys,
            counted: counted.collect(),
            counts_unmarked: section.source.counts_unmarked(),
        }
    }

    /// Returns true if the key set may own unmarked keys.
    fn takes_unmarked(&self) -> bool {
        self.counts_unmarked || !self.counted.is_empty()
    }

    /// Returns true if the key set owns this key even without a mark.
    fn counts(&self, grant: &Grant<'_>) -> bool {
        self.counts_unmarked && self.grants.contains(grant) || self.counted.contains(grant)
    }

    /// Returns true if the key set owns this key.
    fn owns(&self, key: &KeyLine<'_>) -> bool {
        key.comment() == self.section.mark || !is_marked(key) && self.counts(&key.grant())
    }
}

define_index! {
    /// The index of a line in a file.
    LineIndex
}

/// A line of the file being edited.
#[derive(Debug)]
struct Line<'a> {
    text: Cow<'a, [u8]>,
    key: Option<KeyLine<'a>>,
    /// The key set that has marked the line, if the user has it.
    owner: Option<SectionIndex>,
    /// True if the line was appended, in which case the line before it must end with a newline.
    is_new: bool,
    is_removed: bool,
}

/// A file that is edited by one key set after another. The work is linear in the numbers of lines and wanted keys.
struct Editor<'a> {
    wanted: Table<SectionIndex, WantedKeys<'a>>,
    lines: Table<LineIndex, Line<'a>>,
    /// The lines that each key set has marked.
    marked: Table<SectionIndex, Vec<LineIndex>>,
    /// The keys that each key set wants and has marked.
    present: Table<SectionIndex, HashSet<Grant<'a>>>,
    /// The unmarked lines, by key.
    unmarked: HashMap<Grant<'a>, Vec<LineIndex>>,
    /// The lines whose keys are no longer wanted by the key sets that marked them.
    unwanted: HashMap<Grant<'a>, VecDeque<LineIndex>>,
    /// The key sets that want each key. A key set that already has it is removed when it comes up.
    heirs: HashMap<Grant<'a>, VecDeque<SectionIndex>>,
}

impl Sections {
    /// Returns the applied key sets in order.
    pub(crate) fn applied(&self) -> impl Iterator<Item = &Section> {
        self.applied.iter().map(|&section| &self.all[section])
    }

    /// Returns true if the applied key sets want no keys.
    pub(crate) fn are_empty(&self) -> bool {
        self.applied().all(Section::is_empty)
    }

    /// Computes the changes to a file with this content. Contents before and after each change are kept, up to `kept_contents` bytes in
    /// total.
    pub(crate) fn edit(&self, file: &[u8], mut kept_contents: usize) -> Edits {
        let mut editor = Editor::new(self, file);
        let mut edits = Edits::default();
        let mut before = (kept_contents > 0).then(|| file.to_vec());
        for &section in &self.applied {
            let mut edit = editor.edit(section);
            if edit.changes_keys()
                && let Some(content) = before.take()
            {
                let after = editor.content();
                kept_contents = kept_contents.saturating_sub(content.len() + after.len());
                before = (kept_contents > 0).then(|| after.clone());
                edit.contents = Some((content, after));
            }
            edits.each.push(edit);
        }
        edits.content = editor.content();
        edits
    }
}

impl<'a> Editor<'a> {
    fn new(sections: &'a Sections, file: &'a [u8]) -> Editor<'a> {
        let wanted: Table<SectionIndex, WantedKeys<'a>> = sections.all.iter().map(WantedKeys::new).collect();
        let owners: HashMap<&[u8], SectionIndex> =
            sections.all.entries().map(|(index, section)| (section.mark.as_slice(), index)).collect();
        let mut heirs: HashMap<Grant<'a>, VecDeque<SectionIndex>> = HashMap::new();
        for (section, wanted) in wanted.entries() {
            for &grant in &wanted.grants {
                heirs.entry(grant).or_default().push_back(section);
            }
        }
        let mut editor = Editor {
            lines: Table::new(),
            marked: Table::filled(Vec::new(), wanted.len()),
            present: Table::filled(HashSet::new(), wanted.len()),
            unmarked: HashMap::new(),
            unwanted: HashMap::new(),
            heirs,
            wanted,
        };
        for text in file.lines_with_terminator() {
            let key = KeyLine::parse(text).ok();
            let owner = key.as_ref().and_then(|key| owners.get(key.comment()).copied());
            let (grant, is_unmarked) =
                (key.as_ref().map(KeyLine::grant), key.as_ref().is_some_and(|key| !is_marked(key)));
            let line = Line { text: text.into(), key, owner, is_new: false, is_removed: false };
            let line = editor.lines.push(line);
            match (grant, owner) {
                (Some(grant), Some(owner)) => editor.note_marked(line, grant, owner),
                (Some(grant), None) if is_unmarked => editor.unmarked.entry(grant).or_default().push(line),
                _ => {}
            }
        }
        editor
    }

    fn note_marked(&mut self, line: LineIndex, grant: Grant<'a>, owner: SectionIndex) {
        self.marked[owner].push(line);
        if self.wanted[owner].grants.contains(&grant) {
            self.present[owner].insert(grant);
        } else {
            self.unwanted.entry(grant).or_default().push_back(line);
        }
    }

    /// Returns true if a key set that wants a key has it, marked or counted.
    fn has(&self, section: SectionIndex, grant: &Grant<'a>) -> bool {
        let is_counted = || self.unmarked.contains_key(grant) && self.wanted[section].counts(grant);
        self.present[section].contains(grant) || is_counted()
    }

    /// Computes the changes for one key set.
    fn edit(&mut self, section: SectionIndex) -> Edit {
        let mut edit = Edit { unmarked: self.counted_lines(section), ..Edit::default() };
        self.give_up(section, &mut edit);
        self.take_over(section, &mut edit);
        self.append(section, &mut edit);
        edit
    }

    /// Returns the lines of wanted keys that have no mark but are counted, without their comments.
    fn counted_lines(&self, section: SectionIndex) -> Vec<Vec<u8>> {
        let wanted = &self.wanted[section];
        if !wanted.takes_unmarked() {
            return Vec::new();
        }
        let lines =
            wanted.grants.iter().filter(|grant| wanted.counts(grant)).filter_map(|grant| self.unmarked.get(grant));
        let keys = lines.flatten().filter_map(|&line| self.lines[line].key.as_ref());
        let lines: BTreeSet<Vec<u8>> = keys.map(|key| key.with_comment(b"")).collect();
        lines.into_iter().collect()
    }

    /// Hands over or removes the lines of unwanted keys, and removes duplicates of wanted keys.
    fn give_up(&mut self, section: SectionIndex, edit: &mut Edit) {
        let wanted = &self.wanted[section];
        let no_longer_counted = wanted.counted.iter().filter(|grant| !wanted.grants.contains(*grant));
        let mut own: Vec<LineIndex> =
            no_longer_counted.filter_map(|grant| self.unmarked.remove(grant)).flatten().collect();
        own.append(&mut self.marked[section]);
        // Other key sets may have taken over some of the lines.
        own.retain(|&line| self.lines[line].owner.is_none_or(|owner| owner == section));
        own.sort_unstable();
        let mut kept = HashSet::new();
        for line in own {
            let Some(key) = self.lines[line].key.clone() else { continue };
            let grant = key.grant();
            if self.wanted[section].grants.contains(&grant) {
                if kept.insert(grant) {
                    self.marked[section].push(line);
                } else {
                    self.lines[line].is_removed = true;
                    edit.removed.push(format!("{}, which is there twice", key.listed()));
                }
            } else if let Some(heir) = self.heir(&grant) {
                self.hand_over(line, section, heir, edit);
            } else {
                self.lines[line].is_removed = true;
                edit.removed.push(key.listed());
            }
        }
    }

    /// Returns the first key set that wants a key and does not have it.
    fn heir(&mut self, grant: &Grant<'a>) -> Option<SectionIndex> {
        let heirs = self.heirs.get_mut(grant)?;
        while heirs.front().is_some_and(|&heir| self.present[heir].contains(grant)) {
            heirs.pop_front();
        }
        let heirs = self.heirs.get(grant)?;
        heirs.iter().copied().find(|&heir| !self.has(heir, grant))
    }

    /// Takes over missing keys from key sets that no longer want them.
    fn take_over(&mut self, section: SectionIndex, edit: &mut Edit) {
        let mut lines = Vec::new();
        for grant in &self.wanted[section].grants {
            if self.has(section, grant) {
                continue;
            }
            let Some(unwanted) = self.unwanted.get_mut(grant) else { continue };
            while let Some(line) = unwanted.pop_front() {
                let Line { owner: Some(owner), is_removed: false, .. } = self.lines[line] else { continue };
                // The line may have been handed over meanwhile.
                if !self.wanted[owner].grants.contains(grant) {
                    lines.push((line, owner));
                    break;
                }
            }
        }
        lines.sort_unstable();
        for (line, owner) in lines {
            self.hand_over(line, owner, section, edit);
        }
    }

    /// Marks a line for another key set.
    fn hand_over(&mut self, line: LineIndex, from: SectionIndex, to: SectionIndex, edit: &mut Edit) {
        let (from, to_section) = (self.wanted[from].section, self.wanted[to].section);
        let edited = &mut self.lines[line];
        let Some(key) = &edited.key else { return };
        edited.text = key.renamed(&edited.text, &to_section.mark).into();
        edited.owner = Some(to);
        self.present[to].insert(key.grant());
        self.marked[to].push(line);
        edit.handed_over.push(Handover { key: key.listed(), from: from.id.clone(), to: to_section.id.clone() });
    }

    /// Appends the keys that are still missing.
    fn append(&mut self, section: SectionIndex, edit: &mut Edit) {
        for key in mem::take(&mut self.wanted[section].keys) {
            if !self.has(section, &key.grant()) {
                self.present[section].insert(key.grant());
                edit.added.push(key.listed());
                let text = key.with_comment(&self.wanted[section].section.mark).into();
                let line = Line { text, key: Some(key), owner: Some(section), is_new: true, is_removed: false };
                let line = self.lines.push(line);
                self.marked[section].push(line);
            }
        }
    }

    fn content(&self) -> Vec<u8> {
        let mut content = Vec::new();
        for line in self.lines.iter().filter(|line| !line.is_removed) {
            if line.is_new && !content.is_empty() && !content.ends_with(b"\n") {
                content.push(b'\n');
            }
            content.extend_from_slice(&line.text);
        }
        content
    }
}

/// The content of a valid key file. OpenSSH accepts all of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source(Vec<u8>);

/// The line of a key file that makes its key set count the user's own lines, which have no mark.
pub(crate) const COUNTS_UNMARKED: &str = "# holo: unmarked";

/// A line of a key file that is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub(crate) struct BadLine {
    /// The number of the line, counting from 1.
    line: usize,
    reason: NoKey,
}

impl Source {
    /// Parses the content of a key file.
    ///
    /// # Errors Every line that is not a valid key, a comment or blank.
    pub(crate) fn parse(content: Vec<u8>) -> Result<Source, Vec<BadLine>> {
        let bad_line = |(index, line): (usize, &[u8])| {
            let reason = match KeyLine::parse(line) {
                Ok(key) => NoKey::Bad(key.facts.err()?),
                Err(_) if is_blank_or_comment(line) => return None,
                Err(reason) => reason,
            };
            Some(BadLine { line: index + 1, reason })
        };
        let bad: Vec<BadLine> = content.lines_with_terminator().enumerate().filter_map(bad_line).collect();
        if bad.is_empty() { Ok(Source(content)) } else { Err(bad) }
    }

    /// Returns an empty source, for a key set whose file is gone.
    pub(crate) fn gone() -> Source {
        Source(Vec::new())
    }

    /// Returns true if this is the content.
    pub(crate) fn is(&self, content: &[u8]) -> bool {
        self.0 == content
    }

    /// Returns the keys in order, including duplicates.
    pub(crate) fn keys(&self) -> impl Iterator<Item = KeyLine<'_>> {
        self.lines().filter_map(|line| KeyLine::parse(line).ok())
    }

    /// Returns true if unmarked lines of the user count as lines of the key set.
    pub(crate) fn counts_unmarked(&self) -> bool {
        self.0.lines().any(|line| line.trim() == COUNTS_UNMARKED.as_bytes())
    }

    /// Returns all lines with their endings.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.0.lines_with_terminator()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w";
    use crate::key_line::operations;
    use data_encoding::BASE64;

    const ID: &[u8] = b"ssh-keyset:jane/work";
    const A: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w";
    const B: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIdzC/U28SStyTYU9/4RVVeARpSAo/wvLM9mqvU7bpfP";

    /// Expands text in which `A` and `B` at the beginning of a word stand for keys, and `=` at the end of a line for the mark.
    fn text(short: &str) -> Vec<u8> {
        let words = short.split_inclusive([' ', '\n']).map(|word| match word.trim_end() {
            "A" => word.replace('A', A),
            "B" => word.replace('B', B),
            "=" => word.replace('=', "holo=ssh-keyset:jane/work"),
            "+" => word.replace('+', "holo=ssh-keyset:jane/home"),
            "*" => word.replace('*', "holo=ssh-keyset:jane/third"),
            _ => word.to_owned(),
        });
        words.collect::<String>().into_bytes()
    }

    fn section(source: &str) -> Section {
        Section::new(ID.into(), Source::parse(text(source)).unwrap())
    }

    /// Returns the changes for the first of these key sets, and the new content of the file.
    fn edit(sections: &[Section], file: &str) -> (Edit, BString) {
        let sections = Sections { all: sections.to_vec().into(), applied: vec![SectionIndex::from(0)] };
        let mut edits = sections.edit(&text(file), 0);
        (edits.each.remove(0), edits.content.into())
    }

    #[track_caller]
    fn becomes(source: &str, before: &str, after: &str) {
        let (changes, content) = edit(&[section(source)], before);
        assert_eq!(content, text(after).as_bstr());
        assert_eq!(changes.changes_keys(), before != after);
        assert!(!edit(&[section(source)], after).0.changes_keys(), "a second apply has nothing to do");
    }

    #[test]
    fn edit_appends_missing_keys_and_removes_unwanted_keys() {
        becomes("A a\nB b\n", "", "A =\nB =\n");
        becomes("A a\nB b\n", "B =\n", "B =\nA =\n");
        becomes("A a\n", "B =\nA =\n", "A =\n");
        becomes("", "# x\nB =\n# y\n", "# x\n# y\n");
        becomes("A a\nA again\n", "", "A =\n");
    }

    #[test]
    fn edit_keeps_other_lines_byte_for_byte() {
        becomes("A a\n", "A mine\n\n \t# x\r\nnonsense\n= \nB holo=ssh-keyset:jane/works\r\n", {
            "A mine\n\n \t# x\r\nnonsense\n= \nB holo=ssh-keyset:jane/works\r\nA =\n"
        });
        becomes("A a\n", "B mine", "B mine\nA =\n");
        becomes("", "B mine", "B mine");
        becomes("", "A =\nB mine", "B mine");
        becomes("", "# A =\n", "# A =\n");
    }

    #[test]
    fn marked_keys_are_recognized_after_an_editor_changes_blanks() {
        becomes("A a\n", "A =\r\nB =\r\n", "A =\r\n");
        becomes("A a\n", "  A   =", "  A   =");
        becomes("", "no-pty ssh-new AAAAB3NzaC1uZXc= =\n", "");
    }

    #[test]
    fn key_with_other_options_is_another_key() {
        becomes("no-pty A a\n", "A =\n", "no-pty A =\n");
        becomes("A a\n", "command=\"a b\" A =\n", "A =\n");
    }

    #[test]
    fn unmarked_line_counts_if_the_key_file_requests_it() {
        let source = "# holo: unmarked\nA a\nno-pty B b\n";
        becomes(source, "A mine\n", "A mine\nno-pty B =\n");
        becomes(
            source,
            "no-pty B x\nA holo=ssh-keyset:jane/other\n",
            "no-pty B x\nA holo=ssh-keyset:jane/other\nA =\n",
        );
        assert_eq!(edit(&[section(source)], "A mine\nB x\n").0.unmarked, [text("A \n")]);
        // A counted line is removed with its line in the key file. A line that was never counted belongs to the user.
        let counted = section("# holo: unmarked\nno-pty B b\n").with_counted(vec![text("A \n")]);
        let (changes, content) = edit(std::slice::from_ref(&counted), "A mine\nno-pty B x\nB y\nno-pty A z\n");
        assert_eq!(content, text("no-pty B x\nB y\nno-pty A z\n").as_bstr());
        assert_eq!((changes.removed.len(), changes.unmarked), (1, vec![text("no-pty B \n")]));
        // A counted line that was handed over is not removed, with or without a comment.
        for line in ["A mine\n", "A mine \n", "A\n", "A \n"] {
            let file = format!("{line}no-pty B x\n");
            let (_, content) = edit(&[counted.clone(), named("home", "A a\n")], &file);
            assert_eq!(content, text("A +\nno-pty B x\n").as_bstr());
        }
    }

    fn named(id: &str, source: &str) -> Section {
        Section::new(format!("ssh-keyset:jane/{id}").into(), Source::parse(text(source)).unwrap())
    }

    #[test]
    fn key_that_moves_to_another_set_keeps_its_line() {
        let moved = |sections: &[Section], before: &str, after: &str| {
            let (changes, content) = edit(sections, before);
            assert_eq!(content, text(after).as_bstr());
            assert!(!edit(sections, after).0.changes_keys(), "a second apply has nothing to do");
            changes.handed_over.len()
        };
        let file = "B mine\n  A  =\r\nB =\n# end\n";
        // The order of the two key sets does not matter.
        let living = [named("home", "A a\n"), section("")];
        assert_eq!(moved(&living, file, "B mine\n  A  +\r\nB =\n# end\n"), 1);
        let orphan = [section(""), named("home", "A a\n")];
        assert_eq!(moved(&orphan, file, "B mine\n  A  +\r\n# end\n"), 1);
        assert_eq!(moved(&orphan, "B mine\n  A  +\r\nB =\n", "B mine\n  A  +\r\n"), 0);
        // The same key with other options is a different key.
        assert_eq!(moved(&living, "no-pty A =\n", "no-pty A =\nA +\n"), 0);
        // A line is handed to one key set only, and no key set gets a duplicate.
        let orphan = [section(""), named("home", "A a\n"), named("third", "A a\n")];
        assert_eq!(moved(&orphan, "A =\nA =\nA =\n", "A +\nA *\n"), 2);
        assert_eq!(moved(&orphan, "A =\nA +\n", "A *\nA +\n"), 1);
        assert_eq!(moved(&living, "A =\nA +\n", "A =\nA +\n"), 0);
        assert_eq!(moved(&living, "A =", "A +"), 1);
    }

    #[test]
    fn edit_removes_duplicates_of_a_key() {
        becomes("A a\n", "A =\nA mine\n  A   = \nA =\r\n", "A =\nA mine\n");
        becomes("A a\nB b\n", "B =\nA +\nB =\nA +\n", "B =\nA +\nA +\nA =\n");
        becomes("# holo: unmarked\nA a\n", "A mine\nA mine\n", "A mine\nA mine\n");
        let (changes, _) = edit(&[section("A a\n")], "A =\nA =\n");
        assert!(changes.removed[0].ends_with(", which is there twice"), "{:?}", changes.removed);
    }

    #[test]
    fn mark_ignores_trailing_blanks() {
        becomes("A a\n", "A = \t\nB =\t\r\n", "A = \t\n");
    }

    #[test]
    fn managed_part_without_changes_equals_the_source() {
        let part = |source: &str, file: &str| section(source).as_source(&MarkedLines::new(text(file)));
        let source = "# who\nA jane doe\r\n\nB b";
        assert_eq!(part(source, "B =\nB mine\nA =\n"), text(source));
        assert_eq!(part(source, "A =\n"), text("# who\nA jane doe\r\n\n"));
        assert_eq!(part(source, "A a\n"), b"");
        assert_eq!(part("A a", "A =\nB =\n"), text("A a\nB =\n"));
        assert_eq!(part("# none\n", ""), text("# none\n"));
        assert_eq!(part("", "A =\n"), text("A =\n"));
        // A duplicate will be removed.
        assert_eq!(part("A a", "A =\nA =\n"), text("A a\nA =\n"));
    }

    /// Returns `sets` key sets of `keys` different keys each.
    fn numbered(sets: usize, keys: usize) -> Sections {
        let key = |number: usize| {
            let blob = [&b"\0\0\0\x0bssh-ed25519\0\0\0 "[..], format!("{number:032}").as_bytes()].concat();
            format!("ssh-ed25519 {} {number}\n", BASE64.encode(&blob))
        };
        let set = |set: usize| {
            let source: String = (0..keys).map(|number| key(set * keys + number)).collect();
            Section::new(format!("ssh-keyset:jane/{set}").into(), Source::parse(source.into()).unwrap())
        };
        Sections { all: (0..sets).map(set).collect(), applied: (0..sets).map(SectionIndex::from).collect() }
    }

    /// Returns the numbers of operations of a first apply, an apply without changes, an apply that moves all keys to other key sets, and an
    /// apply that removes all keys.
    fn operations_of(sections: &Sections) -> [usize; 4] {
        let mut content = Vec::new();
        let mut edit = |sections: &Sections, changes_keys: bool| {
            let operations = operations::of(|| {
                let edits = sections.edit(&content, 0);
                assert!(edits.each.iter().all(|edit| edit.changes_keys() == changes_keys));
                content = edits.content;
            });
            assert!(operations > 0);
            operations
        };
        let (first, again) = (edit(sections, true), edit(sections, false));
        let orphans = |all: &Table<SectionIndex, Section>| {
            all.iter().map(|section| Section::new(section.id.clone(), Source::gone())).collect::<Vec<_>>()
        };
        let renamed = sections
            .all
            .iter()
            .map(|section| Section::new([&section.id, &b"x"[..]].concat().into(), section.source.clone()));
        let all: Table<SectionIndex, Section> = renamed.chain(orphans(&sections.all)).collect();
        let living: Table<SectionIndex, Section> = all.iter().take(sections.all.len()).cloned().collect();
        let moved = edit(&Sections { all, applied: sections.applied.clone() }, true);
        let gone = edit(&Sections { all: orphans(&living).into(), applied: sections.applied.clone() }, true);
        assert!(content.is_empty());
        [first, again, moved, gone]
    }

    #[test]
    fn edit_takes_linear_time() {
        for (few, many) in [(numbered(1, 100), numbered(1, 400)), (numbered(10, 10), numbered(40, 10))] {
            for (few, many) in operations_of(&few).into_iter().zip(operations_of(&many)) {
                assert!(many <= 4 * few + few / 10, "{few} operations for 100 keys, {many} for 400");
            }
        }
    }

    #[test]
    fn parse_reports_every_bad_line() {
        let text = format!("# keys\n\n{KEY} a\r\nssh-ed25519 AAAA b\n  # {KEY}\nnonsense\n{KEY}");
        let bad = Source::parse(text.into_bytes()).unwrap_err();
        let said: Vec<String> = bad.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["line 4: the key is damaged", "line 6: there is no key"]);
    }

    #[test]
    fn parse_skips_comments_and_blank_lines() {
        let source = Source::parse(format!("# {KEY}\n\r\n{KEY} a b\r\n\t\n{KEY}").into_bytes()).unwrap();
        let comments: Vec<&[u8]> = source.keys().map(|key| key.comment()).collect();
        assert_eq!(comments, [&b"a b"[..], b""]);
    }
}
