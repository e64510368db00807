//! Queries about a year of hourly runs, compared with grep on the same records.

use super::{Scene, Step, content, target};
use crate::timing::limits::Least;
use crate::timing::site::{Site, Words, holo};
use anyhow::Result;
use holo::history::{Began, Counts, DiffRecord, Ended, EntityRecord, ProcessMark, RunResult, VERSION, Who};
use holo::host::settings::RunId;
use holo_testing::Need;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::fs;
use std::time::Duration;

const RESOURCES: &str = "usr/share/holo/files/01-bench";
/// The same records as text, for grep.
const RUNS: &str = "export";
/// Hourly runs for a year.
const HOURS: i64 = 365 * 24;
/// The number of entities that a run changes. The records of a year come close to their limit of 64 MiB.
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
                    "all months are read once, 52 MB for 8,760 runs, but not parsed unless they contain the name",
                ))
                .checked(|site, output| Ok(lines(output) == 1 && contains(output, &oldest(site)))),
            Step::new("history show of the first run", |site| {
                let first = RunId::at(begins(site)?);
                holo(&["history", "show", first.as_str()])
            })
            .at_least(Least::words("one month is read"))
            .checked(|site, output| Ok(contains(output, &oldest(site)))),
            Step::new("why of that entity", |site| holo(&["why", &oldest(site)]))
                .at_least(Least::words("like its history, and its definition"))
                .checked(|_, output| Ok(contains(output, "by run") && contains(output, "1 of a year"))),
            Step::new("`grep` for it in the records", grep).checked(|_, output| Ok(lines(output) == 1)),
        ],
        ratios: &[("history of an entity that was changed once", "`grep` for it in the records")],
    }
}

/// Returns the entity that only the first run has changed.
fn oldest(site: &Site) -> String {
    format!("file:/{}", target(site.size - 1))
}

/// Writes resource files, none of which is applied, and the records of a year.
fn prepare(site: &Site) -> Result<()> {
    site.plugin("files")?;
    for number in 0..site.size {
        site.write(&target(number), &content("stock", number))?;
        site.write(&format!("{RESOURCES}/{}", target(number)), &content("wanted", number))?;
    }
    let now = Timestamp::now();
    site.write("begins", &now.to_string())?;
    let first = begins(site)?;
    let mut lines = vec![json!({"format": "holo state", "version": 1}).to_string()];
    for hour in 0..HOURS {
        let time = first.checked_add(SignedDuration::from_hours(hour))?;
        records(&RunId::at(time), time, hour, site.size, &mut lines)?;
    }
    let text = lines.join("\n");
    site.write(RUNS, &text)?;
    holo_state::Database::new(site.root().join("var/lib/holo/state.db")).import(&mut text.as_bytes())?;
    Ok(())
}

/// Returns the time of the first run.
fn begins(site: &Site) -> Result<Timestamp> {
    let now: Timestamp = fs::read_to_string(site.root().join("begins"))?.parse()?;
    Ok(now.checked_sub(SignedDuration::from_hours(HOURS))?)
}

/// Creates the records of a run. The last entity is changed by the first run only, the others in turn.
fn records(run: &RunId, time: Timestamp, hour: i64, size: usize, lines: &mut Vec<String>) -> Result<()> {
    let turn = usize::try_from(hour).unwrap_or_default() * CHANGED;
    let mut changed: Vec<usize> = (turn..turn + CHANGED).map(|number| number % (size - 1)).collect();
    if hour == 0 {
        changed.insert(0, size - 1);
    }
    let began = Began {
        version: VERSION,
        run: run.clone(),
        time,
        holo: env!("CARGO_PKG_VERSION").to_owned(),
        command: ["/usr/bin/holo", "apply"].map(|word| word.to_owned().into()).to_vec(),
        who: Who::default(),
        process: ProcessMark::default(),
    };
    let counts = Counts { changed: changed.len(), unchanged: size - changed.len(), ..Counts::default() };
    let ended = Ended {
        run: run.clone(),
        time,
        result: RunResult::Changed,
        duration: Some(Duration::from_millis(400)),
        exit_code: Some(0),
        counts,
        error: None,
    };
    let (began, ended) = (serde_json::to_string(&began)?, serde_json::to_string(&ended)?);
    let row = json!({"sequence": hour + 1, "id": run.as_str(), "began": began, "ended": ended, "size": 0});
    lines.push(json!({"table": "run", "row": row}).to_string());
    for number in changed {
        let record = serde_json::to_string(&entity(run, time, hour, number))?;
        lines.push(json!({"table": "run_entry", "row": {"run": hour + 1, "record": record}}).to_string());
    }
    Ok(())
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
    // Records are strings inside of the lines, so their quotes are escaped.
    let needle = format!("\\\"{}\\\"", oldest(site));
    let mut words: Words = ["grep", "--no-filename", "--fixed-strings", &needle].map(Into::into).to_vec();
    words.push(site.root().join(RUNS).into());
    Ok(words)
}

fn lines(output: &[u8]) -> usize {
    output.iter().filter(|&&byte| byte == b'\n').count()
}

fn contains(output: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(output).contains(text)
}
