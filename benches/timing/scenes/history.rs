//! Questions about a year of runs, one each hour, beside grep, which looks through the same records.

use super::{Scene, Step, content, target};
use crate::timing::limits::Least;
use crate::timing::site::{Site, Words, holo};
use anyhow::{Context, Result};
use holo::history::{Began, Counts, DiffRecord, Ended, EntityRecord, ProcessMark, Record, RunResult, VERSION, Who};
use holo::run_id::RunId;
use holo_testing::Need;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

const RESOURCES: &str = "usr/share/holo/files/01-bench";
const RUNS: &str = "var/lib/holo/.engine/runs";
/// A run each hour of a year.
const HOURS: i64 = 365 * 24;
/// The number of entities that a run changes: the records of a year come near to their limit, 64 MiB.
const CHANGED: usize = 3;
/// The number of lines of a difference.
const LINES: usize = 60;

pub(super) fn scene() -> Scene {
    Scene {
        name: "a year of runs",
        entities: "overlays",
        sizes: &[1000, 10_000],
        needs: &[&[Need::Program("grep")]],
        system: None,
        prepare,
        steps: vec![
            Step::new("history", |_| holo(&["history"]))
                .at_least(Least::words("the end of the last month is read"))
                .checked(|_, output| Ok(lines(output) == 20)),
            Step::new("history of an entity that was changed once", |site| holo(&["history", &oldest(site)]))
                .at_least(Least::words(
                    "all months are read once, 52 MB for 8,760 runs, and not parsed where the name is nowhere",
                ))
                .checked(|site, output| Ok(lines(output) == 1 && contains(output, &oldest(site)))),
            Step::new("history show of the first run", |site| {
                let first = RunId::at(begins(site)?);
                holo(&["history", "show", first.as_str()])
            })
            .at_least(Least::words("one month is read"))
            .checked(|site, output| Ok(contains(output, &oldest(site)))),
            Step::new("why of that entity", |site| holo(&["why", &oldest(site)]))
                .at_least(Least::words("as its history, and its definition"))
                .checked(|_, output| Ok(contains(output, "by run") && contains(output, "1 of a year"))),
            Step::new("`grep` for it in the records", grep).checked(|_, output| Ok(lines(output) == 1)),
        ],
        ratios: &[("history of an entity that was changed once", "`grep` for it in the records")],
    }
}

/// The entity that only the first run has changed.
fn oldest(site: &Site) -> String {
    format!("file:/{}", target(site.size - 1))
}

/// Resource files, of which none is applied, and the records of a year.
fn prepare(site: &Site) -> Result<()> {
    site.plugin("files")?;
    for number in 0..site.size {
        site.write(&target(number), &content("stock", number))?;
        site.write(&format!("{RESOURCES}/{}", target(number)), &content("wanted", number))?;
    }
    let now = Timestamp::now();
    site.write("begins", &now.to_string())?;
    let first = begins(site)?;
    let mut months: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for hour in 0..HOURS {
        let time = first.checked_add(SignedDuration::from_hours(hour))?;
        let run = RunId::at(time);
        let month = months.entry(run.month().context("a run has a month")?).or_default();
        records(&run, time, hour, site.size).iter().for_each(|record| month.extend(record.to_bytes()));
    }
    for (month, text) in months {
        let text = String::from_utf8(text)?;
        site.write(&format!("{RUNS}/{month}.jsonl"), &text)?;
    }
    Ok(())
}

/// The time of the first run.
fn begins(site: &Site) -> Result<Timestamp> {
    let now: Timestamp = fs::read_to_string(site.root().join("begins"))?.parse()?;
    Ok(now.checked_sub(SignedDuration::from_hours(HOURS))?)
}

/// The records of a run: the last entity is changed by the first run alone, and the others in turns.
fn records(run: &RunId, time: Timestamp, hour: i64, size: usize) -> Vec<Record> {
    let turn = usize::try_from(hour).unwrap_or_default() * CHANGED;
    let mut changed: Vec<usize> = (turn..turn + CHANGED).map(|number| number % (size - 1)).collect();
    if hour == 0 {
        changed.insert(0, size - 1);
    }
    let began = Record::Began(Began {
        version: VERSION,
        run: run.clone(),
        time,
        holo: env!("CARGO_PKG_VERSION").to_owned(),
        command: ["/usr/bin/holo", "apply"].map(|word| word.to_owned().into()).to_vec(),
        who: Who::default(),
        process: ProcessMark::default(),
    });
    let entities = changed.iter().map(|&number| Record::Entity(entity(run, time, hour, number)));
    let counts = Counts { changed: changed.len(), unchanged: size - changed.len(), ..Counts::default() };
    let ended = Record::Ended(Ended {
        run: run.clone(),
        time,
        result: RunResult::Changed,
        duration: Some(Duration::from_millis(400)),
        exit_code: Some(0),
        counts,
        error: None,
    });
    [began].into_iter().chain(entities).chain([ended]).collect()
}

fn entity(run: &RunId, time: Timestamp, hour: i64, number: usize) -> EntityRecord {
    let line = |line: usize| format!("-option {line} of {number} was so\n+option {line} of {number} is {hour}\n");
    let name = target(number);
    EntityRecord {
        run: run.clone(),
        id: format!("file:/{name}").into(),
        plugin: "files".to_owned(),
        time,
        duration: Duration::from_millis(1),
        result: RunResult::Changed,
        changes: vec![format!("wrote /{name}, {} of a year", hour + 1).into()],
        refused: Vec::new(),
        reason: None,
        output: None,
        refreshed_by: Vec::new(),
        diffs: vec![DiffRecord {
            from: format!("a/{name}").into(),
            to: format!("b/{name}").into(),
            text: (0..LINES / 2).map(line).collect::<String>().into(),
            binary: false,
            cut: 0,
        }],
    }
}

fn grep(site: &Site) -> Result<Words> {
    let runs = site.root().join(RUNS);
    let (needle, files) = (format!("\"{}\"", oldest(site)), fs::read_dir(runs)?);
    let mut words: Words = ["grep", "--no-filename", "--fixed-strings", &needle].map(Into::into).to_vec();
    words.extend(files.filter_map(|file| Some(file.ok()?.path().into())));
    Ok(words)
}

fn lines(output: &[u8]) -> usize {
    output.iter().filter(|&&byte| byte == b'\n').count()
}

fn contains(output: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(output).contains(text)
}
