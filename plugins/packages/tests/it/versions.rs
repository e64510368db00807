//! Comparison of versions: vectors, and random pairs that are judged by the package managers.
//!
//! `HOLO_TEST_PAIRS` is the number of pairs. 100000 pairs take minutes, because dpkg and vercmp take one process for each pair.

use holo_packages::version;
use holo_testing::{Need, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::cmp::Ordering;
use std::time::Duration;

type Compare = fn(&str, &str) -> Ordering;

const VECTORS: &str = include_str!("vectors/versions.tsv");

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial_of("every vector has the expected result", &[], vectors),
        trial_of("omitted parts of an RPM version match any value", &[], wildcards),
        trial_of("Arch Linux's examples are in their order", &[], arch_examples),
        trial_of("Alpine's examples are in their order", &[], alpine_examples),
        trial_of("dpkg judges random pairs as we do", &[Need::Program("dpkg")], against_dpkg),
        trial_of("rpm judges random pairs as we do", &[Need::Program("rpm")], against_rpm),
        trial_of("vercmp judges random pairs as we do", &[Need::Program("vercmp")], against_vercmp),
    ]
}

fn vectors() {
    let mut count = 0;
    for line in VECTORS.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [kind, a, b, expected] = fields[..] else { panic!("{line:?}") };
        let compare = if kind == "debian" { version::compare_debian } else { version::compare_rpm };
        assert_eq!(compare(a, b), number(expected), "{line}");
        assert_eq!(compare(b, a), number(expected).reverse(), "{line}, turned");
        count += 1;
    }
    assert_eq!(count, 147);
}

fn number(text: &str) -> Ordering {
    text.parse::<i32>().unwrap().cmp(&0)
}

fn wildcards() {
    for (asked, there, expected) in [
        ("1.24.0", "1.24.0-1.el9", true),
        ("1.24.0", "2:1.24.0-1.el9", true),
        ("1.24.0-1.el9", "2:1.24.0-1.el9", true),
        ("2:1.24.0", "2:1.24.0-7", true),
        ("0:1.24.0", "1.24.0-7", true),
        ("1:1.24.0", "2:1.24.0-1", false),
        ("0:1.24.0", "2:1.24.0-1", false),
        ("1.24.0-2", "1.24.0-1", false),
        ("1.24", "1.24.0-1", false),
        ("1.24.00", "1.24.0-1", true),
    ] {
        assert_eq!(version::matches_rpm(asked, there), expected, "{asked} {there}");
    }
}

fn in_order(compare: Compare, versions: &[&str]) {
    for (a_place, a) in versions.iter().enumerate() {
        for (b_place, b) in versions.iter().enumerate() {
            assert_eq!(compare(a, b), a_place.cmp(&b_place), "{a} {b}");
        }
    }
}

fn arch_examples() {
    in_order(
        version::compare_pacman,
        &["1.0a", "1.0b", "1.0beta", "1.0p", "1.0pre", "1.0rc", "1.0", "1.0.a", "1.0.1", "1.0.2-1", "1.0.2-2", "1:0.1"],
    );
    assert_eq!(version::compare_pacman("1.0", "1.0-5"), Ordering::Equal);
}

fn alpine_examples() {
    in_order(
        version::compare_alpine,
        &[
            "0.1.0_alpha",
            "0.1.0_alpha2",
            "0.1.0_beta1_p3",
            "0.1.0_pre1",
            "0.1.0_rc1",
            "0.1.0",
            "0.1.0-r1",
            "0.1.0-r10",
            "0.1.0_git20200101",
            "0.1.0_p1",
            "0.1.0_p1-r2",
            "0.1.0a",
            "0.1.0b_rc1",
            "0.1.0b",
            "0.1.01",
            "0.1.1",
            "0.1.10",
            "0.2",
            "0.10",
            "1.0",
        ],
    );
    assert_eq!(version::compare_alpine("1.0~abcdef-r1", "1.0-r1"), Ordering::Equal);
}

/// Pseudo-random numbers from a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn pick(&mut self, words: &[&'static str]) -> &'static str {
        words[self.below(words.len())]
    }

    fn version(&mut self, words: &[&'static str]) -> String {
        let mut version = self.pick(&["0", "1", "2", "10", "1.0", "01"]).to_owned();
        for _ in 0..self.below(6) {
            version += self.pick(words);
        }
        version
    }

    /// Returns two versions, often similar ones.
    fn pair(&mut self, words: &[&'static str]) -> (String, String) {
        let first = self.version(words);
        let second = match self.below(4) {
            0 => self.version(words),
            1 => format!("{first}{}", self.pick(words)),
            2 => {
                let cut = self.below(first.len()) + 1;
                format!("{}{}{}", &first[..cut], self.pick(words), self.pick(words))
            }
            // Leading zeros do not matter.
            _ => first.replace(".1", ".01").replace("~rc1", "~rc001"),
        };
        let epoch = |random: &mut Random| random.pick(&["", "", "", "", "0:", "1:", "01:", "12:"]);
        let release = |random: &mut Random| random.pick(&["", "", "-0", "-1", "-01", "-1.1", "-10"]);
        let mut complete = |version: String| format!("{}{version}{}", epoch(self), release(self));
        let first = complete(first);
        (first, complete(second))
    }
}

fn pairs(words: &[&'static str], default: usize, usable: fn(&str) -> bool) -> Vec<(String, String)> {
    let count = std::env::var("HOLO_TEST_PAIRS").ok().map_or(default, |count| count.parse().unwrap());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut pairs = Vec::new();
    while pairs.len() < count {
        let pair = random.pair(words);
        if usable(&pair.0) && usable(&pair.1) {
            pairs.push(pair);
        }
    }
    pairs
}

/// Runs a script that reads pairs from a file and prints a number or a sign for each.
fn judged(pairs: &[(String, String)], script: &str) -> Vec<Ordering> {
    let root = ScratchRoot::new().time_limit(Duration::from_secs(3600));
    let text: String = pairs.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
    root.write("pairs", text);
    let run = root.run("/bin/sh", &["-ec", &script.replace("PAIRS", &root.join("pairs").display().to_string())]);
    assert!(run.success(), "{run}");
    let stdout = run.stdout_lossy().into_owned();
    let sign = |line: &str| match line.trim() {
        "<" => Ordering::Less,
        "=" => Ordering::Equal,
        ">" => Ordering::Greater,
        other => number(other),
    };
    stdout.lines().map(sign).collect()
}

fn compare_all(compare: Compare, pairs: &[(String, String)], script: &str) {
    let judged = judged(pairs, script);
    assert_eq!(judged.len(), pairs.len());
    let differs = |((a, b), judged): (&(String, String), &Ordering)| {
        (compare(a, b) != *judged || compare(b, a) != judged.reverse()).then(|| format!("{a} {b}: {judged:?}"))
    };
    let different: Vec<String> = pairs.iter().zip(&judged).filter_map(differs).collect();
    assert!(
        different.is_empty(),
        "{} of {}: {:#?}",
        different.len(),
        pairs.len(),
        &different[..different.len().min(20)]
    );
    // The test is meaningless if nearly all pairs have the same result.
    for order in [Ordering::Less, Ordering::Equal, Ordering::Greater] {
        let count = judged.iter().filter(|judged| **judged == order).count();
        assert!(count * 50 > judged.len(), "only {count} are {order:?}");
    }
}

const WORDS: &[&str] = &[
    "0",
    "1",
    "9",
    "00",
    "10",
    "007",
    "123456789012345678901",
    ".",
    ".0",
    ".1",
    ".01",
    "~",
    "~rc1",
    "~~",
    "+",
    "+b1",
    "a",
    "b",
    "rc",
    "alpha",
    "A",
    "Z",
    ".a",
    "+dfsg",
    "-1",
    "-0",
    "_",
];

/// Versions of Debian have no underscores.
fn against_dpkg() {
    let words: Vec<&'static str> = WORDS.iter().copied().filter(|word| *word != "_").chain(["1:2"]).collect();
    // A colon may follow the first one only if there is an epoch.
    let usable = |version: &str| match version.split_once(':') {
        Some((epoch, rest)) => {
            epoch.len() < 3 && epoch.bytes().all(|byte| byte.is_ascii_digit()) && !rest.starts_with('-')
        }
        None => true,
    };
    let pairs = pairs(&words, 3000, usable);
    let script = "while read -r a b; do \
        if dpkg --compare-versions \"$a\" lt \"$b\"; then echo '<'; \
        elif dpkg --compare-versions \"$a\" eq \"$b\"; then echo =; else echo '>'; fi; done <PAIRS";
    compare_all(version::compare_debian, &pairs, script);
}

fn against_rpm() {
    // rpm does not parse versions with several hyphens.
    let words: Vec<&'static str> =
        WORDS.iter().copied().filter(|word| !word.starts_with('-')).chain(["^", "^git1", "~^", "^~"]).collect();
    let script = "rpm --eval '%{lua: for line in io.lines(\"PAIRS\") do \
        local a, b = line:match(\"^(%S+) (%S+)$\"); print(rpm.vercmp(a, b) .. \"\\n\") end}' | grep .";
    compare_all(version::compare_rpm, &pairs(&words, 100_000, |_| true), script);
}

fn against_vercmp() {
    let words: Vec<&'static str> = WORDS.iter().copied().filter(|word| !word.starts_with('-')).collect();
    let script = "while read -r a b; do vercmp \"$a\" \"$b\"; done <PAIRS";
    compare_all(version::compare_pacman, &pairs(&words, 3000, |_| true), script);
}
