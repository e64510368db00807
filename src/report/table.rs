//! Tables and descriptions: aligned for people, and tab-separated for scripts.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::time::Duration;

/// Rows of cells with named columns.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// The names of the columns.
    pub columns: &'a [&'a str],
    /// The rows, each with one cell per column.
    pub rows: &'a [Vec<Cell>],
}

/// A subject and its properties.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// The subject.
    pub heading: &'a str,
    /// Keys and values. A key that equals the previous one may be left empty.
    pub lines: &'a [(&'a str, Cell)],
}

/// A value whose format depends on the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// A text.
    Text(String),
    /// A time: local for people, UTC for scripts.
    Time(Timestamp),
    /// A duration: rounded for people, in seconds for scripts.
    Duration(Duration),
    /// No value: shown to scripts as a placeholder, as columns are never empty.
    Nothing,
}

impl<T: ToString + ?Sized> From<&T> for Cell {
    fn from(text: &T) -> Cell {
        Cell::Text(text.to_string())
    }
}

impl Cell {
    /// Returns a cell for an optional duration.
    #[must_use]
    pub fn duration(duration: Option<Duration>) -> Cell {
        duration.map_or(Cell::Nothing, Cell::Duration)
    }

    /// Returns a cell for an optional time.
    #[must_use]
    pub fn time(time: Option<Timestamp>) -> Cell {
        time.map_or(Cell::Nothing, Cell::Time)
    }

    /// Formats the value for people.
    #[must_use]
    pub fn for_people(&self) -> String {
        match self {
            Cell::Text(text) => harmless(text),
            Cell::Time(time) => time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
            Cell::Duration(duration) => rounded(*duration),
            Cell::Nothing => String::new(),
        }
    }

    /// Formats the value for scripts: never empty, and without tabs or newlines.
    pub(super) fn for_scripts(&self) -> String {
        match self {
            Cell::Text(text) if text.is_empty() => "-".to_owned(),
            Cell::Text(text) => harmless(text),
            Cell::Time(time) => time.to_string(),
            Cell::Duration(duration) => format!("{:.3}", duration.as_secs_f64()),
            Cell::Nothing => "-".to_owned(),
        }
    }
}

impl Table<'_> {
    /// Returns the lines for people, starting with the names of the columns. The last column is not padded.
    pub(super) fn for_people(&self) -> Vec<String> {
        let names = self.columns.iter().map(|&name| name.to_owned()).collect();
        let cells = self.rows.iter().map(|row| row.iter().map(Cell::for_people).collect());
        let rows: Vec<Vec<String>> = [names].into_iter().chain(cells).collect();
        let width =
            |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..self.columns.len()).map(|column| width(column).unwrap_or(0)).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        rows.iter().map(line).collect()
    }

    /// Returns the lines for scripts, with tab-separated cells.
    pub(super) fn for_scripts(&self) -> impl Iterator<Item = String> {
        self.rows.iter().map(|row| row.iter().map(Cell::for_scripts).collect::<Vec<_>>().join("\t"))
    }
}

/// Returns a text on one line, with control characters escaped.
fn harmless(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|letter| if letter.is_control() { letter.escape_default().collect() } else { vec![letter] })
        .collect()
}

/// Formats a duration with reasonable precision.
fn rounded(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.as_millis() < 100 => format!("{} ms", duration.as_millis()),
        0..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_for_people_and_stable_for_scripts() {
        let time = Cell::Time("2026-11-22T09:14:03.5Z".parse().unwrap());
        let rows = [
            vec![time, "changed".into(), Cell::Duration(Duration::from_millis(1234))],
            vec![Cell::Nothing, "x".into(), "".into()],
        ];
        let table = Table { columns: &["TIME", "RESULT", "TOOK"], rows: &rows };
        let scripts: Vec<String> = table.for_scripts().collect();
        assert_eq!(scripts, ["2026-11-22T09:14:03.5Z\tchanged\t1.234", "-\tx\t-"]);
        let people = table.for_people();
        assert!(people[0].starts_with("TIME ") && people[0].ends_with("  RESULT   TOOK"), "{people:?}");
        assert!(people[1].ends_with("  changed  1.2 s") && people[2].ends_with("  x"), "{people:?}");
    }

    #[test]
    fn control_characters_in_cells_are_escaped() {
        assert_eq!(Cell::from("a\tb\n\x1b[2J\u{9b}é").for_scripts(), "a\\tb\\n\\u{1b}[2J\\u{9b}é");
        assert_eq!(Cell::from("a\tb").for_people(), "a\\tb");
    }

    #[test]
    fn durations_are_rounded() {
        for (milliseconds, shown) in [
            (7, "7 ms"),
            (99, "99 ms"),
            (100, "0.1 s"),
            (59_000, "59.0 s"),
            (61_000, "1 min 1 s"),
            (7_320_000, "2 h 2 min"),
        ] {
            assert_eq!(rounded(Duration::from_millis(milliseconds)), shown);
        }
    }
}
