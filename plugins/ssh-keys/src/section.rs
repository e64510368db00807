//! `authorized_keys` and our part of it: which lines are ours, and what becomes of them. All others stay as they are, byte for byte.

use crate::key_line::KeyLine;
use crate::source::Source;
use bstr::{BString, ByteSlice};
use std::collections::BTreeSet;

/// The mark of an entity's keys: their comment is this and the entity's ID.
const MARK: &[u8] = b"holo=";

/// Returns true if a key has the mark of any key set.
pub(crate) fn is_marked(key: &KeyLine<'_>) -> bool {
    key.comment().starts_with(MARK)
}

/// The lines that one key set shall have in an `authorized_keys`.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    id: BString,
    mark: Vec<u8>,
    source: Source,
    /// The other key sets of the user, which may take over what this one does not want any more, as it does from them.
    relatives: Vec<Section>,
    /// Lines with keys that had no mark when this key set came to count them.
    counted: Vec<Vec<u8>>,
}

/// A key that gets the mark of another key set, and keeps its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handover {
    /// The key, as `ssh-keygen -l` lists it.
    pub(crate) key: String,
    pub(crate) from: BString,
    pub(crate) to: BString,
}

/// The changes to make.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The keys that go, as `ssh-keygen -l` lists them.
    pub(crate) removed: Vec<String>,
    /// The keys that come, likewise.
    pub(crate) added: Vec<String>,
    /// The keys that change from one key set to another.
    pub(crate) handed_over: Vec<Handover>,
    /// The lines of wanted keys that have no mark, and count nevertheless, without their comments.
    pub(crate) unmarked: Vec<Vec<u8>>,
    /// The new content of the file.
    pub(crate) content: Vec<u8>,
}

impl Handover {
    /// The change as a fragment, with this verb.
    pub(crate) fn in_words(&self, give: &str) -> String {
        let Handover { key, from, to } = self;
        format!("{give} key {key} from {from} to {to}")
    }
}

impl Edit {
    /// Returns true if the keys that are there are not those that are to be there.
    pub(crate) fn changes_keys(&self) -> bool {
        !self.removed.is_empty() || !self.added.is_empty() || !self.handed_over.is_empty()
    }

    /// The key sets between which keys change, each pair once.
    pub(crate) fn handovers(&self) -> BTreeSet<(&BString, &BString)> {
        self.handed_over.iter().map(|Handover { from, to, .. }| (from, to)).collect()
    }
}

impl Section {
    /// The section of the entity with this ID.
    pub(crate) fn new(id: BString, source: Source) -> Section {
        Section { mark: [MARK, &id].concat(), id, source, relatives: Vec::new(), counted: Vec::new() }
    }

    /// The same one, beside the other key sets of the user.
    pub(crate) fn with_relatives(self, relatives: Vec<Section>) -> Section {
        Section { relatives, ..self }
    }

    /// The same one, with the keys that had no mark when it came to count them.
    pub(crate) fn with_counted(self, counted: Vec<Vec<u8>>) -> Section {
        Section { counted, ..self }
    }

    /// Returns true if no key is wanted.
    pub(crate) fn is_empty(&self) -> bool {
        self.source.keys().next().is_none()
    }

    /// The key of a line if it is one of ours.
    fn own<'a>(&self, line: &'a [u8]) -> Option<KeyLine<'a>> {
        KeyLine::parse(line).ok().filter(|key| key.comment() == self.mark || self.counts(key))
    }

    /// Returns true if a key without a mark is ours nevertheless.
    fn counts(&self, key: &KeyLine<'_>) -> bool {
        let has_counted =
            || self.counted.iter().filter_map(|line| KeyLine::parse(line).ok()).any(|own| own.is_same_key(key));
        !is_marked(key) && (self.source.counts_unmarked() && self.wants(key) || has_counted())
    }

    fn wants(&self, key: &KeyLine<'_>) -> bool {
        self.source.keys().any(|wanted| wanted.is_same_key(key))
    }

    /// The keys in a file that are ours, and shall be.
    fn present<'a>(&self, file: &'a [u8]) -> Vec<KeyLine<'a>> {
        file.lines_with_terminator().filter_map(|line| self.own(line).filter(|key| self.wants(key))).collect()
    }

    /// Returns the changes to make in a file with this content.
    pub(crate) fn edit(&self, file: &[u8]) -> Edit {
        let mut edit = Edit::default();
        let mut present = self.present(file);
        let unmarked = present.iter().filter(|key| self.counts(key)).map(|key| key.with_comment(b""));
        edit.unmarked = unmarked.collect::<BTreeSet<_>>().into_iter().collect();
        let mut heirs: Vec<(&Section, Vec<KeyLine<'_>>)> =
            self.relatives.iter().map(|relative| (relative, relative.present(file))).collect();
        for line in file.lines_with_terminator() {
            let own = self.own(line);
            if let Some(key) = own.clone().filter(|key| !self.wants(key)) {
                let lacks_it = |(heir, present): &&mut (&Section, Vec<KeyLine<'_>>)| {
                    heir.wants(&key) && !present.iter().any(|there| there.is_same_key(&key))
                };
                match heirs.iter_mut().find(lacks_it) {
                    Some((heir, present)) => {
                        edit.hand_over(&key, line, self, heir);
                        present.push(key);
                    }
                    None => edit.removed.push(key.listed()),
                }
                continue;
            }
            let inherited = || self.relatives.iter().find_map(|relative| Some((relative, relative.own(line)?)));
            match own.is_none().then(inherited).flatten() {
                Some((relative, key))
                    if self.wants(&key)
                        && !relative.wants(&key)
                        && !present.iter().any(|there| there.is_same_key(&key)) =>
                {
                    edit.hand_over(&key, line, relative, self);
                    present.push(key);
                }
                _ => edit.content.extend_from_slice(line),
            }
        }
        for key in self.source.keys() {
            if present.iter().any(|there| there.is_same_key(&key)) {
                continue;
            }
            if !edit.content.is_empty() && !edit.content.ends_with(b"\n") {
                edit.content.push(b'\n');
            }
            edit.content.extend_from_slice(&key.with_comment(&self.mark));
            edit.added.push(key.listed());
            present.push(key);
        }
        edit
    }

    /// Our part of a file with this content, in the words of the source: equal to it if nothing has to be changed.
    pub(crate) fn as_source(&self, file: &[u8]) -> Vec<u8> {
        let own: Vec<(KeyLine<'_>, &[u8])> =
            file.lines_with_terminator().filter_map(|line| Some((self.own(line)?, line))).collect();
        let is_there = |wanted: &KeyLine<'_>| own.iter().any(|(key, _)| key.is_same_key(wanted));
        let mut text = Vec::new();
        // Without any key of ours, the source's comments are not ours either.
        if self.source.keys().any(|key| is_there(&key)) || self.is_empty() {
            let stays = |line: &&[u8]| KeyLine::parse(line).map_or(true, |key| is_there(&key));
            text.extend(self.source.lines().filter(stays).flatten());
        }
        for (_, line) in own.iter().filter(|(key, _)| !self.wants(key)) {
            if !text.is_empty() && !text.ends_with(b"\n") {
                text.push(b'\n');
            }
            text.extend_from_slice(line);
        }
        text
    }
}

impl Edit {
    /// Keeps the line of a key, with the mark of another section.
    fn hand_over(&mut self, key: &KeyLine<'_>, line: &[u8], from: &Section, to: &Section) {
        self.content.extend(key.renamed(line, &to.mark));
        self.handed_over.push(Handover { key: key.listed(), from: from.id.clone(), to: to.id.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &[u8] = b"ssh-keyset:jane/work";
    const A: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w";
    const B: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIdzC/U28SStyTYU9/4RVVeARpSAo/wvLM9mqvU7bpfP";

    /// Text in which `A` and `B` at the beginning of a word stand for keys, and `=` at the end of a line for our mark.
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

    #[track_caller]
    fn becomes(source: &str, before: &str, after: &str) {
        let edit = section(source).edit(&text(before));
        assert_eq!(edit.content.as_bstr(), text(after).as_bstr());
        assert_eq!(edit.changes_keys(), before != after);
        assert!(!section(source).edit(&text(after)).changes_keys(), "a second apply has nothing to do");
    }

    #[test]
    fn what_is_missing_is_appended_and_what_is_not_wanted_goes() {
        becomes("A a\nB b\n", "", "A =\nB =\n");
        becomes("A a\nB b\n", "B =\n", "B =\nA =\n");
        becomes("A a\n", "B =\nA =\n", "A =\n");
        becomes("", "# x\nB =\n# y\n", "# x\n# y\n");
        becomes("A a\nA again\n", "", "A =\n");
    }

    #[test]
    fn other_lines_stay_byte_for_byte() {
        becomes("A a\n", "A mine\n\n \t# x\r\nnonsense\n= \nB holo=ssh-keyset:jane/works\r\n", {
            "A mine\n\n \t# x\r\nnonsense\n= \nB holo=ssh-keyset:jane/works\r\nA =\n"
        });
        becomes("A a\n", "B mine", "B mine\nA =\n");
        becomes("", "B mine", "B mine");
        becomes("", "A =\nB mine", "B mine");
        becomes("", "# A =\n", "# A =\n");
    }

    #[test]
    fn our_keys_are_ours_in_whatever_way_an_editor_saves_them() {
        becomes("A a\n", "A =\r\nB =\r\n", "A =\r\n");
        becomes("A a\n", "  A   =", "  A   =");
        becomes("", "no-pty ssh-new AAAAB3NzaC1uZXc= =\n", "");
    }

    #[test]
    fn other_options_are_another_key() {
        becomes("no-pty A a\n", "A =\n", "no-pty A =\n");
        becomes("A a\n", "command=\"a b\" A =\n", "A =\n");
    }

    #[test]
    fn a_line_without_a_mark_counts_where_the_file_says_so() {
        let source = "# holo: unmarked\nA a\nno-pty B b\n";
        becomes(source, "A mine\n", "A mine\nno-pty B =\n");
        becomes(
            source,
            "no-pty B x\nA holo=ssh-keyset:jane/other\n",
            "no-pty B x\nA holo=ssh-keyset:jane/other\nA =\n",
        );
        let edit = section(source).edit(&text("A mine\nB x\n"));
        assert_eq!(edit.unmarked, [text("A \n")]);
        // What has counted once goes with the line in the key file; what has not is the user's own.
        let counted = section("# holo: unmarked\nno-pty B b\n").with_counted(vec![text("A \n")]);
        let edit = counted.edit(&text("A mine\nno-pty B x\nB y\nno-pty A z\n"));
        assert_eq!(edit.content.as_bstr(), text("no-pty B x\nB y\nno-pty A z\n").as_bstr());
        assert_eq!((edit.removed.len(), edit.unmarked), (1, vec![text("no-pty B \n")]));
        // Nor does a line that has changed hands.
        let heir = named("home", "A a\n");
        let edit = counted.with_relatives(vec![heir]).edit(&text("A mine\nno-pty B x\n"));
        assert_eq!(edit.content.as_bstr(), text("A +\nno-pty B x\n").as_bstr());
    }

    fn named(id: &str, source: &str) -> Section {
        Section::new(format!("ssh-keyset:jane/{id}").into(), Source::parse(text(source)).unwrap())
    }

    #[test]
    fn a_key_that_moves_to_another_set_keeps_its_line() {
        let moved = |section: &Section, before: &str, after: &str| {
            let edit = section.edit(&text(before));
            assert_eq!(edit.content.as_bstr(), text(after).as_bstr());
            assert!(!section.edit(&text(after)).changes_keys(), "a second apply has nothing to do");
            edit.handed_over.len()
        };
        let file = "B mine\n  A  =\r\nB =\n# end\n";
        // Whichever of the two goes first.
        let living = named("home", "A a\n").with_relatives(vec![section("")]);
        assert_eq!(moved(&living, file, "B mine\n  A  +\r\nB =\n# end\n"), 1);
        let orphan = section("").with_relatives(vec![named("home", "A a\n")]);
        assert_eq!(moved(&orphan, file, "B mine\n  A  +\r\n# end\n"), 1);
        assert_eq!(moved(&orphan, "B mine\n  A  +\r\nB =\n", "B mine\n  A  +\r\n"), 0);
        // With other options it is another key.
        assert_eq!(moved(&living, "no-pty A =\n", "no-pty A =\nA +\n"), 0);
        // A line is left to one of them only, and nobody gets a second one.
        let orphan = section("").with_relatives(vec![named("home", "A a\n"), named("third", "A a\n")]);
        assert_eq!(moved(&orphan, "A =\nA =\nA =\n", "A +\nA *\n"), 2);
        assert_eq!(moved(&orphan, "A =\nA +\n", "A *\nA +\n"), 1);
        assert_eq!(moved(&living, "A =\nA +\n", "A =\nA +\n"), 0);
        assert_eq!(moved(&living, "A =", "A +"), 1);
    }

    #[test]
    fn our_part_reads_as_the_source_does() {
        let part = |source: &str, file: &str| section(source).as_source(&text(file));
        let source = "# who\nA jane doe\r\n\nB b";
        assert_eq!(part(source, "B =\nB mine\nA =\n"), text(source));
        assert_eq!(part(source, "A =\n"), text("# who\nA jane doe\r\n\n"));
        assert_eq!(part(source, "A a\n"), b"");
        assert_eq!(part("A a", "A =\nB =\n"), text("A a\nB =\n"));
        assert_eq!(part("# none\n", ""), text("# none\n"));
        assert_eq!(part("", "A =\n"), text("A =\n"));
    }
}
