//! The commands.

pub(crate) mod accounts;
pub(crate) mod bundle;
pub(crate) mod controller;
pub(crate) mod data;
pub(crate) mod host;
pub(crate) mod init;
pub(crate) mod look;
pub(crate) mod page;
pub(crate) mod publish;
pub(crate) mod registry;
pub(crate) mod rollout;
pub(crate) mod run;

use crate::config::Root;
use crate::session::Session;
use crate::{Cli, Verb};
use std::error::Error;
use std::process::ExitCode;

/// The exit code of a command, or why it failed.
pub(crate) type Outcome = Result<ExitCode, Box<dyn Error>>;

/// Runs a command.
pub(crate) fn run(cli: &Cli, root: &Root) -> Outcome {
    match &cli.verb {
        Verb::Init(arguments) => Session::run(cli, root, async |session| init::run(arguments, session).await),
        Verb::Accounts(arguments) => Ok(accounts::run(arguments, cli.output())?),
        Verb::Bundle(verb) => bundle::run(verb, cli, root),
        Verb::Rollout(verb) => Session::run(cli, root, async |session| rollout::run(verb, session).await),
        Verb::Rollback(arguments) => {
            Session::run(cli, root, async |session| rollout::rollback(arguments, session).await)
        }
        Verb::Promote(arguments) => Session::run(cli, root, async |session| rollout::promote(arguments, session).await),
        Verb::Log(arguments) => Session::run(cli, root, async |session| rollout::log(arguments, session).await),
        Verb::Controller(arguments) => {
            Session::run(cli, root, async |session| controller::run(arguments, session).await)
        }
        Verb::Status => Session::run(cli, root, async |session| look::status(session).await),
        Verb::Hosts(arguments) => Session::run(cli, root, async |session| look::hosts(arguments, session).await),
        Verb::Report(arguments) => Session::run(cli, root, async |session| page::report(arguments, session).await),
        Verb::Data(verb) => Session::run(cli, root, async |session| data::run(verb, session).await),
        Verb::Registry(verb) => Session::run(cli, root, async |session| registry::run(verb, session).await),
        Verb::Run(arguments) => Session::run(cli, root, async |session| run::run(arguments, session).await),
        Verb::Host(verb) => host::run(verb, cli.output(), root),
        Verb::Events(arguments) => Session::run(cli, root, async |session| look::events(arguments, session).await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::requests::Answer;

    /// A line that a command writes with `--json`. Those of `events` are the events of the agent.
    #[derive(schemars::JsonSchema)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only the schema is used")]
    enum FleetLine {
        Channel(look::ChannelLine),
        Host(look::HostLine<'static>),
        Rollout(rollout::Line),
        Done(rollout::Done),
        Bundle(publish::Line),
        Described(bundle::Described<'static>),
        Layer(data::Line),
        Service(registry::Line),
        Answer(Answer),
        Installed(host::Shown<'static>),
        Prepared(init::Line),
        Users(accounts::Written),
        Page(page::Written<'static>),
        WholeLayer(data::Whole),
    }

    #[test]
    fn schema_is_that_of_the_types() {
        holo_testing::schema_is_kept("holo-fleet.schema.json", &schemars::schema_for!(FleetLine));
    }
}
