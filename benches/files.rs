//! Times holo with many `files` entities beside rsync with as many files, and prints a table. The README says how.
#![expect(clippy::disallowed_methods, reason = "this starts what it measures, with nothing between")]
#![expect(clippy::print_stdout, reason = "the table is what it is for")]

mod common;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use common::{median, run, show};
use holo_testing::{Need, binaries, require};
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const FILES_IN_FOLDER: usize = 100;
const FILE_SIZE: usize = 400;
/// How long files have to have been left alone before an apply records them as unchanged.
const SETTLED_AFTER: Duration = Duration::from_secs(3);

/// GNU time, which unlike the shell's knows how much memory a program took.
const TIME: &str = "/usr/bin/time";

#[derive(Parser)]
struct Options {
    /// How many entities there are
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1000, 10_000])]
    sizes: Vec<usize>,
    /// How often everything is timed; the median counts
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Cargo gives it to benchmarks, but not when it runs them as tests
    #[arg(long, hide = true)]
    bench: bool,
}

/// What is timed, in this order, over and over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Scan,
    RsyncToEmpty,
    RsyncEqual,
    FirstApply,
    Apply,
    ApplyOne,
}

const STEPS: [(Step, &str); 6] = [
    (Step::Scan, "`holo scan -s`"),
    (Step::RsyncToEmpty, "`rsync -a` to an empty directory"),
    (Step::RsyncEqual, "`rsync -ac`, all equal"),
    (Step::FirstApply, "first `holo apply`"),
    (Step::Apply, "`holo apply`, nothing to do"),
    (Step::ApplyOne, "`holo apply ENTITY`, nothing to do"),
];

const RATIOS: [(Step, Step, &str); 3] = [
    (Step::FirstApply, Step::RsyncToEmpty, "first apply / `rsync -a`"),
    (Step::Apply, Step::RsyncEqual, "apply with nothing to do / `rsync -ac`"),
    (Step::ApplyOne, Step::Scan, "apply of one entity / scan"),
];

/// A column of the table.
struct Column {
    size: usize,
    /// The medians, in the order of [`STEPS`].
    times: Vec<Option<Duration>>,
    /// Kilobytes, for the first apply and for one with nothing to do.
    memory: Option<[u64; 2]>,
    /// Kilobytes of the dispatcher alone, for a scan and for an apply with nothing to do.
    dispatcher: [u64; 2],
    calls: Option<Calls>,
}

/// What strace counted.
struct Calls {
    programs: u64,
    total: u64,
    /// The names of the calls, the most frequent first.
    by_number: Vec<(u64, String)>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if !options.bench {
        println!("nothing is measured: run `cargo bench --bench files`");
        return Ok(());
    }
    ensure!(!cfg!(debug_assertions), "built without optimisation: run `cargo bench --bench files`");
    ensure!(options.runs > 0, "--runs must be at least 1");
    let holo = binaries::binary("holo")?;
    binaries::binary("holo-files")?;
    println!("Binaries: {}\n", holo.parent().unwrap_or(&holo).display());
    // File systems hesitate to take an inode again that was freed a moment ago, and search long for others: nothing is removed before all
    // is timed.
    let mut sites = Vec::new();
    let columns: Vec<Column> =
        options.sizes.iter().map(|&size| Column::measure(size, options.runs, &mut sites)).collect::<Result<_>>()?;
    println!("{}", table(&columns));
    for (program, rows) in [("rsync", "its times, and ratios"), (TIME, "memory"), ("strace", "system calls")] {
        if !has(program) {
            println!("Left out for want of {program}: {rows}.");
        }
    }
    Ok(())
}

fn has(program: &'static str) -> bool {
    require::missing(&[Need::Program(program)]).is_none()
}

/// A root with its entities, and the directory that rsync fills.
struct Site {
    dir: TempDir,
    size: usize,
}

impl Site {
    /// Makes the tree: resource files, and in the target tree a stock file for each.
    fn make(size: usize) -> Result<Site> {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let dir = TempDir::new_in(scratch).with_context(|| format!("make a directory in {}", scratch.display()))?;
        let site = Site { dir, size };
        for folder in ["etc", "run", "tmp", "var/lib/holo/files"] {
            create_folder(&site.root().join(folder))?;
        }
        create_folder(&site.copy())?;
        let plugin = binaries::binary("holo-files")?;
        write(&site.root().join("etc/holorc"), &format!("plugin files={}\n", plugin.display()))?;
        write(&site.root().join("etc/os-release"), "ID=debian\n")?;
        for number in 0..size {
            if number.is_multiple_of(FILES_IN_FOLDER) {
                for tree in [site.root(), site.resources()] {
                    create_folder(tree.join(target(number)).parent().unwrap_or(&tree))?;
                }
            }
            write(&site.root().join(target(number)), &content("stock", number))?;
            write(&site.resources().join(target(number)), &content("wanted", number))?;
        }
        Ok(site)
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn resources(&self) -> PathBuf {
        self.root().join("usr/share/holo/files/01-bench")
    }

    fn copy(&self) -> PathBuf {
        self.dir.path().join("copy")
    }

    /// A program in the environment of all that is measured.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let root = self.root();
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOLO_ROOT_DIR", &root)
            .env("TMPDIR", root.join("tmp"))
            .env("LC_ALL", "C")
            // On a real root the record of what is unchanged is kept without asking.
            .env("HOLO_FILES_RECORD", "1")
            .current_dir(root);
        command
    }

    fn holo(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = self.command(binaries::binary("holo")?);
        command.args(arguments);
        Ok(command)
    }

    fn rsync(&self, options: &str) -> Command {
        let mut command = self.command("rsync");
        // The slash has it copy what is in the directory, not the directory.
        command.arg(options).arg(self.resources().join("")).arg(self.copy());
        command
    }

    /// Lets an apply record what is unchanged, which it only does of files that have been left alone for a while.
    fn settle(&self) -> Result<()> {
        std::thread::sleep(SETTLED_AFTER);
        run(self.holo(&["apply"])?).map(drop)
    }

    /// Does one step, and returns how long it took, or nothing if its program is missing.
    fn time(&self, step: Step) -> Result<Option<Duration>> {
        if matches!(step, Step::Apply) {
            self.settle()?;
        }
        let one = format!("file:/{}", target(self.size / 2));
        let command = match step {
            Step::Scan => self.holo(&["scan", "-s"])?,
            Step::FirstApply | Step::Apply => self.holo(&["apply"])?,
            Step::ApplyOne => self.holo(&["apply", &one])?,
            Step::RsyncToEmpty | Step::RsyncEqual if !has("rsync") => return Ok(None),
            Step::RsyncToEmpty => self.rsync("-a"),
            Step::RsyncEqual => self.rsync("-ac"),
        };
        // Nobody shall pay for what was written before.
        rustix::fs::sync();
        let start = Instant::now();
        let output = run(command)?;
        let took = start.elapsed();
        let is_right = match step {
            Step::Scan => output.stdout.iter().filter(|&&byte| byte == b'\n').count() >= self.size,
            Step::FirstApply => self.is_filled(&self.root())?,
            Step::RsyncToEmpty => self.is_filled(&self.copy())?,
            // Only what changes is shown.
            Step::Apply | Step::ApplyOne | Step::RsyncEqual => output.stdout.trim_ascii().is_empty(),
        };
        ensure!(is_right, "what was timed did not do what it should:\n{}", String::from_utf8_lossy(&output.stdout));
        Ok(Some(took))
    }

    fn is_filled(&self, dir: &Path) -> Result<bool> {
        for number in 0..self.size {
            let path = dir.join(target(number));
            let found = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
            if found != content("wanted", number).as_bytes() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs `holo apply` under GNU time, and returns how many kilobytes its largest process had in memory.
    fn memory(&self) -> Result<u64> {
        let log = self.dir.path().join("memory");
        let mut command = self.command(TIME);
        command.args(["-f", "%M", "-o"]).arg(&log).arg(binaries::binary("holo")?).arg("apply");
        run(command)?;
        let text = read(&log)?;
        text.trim().parse().with_context(|| format!("understand what {TIME} says: {text}"))
    }

    /// Runs holo, and returns how many kilobytes the dispatcher itself had in memory, without its plugins.
    fn dispatcher_memory(&self, arguments: &[&str]) -> Result<u64> {
        let mut child = self.holo(arguments)?.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let status = format!("/proc/{}/status", child.id());
        let mut peak = 0;
        while child.try_wait()?.is_none() {
            // The kernel keeps the peak, so it does not matter when it is read; but it has to be before the end.
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            peak = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(peak);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(peak)
    }

    /// Runs `holo apply` under strace.
    fn calls(&self) -> Result<Calls> {
        self.settle()?;
        let log = self.dir.path().join("calls");
        let mut command = self.command("strace");
        command.args(["-f", "-c", "-o"]).arg(&log).arg(binaries::binary("holo")?).arg("apply");
        run(command)?;
        Calls::parse(&read(&log)?)
    }
}

/// The path of an entity's target, relative to the root.
fn target(number: usize) -> String {
    format!("srv/{:04}/{number:06}.conf", number / FILES_IN_FOLDER)
}

fn content(word: &str, number: usize) -> String {
    let mut text = format!("{word} {number}\n").repeat(FILE_SIZE);
    text.truncate(FILE_SIZE);
    text
}

fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("create {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

impl Calls {
    /// Understands the table of `strace -c`: share, seconds, µs a call, calls, errors if there are any, name.
    fn parse(text: &str) -> Result<Calls> {
        let mut calls = Calls { programs: 0, total: 0, by_number: Vec::new() };
        for line in text.lines() {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let (Some(Ok(number)), Some(&name)) = (cells.get(3).map(|cell| cell.parse::<u64>()), cells.last()) else {
                continue;
            };
            let errors = cells.get(4).and_then(|cell| cell.parse().ok()).unwrap_or(0);
            match name {
                "total" => calls.total = number,
                "execve" => calls.programs = number.saturating_sub(errors),
                _ => {}
            }
            if name != "total" {
                calls.by_number.push((number, name.to_owned()));
            }
        }
        calls.by_number.sort_by(|one, other| other.cmp(one));
        ensure!(calls.total > 0 && calls.programs > 0, "this is no table of strace:\n{text}");
        Ok(calls)
    }
}

impl Column {
    fn measure(size: usize, runs: usize, sites: &mut Vec<Site>) -> Result<Column> {
        let mut times = vec![Vec::new(); STEPS.len()];
        for _ in 0..runs {
            // A first apply needs a tree that has seen none.
            let site = Site::make(size)?;
            for (times, (step, _)) in times.iter_mut().zip(STEPS) {
                times.extend(site.time(step)?);
            }
            sites.push(site);
        }
        let site = Site::make(size)?;
        let memory = if has(TIME) { Some([site.memory()?, site.memory()?]) } else { None };
        if memory.is_none() {
            run(site.holo(&["apply"])?)?;
        }
        let dispatcher = [site.dispatcher_memory(&["scan", "-s"])?, site.dispatcher_memory(&["apply"])?];
        let calls = if has("strace") { Some(site.calls()?) } else { None };
        Ok(Column { size, times: times.into_iter().map(median).collect(), memory, dispatcher, calls })
    }

    fn time(&self, step: Step) -> Option<Duration> {
        let place = STEPS.iter().position(|(other, _)| *other == step)?;
        *self.times.get(place)?
    }

    fn ratio(&self, one: Step, other: Step) -> Option<f64> {
        Some(self.time(one)?.as_secs_f64() / self.time(other)?.as_secs_f64())
    }
}

/// The table in Markdown. Rows of which nothing is known are left out.
fn table(columns: &[Column]) -> String {
    let mut text = String::from("| entities |");
    columns.iter().for_each(|column| text += &format!(" {} |", thousands(column.size as u64)));
    text += "\n|---|";
    text += &"--:|".repeat(columns.len());
    text.push('\n');
    let mut row = |name: &str, cell: &dyn Fn(&Column) -> Option<String>| {
        if let Some(cells) = columns.iter().map(cell).collect::<Option<Vec<_>>>() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        }
    };
    for (step, name) in STEPS {
        row(name, &|column| column.time(step).map(show));
    }
    for (one, other, name) in RATIOS {
        row(name, &|column| column.ratio(one, other).map(|ratio| format!("{ratio:.2}")));
    }
    for (place, name) in ["peak memory, first apply", "peak memory, nothing to do"].into_iter().enumerate() {
        row(name, &|column| column.memory.map(|memory| format!("{:.1} MB", memory[place] as f64 / 1000.0)));
    }
    for (place, name) in
        ["of the dispatcher alone, scan", "of the dispatcher alone, nothing to do"].into_iter().enumerate()
    {
        row(name, &|column| Some(format!("{:.1} MB", column.dispatcher[place] as f64 / 1000.0)));
    }
    row("programs started, nothing to do", &|column| column.calls.as_ref().map(|calls| calls.programs.to_string()));
    row("system calls, nothing to do", &|column| column.calls.as_ref().map(|calls| thousands(calls.total)));
    row("the most frequent", &|column| {
        let most = column.calls.as_ref()?.by_number.iter().take(5);
        Some(most.map(|(number, name)| format!("{name} {}", thousands(*number))).collect::<Vec<_>>().join("<br>"))
    });
    text
}

/// A number with its digits in groups of three.
fn thousands(number: u64) -> String {
    if number < 1000 {
        return number.to_string();
    }
    format!("{},{:03}", thousands(number / 1000), number % 1000)
}
