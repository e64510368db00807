//! Fuzzing on stable Rust: a function that parses bytes is called with mutations of a corpus.
//!
//! A corpus is a directory `corpus/NAME` next to the `Cargo.toml` of the crate under test, with one input per file. A
//! target fails if an input panics, takes too long ([`TIME_LIMIT`] while it is fuzzed for a time), or makes the process grow by more than
//! [`MEMORY_LIMIT`]. The input is then a file in the corpus, so that it is tried first from then on. The current input is
//! in the file `current` there, which remains if the process is aborted, as by a stack overflow.

use crate::files::fail;
use crate::random::Random;
use std::fmt::Display;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

/// The variable with the number of seconds that each target is fuzzed for, instead of its number of inputs.
pub const SECONDS: &str = "HOLO_FUZZ_SECONDS";
/// The maximum time for an input while a target is fuzzed for a time.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The maximum time for an input otherwise, when many other tests run at the same time.
const TIME_LIMIT_AMONG_TESTS: Duration = Duration::from_secs(100);
/// The maximum growth of the process during an input, in bytes.
pub const MEMORY_LIMIT: u64 = 1 << 30;
/// The maximum size of an input in bytes.
const SIZE_LIMIT: usize = 64 << 10;

/// A function under test, and the inputs to begin with.
pub struct Target<'a> {
    corpus: PathBuf,
    seeds: Vec<Vec<u8>>,
    words: &'a [&'a str],
    mutate: Option<Mutate>,
    inputs: u64,
}

/// A mutation that understands the format of the inputs. It returns `None` for an input that does not have the format.
pub type Mutate = fn(&[u8], &mut Random) -> Option<Vec<u8>>;

impl<'a> Target<'a> {
    /// Returns the target of this name. `manifest` is the directory of the crate, `env!("CARGO_MANIFEST_DIR")`.
    ///
    /// # Panics
    /// If the corpus cannot be read.
    #[must_use]
    #[track_caller]
    pub fn new(manifest: &str, name: &str) -> Self {
        let corpus = Path::new(manifest).join("corpus").join(name);
        let mut files: Vec<PathBuf> = match fs::read_dir(&corpus) {
            Ok(files) => files.flatten().map(|file| file.path()).collect(),
            Err(error) => fail(&format!("{}: {error}", corpus.display())),
        };
        files.sort();
        let seeds = files.iter().map(|file| read(file)).collect();
        Target { corpus, seeds, words: &[], mutate: None, inputs: 1000 }
    }

    /// Adds an input to begin with.
    #[must_use]
    pub fn seed(mut self, seed: impl Into<Vec<u8>>) -> Self {
        self.seeds.push(seed.into());
        self
    }

    /// Sets the words that mutations insert.
    #[must_use]
    pub fn words(mut self, words: &'a [&'a str]) -> Self {
        self.words = words;
        self
    }

    /// Sets a mutation for half of the inputs, so that they get beyond the parser of their format.
    #[must_use]
    pub fn mutate(mut self, mutate: Mutate) -> Self {
        self.mutate = Some(mutate);
        self
    }

    /// Sets the number of inputs.
    #[must_use]
    pub fn inputs(mut self, inputs: u64) -> Self {
        self.inputs = inputs;
        self
    }

    /// Calls the function with all inputs of the corpus, and then with mutations of them.
    ///
    /// # Panics
    /// If an input fails, with the path of the file that contains it.
    #[track_caller]
    pub fn run(self, try_input: impl Fn(&[u8])) {
        let current: Mutex<Option<(Instant, Vec<u8>)>> = Mutex::default();
        let (is_over, ended) = mpsc::channel::<()>();
        let file = File::create(self.current()).ok();
        let mut failure = None;
        thread::scope(|scope| {
            let (target, shared) = (&self, &current);
            scope.spawn(move || target.watch(shared, &ended));
            for number in self.numbers() {
                let input = self.input(number);
                // If this fails, only an input that aborts the process is lost. The file stays open because closing it
                // could wait for the disk.
                let _ = file
                    .iter()
                    .try_for_each(|file| file.write_all_at(&input, 0).and_then(|()| file.set_len(input.len() as u64)));
                set(&current, Some((Instant::now(), input.clone())));
                let outcome = catch_unwind(AssertUnwindSafe(|| try_input(&input)));
                set(&current, None);
                failure = outcome.err().map(|_| self.keep(&input, "panics"));
                if failure.is_some() {
                    break;
                }
            }
            drop(is_over);
        });
        let _ = fs::remove_file(self.current());
        if let Some(failure) = failure {
            fail(&failure);
        }
    }

    fn current(&self) -> PathBuf {
        self.corpus.join("current")
    }

    /// Returns the numbers of the inputs to try.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + use<> {
        let end = given().map(|time| Instant::now() + time);
        let inputs = self.inputs;
        (0..).take_while(move |number| end.map_or(*number < inputs, |end| Instant::now() < end))
    }

    /// Returns the input of this number: first those of the corpus, then mutations.
    #[must_use]
    pub fn input(&self, number: u64) -> Vec<u8> {
        let seed = usize::try_from(number).ok().and_then(|number| self.seeds.get(number));
        seed.cloned().unwrap_or_else(|| self.mutation(&mut Random::new(number)))
    }

    fn mutation(&self, random: &mut Random) -> Vec<u8> {
        let mut input = if self.seeds.is_empty() { Vec::new() } else { random.pick(&self.seeds).clone() };
        let times = random.below(6);
        if let Some(mutate) = self.mutate.filter(|_| random.chance(50))
            && let Some(mut mutated) = mutate(&input, random)
        {
            for _ in 0..times {
                // Each mutation may multiply the size.
                if mutated.len() > SIZE_LIMIT {
                    break;
                }
                mutated = mutate(&mutated, random).unwrap_or(mutated);
            }
            mutated.truncate(SIZE_LIMIT);
            return mutated;
        }
        for _ in 0..=times {
            self.mutate_bytes(&mut input, random);
        }
        input.truncate(SIZE_LIMIT);
        input
    }

    fn mutate_bytes(&self, input: &mut Vec<u8>, random: &mut Random) {
        let start = random.below(input.len() + 1);
        let end = (start + random.below(24)).min(input.len());
        let range = start..end;
        match random.below(9) {
            0 => drop(input.splice(range, [])),
            1 => input.truncate(start),
            2 => {
                let piece: Vec<u8> = input.drain(range).collect();
                let at = random.below(input.len() + 1);
                drop(input.splice(at..at, piece));
            }
            3 => {
                let piece = input.get(range).unwrap_or_default().repeat(random.below(200));
                drop(input.splice(start..start, piece));
            }
            4 if !self.words.is_empty() => {
                let word = random.pick(self.words).as_bytes().to_owned();
                drop(input.splice(range, word));
            }
            5 => {
                let numbers = ["0", "-1", "9223372036854775808", "18446744073709551616", "1e999", "\0", "\u{10ffff}"];
                drop(input.splice(range, random.pick(&numbers).bytes()));
            }
            6 if !self.seeds.is_empty() => {
                let other = random.pick(&self.seeds);
                let at = random.below(other.len() + 1);
                let piece = other.get(at..).unwrap_or_default();
                input.truncate(start);
                input.extend_from_slice(piece);
            }
            7 => {
                let lines: Vec<&[u8]> = input.split_inclusive(|&byte| byte == b'\n').collect();
                let line = if lines.is_empty() { Vec::new() } else { random.pick(&lines).to_vec() };
                drop(input.splice(start..start, line));
            }
            _ => {
                let byte = u8::try_from(random.below(256)).unwrap_or_default();
                match input.get_mut(start) {
                    Some(changed) => *changed ^= byte,
                    None => input.push(byte),
                }
            }
        }
    }

    /// Ends the process if an input takes too long or too much memory, which cannot be stopped in another way.
    fn watch(&self, current: &Mutex<Option<(Instant, Vec<u8>)>>, ended: &Receiver<()>) {
        let usual = memory();
        let time_limit = if given().is_some() { TIME_LIMIT } else { TIME_LIMIT_AMONG_TESTS };
        while ended.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Timeout) {
            let current = current.lock().map(|current| current.clone()).unwrap_or_default();
            let Some((begun, input)) = current else { continue };
            let problem = match memory().saturating_sub(usual) {
                MEMORY_LIMIT.. => "takes more than 1 GiB",
                _ if begun.elapsed() > time_limit => "takes too long",
                _ => continue,
            };
            report(&self.keep(&input, problem));
            process::abort();
        }
    }

    /// Writes an input to the corpus, and returns the message.
    #[must_use]
    pub fn keep(&self, input: &[u8], problem: &str) -> String {
        let digest = input
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |digest, &byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let path = self.corpus.join(format!("{digest:016x}"));
        let written =
            fs::write(&path, input).map_or_else(|error| format!(" (not written: {error})"), |()| String::new());
        format!("this input {problem}: {}{written}", path.display())
    }
}

/// Returns the time that [`SECONDS`] sets.
#[track_caller]
fn given() -> Option<Duration> {
    let seconds = env::var(SECONDS).ok().filter(|seconds| !seconds.is_empty())?;
    match seconds.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => fail(&format!("{SECONDS}={seconds} is not a number")),
    }
}

fn set<T>(shared: &Mutex<T>, value: T) {
    if let Ok(mut shared) = shared.lock() {
        *shared = value;
    }
}

#[track_caller]
fn read(file: &Path) -> Vec<u8> {
    fs::read(file).unwrap_or_else(|error| fail(&format!("{}: {error}", file.display())))
}

/// Returns the memory of this process that is in use, in bytes; 0 if that is unknown.
fn memory() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or_default() * rustix::param::page_size() as u64
}

#[expect(clippy::print_stderr, reason = "the process is about to be aborted")]
fn report(message: &impl Display) {
    eprintln!("{message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_input_is_kept_in_the_corpus() {
        let folder = tempfile::tempdir().unwrap();
        let corpus = folder.path().join("corpus/x");
        fs::create_dir_all(&corpus).unwrap();
        fs::write(corpus.join("a"), "good").unwrap();
        let manifest = folder.path().to_str().unwrap();
        let target = || Target::new(manifest, "x").words(&["bad"]).inputs(5000);
        let is_bad = |input: &[u8]| input.windows(3).any(|three| three == b"bad");
        let failed = catch_unwind(|| target().run(|input| assert!(!is_bad(input))));
        assert!(failed.is_err());
        let kept: Vec<Vec<u8>> = fs::read_dir(&corpus).unwrap().map(|file| read(&file.unwrap().path())).collect();
        assert_eq!(kept.iter().filter(|input| is_bad(input)).count(), 1);
        assert_eq!((0..100).map(|number| target().input(number)).filter(|input| input == b"good").count(), 1);
        target().run(|_| {});
    }
}
