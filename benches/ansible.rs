//! Compares holo running tasks of the plugin `ansible` with `ansible-playbook` running the same tasks, and prints a
//! table. See the README.
#![expect(clippy::disallowed_methods, reason = "measured programs are started directly")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

mod common;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use common::{UnderCargo, median, run, show};
use holo_testing::binaries;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[derive(Parser)]
struct Options {
    /// The number of tasks
    #[arg(long, value_delimiter = ',', default_values_t = [20, 200])]
    sizes: Vec<usize>,
    /// The number of timed runs without changes; the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// The Python interpreter with ansible-core, next to ansible-playbook
    #[arg(long, default_value = "/usr/bin/python3")]
    python: PathBuf,
    #[command(flatten)]
    under_cargo: UnderCargo,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if !options.under_cargo.measures("ansible")? {
        return Ok(());
    }
    ensure!(options.runs > 0, "--runs must be at least 1");
    binaries::binary("holo-ansible")?;
    println!("| tasks | | `ansible-playbook -c local` | `holo apply` | ratio |\n|--:|---|--:|--:|--:|");
    for &size in &options.sizes {
        let site = Site::make(size, &options.python)?;
        for (what, is_first) in [("all to be done", true), ("nothing to do", false)] {
            let runs = if is_first { 1 } else { options.runs };
            let (mut theirs, mut ours) = (Vec::new(), Vec::new());
            for _ in 0..runs {
                theirs.push(site.time_playbook(is_first)?);
                ours.push(site.time_holo(is_first)?);
            }
            let (theirs, ours) = (median(theirs).unwrap_or_default(), median(ours).unwrap_or_default());
            let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
            println!("| {size} | {what} | {} | {} | {ratio:.3} |", show(theirs), show(ours));
        }
    }
    Ok(())
}

/// Files with one line each, and tasks that add another line, both as a playbook and as definitions.
struct Site {
    dir: TempDir,
    size: usize,
    python: PathBuf,
}

impl Site {
    fn make(size: usize, python: &Path) -> Result<Site> {
        let dir = TempDir::new_in(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
        let site = Site { dir, size, python: python.to_owned() };
        for folder in ["etc", "run", "tmp", "usr/share/holo/ansible", "theirs", "ours"] {
            fs::create_dir_all(site.path(folder))?;
        }
        let host = format!("[[host]]\npython = {python:?}\nrespects_root = true\n");
        let (mut playbook, mut definitions) = ("- hosts: all\n  gather_facts: false\n  tasks:\n".to_owned(), host);
        for number in 0..size {
            let path = |side: &str| site.path(side).join(number.to_string());
            for side in ["theirs", "ours"] {
                fs::write(path(side), "a line\n")?;
            }
            let (theirs, ours) = (path("theirs"), path("ours"));
            playbook += &format!("  - lineinfile:\n      path: {}\n      line: another line\n", theirs.display());
            let args = format!("{{ path = {ours:?}, line = \"another line\" }}");
            definitions += &format!("[[task]]\nname = \"{number}\"\nmodule = \"lineinfile\"\nargs = {args}\n");
        }
        fs::write(site.path("playbook.yml"), playbook)?;
        fs::write(site.path("usr/share/holo/ansible/tasks.toml"), definitions)?;
        fs::write(site.path("etc/os-release"), "ID=debian\n")?;
        let plugin = binaries::binary("holo-ansible")?;
        fs::write(site.path("etc/holorc"), format!("plugin ansible={}\n", plugin.display()))?;
        Ok(site)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.env("LC_ALL", "C.UTF-8").env("HOME", self.dir.path()).env("TMPDIR", self.path("tmp"));
        command.current_dir(self.dir.path());
        command
    }

    fn time_playbook(&self, is_first: bool) -> Result<Duration> {
        let mut command = self.command(&self.python.with_file_name("ansible-playbook"));
        command.args(["--connection", "local", "--inventory", "localhost,", "playbook.yml", "--extra-vars"]);
        command.arg(format!("ansible_python_interpreter={}", self.python.display()));
        let (took, said) = time(command)?;
        let counted = format!("changed={}", if is_first { self.size } else { 0 });
        ensure!(said.split_whitespace().any(|word| word == counted), "the playbook gave a wrong result:\n{said}");
        self.is_done("theirs")?;
        Ok(took)
    }

    fn time_holo(&self, is_first: bool) -> Result<Duration> {
        let mut command = self.command(&binaries::binary("holo")?);
        command.arg("apply").env("HOLO_ROOT_DIR", self.dir.path());
        let (took, said) = time(command)?;
        ensure!(said.trim().is_empty() != is_first, "holo gave a wrong result:\n{said}");
        self.is_done("ours")?;
        Ok(took)
    }

    fn is_done(&self, side: &str) -> Result<()> {
        for number in 0..self.size {
            let path = self.path(side).join(number.to_string());
            let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            ensure!(text == "a line\nanother line\n", "{} lacks the added line", path.display());
        }
        Ok(())
    }
}

fn time(command: Command) -> Result<(Duration, String)> {
    let start = Instant::now();
    let output = run(command)?;
    Ok((start.elapsed(), String::from_utf8_lossy(&output.stdout).into_owned()))
}
