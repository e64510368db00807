//! Requests of operators: `holo-fleet run`.

use crate::config::{HostConfig, Operation, Root};
use crate::error::FleetError;
use async_nats::{Client, Message, Subscriber};
use holo_process::Program;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The time limit of a command.
const LIMIT: Duration = Duration::from_secs(10 * 60);
/// The maximum size of the output in an answer, in bytes.
const MAX_OUTPUT: usize = 512 << 10;

/// What an operator asks for.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The entities; all if empty.
    pub(crate) selectors: Vec<String>,
}

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
pub(crate) fn subject(token: &str, operation: Operation) -> String {
    format!("holo.run.{token}.{}", name(operation))
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
pub(super) fn answer(client: &Client, config: &HostConfig, root: &Root, request: Message) {
    let (client, config, root) = (client.clone(), config.clone(), root.clone());
    tokio::spawn(async move {
        let Some(reply) = request.reply.clone() else { return };
        let answer = tokio::task::spawn_blocking(move || meet(&config, &root, &request)).await;
        let Ok(Ok(text)) = answer.map(|answer| serde_json::to_vec(&answer)) else { return };
        let _ = client.publish(reply, text.into()).await;
    });
}

fn meet(config: &HostConfig, root: &Root, request: &Message) -> Answer {
    let refused = |error: String| Answer {
        host: config.host.to_string(),
        exit_code: None,
        output: String::new(),
        error: Some(error),
    };
    let operation = [Operation::Check, Operation::Diff, Operation::Apply]
        .into_iter()
        .find(|operation| *request.subject == *subject(&config.host.token(), *operation));
    let Some(operation) = operation.filter(|operation| config.allow.contains(operation)) else {
        let asked = request.subject.rsplit('.').next().unwrap_or_default();
        return refused(format!("this host does not allow {asked}: see fleet.allow in agent.toml"));
    };
    let Ok(Request { selectors }) = serde_json::from_slice(&request.payload) else {
        return refused("not a request of this version".to_owned());
    };
    let mut holo = Program::new(program(root));
    holo.arg(name(operation)).arg("--").args(selectors).timeout(LIMIT).plain_locale();
    match holo.output() {
        Err(error) => refused(error.to_string()),
        Ok(output) => {
            let mut bytes = [output.stdout, output.stderr].concat();
            if bytes.len() > MAX_OUTPUT {
                bytes.truncate(MAX_OUTPUT);
                bytes.extend_from_slice("\n… (cut)\n".as_bytes());
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let error = output.ended.timed_out.map(|limit| format!("not done within {limit:?}"));
            Answer { host: config.host.to_string(), exit_code: output.ended.code(), output: text, error }
        }
    }
}

/// Returns `holo`: the configured one, that beside this program, or that in `$PATH`.
fn program(root: &Root) -> std::ffi::OsString {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct AgentFile {
        holo: Option<std::path::PathBuf>,
    }
    let configured =
        holo_definitions::read_document::<AgentFile>(&root.agent_config()).ok().flatten().unwrap_or_default();
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("holo")).filter(|path| path.exists());
    configured.holo.or_else(beside).map_or_else(|| "holo".into(), Into::into)
}
