//! `holo-fleet data`: layers of data for all hosts, for roles, and for single hosts.

use crate::error::FleetError;
use crate::names::{Host, Label, NameError};
use crate::record::{LayerRecord, Signed, next_serial};
use crate::session::{Session, local};
use crate::signing::Namespace;
use crate::store::DATA;
use clap::{Args, Subcommand};
use holo_definitions::parse_document;
use holo_process::{Program, Stream, streams};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

/// The commands for data.
#[derive(Debug, Subcommand)]
pub(crate) enum DataVerb {
    /// Show a layer
    Get(Get),
    /// Replace a layer with a file
    Set(Set),
    /// Edit a layer with $EDITOR
    Edit(Edit),
    /// List the layers
    List,
}

/// A layer: `common`, `role.NAME` or `host.NAME`.
#[derive(Clone, Debug)]
struct Layer {
    key: String,
}

impl FromStr for Layer {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Layer, NameError> {
        let key = match text.split_once('.') {
            None if text == "common" => text.to_owned(),
            Some(("role", name)) => format!("role.{}", Label::new(name)?),
            Some(("host", name)) => format!("host.{}", Host::new(name)?.token()),
            _ => return Err(NameError::new(text, "a layer: common, role.NAME or host.NAME")),
        };
        Ok(Layer { key })
    }
}

/// `holo-fleet data get`
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// The layer: common, role.NAME or host.NAME
    #[arg(value_name = "LAYER")]
    layer: Layer,
}

/// `holo-fleet data set`
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The layer: common, role.NAME or host.NAME
    #[arg(value_name = "LAYER")]
    layer: Layer,
    /// A TOML file; standard input if it is -
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// `holo-fleet data edit`
#[derive(Debug, Args)]
pub(crate) struct Edit {
    /// The layer: common, role.NAME or host.NAME
    #[arg(value_name = "LAYER")]
    layer: Layer,
}

pub(crate) async fn run(verb: &DataVerb, session: &Session) -> Result<ExitCode, FleetError> {
    match verb {
        DataVerb::Get(Get { layer }) => {
            let (record, _) = current(session, &layer.key).await?;
            let record = record.ok_or_else(|| FleetError(format!("there is no layer {}", layer.key)))?;
            if session.output.json {
                let data = validate(&layer.key, &record.document)?;
                session.output.show_json(&Whole { line: Line::new(record), data })?;
            } else {
                let written = streams::write(Stream::Stdout, record.document.as_bytes());
                written.map_err(|error| FleetError::about("output", error))?;
            }
        }
        DataVerb::Set(Set { layer, file }) => {
            let document = read(file)?;
            validate(&file.display().to_string(), &document)?;
            let (record, revision) = current(session, &layer.key).await?;
            store(session, &layer.key, document, (record, revision)).await?;
        }
        DataVerb::Edit(Edit { layer }) => edit(session, &layer.key).await?,
        DataVerb::List => list(session).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn current(session: &Session, key: &str) -> Result<(Option<LayerRecord>, u64), FleetError> {
    let Some(kept) = session.store.bucket(DATA).await?.get(key).await? else { return Ok((None, 0)) };
    // What is edited is signed afterwards.
    let signers = session.signers();
    let record =
        if signers.exist() { Signed::open(&kept.value, Namespace::Data, &signers) } else { Signed::read(&kept.value) };
    Ok((Some(record.map_err(|error| FleetError::about(format!("data layer {key}"), error))?), kept.revision))
}

fn read(file: &Path) -> Result<String, FleetError> {
    let about = |error: io::Error| FleetError::about(file.display(), error);
    let mut text = String::new();
    if file == Path::new("-") {
        io::stdin().read_to_string(&mut text).map_err(about)?;
        return Ok(text);
    }
    std::fs::read_to_string(file).map_err(about)
}

/// Returns the data of a layer. Fails if it is not valid TOML, and names the line.
fn validate(place: &str, document: &str) -> Result<Map<String, Value>, FleetError> {
    parse_document(Path::new(place), document).map_err(|error| FleetError(error.to_string()))
}

async fn store(
    session: &Session,
    key: &str,
    document: String,
    (before, revision): (Option<LayerRecord>, u64),
) -> Result<(), FleetError> {
    if let Some(before) = before.as_ref().filter(|before| before.document == document) {
        return session.output.show_json(&Line::new(before.clone()));
    }
    let (layer, operator, time) = (key.to_owned(), session.operator_name(), session.store.now().await?);
    let serial = next_serial(before.map(|before| before.serial));
    let record = LayerRecord { layer, serial, document, operator, time };
    let stored = Signed::seal(&record, Namespace::Data, &session.signing_key()?)?;
    let set = session.store.bucket(DATA).await?.set(key, stored, revision).await?;
    if set.is_none() {
        return Err(FleetError(format!("data layer {key}: another operator was faster; look at it and try again")));
    }
    session.output.show_json(&Line::new(record))
}

/// Has a person edit a layer. What is not valid can be edited again, and is never lost.
async fn edit(session: &Session, key: &str) -> Result<(), FleetError> {
    let system = |error: io::Error| FleetError(error.to_string());
    let (record, revision) = current(session, key).await?;
    let before = record.as_ref().map(|record| record.document.clone()).unwrap_or_default();
    let mut file = tempfile::Builder::new().prefix("holo-fleet.").suffix(".toml").tempfile().map_err(system)?;
    file.write_all(before.as_bytes()).map_err(system)?;
    let editor =
        ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    let mut program = Program::new("/bin/sh");
    program.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(file.path()).in_our_group();
    let own = |stream: &dyn AsFd| stream.as_fd().try_clone_to_owned().map(File::from).map_err(system);
    program.stdin_file(own(&io::stdin())?).stdout_file(own(&io::stdout())?).stderr_file(own(&io::stderr())?);
    let ended = program.run(|_, _| {}).map_err(|error| FleetError(error.to_string()))?;
    if let Some(failure) = ended.failure() {
        return Err(FleetError(format!("{editor}: {failure}")));
    }
    let document = std::fs::read_to_string(file.path()).map_err(system)?;
    if let Err(error) = validate(key, &document) {
        let (_, path) = file.keep().map_err(|error| FleetError(error.to_string()))?;
        return Err(FleetError(format!(
            "{error}; what you wrote is in {path}: holo-fleet data set {key} {path}",
            path = path.display()
        )));
    }
    store(session, key, document, (record, revision)).await
}

/// A line of `holo-fleet data list`, `set` and `edit` with `--json`: a layer.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Line {
    /// Its name.
    layer: String,
    /// The number of the record, which rises with each change.
    serial: u64,
    /// Who changed it last.
    operator: String,
    /// When, in UTC.
    #[cfg_attr(test, schemars(with = "String"))]
    time: Timestamp,
    /// Its size.
    bytes: usize,
}

impl Line {
    fn new(LayerRecord { layer, serial, document, operator, time }: LayerRecord) -> Line {
        Line { layer, serial, operator, time, bytes: document.len() }
    }
}

/// The line of `holo-fleet data get --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Whole {
    #[serde(flatten)]
    line: Line,
    data: Map<String, Value>,
}

async fn list(session: &Session) -> Result<(), FleetError> {
    let mut lines: Vec<Line> = Vec::new();
    for kept in session.store.bucket(DATA).await?.all(">").await? {
        lines.push(Line::new(Signed::read(&kept.value)?));
    }
    session.output.list(&lines, "no layers; store one with: holo-fleet data set common FILE", |line| {
        let (bytes, by) = (format!("{} bytes", line.bytes), format!("by {}", line.operator));
        vec![line.layer.clone(), bytes, local(line.time), by]
    })
}
