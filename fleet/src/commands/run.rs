//! `holo-fleet run`: asks hosts to check, show differences, or apply.

use crate::channel::{Seen, select};
use crate::config::Operation;
use crate::error::FleetError;
use crate::host::requests::{Answer, Request, name, subject};
use crate::session::Session;
use clap::Args;
use futures_util::StreamExt;
use holo_definitions::duration;
use holo_process::streams;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// `holo-fleet run`
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The hosts, as an expression, such as 'channel == "web"'
    #[arg(long, value_name = "EXPR")]
    hosts: String,
    /// What they are asked for
    #[arg(value_name = "OPERATION")]
    operation: Operation,
    /// The entities [default: all]
    #[arg(value_name = "SELECTOR")]
    selectors: Vec<String>,
    /// The time to wait for answers
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    deadline: Duration,
}

pub(crate) async fn run(arguments: &Arguments, session: &Session) -> Result<ExitCode, FleetError> {
    let hosts = session.store.hosts().await?;
    let selected = select(Some(&arguments.hosts), &hosts)?;
    if selected.is_empty() {
        return Err(FleetError(format!("no host matches {:?}; look at: holo-fleet hosts", arguments.hosts)));
    }
    let question = Question {
        asked: name(arguments.operation),
        request: Request { selectors: arguments.selectors.clone(), bundle: None },
        deadline: arguments.deadline,
    };
    question.put(&selected, session, |code| is_expected(arguments.operation, code)).await
}

/// What hosts are asked for, and how the answers are shown.
pub(super) struct Question {
    /// A part of the subject.
    pub(super) asked: &'static str,
    pub(super) request: Request,
    /// The time to wait for answers.
    pub(super) deadline: Duration,
}

impl Question {
    /// Asks hosts, and shows the answers as they come. `is_expected` decides about exit codes.
    pub(super) async fn put(
        &self,
        hosts: &[&Seen],
        session: &Session,
        is_expected: impl Fn(i32) -> bool,
    ) -> Result<ExitCode, FleetError> {
        let about = |error: &dyn std::fmt::Display| FleetError::about(self.asked, error);
        let client = &session.store.client;
        let inbox = client.new_inbox();
        let mut answers = client.subscribe(inbox.clone()).await.map_err(|error| about(&error))?;
        let request = serde_json::to_vec(&self.request).map_err(|error| about(&error))?;
        let mut missing = BTreeSet::new();
        for seen in hosts {
            let host = &seen.report.host;
            let subject = subject(&host.token(), self.asked);
            let sent = client.publish_with_reply(subject, inbox.clone(), request.clone().into()).await;
            sent.map_err(|error| about(&error))?;
            missing.insert(host.to_string());
        }
        let (total, deadline) = (missing.len(), Instant::now() + self.deadline);
        let mut is_well = true;
        while !missing.is_empty() {
            streams::show_progress(&bar(total - missing.len(), total));
            let Ok(Some(message)) = timeout_at(deadline, answers.next()).await else { break };
            // Nobody listens: the host, or the server itself, says so.
            let Ok(answer) = serde_json::from_slice::<Answer>(&message.payload) else { continue };
            if !missing.remove(&answer.host) {
                continue;
            }
            is_well &= answer.error.is_none() && answer.exit_code.is_some_and(&is_expected);
            streams::show_progress("");
            session.output.show(&answer, text(&answer))?;
        }
        streams::show_progress("");
        for host in &missing {
            is_well = false;
            if session.output.json {
                let error = Some("no answer".to_owned());
                let answer = Answer { host: host.clone(), exit_code: None, output: String::new(), error };
                session.output.show_json(&answer)?;
            } else {
                streams::complain(format_args!("{host}: no answer"));
            }
        }
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// `check` ends with 3 if something is pending.
fn is_expected(operation: Operation, code: i32) -> bool {
    match operation {
        Operation::Check => code == 0 || code == 3,
        Operation::Diff | Operation::Apply => code == 0,
    }
}

/// Returns a bar that shows how many hosts have answered.
fn bar(done: usize, total: usize) -> String {
    const WIDTH: usize = 30;
    let full = done * WIDTH / total.max(1);
    format!("[{}{}] {done} of {total} hosts", "#".repeat(full), " ".repeat(WIDTH - full))
}

fn text(answer: &Answer) -> String {
    let code =
        answer.exit_code.filter(|code| *code != 0).map(|code| format!(" (exit code {code})")).unwrap_or_default();
    let heading = format!("== {}{code}", answer.host);
    let lines = answer.output.lines().chain(answer.error.as_deref());
    [heading.as_str()].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}
