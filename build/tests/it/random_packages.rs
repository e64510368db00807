//! Random descriptions, whose packages the real tools show as they were described.

use crate::support::Desk;
use holo_testing::{Need, Random, random, trial_of};
use libtest_mimic::Trial;
use std::collections::BTreeMap;
use std::fmt::Write;

pub(crate) fn trials() -> Vec<Trial> {
    let need = |program| [Need::Program(program)];
    vec![
        trial_of("debian_packages_are_read_back", &need("dpkg-deb"), debian_packages_are_read_back),
        trial_of(
            "pacman_packages_are_read_back",
            &["pacman", "tar", "xz"].map(Need::Program),
            pacman_packages_are_read_back,
        ),
        trial_of("rpm_packages_are_read_back", &need("rpm"), rpm_packages_are_read_back),
    ]
}

/// The number of descriptions for each format.
const CASES: u64 = 50;

/// A description with what it should become.
#[derive(Default)]
struct Case {
    text: String,
    name: String,
    /// The complete version, with a placeholder for the separator before a prerelease.
    version: String,
    description: String,
    architecture: usize,
    /// Relations as operator and version, by the name of the list.
    relations: BTreeMap<&'static str, Vec<Relation>>,
    /// Mode, owner, group, target or size, by path.
    nodes: BTreeMap<String, Node>,
    /// The scripts of actions, in the order of [`OCCASIONS`].
    actions: [Vec<String>; 4],
}

/// A name, with an operator and a version.
type Relation = (String, Option<(&'static str, String)>);

struct Node {
    kind: char,
    mode: u32,
    owner: u32,
    group: u32,
    /// The content of a file, or the target of a symlink.
    content: String,
    is_config: bool,
    is_declared: bool,
}

const OCCASIONS: [&str; 4] = ["setup", "removal", "cleanup", "purge"];
const LISTS: [&str; 4] = ["requires", "provides", "conflicts", "replaces"];
/// The names of architectures: in descriptions, for Debian, pacman and RPM.
const ARCHITECTURES: [[&str; 4]; 4] = [
    ["noarch", "all", "any", "noarch"],
    ["amd64", "amd64", "x86_64", "x86_64"],
    ["aarch64", "arm64", "aarch64", "aarch64"],
    ["armv7h", "armhf", "armv7h", "armv7hl"],
];

fn word(random: &mut Random) -> String {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    (0..2 + random.below(8)).map(|_| char::from(*random.pick(LETTERS))).collect()
}

/// A part of a path: mostly plain, sometimes odd, sometimes long.
fn part(random: &mut Random) -> String {
    match random.below(12) {
        0 => format!("{} é {}", word(random), word(random)),
        1 => format!("{}#=*'$&~", word(random)),
        2 => word(random).repeat(12),
        _ => word(random),
    }
}

impl Case {
    fn new(random: &mut Random, is_debian: bool) -> Case {
        let mut case = Case { name: format!("p{}-{}", word(random), word(random)), ..Case::default() };
        let number = format!("{}.{}.{}", random.below(30), random.below(2), random.below(2000));
        let (epoch, release) = (random.below(3), 1 + random.below(12));
        let mut text = format!("[package]\nname = \"{}\"\nversion = \"{number}\"\nauthor = \"J D <j@x>\"\n", case.name);
        let mut prerelease = String::new();
        if random.chance(30) {
            let stage = *random.pick(&["alpha", "beta"]);
            let count = random.below(9);
            let _ = writeln!(text, "{stage} = {count}");
            prerelease = format!("\0{stage}.{count}");
        }
        let _ = writeln!(text, "epoch = {epoch}\nrelease = {release}");
        let epoch = if epoch > 0 { format!("{epoch}:") } else { String::new() };
        case.version = format!("{epoch}{number}{prerelease}-{release}");
        if random.chance(70) {
            case.description = format!("{} é \\ \"{}\"", word(random), word(random));
            let _ = writeln!(text, "description = '{}'", case.description);
        }
        case.architecture = random.below(ARCHITECTURES.len());
        let _ = writeln!(text, "architecture = '{}'", ARCHITECTURES[case.architecture][0]);
        for list in LISTS {
            let mut relations = Vec::new();
            for _ in 0..random.below(4) {
                let has_version = random.chance(50);
                let operator = *random.pick(&["<", "<=", "=", ">=", ">"]);
                let operator = if is_debian && list == "provides" { "=" } else { operator };
                let version =
                    has_version.then(|| (operator, format!("{}:{}-2", 1 + random.below(2), random.below(100))));
                relations.push((format!("r{}", word(random)), version));
            }
            let shown = relations.iter().map(|(name, version)| match version {
                Some((operator, version)) => format!("'{name} {operator} {version}'"),
                None => format!("'{name}'"),
            });
            let _ = writeln!(text, "{list} = [{}]", shown.collect::<Vec<_>>().join(", "));
            case.relations.insert(list, relations);
        }
        case.text = text;
        (0..random.below(12)).for_each(|_| case.add_node(random));
        for _ in 0..random.below(3) {
            let script = format!("echo {}", word(random));
            let on = random.below(OCCASIONS.len());
            let _ = write!(case.text, "[[action]]\non = '{}'\nscript = '{script}'\n", OCCASIONS[on]);
            case.actions[on].push(script);
        }
        case
    }

    fn add_node(&mut self, random: &mut Random) {
        let parents: Vec<String> = (0..1 + random.below(4)).map(|_| part(random)).collect();
        let path = format!("{}/{}", parents.join("/"), part(random));
        let (mut mode, owner, group) = (*random.pick(&[0o644, 0o4755, 0o600]), random.below(3), random.below(5));
        let (mut owner, mut group) = (owner as u32 * 1_500_000, group as u32);
        let mut content = String::new();
        let is_config = random.chance(20);
        let kind = *random.pick(&['-', '-', 'd', 'l']);
        let _ = match kind {
            '-' => {
                content = (0..1 + random.below(20)).map(|_| word(random) + "\n").collect();
                write!(self.text, "[[file]]\nraw = true\nconfig = {is_config}\ncontent = '''\n{content}'''\n")
            }
            'd' => writeln!(self.text, "[[directory]]"),
            _ => {
                (mode, owner, group) = (0o777, 0, 0);
                content = (0..1 + random.below(3)).map(|_| format!("../{}", part(random))).collect();
                write!(self.text, "[[symlink]]\ntarget = \"{content}\"\n")
            }
        };
        let _ = writeln!(self.text, "path = \"/{path}\"");
        if kind != 'l' {
            let _ = writeln!(self.text, "mode = '{mode:o}'\nowner = {owner}\ngroup = {group}");
        }
        let is_config = is_config && kind == '-';
        self.nodes.insert(path, Node { kind, mode, owner, group, content, is_config, is_declared: true });
        for end in 1..=parents.len() {
            let implied = Node {
                kind: 'd',
                mode: 0o755,
                owner: 0,
                group: 0,
                content: String::new(),
                is_config: false,
                is_declared: false,
            };
            self.nodes.entry(parents[..end].join("/")).or_insert(implied);
        }
    }

    fn desk(&self) -> Desk {
        Desk::new(&self.text)
    }

    /// The relations of a list, as a format shows them.
    fn relations(&self, list: &str, shown: impl Fn(&str, Option<(&str, &str)>) -> String) -> Vec<String> {
        let relations = self.relations[list].iter();
        let mut all: Vec<String> = Vec::new();
        for (name, version) in relations {
            let relation = shown(name, version.as_ref().map(|(operator, version)| (*operator, version.as_str())));
            if !all.contains(&relation) {
                all.push(relation);
            }
        }
        all
    }

    fn configs(&self) -> Vec<String> {
        self.nodes.iter().filter(|(_, node)| node.is_config).map(|(path, _)| format!("/{path}")).collect()
    }

    /// The permissions, owner, size, path and target of each file as `tar` lists them, in the order of the paths.
    fn listing(&self, prefix: &str) -> Vec<String> {
        let lines = self.nodes.iter().map(|(path, node)| {
            let size = if node.kind == '-' { node.content.len() } else { 0 };
            let owner = |id: u32| if id == 0 { "root".to_owned() } else { id.to_string() };
            let (slash, target) = match node.kind {
                'd' => ("/", String::new()),
                'l' => ("", format!(" -> {}", node.content)),
                _ => ("", String::new()),
            };
            let mode = permissions(node.mode);
            let (owner, group) = (owner(node.owner), owner(node.group));
            format!("{}{mode} {owner}/{group} {size} {prefix}{path}{slash}{target}", node.kind)
        });
        lines.collect()
    }
}

fn permissions(mode: u32) -> String {
    let bit = |shift: u32, letter: char| if mode >> shift & 1 == 1 { letter } else { '-' };
    let mut letters: Vec<char> =
        (0..9).rev().zip("rwx".chars().cycle()).map(|(shift, letter)| bit(shift, letter)).collect();
    if mode & 0o4000 != 0 {
        letters[2] = if letters[2] == 'x' { 's' } else { 'S' };
    }
    letters.into_iter().collect()
}

/// Removes the columns of date and time from a listing, and the padding.
fn without_times(listing: &str) -> Vec<String> {
    let lines = listing.lines().map(|line| {
        let mut rest = line;
        let mut columns: Vec<&str> = Vec::new();
        for _ in 0..5 {
            let (column, after) = rest.trim_start().split_once(' ').unwrap();
            columns.push(column);
            rest = after;
        }
        format!("{} {} {} {}", columns[0], columns[1], columns[2], rest)
    });
    lines.collect()
}

fn lines(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn debian_packages_are_read_back() {
    random::cases(CASES, |random| {
        let case = Case::new(random, true);
        let desk = case.desk();
        let package = desk.build("debian");
        let field = |name: &str| desk.must("dpkg-deb", &["-f", &package, name]).trim_end().to_owned();
        assert_eq!(field("Package"), case.name);
        assert_eq!(field("Version"), case.version.replace('\0', "~"));
        assert_eq!(field("Architecture"), ARCHITECTURES[case.architecture][1]);
        let description = if case.description.is_empty() { &case.name } else { &case.description };
        assert_eq!(field("Description"), *description);
        for (name, list) in ["Depends", "Provides", "Conflicts", "Replaces"].iter().zip(LISTS) {
            let relations = case.relations(list, |name, version| match version {
                Some(("<", version)) => format!("{name} (<< {version})"),
                Some((">", version)) => format!("{name} (>> {version})"),
                Some((operator, version)) => format!("{name} ({operator} {version})"),
                None => name.to_owned(),
            });
            assert_eq!(field(name), relations.join(", "), "{}", case.text);
        }
        let listed = without_times(&desk.must("dpkg-deb", &["-c", &package]));
        assert_eq!(listed[0], "drwxr-xr-x root/root 0 ./");
        assert_eq!(listed[1..], case.listing("./"), "{}", case.text);
        let control = |file: &str| {
            let run = desk.root.run("dpkg-deb", &["-I", &package, file]);
            if run.success() { run.stdout_lossy().into_owned() } else { String::new() }
        };
        assert_eq!(lines(&control("conffiles")), case.configs());
        desk.sh(&format!(
            "dpkg-deb -R {package} out; cd out; grep -q . DEBIAN/md5sums || exit 0; md5sum --quiet -c DEBIAN/md5sums"
        ));
        let [setup, removal, cleanup, purge] = &case.actions;
        let last = [&purge[..], cleanup].concat();
        for (file, scripts) in [("postinst", setup), ("prerm", removal), ("postrm", &last)] {
            let shown = lines(&control(file)).into_iter().filter(|line| line.starts_with("echo "));
            assert_eq!(shown.collect::<Vec<_>>(), *scripts);
        }
    });
}

fn pacman_packages_are_read_back() {
    random::cases(CASES, |random| {
        let case = Case::new(random, false);
        let desk = case.desk();
        let package = desk.build("pacman");
        let info = desk.must("pacman", &["--dbpath", ".", "-Qip", &package]);
        let field = |name: &str| {
            let mut lines = info.lines().skip_while(|line| !line.starts_with(name));
            let value = lines.next().unwrap().split_once(": ").unwrap().1.trim();
            if value == "None" { String::new() } else { value.to_owned() }
        };
        assert_eq!(field("Name"), case.name);
        assert_eq!(field("Version"), case.version.replace('\0', ""));
        assert_eq!(field("Architecture"), ARCHITECTURES[case.architecture][2]);
        assert_eq!(field("Description"), case.description);
        for (name, list) in ["Depends On", "Provides", "Conflicts With", "Replaces"].iter().zip(LISTS) {
            let relations = case.relations(list, |name, version| match version {
                Some((operator, version)) => format!("{name}{operator}{version}"),
                None => name.to_owned(),
            });
            let shown: Vec<String> = field(name).split_whitespace().map(str::to_owned).collect();
            assert_eq!(shown, relations, "{}", case.text);
        }
        let paths = case.nodes.iter().map(|(path, node)| format!("/{path}{}", if node.kind == 'd' { "/" } else { "" }));
        let listed = desk.must("pacman", &["--dbpath", ".", "-Qlpq", &package]);
        let mut listed = lines(&listed);
        let mut paths: Vec<String> = paths.collect();
        listed.sort();
        paths.sort();
        assert_eq!(listed, paths, "{}", case.text);
        let listed = desk.sh(&format!("tar --force-local --quoting-style=literal -tvf {package}"));
        let listed: Vec<String> = without_times(&listed)
            .into_iter()
            .filter(|line| !line.contains(" root/root ") || !line.contains(" ."))
            .collect();
        assert_eq!(
            listed,
            case.listing("")
                .into_iter()
                .filter(|line| !line.contains(" root/root ") || !line.contains(" ."))
                .collect::<Vec<_>>()
        );
        let info = desk.sh(&format!("tar --force-local -xOf {package} .PKGINFO"));
        let backup = info.lines().filter_map(|line| line.strip_prefix("backup = ")).map(|path| format!("/{path}"));
        assert_eq!(backup.collect::<Vec<_>>(), case.configs());
    });
}

fn rpm_packages_are_read_back() {
    random::cases(CASES, |random| {
        let case = Case::new(random, false);
        let desk = case.desk();
        let package = desk.build("rpm");
        let package = format!("./{package}");
        let format = "%{NAME}\n%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\n%{ARCH}\n%{SUMMARY}";
        let shown = desk.must("rpm", &["-qp", "--qf", format, &package]);
        let description = if case.description.is_empty() { &case.name } else { &case.description };
        let version = case.version.replace('\0', "~");
        let architecture = ARCHITECTURES[case.architecture][3];
        assert_eq!(shown, format!("{}\n{version}\n{architecture}\n{description}", case.name));
        assert!(desk.must("rpm", &["-K", "--nosignature", &package]).contains(": digests OK"));
        for (option, list) in ["--requires", "--provides", "--conflicts", "--obsoletes"].iter().zip(LISTS) {
            let mut relations = case.relations(list, |name, version| match version {
                Some((operator, version)) => format!("{name} {operator} {version}"),
                None => name.to_owned(),
            });
            if list == "provides" {
                relations.push(format!("{} = {version}", case.name));
            }
            let listed = lines(&desk.must("rpm", &["-qp", option, &package]));
            let listed: Vec<String> = listed.into_iter().filter(|line| !line.starts_with("rpmlib(")).collect();
            assert_eq!(listed, relations, "{}", case.text);
        }
        let format = "[%{FILEMODES:perms} %{FILESIZES} %{FILENAMES} -> %{FILELINKTOS}\n]";
        let listed = lines(&desk.must("rpm", &["-qp", "--qf", format, &package]));
        let declared = case.nodes.iter().filter(|(_, node)| node.is_declared).map(|(path, node)| {
            let (size, target) = match node.kind {
                'd' => (0, ""),
                'l' => (node.content.len(), node.content.as_str()),
                _ => (node.content.len(), ""),
            };
            format!("{}{} {size} /{path} -> {target}", node.kind, permissions(node.mode))
        });
        let declared: Vec<String> = declared.collect();
        assert_eq!(listed.into_iter().filter(|line| line != "(none)").collect::<Vec<_>>(), declared, "{}", case.text);
        let format = "[%{FILEFLAGS:fflags} %{FILENAMES}\n]";
        let flags = lines(&desk.must("rpm", &["-qp", "--qf", format, &package])).into_iter();
        let configs = flags.filter_map(|line| line.strip_prefix("cn ").map(str::to_owned));
        assert_eq!(configs.collect::<Vec<_>>(), case.configs());
        let scripts = desk.must("rpm", &["-qp", "--scripts", &package]);
        let scripts: Vec<&str> = scripts.lines().filter(|line| line.starts_with("echo ")).collect();
        assert_eq!(scripts, case.actions.concat());
        // Owners other than root are set by the script.
        let owners = case.nodes.values().filter(|node| node.owner != 0).count();
        let shown = desk.must("rpm", &["-qp", "--scripts", &package]);
        assert_eq!(shown.lines().filter(|line| line.starts_with("chown ")).count(), owners);
    });
}
