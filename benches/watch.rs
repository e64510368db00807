//! Measures how fast `holo watch` reacts, and what it costs while idle. See the README.
#![expect(clippy::disallowed_methods, reason = "measured programs are started directly")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

mod common;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use common::{UnderCargo, median, run, show};
use holo_testing::binaries;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The number of files in a directory.
const TOGETHER: usize = 100;
/// The timeout for each expected line.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time after which a change of a file is certain to change its timestamp.
const SETTLED: Duration = Duration::from_secs(3);
/// The period for which system calls are counted while idle.
const IDLE: Duration = Duration::from_secs(10);

#[derive(Parser)]
struct Options {
    /// The number of entities
    #[arg(long, value_delimiter = ',', default_values_t = [10, 10_000])]
    sizes: Vec<usize>,
    /// The kinds of entities
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["overlays", "declared"])]
    kinds: Vec<Kind>,
    /// The number of changes; at most one per overlay
    #[arg(long, default_value_t = 200)]
    rounds: usize,
    /// The number of simultaneous changes
    #[arg(long, default_value_t = 1000)]
    at_once: usize,
    /// The number of consecutive unrelated events
    #[arg(long, default_value_t = 100_000)]
    storm: usize,
    /// Count system calls while idle
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    idle: bool,
    #[command(flatten)]
    under_cargo: UnderCargo,
}

/// A kind of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Overlays, each with its own resource file.
    Overlays,
    /// Declared files, all in one file of definitions.
    Declared,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if !options.under_cargo.measures("watch")? {
        return Ok(());
    }
    for &kind in &options.kinds {
        for &size in &options.sizes {
            measure(&options, kind, size)?;
        }
    }
    Ok(())
}

fn measure(options: &Options, kind: Kind, size: usize) -> Result<()> {
    let site = Site::new(kind, size)?;
    let begun = Instant::now();
    let mut watch = site.watch()?;
    println!("{size} files, {kind:?}: {} until it watches", show(begun.elapsed()));
    if options.idle {
        idle(&watch)?;
    }
    let rounds = if kind == Kind::Overlays { options.rounds.min(size) } else { options.rounds };
    latency(&site, &mut watch, rounds)?;
    at_once(&site, &mut watch, options.at_once.min(size))?;
    storm(&site, &mut watch, options.storm)?;
    println!("  memory at the end: {} MB", memory(&watch)? / 1000);
    Ok(())
}

/// A root with files in their desired state.
struct Site {
    root: TempDir,
    holo: PathBuf,
    size: usize,
}

impl Site {
    fn new(kind: Kind, size: usize) -> Result<Site> {
        let holo = binaries::binary("holo")?;
        let files = binaries::binary("holo-files")?;
        let root = TempDir::new_in(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
        let site = Site { root, holo, size };
        for folder in ["etc", "run", "tmp", "usr/share/holo/files"] {
            fs::create_dir_all(site.path(folder))?;
        }
        fs::write(site.path("etc/os-release"), "ID=debian\n")?;
        fs::write(site.path("etc/holorc"), format!("plugin files={}\n", files.display()))?;
        let mut definitions = String::new();
        for number in 0..size {
            let path = target(number);
            site.write(&path, "stock\n")?;
            if kind == Kind::Overlays {
                site.write(&format!("usr/share/holo/files/10-bench/{path}"), &format!("{number}\n"))?;
            } else {
                fs::remove_file(site.path(&path))?;
                // The many changes of this benchmark must not be detected as a fight.
                let table =
                    format!("[[file]]\npath = \"/{path}\"\ncontent = \"{number}\\n\"\nlimit = \"1000000/1s\"\n");
                definitions.push_str(&table);
            }
        }
        site.write("usr/share/holo/files/all.toml", &definitions)?;
        run(site.command("apply"))?;
        // As on any machine shortly after an apply, unchanged files are known.
        thread::sleep(SETTLED);
        run(site.command("apply"))?;
        Ok(site)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    fn write(&self, path: &str, content: &str) -> Result<()> {
        let path = self.path(path);
        fs::create_dir_all(path.parent().context("a file has a parent")?)?;
        Ok(fs::write(path, content)?)
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.holo);
        command.arg(verb).env("HOLO_ROOT_DIR", self.root.path()).env("TMPDIR", self.path("tmp"));
        command.current_dir(self.root.path());
        command
    }

    /// Starts a watch, and waits until it is watching.
    fn watch(&self) -> Result<Watch> {
        let mut child = self.command("watch").args(["--apply", "--force", "--json"]).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("a pipe")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send((Instant::now(), line)).is_err() {
                    break;
                }
            }
        });
        let watch = Watch { child, lines };
        watch.until("watching")?;
        Ok(watch)
    }

    /// Overwrites a file, like a manual change.
    fn change(&self, number: usize) -> Result<()> {
        Ok(fs::write(self.path(&target(number)), "something else\n")?)
    }
}

fn target(number: usize) -> String {
    format!("srv/{}/{number}", number / TOGETHER)
}

/// A running watch.
struct Watch {
    child: Child,
    lines: Receiver<(Instant, String)>,
}

impl Watch {
    /// Waits for an event. Returns its line, and the time at which it was read.
    fn until(&self, event: &str) -> Result<(Instant, String)> {
        let event = format!("\"event\":\"{event}\"");
        loop {
            let (time, line) = self.lines.recv_timeout(PATIENCE).with_context(|| format!("wait for {event}"))?;
            if line.contains(&event) {
                return Ok((time, line));
            }
            if line.contains("\"event\":\"error\"") {
                bail!("the watch said {line}");
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the resident set size, in kilobytes.
fn memory(watch: &Watch) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", watch.child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("find VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Returns the CPU time of the watch and its child processes, in hundredths of a second.
fn processor_time(watch: &Watch) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", watch.child.id()))?;
    let fields = stat.rsplit_once(") ").context("find the end of the name")?.1;
    fields.split(' ').skip(11).take(4).map(|ticks| Ok(ticks.parse::<u64>()?)).sum()
}

fn idle(watch: &Watch) -> Result<()> {
    let seconds = IDLE.as_secs().to_string();
    let mut strace = Command::new("timeout");
    strace.args(["--signal=INT", &seconds, "strace", "-f", "-p", &watch.child.id().to_string()]);
    let calls = match strace.output() {
        // Each line is a finished call; the last one, which is still waiting, has no result.
        Ok(output) if !output.stderr.is_empty() => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            text.lines().filter(|line| line.contains(" = ")).count().to_string()
        }
        _ => "not counted".to_owned(),
    };
    println!("  calls within {seconds} s in which nothing happens: {calls}; memory: {} MB", memory(watch)? / 1000);
    Ok(())
}

fn latency(site: &Site, watch: &mut Watch, rounds: usize) -> Result<()> {
    let (mut reports, mut repairs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let begun = Instant::now();
        site.change(round * 7919 % site.size)?;
        reports.push(watch.until("drifted")?.0 - begun);
        repairs.push(watch.until("repaired")?.0 - begun);
    }
    for (what, times) in [("report", reports), ("repair", repairs)] {
        let worst = times.iter().max().copied().unwrap_or_default();
        let middle = median(times).unwrap_or_default();
        println!("  from a write to the {what}: {}, worst of {rounds}: {}", show(middle), show(worst));
    }
    Ok(())
}

fn at_once(site: &Site, watch: &mut Watch, drifts: usize) -> Result<()> {
    let begun = Instant::now();
    (0..drifts).try_for_each(|number| site.change(number))?;
    let mut repaired = HashSet::new();
    while repaired.len() < drifts {
        repaired.insert(watch.until("repaired")?.1);
    }
    println!("  {drifts} written at once, to the last repair: {}", show(begun.elapsed()));
    Ok(())
}

/// Writes repeatedly to unwatched files next to a watched one, and then changes that.
fn storm(site: &Site, watch: &mut Watch, events: usize) -> Result<()> {
    let before = processor_time(watch)?;
    let begun = Instant::now();
    // The kernel merges equal consecutive events.
    let mut files = [File::create(site.path("srv/0/one"))?, File::create(site.path("srv/0/other"))?];
    for _ in 0..events / 2 {
        files.iter_mut().try_for_each(|file| file.write_all(b"x"))?;
    }
    let written = begun.elapsed();
    site.change(0)?;
    let repaired = watch.until("repaired")?.0 - begun;
    let time = Duration::from_millis(10 * (processor_time(watch)? - before));
    println!(
        "  {events} writes to other files, within {}, and one to a managed file: repaired {} after that, by {} of processor time",
        show(written),
        show(repaired.saturating_sub(written)),
        show(time)
    );
    Ok(())
}
