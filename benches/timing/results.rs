//! All results, in memory and in a file of JSON Lines to which several runs can append.

use crate::common::median;
use crate::timing::measurement::{Calls, Measurement};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::PathBuf;

#[derive(Default)]
pub(crate) struct Results {
    all: Vec<Line>,
    file: Option<std::fs::File>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    table: String,
    step: String,
    size: usize,
    #[serde(flatten)]
    value: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Value {
    Time(Measurement),
    Calls(Calls),
    Inodes(usize),
}

impl Results {
    pub(crate) fn open(path: Option<PathBuf>) -> Result<Results> {
        let Some(path) = path else { return Ok(Results::default()) };
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let all = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
        let all = all.with_context(|| format!("understand {}", path.display()))?;
        let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
        let file = Some(file.with_context(|| format!("open {}", path.display()))?);
        Ok(Results { all, file })
    }

    pub(crate) fn add(&mut self, table: &str, step: &str, size: usize, measured: Measurement) -> Result<()> {
        self.push(table, step, size, Value::Time(measured))
    }

    pub(crate) fn add_calls(&mut self, table: &str, step: &str, size: usize, calls: Calls) -> Result<()> {
        self.push(table, step, size, Value::Calls(calls))
    }

    pub(crate) fn add_inodes(&mut self, table: &str, step: &str, size: usize, inodes: usize) -> Result<()> {
        self.push(table, step, size, Value::Inodes(inodes))
    }

    fn push(&mut self, table: &str, step: &str, size: usize, value: Value) -> Result<()> {
        let line = Line { table: table.to_owned(), step: step.to_owned(), size, value };
        if let Some(file) = &mut self.file {
            file.write_all((serde_json::to_string(&line)? + "\n").as_bytes())?;
        }
        self.all.push(line);
        Ok(())
    }

    fn of(&self, table: &str, step: &str) -> Vec<(usize, &Value)> {
        let is_of = |line: &&Line| line.table == table && line.step == step;
        self.all.iter().filter(is_of).map(|line| (line.size, &line.value)).collect()
    }

    /// Returns the sizes in a table, in ascending order.
    pub(crate) fn sizes(&self, table: &str) -> Vec<usize> {
        let is_time = |line: &&Line| line.table == table && matches!(line.value, Value::Time(_));
        let mut sizes: Vec<usize> = self.all.iter().filter(is_time).map(|line| line.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Returns the number of rounds of a step.
    pub(crate) fn rounds(&self, table: &str, step: &str, size: usize) -> usize {
        self.of(table, step).iter().filter(|(of, value)| *of == size && matches!(value, Value::Time(_))).count()
    }

    /// Returns the median of a measurement.
    pub(crate) fn median(
        &self,
        table: &str,
        step: &str,
        size: usize,
        what: impl Fn(&Measurement) -> f64,
    ) -> Option<f64> {
        let all = self
            .of(table, step)
            .into_iter()
            .filter(|(of, _)| *of == size)
            .filter_map(|(_, value)| if let Value::Time(measured) = value { Some(what(measured)) } else { None })
            .collect();
        median(all)
    }

    /// Returns the last count of the inodes that a step created.
    pub(crate) fn inodes(&self, table: &str, step: &str, size: usize) -> Option<usize> {
        self.of(table, step).into_iter().rev().find_map(|(of, value)| match value {
            Value::Inodes(inodes) if of == size => Some(*inodes),
            _ => None,
        })
    }

    /// Returns the last count of system calls, and the number of entities.
    pub(crate) fn calls(&self, table: &str, step: &str) -> Option<(usize, &Calls)> {
        self.of(table, step)
            .into_iter()
            .rev()
            .find_map(|(size, value)| if let Value::Calls(calls) = value { Some((size, calls)) } else { None })
    }
}

/// Formats a number in groups of three digits.
pub(crate) fn thousands(number: u64) -> String {
    if number < 1000 {
        return number.to_string();
    }
    format!("{},{:03}", thousands(number / 1000), number % 1000)
}
