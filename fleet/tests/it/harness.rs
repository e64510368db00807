//! A server, operators and hosts, each on a directory of its own.

use async_nats::jetstream::{self, Context};
use holo_process::{Channel, Event, Process, Program, Status};
use holo_testing::binaries::{built, directory};
use holo_testing::require::clock_library;
use holo_testing::{Need, Run, ScratchRoot};
use jsonschema::Validator;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time to wait for something on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
/// The interval between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// What all tests with a server need.
pub(crate) const NATS: Need = Need::Trial("target/nats, which .ci/nats-server makes", || nats().exists());
pub(crate) const NEEDS: [Need; 2] = [NATS, Need::Program("ssh-keygen")];

fn nats() -> PathBuf {
    directory().unwrap().parent().unwrap().join("nats/usr/sbin/nats-server")
}

static LINES: LazyLock<Validator> = LazyLock::new(|| schema(include_str!("../../../schema/holo-fleet.schema.json")));
static EVENTS: LazyLock<Validator> =
    LazyLock::new(|| schema(include_str!("../../../schema/holo-agent-events.schema.json")));

/// Returns what validates a document against this schema.
pub(crate) fn schema(text: &str) -> Validator {
    jsonschema::validator_for(&serde_json::from_str(text).unwrap()).unwrap()
}

/// Returns a port that no program uses.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns the answer to a request over HTTP.
pub(crate) fn get(address: impl ToSocketAddrs, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A running NATS server with its data.
pub(crate) struct Server {
    folder: TempDir,
    port: u16,
    /// The port of its monitoring, or 0.
    monitor: u16,
    process: Option<Process>,
    /// More of its configuration.
    config: String,
}

impl Server {
    /// Starts a server that everyone may use.
    pub(crate) fn start() -> Server {
        let mut server = Server::stopped();
        server.start_again();
        server
    }

    /// Returns a server that was not started yet.
    pub(crate) fn stopped() -> Server {
        let port = free_port();
        let folder = tempfile::tempdir().unwrap();
        Server { folder, port, monitor: 0, process: None, config: String::new() }
    }

    /// Starts servers that form a cluster.
    pub(crate) fn cluster(number: usize) -> Vec<Server> {
        let mut servers: Vec<Server> = (0..number).map(|_| Server::stopped()).collect();
        let ports: Vec<u16> = servers.iter().map(|_| free_port()).collect();
        let routes =
            ports.iter().map(|port| format!("\"nats-route://127.0.0.1:{port}\"")).collect::<Vec<_>>().join(", ");
        for (index, (server, port)) in servers.iter_mut().zip(&ports).enumerate() {
            server.configure(&format!(
                "server_name: s{index}\ncluster {{ name: c, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}"
            ));
        }
        servers.iter_mut().for_each(Server::start_again);
        servers
    }

    /// Adds to its configuration.
    pub(crate) fn configure(&mut self, config: &str) {
        self.config = config.to_owned();
    }

    /// Returns the directory of its configuration.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Starts it with the data that it had.
    pub(crate) fn start_again(&mut self) {
        self.write_config();
        let mut program = Program::new(nats());
        program.arg("-c").arg(self.config_file()).arg("-l").arg(self.folder.path().join("log"));
        self.process = Some(program.start().unwrap());
        let begun = Instant::now();
        while !self.answers() {
            assert!(
                begun.elapsed() < PATIENCE,
                "{}",
                fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
            );
            std::thread::sleep(LOOK);
        }
    }

    fn config_file(&self) -> PathBuf {
        self.folder.path().join("server.conf")
    }

    fn write_config(&self) {
        let data = self.folder.path().join("data");
        let text = format!("listen: 127.0.0.1:{}\njetstream {{ store_dir: {data:?} }}\n{}\n", self.port, self.config);
        fs::write(self.config_file(), text).unwrap();
    }

    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut line = String::new();
        BufReader::new(&mut stream)
            .read_line(&mut line)
            .is_ok_and(|_| line.starts_with("INFO") && line.contains("\"jetstream\":true"))
    }

    /// Returns a server that counts its messages.
    pub(crate) fn counting() -> Server {
        let mut server = Server::stopped();
        server.monitor = free_port();
        server.configure(&format!("http: \"127.0.0.1:{}\"", server.monitor));
        server.start_again();
        server
    }

    /// Returns the number of messages that it has received and sent.
    pub(crate) fn messages(&self) -> u64 {
        let answer = get(("127.0.0.1", self.monitor), "/varz");
        let counts: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        counts["in_msgs"].as_u64().unwrap() + counts["out_msgs"].as_u64().unwrap()
    }

    /// Makes it read its configuration again.
    pub(crate) fn reload(&self) {
        self.write_config();
        let process = self.process.as_ref().unwrap();
        kill_process(Pid::from_raw(process.id().cast_signed()).unwrap(), Signal::HUP).unwrap();
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            end(process, Signal::KILL);
        }
    }

    /// Removes its data.
    pub(crate) fn lose_data(&self) {
        fs::remove_dir_all(self.folder.path().join("data")).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What somebody does who has the server.
pub(crate) fn as_server(server: &Server, work: impl AsyncFnOnce(&Context)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(server.url()).await.unwrap();
        work(&jetstream::new(client.clone())).await;
        client.flush().await.unwrap();
    });
}

/// Stores a value, like the server itself could.
pub(crate) async fn put(context: &Context, bucket: &str, key: &str, value: Vec<u8>) {
    context.get_key_value(bucket).await.unwrap().put(key, value.into()).await.unwrap();
}

fn end(mut process: Process, signal: Signal) -> Option<Status> {
    let _ = kill_process(Pid::from_raw(process.id().cast_signed()).unwrap(), signal);
    let (begun, mut status) = (Instant::now(), None);
    while status.is_none() && begun.elapsed() < PATIENCE {
        let until = Some(Instant::now() + LOOK);
        Process::wait_for_any([&mut process], &[], until).unwrap();
        let taken = process.take(&mut |event| {
            if let Event::Ended(exit) = event {
                status = Some(exit.status);
            }
        });
        taken.unwrap();
    }
    status
}

/// Starts a server, and prepares it.
pub(crate) fn prepared() -> (Server, Operator) {
    let server = Server::start();
    let operator = Operator::new(&server);
    operator.must(&["init"]);
    (server, operator)
}

/// An operator, with a key that signs.
pub(crate) struct Operator {
    pub(crate) root: ScratchRoot,
}

impl Operator {
    pub(crate) fn new(server: &Server) -> Operator {
        // The check of a bundle finds holo there, and its plugins beside it.
        let path = format!("{}:{}", directory().unwrap().display(), std::env::var("PATH").unwrap());
        // Rollouts that are followed last long on a busy machine.
        let root = ScratchRoot::new().time_limit(PATIENCE).env("PATH", path).dir("etc/holo").dir("root/.ssh");
        let root =
            root.file("etc/holo/fleet.toml", format!("url = \"{}\"\nsigning_key = \"/root/.ssh/id\"\n", server.url()));
        let operator = Operator { root };
        operator.new_key("root/.ssh/id");
        let signers = operator.signers("root/.ssh/id.pub", "holo-bundle,holo-channel,holo-data");
        operator.root.write("etc/holo/allowed_signers", signers);
        operator
    }

    /// Generates a key.
    pub(crate) fn new_key(&self, path: &str) {
        let path = self.root.join(path);
        let made = self.root.run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &path.to_string_lossy()]);
        assert!(made.success(), "{}", made.stderr_lossy());
    }

    /// Returns a line for a public key.
    pub(crate) fn signers(&self, key: &str, namespaces: &str) -> String {
        format!("anna namespaces=\"{namespaces}\" {}", self.root.read(key))
    }

    /// Runs `holo-fleet`.
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        self.root.run(built("holo-fleet"), arguments)
    }

    /// Runs `holo-fleet`, which must succeed, and returns its output.
    #[track_caller]
    pub(crate) fn must(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert!(run.success(), "{arguments:?}: {}{}", run.stdout_lossy(), run.stderr_lossy());
        run.stdout_lossy().into_owned()
    }

    /// Starts `holo-fleet`, which runs until the result is dropped.
    pub(crate) fn background(&self, arguments: &[&str]) -> Background {
        let mut program = Program::new(built("holo-fleet"));
        program.args(arguments).env("HOLO_ROOT_DIR", self.root.path());
        Background { process: Some(program.start().unwrap()) }
    }

    /// Runs `holo-fleet` until it succeeds.
    #[track_caller]
    pub(crate) fn until_success(&self, arguments: &[&str]) {
        let begun = Instant::now();
        loop {
            let run = self.run(arguments);
            if run.success() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{arguments:?}: {}", run.stderr_lossy());
            std::thread::sleep(LOOK);
        }
    }

    /// Returns the lines of JSON of a command.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let schema = if arguments.first() == Some(&"events") { &EVENTS } else { &LINES };
        let parsed = |line: &str| {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert!(schema.is_valid(&value), "{arguments:?}: {line}");
            value
        };
        self.run(arguments).stdout_lossy().lines().map(parsed).collect()
    }

    /// Waits until the lines of a command are as they should be.
    #[track_caller]
    pub(crate) fn until(&self, arguments: &[&str], is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let lines = self.json(arguments);
            if is_so(&lines) {
                return lines;
            }
            let error = || format!("{:?}", self.run(arguments));
            assert!(begun.elapsed() < PATIENCE, "{arguments:?}: {lines:#?}{}", error());
            std::thread::sleep(LOOK);
        }
    }

    /// Builds, signs and publishes a bundle with a file of this content, and returns its name with the version.
    pub(crate) fn publish(&self, name: &str, version: &str, content: &str) -> String {
        let folder = format!("srv/{name}-{version}");
        self.root.write(format!("{folder}/holo-bundle.toml"), format!("name = \"{name}\"\nversion = \"{version}\"\n"));
        let definition = format!("[[file]]\npath = \"/srv/app/conf\"\ncontent = \"{content}\\n\"\n");
        self.root.write(format!("{folder}/usr/share/holo/files/10-app.toml"), definition);
        self.root.write(
            format!("{folder}/etc/holorc.d/10-files"),
            format!("plugin files={}\n", built("holo-files").display()),
        );
        self.publish_folder(&folder, name, version)
    }

    /// Builds, signs and publishes what is in a directory.
    pub(crate) fn publish_folder(&self, folder: &str, name: &str, version: &str) -> String {
        let file = self.root.join(format!("srv/{name}-{version}.tar.zst"));
        let (folder, file) = (self.root.join(folder), file.to_string_lossy().into_owned());
        self.must(&["bundle", "build", &folder.to_string_lossy(), "--output", &file]);
        self.must(&["bundle", "sign", &file]);
        // A cluster may still elect the leader of this stream.
        self.until_success(&["bundle", "push", &file]);
        format!("{name}@{version}")
    }
}

/// A program that runs.
pub(crate) struct Background {
    process: Option<Process>,
}

impl Background {
    /// Kills it.
    pub(crate) fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            end(process, Signal::KILL);
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A host with a running agent.
pub(crate) struct Host {
    pub(crate) root: ScratchRoot,
    name: String,
    process: Option<Process>,
    said: String,
    /// How far its clock is off, such as `-400d`.
    clock: Option<&'static str>,
}

impl Host {
    /// Starts an agent that belongs to a channel.
    pub(crate) fn start(server: &Server, operator: &Operator, name: &str, section: &str) -> Host {
        Host::with_files(server, operator, name, section, |root| root)
    }

    /// Starts an agent on another machine.
    pub(crate) fn start_as(server: &Server, operator: &Operator, name: &str, machine: &str, section: &str) -> Host {
        let id: String = machine.bytes().cycle().take(16).map(|byte| format!("{byte:02x}")).collect();
        Host::with_files(server, operator, name, section, |root| root.file("etc/machine-id", format!("{id}\n")))
    }

    /// Starts an agent that belongs to a fleet on several servers.
    pub(crate) fn start_at(urls: &str, operator: &Operator, name: &str, section: &str) -> Host {
        Host::with_all(urls, operator, name, section, |root| root)
    }

    /// Starts an agent whose root has more files.
    pub(crate) fn with_files(
        server: &Server,
        operator: &Operator,
        name: &str,
        section: &str,
        more: impl FnOnce(ScratchRoot) -> ScratchRoot,
    ) -> Host {
        Host::with_all(&format!("{:?}", server.url()), operator, name, section, more)
    }

    fn with_all(
        url: &str,
        operator: &Operator,
        name: &str,
        section: &str,
        more: impl FnOnce(ScratchRoot) -> ScratchRoot,
    ) -> Host {
        let root = Host::blank(name).dir("srv/app").file("etc/os-release", "ID=unittest\n");
        let root = root.file("etc/holo/allowed_signers", operator.root.read("etc/holo/allowed_signers"));
        let config = format!(
            "interval = \"1h\"\nhealth_interval = \"1s\"\n[fleet]\nurl = {url}\nhost = \"{name}\"\n{section}\n"
        );
        let root = more(root.file("etc/holo/agent.toml", config));
        let mut host = Host::stopped(name, root);
        host.start_again();
        host
    }

    /// Returns the root of a machine with an ID of its own.
    pub(crate) fn blank(name: &str) -> ScratchRoot {
        let machine: String = name.bytes().cycle().take(16).map(|byte| format!("{byte:02x}")).collect();
        ScratchRoot::new().holorc("").dir("etc/holorc.d").file("etc/machine-id", format!("{machine}\n"))
    }

    /// Returns a host whose agent was not started yet.
    pub(crate) fn stopped(name: &str, root: ScratchRoot) -> Host {
        Host { root, name: name.to_owned(), process: None, said: String::new(), clock: None }
    }

    /// Starts it again with another clock.
    pub(crate) fn set_clock(&mut self, offset: &'static str) {
        self.stop();
        self.clock = Some(offset);
        self.start_again();
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn start_again(&mut self) {
        let mut agent = Program::new(built("holo-agent"));
        agent.arg("run").current_dir(self.root.path());
        agent.env("HOLO_ROOT_DIR", self.root.path()).env("TMPDIR", self.root.join("tmp")).env("LC_ALL", "C");
        if let (Some(offset), Some(library)) = (self.clock, clock_library()) {
            agent.env("LD_PRELOAD", library).env("FAKETIME", offset).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        agent.env_remove("NOTIFY_SOCKET").env_remove("JOURNAL_STREAM").env_remove("WATCHDOG_USEC");
        self.process = Some(agent.start().unwrap());
    }

    /// Runs `holo-agent`.
    pub(crate) fn agent(&self, arguments: &[&str]) -> Run {
        self.root.run(built("holo-agent"), arguments)
    }

    /// Reads what the agent says.
    pub(crate) fn listen(&mut self) -> &str {
        if let Some(process) = &mut self.process {
            Process::wait_for_any([&mut *process], &[], Some(Instant::now() + LOOK)).unwrap();
            let said = &mut self.said;
            let taken = process.take(&mut |event| {
                if let Event::Chunk(Channel::Stderr | Channel::Stdout, bytes) = event {
                    said.push_str(&String::from_utf8_lossy(bytes));
                }
            });
            taken.unwrap();
        }
        &self.said
    }

    /// Waits until the agent has said a text.
    #[track_caller]
    pub(crate) fn until_said(&mut self, text: &str) {
        let begun = Instant::now();
        while !self.listen().contains(text) {
            assert!(begun.elapsed() < PATIENCE, "it does not say {text:?}, but {}", self.said);
        }
    }

    /// Waits until a file has this content.
    #[track_caller]
    pub(crate) fn until_file(&mut self, path: &str, content: &str) {
        let begun = Instant::now();
        loop {
            let is = if self.root.exists(path) { self.root.read(path).to_string() } else { String::new() };
            if is == content {
                return;
            }
            self.listen();
            assert!(begun.elapsed() < PATIENCE, "{}: {path} is {is:?}, and the agent says {}", self.name, self.said);
        }
    }

    /// Returns the process ID of the `holo-fleet` that the agent has started.
    #[track_caller]
    pub(crate) fn fleet_program(&self) -> u32 {
        let agent = self.process.as_ref().unwrap().id().to_string();
        let run = self.root.run("pgrep", &["-P", &agent, "holo-fleet"]);
        run.stdout_lossy().trim().parse().unwrap()
    }

    /// Kills the agent.
    pub(crate) fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            end(process, Signal::KILL);
        }
    }

    /// Asks the agent to terminate.
    pub(crate) fn stop(&mut self) {
        if let Some(process) = self.process.take() {
            end(process, Signal::TERM);
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop();
    }
}
