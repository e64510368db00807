//! Compares differences with the real git's byte by byte, for selected cases and many random texts.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::time::{Duration, Instant};

use bstr::{BString, ByteSlice, ByteVec};
use holo::diff::{Content, Modes, Side, load, render};
use holo_testing::{Need, ScratchRoot, trial};
use libtest_mimic::{Failed, Trial};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = cases().into_iter().map(Case::into_trial).collect();
    trials.push(trial("modes of files", &[Need::Program("git")], modes_of_files));
    trials.extend(BATCHES.iter().map(Batch::trial));
    trials
}

/// Returns a root from which git finds no configuration and no repository.
fn root() -> ScratchRoot {
    ScratchRoot::new()
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CEILING_DIRECTORIES", "/")
        .env("HOME", "/nonexistent")
}

/// Runs git on two paths below the root. Version 3 removes the prefixes from names, except in the line about binary
/// files, and the TAB after names with blanks.
fn git_diff(root: &ScratchRoot, old: &str, new: &str) -> Result<BString, Failed> {
    let run = |options: &str| {
        let arguments = format!("-c core.quotePath=false diff --no-index {options} --no-renames --no-ext-diff --");
        let run = root.run("git", &arguments.split_whitespace().chain([old, new]).collect::<Vec<_>>());
        // Like diff, git exits with 1 if there are differences.
        match run.status {
            Some(0 | 1) => Ok(run.stdout),
            _ => Err(Failed::from(run.to_string())),
        }
    };
    let (plain, prefixed) = (run("--no-prefix")?, run("")?);
    let mut shown = BString::default();
    let mut in_header = true;
    for (line, prefixed) in plain.lines_with_terminator().zip(prefixed.lines_with_terminator()) {
        in_header = line.starts_with(b"diff --git ") || in_header && !line.starts_with(b"@@");
        let names = in_header && (line.starts_with(b"--- ") || line.starts_with(b"+++ "));
        match line.strip_suffix(b"\t\n") {
            _ if in_header && line.starts_with(b"Binary files ") => shown.push_str(prefixed),
            Some(name) if names => [name, b"\n"].iter().for_each(|part| shown.push_str(part)),
            _ => shown.push_str(line),
        }
    }
    Ok(shown)
}

/// Splits git's output by file, and drops the lines that holo never prints. Returns for each file its first line,
/// without `diff --git`, and the rest.
fn split_by_file(output: &[u8]) -> Vec<(BString, BString)> {
    let mut files: Vec<(BString, BString)> = Vec::new();
    let mut in_header = true;
    for line in output.lines_with_terminator() {
        if let Some(names) = line.strip_prefix(b"diff --git ") {
            files.push((names.trim_end().into(), BString::default()));
            in_header = true;
        } else if let Some((_, rest)) = files.last_mut() {
            in_header &= !line.starts_with(b"@@");
            if !(in_header && line.starts_with(b"index ")) {
                rest.push_str(line);
            }
        }
    }
    files
}

fn file(content: impl AsRef<[u8]>) -> Content {
    Content::File { content: content.as_ref().to_vec(), mode: 0o644 }
}

fn executable(content: impl AsRef<[u8]>) -> Content {
    Content::File { content: content.as_ref().to_vec(), mode: 0o755 }
}

fn symlink(target: &str) -> Content {
    Content::Symlink { target: target.into() }
}

fn compare(ours: &[u8], gits: &[u8]) -> Result<(), Failed> {
    if ours == gits {
        return Ok(());
    }
    Err(format!("--- git's\n{}\n--- holo's\n{}", gits.as_bstr(), ours.as_bstr()).into())
}

/// A pair of sides that is compared individually.
struct Case {
    title: &'static str,
    old: (&'static str, Content),
    new: (&'static str, Content),
}

fn case(title: &'static str, old: Content, new: Content) -> Case {
    Case { title, old: ("old", old), new: ("new", new) }
}

fn named(title: &'static str, old: &'static str, new: &'static str) -> Case {
    Case { title, old: (old, file("a\n")), new: (new, file("b\n")) }
}

fn cases() -> Vec<Case> {
    use Content::Missing;
    let behind = |line: &[u8]| {
        let text = |changed: &[u8]| file([line, b"\n\t1\n\t2\n\t3\n", changed].concat());
        (text(b"old\n"), text(b"new\n"))
    };
    let function = |title, line: &[u8]| {
        let (old, new) = behind(line);
        case(title, old, new)
    };
    let late_nul = [vec![b'\n'; 8000], vec![0]].concat();
    let early_nul = [vec![b'\n'; 7999], vec![0]].concat();
    vec![
        case("text", file("a\nb\nc\n"), file("a\nx\nc\n")),
        case("text from nothing", file(""), file("a\n")),
        case("text to nothing", file("a\n"), file("")),
        case("equal files", file("a\n"), file("a\n")),
        case("equal symlinks", symlink("a"), symlink("a")),
        case("binary", file("a\n"), file("a\0b\n")),
        case("binary on both sides", executable("\0"), executable("\0\0")),
        case("binary by an early NUL", file("a\n"), file(&early_nul)),
        case("text despite a late NUL", file("a\n"), file(&late_nul)),
        case("new binary", Missing, file("a\0b\n")),
        case("deleted binary", file("a\0b\n"), Missing),
        case("mode", file("a\n"), executable("a\n")),
        case("mode of a binary", executable("\0"), file("\0")),
        case("mode and text", executable("a\n"), file("b\n")),
        case("mode and binary", executable("\0"), file("\0\0")),
        case("new file", Missing, file("a\nb\n")),
        case("new executable", Missing, executable("a\n")),
        case("new empty file", Missing, file("")),
        case("new symlink", Missing, symlink("a")),
        case("deleted file", file("a\nb\n"), Missing),
        case("deleted executable", executable("a"), Missing),
        case("deleted empty file", file(""), Missing),
        case("deleted symlink", symlink("a"), Missing),
        case("symlinks", symlink("a"), symlink("b c")),
        case("file to symlink", file("a\n"), symlink("a")),
        case("empty file to symlink", executable(""), symlink("a")),
        case("binary to symlink", file("\0"), symlink("a")),
        case("symlink to file", symlink("a"), file("a\n")),
        case("symlink to executable", symlink("a"), executable("a")),
        case("no newline in the old text", file("a\nb"), file("a\nb\n")),
        case("no newline in the new text", file("a\nb\n"), file("a\nb")),
        case("no newline in either text", file("a\nb"), file("a\nc")),
        case("no newline in context", file("a\nb"), file("c\nb")),
        function("function", b"fn main() {"),
        function("function with underscore", b"_start:"),
        function("function with dollar", b"$x = {"),
        function("no function with a digit", b"1:"),
        function("no function beyond ASCII", "é:".as_bytes()),
        function("function with white space behind", b"f() \t\r"),
        function("function with form feed behind", b"f()\x0b\x0c"),
        function("function of 80 bytes", "f".repeat(80).as_bytes()),
        function("function of 81 bytes", "f".repeat(81).as_bytes()),
        function("function cut within white space", format!("{}      g", "f".repeat(76)).as_bytes()),
        function("function cut within a character", format!("{}é", "f".repeat(79)).as_bytes()),
        function("function with invalid UTF-8", b"f \xff g"),
        function("function with a surrogate", b"f \xed\xa0\x80 g"),
        function("function with a non-character", "f \u{fffe} g".as_bytes()),
        function("function with another non-character", "f \u{ffff} g".as_bytes()),
        function("function with a character that git takes", "f \u{fdd0} \u{1ffff} g".as_bytes()),
        function("function with a NUL", &[vec![b'\n'; 8000], b"f \0 g".to_vec()].concat()),
        named("names with blanks", "an old", "a new"),
        named("names with a blank on one side", "old", "a new"),
        named("names with quotes", "\"old\"", "a \"new\""),
        named("names with control characters", "old\n\t", "new\u{7}\u{8}\u{b}\u{c}\r\u{1}\u{7f}"),
        named("names with backslash", "old\\", "new\\n"),
        named("names in UTF-8", "öld", "né w"),
        named("names below directories", "a b/old", "c/\"/new"),
    ]
}

impl Case {
    fn into_trial(self) -> Trial {
        trial(&format!("case: {}", self.title), &[Need::Program("git")], move || self.run())
    }

    fn run(self) -> Result<(), Failed> {
        let (old, root) = put(self.old, root());
        let (new, root) = put(self.new, root);
        let path = |side: &Side| match side.content {
            Content::Missing => "/dev/null".to_owned(),
            _ => side.name.to_string(),
        };
        let gits = split_by_file(&git_diff(&root, &path(&old), &path(&new))?);
        // For a missing side, git repeats the name of the other one.
        let one_exists = |rest: &BString| rest.starts_with(b"new file") || rest.starts_with(b"deleted file");
        let own_names = format!("{} {}", old.name, new.name).into();
        let expected = gits.iter().map(|(names, rest)| {
            let names = if one_exists(rest) { &own_names } else { names };
            [b"diff --holo ", names.as_slice(), b"\n", rest].concat()
        });
        compare(&render(&old, &new), &expected.collect::<Vec<_>>().concat())
    }
}

/// Without exact modes, files with any modes are compared as by git. With them, those whose modes git knows.
fn modes_of_files() -> Result<(), Failed> {
    let modes = [0o644, 0o755, 0o600, 0o700, 0o4711, 0o640, 0o601];
    for (old, new) in modes.iter().flat_map(|old| modes.iter().map(move |new| (*old, *new))) {
        let root = root().file("old", "a\n").mode("old", old).file("new", "a\n").mode("new", new);
        let gits = split_by_file(&git_diff(&root, "old", "new")?);
        let expected = gits.iter().map(|(names, rest)| [b"diff --holo ", names.as_slice(), b"\n", rest].concat());
        let expected = expected.collect::<Vec<_>>().concat();
        let ours = |modes: Modes| -> Result<Vec<u8>, Failed> {
            let side = |name: &str| load(&root.join(name), &root.join(""), modes);
            let [old, new] = ["old", "new"].map(|name| side(name).map(|content| Side { name: name.into(), content }));
            Ok(render(&old?, &new?))
        };
        compare(&ours(Modes::Git)?, &expected)?;
        if [old, new].iter().all(|mode| Modes::Git.shown(*mode) == *mode) {
            compare(&ours(Modes::Exact)?, &expected)?;
        }
    }
    Ok(())
}

/// Creates one side below the root.
fn put((name, content): (&str, Content), root: ScratchRoot) -> (Side, ScratchRoot) {
    let root = match &content {
        Content::Missing => root,
        Content::File { content, mode: 0o755 } => root.script(name, content),
        Content::File { content, .. } => root.file(name, content),
        Content::Directory { .. } => root.dir(name),
        Content::Symlink { target } => root.symlink(name, target.to_path_lossy()),
    };
    (Side { name: name.into(), content }, root)
}

/// A pair of texts.
type Pair = (Vec<u8>, Vec<u8>);

/// Random pairs that one run of git compares.
struct Batch {
    title: &'static str,
    pairs: usize,
    make: fn(&mut Random) -> Pair,
}

const BATCHES: [Batch; 5] = [
    Batch { title: "short texts", pairs: 2500, make: |random| random.edited(0..16) },
    Batch { title: "texts", pairs: 1200, make: |random| random.edited(0..200) },
    Batch { title: "long texts", pairs: 40, make: |random| random.edited(2000..3500) },
    Batch { title: "repetitive texts", pairs: 1000, make: Random::repetitive },
    Batch { title: "islands of equal lines", pairs: 2, make: Random::islands },
];

/// Together with the number of a pair, this reproduces a failure.
const SEED: u64 = 4;

impl Batch {
    fn trial(&'static self) -> Trial {
        trial(&format!("random: {}", self.title), &[Need::Program("git")], || self.run())
    }

    fn run(&self) -> Result<(), Failed> {
        let pairs: Vec<Pair> = (0..self.pairs).map(|number| self.pair(number)).collect();
        let root = root().dir("old").dir("new");
        for (number, (old, new)) in pairs.iter().enumerate() {
            fs::write(root.join(format!("old/{number}")), old)?;
            fs::write(root.join(format!("new/{number}")), new)?;
        }
        let gits: HashMap<_, _> = split_by_file(&git_diff(&root, "old", "new")?).into_iter().collect();
        let empty = BString::default();
        for (number, pair) in pairs.iter().enumerate() {
            let (old, new) = (format!("old/{number}"), format!("new/{number}"));
            let expected = gits.get(format!("{old} {new}").as_bytes().as_bstr()).unwrap_or(&empty);
            if rest_of_ours(&old, &new, pair) != *expected {
                return Err(explain(&format!("{}: pair {number} of seed {SEED}", self.title), pair));
            }
        }
        Ok(())
    }

    fn pair(&self, number: usize) -> Pair {
        (self.make)(&mut Random(SEED << 32 | number as u64))
    }
}

/// Returns our difference of a pair without its first line; empty if the texts are equal.
fn rest_of_ours(old_name: &str, new_name: &str, (old, new): &Pair) -> BString {
    let old = Side { name: old_name.into(), content: file(old) };
    let new = Side { name: new_name.into(), content: file(new) };
    let ours = render(&old, &new);
    ours.split_once_str(b"\n").map_or_else(BString::default, |(_, rest)| rest.into())
}

/// Describes a deviation from git with the smallest pair found.
fn explain(title: &str, pair: &Pair) -> Failed {
    let root = root();
    let deviation = |(old, new): &Pair| {
        root.write("old", old);
        root.write("new", new);
        let gits = split_by_file(&git_diff(&root, "old", "new").ok()?);
        let gits = gits.into_iter().next().unwrap_or_default().1;
        compare(&rest_of_ours("old", "new", &(old.clone(), new.clone())), &gits).err()
    };
    let (old, new) = shrink(pair, |pair| deviation(pair).is_some());
    let message = deviation(&(old.clone(), new.clone()));
    let message = message.and_then(|failed| failed.message().map(str::to_owned)).unwrap_or_default();
    format!("{title}, shrunk to\n{:?}\n{:?}\n{message}", old.as_bstr(), new.as_bstr()).into()
}

/// How long a failing test searches for a smaller pair.
const SHRINKING_TIME: Duration = Duration::from_secs(10);

/// Removes lines from both texts, in decreasing amounts, as long as the pair keeps failing.
fn shrink(pair: &Pair, fails: impl Fn(&Pair) -> bool) -> Pair {
    let started = Instant::now();
    let mut smallest = pair.clone();
    let mut chunk = smallest.0.lines().count().max(smallest.1.lines().count());
    while chunk > 0 && started.elapsed() < SHRINKING_TIME {
        let mut start = 0;
        let mut shrunk = false;
        let lines = smallest.0.lines().count().max(smallest.1.lines().count());
        while start < lines && started.elapsed() < SHRINKING_TIME {
            let old = without(&smallest.0, start..start + chunk);
            let new = without(&smallest.1, start..start + chunk);
            let (same_old, same_new) = smallest.clone();
            let candidates = [(old.clone(), new.clone()), (old, same_new), (same_old, new)];
            match candidates.into_iter().find(|pair| *pair != smallest && fails(pair)) {
                Some(smaller) => (smallest, shrunk) = (smaller, true),
                None => start += chunk,
            }
        }
        if !shrunk {
            chunk /= 2;
        }
    }
    smallest
}

fn without(text: &[u8], lines: Range<usize>) -> Vec<u8> {
    let kept = text.lines_with_terminator().enumerate().filter(|(number, _)| !lines.contains(number));
    kept.flat_map(|(_, line)| line).copied().collect()
}

/// The kind of lines in a text.
#[derive(Clone, Copy)]
enum Flavour {
    Numbers,
    Indented,
    Blanks,
    Code,
    Blocks,
    Noise,
    Bytes,
}

const FLAVOURS: [Flavour; 7] = [
    Flavour::Numbers,
    Flavour::Indented,
    Flavour::Blanks,
    Flavour::Code,
    Flavour::Blocks,
    Flavour::Noise,
    Flavour::Bytes,
];

const CODE: [&str; 18] = [
    "int main(void)",
    "{",
    "}",
    "",
    "    return 0;",
    "    if (x) {",
    "    }",
    "\tfoo();",
    "\tbar();",
    "_start:",
    "$var = 1",
    "/* c */",
    " */",
    "class Foo:",
    "    def x(self):",
    "        pass",
    "\u{c}",
    " \u{b} y",
];

/// A generator of pseudo-random numbers (SplitMix64), and of texts.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn line(&mut self, flavour: Flavour, variety: usize) -> Vec<u8> {
        let number = self.below(variety);
        match flavour {
            Flavour::Numbers => number.to_string().into_bytes(),
            Flavour::Indented => {
                let mut line: Vec<u8> = (0..self.below(5)).map(|_| self.pick(b"   \t")).collect();
                if self.percent(75) {
                    line.push_str(number.to_string());
                }
                line
            }
            Flavour::Blanks => match self.below(6) {
                0 => b"   ".to_vec(),
                1 | 2 => Vec::new(),
                _ => format!("{}{number}", "    ".repeat(self.below(3))).into_bytes(),
            },
            Flavour::Code => self.pick(&CODE).as_bytes().to_vec(),
            Flavour::Blocks => {
                let word = self.pick(&["begin", "end", "", "stmt"]);
                format!("{}{word}", "  ".repeat(self.below(4))).into_bytes()
            }
            Flavour::Noise if self.percent(75) => self.next().to_string().into_bytes(),
            Flavour::Noise => self.pick(&["{", "}"]).into(),
            Flavour::Bytes => {
                let len = self.pick(&[2, 5, 8, 140]);
                (0..self.below(len)).map(|_| self.pick(b"aaaabc  \xc3\xa9\xef\xbf\xbe\xff\x0c\x1b")).collect()
            }
        }
    }

    fn lines(&mut self, flavour: Flavour, variety: usize, count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|_| self.line(flavour, variety)).collect()
    }

    /// Inserts, removes, replaces and repeats lines, with this rate per thousand.
    fn edit(&mut self, old: &[Vec<u8>], flavour: Flavour, variety: usize, rate: usize) -> Vec<Vec<u8>> {
        let mut new = Vec::new();
        let mut at = 0;
        while at < old.len() {
            if self.below(1000) >= rate {
                new.push(old[at].clone());
                at += 1;
                continue;
            }
            match self.below(5) {
                0 => new.push(self.line(flavour, variety)),
                1 => at += 1 + self.below(6),
                2 => {
                    new.push(self.line(flavour, variety));
                    at += 1;
                }
                3 => new.extend_from_slice(&old[at.saturating_sub(self.below(6))..at]),
                _ => {
                    let start = self.below(old.len());
                    let end = old.len().min(start + self.below(6));
                    new.extend_from_slice(&old[start..end]);
                }
            }
        }
        new
    }

    fn move_blocks(&mut self, old: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut blocks: Vec<&[Vec<u8>]> = old.chunks(3 + self.below(30)).collect();
        for _ in 0..blocks.len().min(3) {
            let (one, other) = (self.below(blocks.len()), self.below(blocks.len()));
            blocks.swap(one, other);
        }
        blocks.concat()
    }

    /// Joins lines to a text that sometimes lacks the final newline.
    fn text(&mut self, lines: &[Vec<u8>], carriage_returns: usize) -> Vec<u8> {
        let mut text = Vec::new();
        for line in lines {
            text.extend_from_slice(line);
            if self.percent(carriage_returns) {
                text.push(b'\r');
            }
            text.push(b'\n');
        }
        if self.percent(15) {
            text.pop();
        }
        text
    }

    /// Returns a text and another one that is either an edited version or unrelated.
    fn edited(&mut self, lines: Range<usize>) -> Pair {
        let flavour = self.pick(&FLAVOURS);
        let variety = self.pick(&[2, 3, 5, 10, 40, 1000, 1_000_000]);
        let count = lines.start + self.below(lines.len());
        let old = self.lines(flavour, variety, count);
        let new = match self.below(8) {
            0 => {
                let count = self.below(count + count / 2 + 3);
                self.lines(flavour, variety, count)
            }
            1 => self.move_blocks(&old),
            2 => {
                let other = self.pick(&FLAVOURS);
                self.edit(&old, other, 1_000_000, 600)
            }
            _ => {
                let rate = self.pick(&[5, 50, 200, 500, 900]);
                self.edit(&old, flavour, variety, rate)
            }
        };
        let carriage_returns = self.pick(&[0, 0, 0, 0, 0, 0, 0, 50, 100]);
        (self.text(&old, carriage_returns), self.text(&new, carriage_returns))
    }

    /// Returns texts with repeated patterns, many blank lines and deep indentation, in which changes can slide far.
    fn repetitive(&mut self) -> Pair {
        let line = |random: &mut Self| match random.below(4) {
            0 => " ".repeat(random.pick(&[0, 4, 99, 150, 199, 200, 201])).into_bytes(),
            1 => format!("{}x", " ".repeat(random.pick(&[0, 2, 99, 150, 199, 200, 201]))).into_bytes(),
            2 => format!("{}y", "\t".repeat(random.pick(&[0, 1, 24, 25, 26]))).into_bytes(),
            _ => Vec::new(),
        };
        let mut some = |most: usize| -> Vec<Vec<u8>> { (0..self.below(most)).map(|_| line(self)).collect() };
        let (before, mut pattern, after) = (some(4), some(6), some(4));
        let blanks = self.pick(&[0, 0, 1, 17, 18, 19, 20, 21, 22]);
        pattern.extend(vec![Vec::new(); blanks]);
        pattern.push(line(self));
        let filler = self.pick(&[0, 0, 0, 60, 100, 120]);
        pattern.append(&mut self.lines(Flavour::Numbers, 1000, filler));
        let (count, other_count) = (self.below(150 / pattern.len() + 3), self.below(8));
        let repeated = |count: usize| [before.clone(), vec![pattern.clone(); count].concat(), after.clone()].concat();
        let (one, other) = (repeated(count), repeated(count + other_count));
        let (old, new) = if self.percent(50) { (one, other) } else { (other, one) };
        let new = self.edit(&new, Flavour::Blanks, 5, 4);
        (self.text(&old, 0), self.text(&new, 0))
    }

    /// Returns texts that consist of few different lines and have little in common apart from some long runs of equal
    /// lines. They are long enough for git's heuristic that settles for such a run.
    fn islands(&mut self) -> Pair {
        let variety = self.pick(&[10, 40, 150]);
        let (mut old, mut new) = (Vec::new(), Vec::new());
        while old.len() + new.len() < 70_000 {
            let sea = self.pick(&[300, 800, 2000, 4000]);
            for text in [&mut old, &mut new] {
                let count = sea / 2 + self.below(sea);
                text.append(&mut self.lines(Flavour::Numbers, variety, count));
            }
            let count = self.pick(&[20, 100, 600, 1200, 3000]);
            let island = self.lines(Flavour::Numbers, variety, count);
            old.extend_from_slice(&island);
            let rate = self.pick(&[0, 0, 5, 20]);
            new.append(&mut self.edit(&island, Flavour::Numbers, variety, rate));
        }
        (self.text(&old, 0), self.text(&new, 0))
    }
}
