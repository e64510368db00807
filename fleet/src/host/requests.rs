//! Requests of operators: `holo-fleet run`, and previews of bundles.

use super::target::{Failure, fetch};
use crate::bundle;
use crate::config::{HostConfig, Operation, Root};
use crate::error::FleetError;
use crate::names::BundleId;
use crate::published::Fetched;
use crate::signing::Signers;
use crate::store::Store;
use async_nats::{Client, Message, Subscriber};
use holo_process::{Program, beside};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The time limit of a command.
const LIMIT: Duration = Duration::from_secs(10 * 60);
/// The maximum size of the output in an answer, in bytes.
const MAX_OUTPUT: usize = 512 << 10;
/// The maximum size of an answer, in bytes. A server accepts messages up to 1 MiB unless it is configured otherwise.
const MAX_ANSWER: usize = 1000 << 10;
/// The directory for previews.
const PREVIEWS: &str = "var/lib/holo-fleet/previews";

/// What an operator asks for.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The entities; all if empty.
    #[serde(default)]
    pub(crate) selectors: Vec<String>,
    /// The bundle whose installation is previewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bundle: Option<BundleId>,
}

/// The part of the subject with which a host is asked for a preview of a bundle.
pub(crate) const PREVIEW: &str = "preview";

/// What a host answers.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Answer {
    /// The name of the host.
    pub(crate) host: String,
    /// The exit code of `holo`, if it ran.
    pub(crate) exit_code: Option<i32>,
    /// Its output.
    pub(crate) output: String,
    /// Why it did not run, or not to its end.
    pub(crate) error: Option<String>,
}

/// Returns the subject on which a host is asked for something.
pub(crate) fn subject(token: &str, asked: &str) -> String {
    format!("holo.run.{token}.{asked}")
}

/// Returns the name of an operation, which is also that of the command.
pub(crate) fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Check => "check",
        Operation::Diff => "diff",
        Operation::Apply => "apply",
    }
}

/// Listens to requests.
pub(super) async fn subscribe(client: &Client, config: &HostConfig) -> Result<Subscriber, FleetError> {
    let subject = format!("holo.run.{}.*", config.host.token());
    client.subscribe(subject).await.map_err(|error| FleetError(error.to_string()))
}

/// Answers a request, without waiting for it.
pub(super) fn answer(store: &Store, config: &HostConfig, root: &Root, request: Message) {
    let (store, config, root) = (store.clone(), config.clone(), root.clone());
    tokio::spawn(async move {
        let Some(reply) = request.reply.clone() else { return };
        let answer = meet(&store, &config, root, &request).await.unwrap_or_else(|error| Answer {
            host: config.host.to_string(),
            exit_code: None,
            output: String::new(),
            error: Some(error.to_string()),
        });
        let Some(text) = encode(answer) else { return };
        let _ = store.client.publish(reply, text.into()).await;
    });
}

/// Encodes an answer. What is too long for a message is cut: some characters need several bytes in JSON, and a bundle may
/// be refused because of very many files.
fn encode(mut answer: Answer) -> Option<Vec<u8>> {
    let mut limit = MAX_OUTPUT;
    loop {
        let text = serde_json::to_vec(&answer).ok()?;
        if text.len() <= MAX_ANSWER {
            return Some(text);
        }
        limit /= 2;
        [&mut answer.output].into_iter().chain(&mut answer.error).for_each(|text| cut(text, limit));
    }
}

/// Shortens a text that is longer than this number of bytes.
fn cut(text: &mut String, limit: usize) {
    if text.len() > limit {
        text.truncate((0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default());
        text.push_str("\n… (cut)\n");
    }
}

async fn meet(store: &Store, config: &HostConfig, root: Root, request: &Message) -> Result<Answer, FleetError> {
    let asked = request.subject.rsplit('.').next().unwrap_or_default();
    let is_preview = asked == PREVIEW;
    let named = [Operation::Check, Operation::Diff, Operation::Apply].into_iter().find(|known| name(*known) == asked);
    // A preview shows differences, and changes nothing.
    let operation = if is_preview { Some(Operation::Diff) } else { named };
    if !operation.is_some_and(|operation| config.allow.contains(&operation)) {
        return Err(FleetError(format!("this host does not allow {asked}: see fleet.allow in agent.toml")));
    }
    let no_request = |_| FleetError("not a request of this version".to_owned());
    let Request { selectors, bundle } = serde_json::from_slice(&request.payload).map_err(no_request)?;
    let mut arguments: Vec<OsString> = vec![if is_preview { "check" } else { asked }.into()];
    let mut previewed = None;
    if is_preview {
        let bundle = bundle.ok_or_else(|| FleetError("a preview of no bundle".to_owned()))?;
        let signers = Signers::new(root.allowed_signers());
        let fetched = fetch(&bundle, store, &signers, config.allow_unsigned, &mut Fetched::default()).await;
        previewed = Some(fetched.map_err(|(Failure::Fetch(error) | Failure::Refuse(error))| error)?);
    }
    let host = config.host.to_string();
    let done = tokio::task::spawn_blocking(move || {
        // Must outlive its use.
        let directory;
        if let Some(bundle) = previewed {
            directory = previews(&root)?;
            let dropped = bundle::lay_out(&bundle, &root, directory.path());
            let dropped = dropped.map_err(|error| FleetError(error.to_string()))?;
            arguments.extend(["--diff".into(), "--with".into(), directory.path().into()]);
            let dropped = dropped.into_iter().map(|path| Path::new("/").join(path));
            arguments.extend(dropped.flat_map(|path| ["--without".into(), path.into_os_string()]));
        }
        run(&root, host, arguments, selectors)
    });
    done.await.map_err(|error| FleetError(error.to_string()))?
}

/// Returns a new directory for a preview.
fn previews(root: &Root) -> Result<TempDir, FleetError> {
    let parent = root.join(PREVIEWS);
    let made = fs::create_dir_all(&parent).and_then(|()| tempfile::tempdir_in(&parent));
    made.map_err(|error| FleetError::about(parent.display(), error))
}

/// Removes what previews have left that were killed.
pub(super) fn remove_previews(root: &Root) {
    let _ = fs::remove_dir_all(root.join(PREVIEWS));
}

fn run(root: &Root, host: String, arguments: Vec<OsString>, selectors: Vec<String>) -> Result<Answer, FleetError> {
    let mut holo = Program::new(program(root));
    holo.args(arguments).arg("--").args(selectors).timeout(LIMIT).plain_locale();
    let output = holo.output().map_err(|error| FleetError(error.to_string()))?;
    let mut text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    cut(&mut text, MAX_OUTPUT);
    let error = output.ended.timed_out.map(|limit| format!("not done within {limit:?}"));
    Ok(Answer { host, exit_code: output.ended.code(), output: text, error })
}

/// Returns `holo`: the configured one, that beside this program, or that in `$PATH`.
fn program(root: &Root) -> PathBuf {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct AgentFile {
        holo: Option<PathBuf>,
    }
    let configured =
        holo_definitions::read_document::<AgentFile>(&root.agent_config()).ok().flatten().unwrap_or_default();
    configured.holo.unwrap_or_else(|| beside("holo"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answers_fit_into_a_message() {
        let texts = ["\u{1}".repeat(MAX_OUTPUT), "ü".repeat(MAX_ANSWER), String::new()];
        for (output, error) in texts.iter().flat_map(|one| texts.iter().map(move |other| (one, other))) {
            let (host, exit_code) = ("web1".to_owned(), Some(0));
            let answer = Answer { host, exit_code, output: output.clone(), error: Some(error.clone()) };
            let text = encode(answer).unwrap();
            let answer: Answer = serde_json::from_slice(&text).unwrap();
            assert!(text.len() <= MAX_ANSWER);
            for (sent, whole) in [(answer.output, output), (answer.error.unwrap(), error)] {
                assert!(sent == *whole || sent.ends_with("(cut)\n"), "{}", sent.len());
            }
        }
    }
}
