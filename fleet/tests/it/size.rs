//! Many hosts on one server. The usual test has a few; `HOLO_TEST_FLEET` is another number, and prints figures.
#![expect(clippy::print_stdout, reason = "figures are for who asks for them")]

use crate::harness::{NEEDS, Operator, PATIENCE, Server};
use holo_process::{Process, Program};
use holo_testing::binaries::built;
use holo_testing::require::trial_of;
use holo_testing::{ScratchRoot, random};
use jiff::Timestamp;
use libtest_mimic::Trial;
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// The number of hosts of the usual test.
const USUAL: u64 = 20;
/// The variable for another number.
const NUMBER: &str = "HOLO_TEST_FLEET";
/// The time for a command, on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);
/// The size of the bundle in bytes.
const SIZE: usize = 1 << 20;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial_of("many hosts follow a channel", &NEEDS, many),
        trial_of("a controller sends few messages", &NEEDS, few_messages),
    ]
}

/// The time for which messages are counted.
const COUNTING: Duration = Duration::from_secs(20);

/// The time after which a change is over.
const CALM: Duration = Duration::from_secs(5);

/// An agent that answers as a real one, but has nothing to do.
struct Agent {
    state: PathBuf,
    began: Timestamp,
    events: u64,
}

impl Agent {
    fn answer(&mut self, request: &str) -> Value {
        if request.contains("run_now") {
            (self.began, self.events) = (Timestamp::now(), self.events + 1);
            let event = json!({
                "contract": 1, "version": "4.0.0", "host": "x", "boot": "x", "time": self.began, "seq": self.events,
                "id": format!("run-{}", self.events), "kind": "run", "verb": "apply", "result": "changed",
                "began": self.began, "duration": 0.1,
            });
            let mut file = OpenOptions::new().append(true).create(true).open(self.state.join("events.jsonl")).unwrap();
            writeln!(file, "{event}").unwrap();
        }
        json!({
            "answer": "status", "mode": "enforce", "doing": { "state": "watching", "entities": 1, "apply": true },
            "last": { "began": self.began, "result": "unchanged", "verb": "apply" }, "drifted": {}, "failed": {}, "health": {},
        })
    }

    async fn serve(mut self, listener: UnixListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = self.meet(stream).await;
        }
    }

    async fn meet(&mut self, stream: UnixStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut request = String::new();
        stream.read_line(&mut request).await?;
        let answer = self.answer(&request);
        stream.write_all(format!("{answer}\n").as_bytes()).await?;
        stream.shutdown().await
    }
}

/// Starts agents for these roots, which answer until the process ends.
fn agents(roots: Vec<PathBuf>) {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for root in roots {
                let (state, socket) = (root.join("var/lib/holo-agent"), root.join("run/holo-agent"));
                fs::create_dir_all(&state).unwrap();
                fs::create_dir_all(&socket).unwrap();
                let listener = UnixListener::bind(socket.join("control.sock")).unwrap();
                tokio::spawn(Agent { state, began: Timestamp::now(), events: 0 }.serve(listener));
            }
            std::future::pending::<()>().await;
        });
    });
}

fn host(root: &Path, number: u64, url: &str, signers: &[u8]) -> Process {
    fs::create_dir_all(root.join("etc/holo")).unwrap();
    fs::write(root.join("etc/machine-id"), format!("{number:032x}\n")).unwrap();
    fs::write(root.join("etc/holo/allowed_signers"), signers).unwrap();
    let config = format!("[fleet]\nurl = \"{url}\"\nhost = \"host{number}\"\nchannel = \"web\"\n");
    fs::write(root.join("etc/holo/agent.toml"), config).unwrap();
    let mut program = Program::new(built("holo-fleet"));
    program.args(["host", "run"]).env("HOLO_ROOT_DIR", root);
    program.start().unwrap()
}

/// The memory of a process that is no mapped file, in kB.
fn own_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn many() {
    let number = random::given(NUMBER).unwrap_or(USUAL);
    let server = Server::start();
    let mut operator = Operator::new(&server);
    operator.root = operator.root.time_limit(LIMIT);
    operator.must(&["init"]);
    let (url, signers) = (server.url(), operator.root.read("etc/holo/allowed_signers"));
    let scratch = ScratchRoot::in_memory();
    let roots: Vec<PathBuf> = (0..number).map(|number| scratch.join(format!("h{number}"))).collect();
    agents(roots.clone());
    let begun = Instant::now();
    let hosts: Vec<Process> =
        roots.iter().zip(0..).map(|(root, number)| host(root, number, &url, signers.as_slice())).collect();
    operator.until(&["hosts", "--json"], |lines| {
        lines.len() as u64 == number && lines.iter().all(|line| line["result"] == "unchanged")
    });
    println!("{number} hosts report after {:?}", begun.elapsed());

    // What does not compress is as large on the server.
    let mut random = holo_testing::Random::new(1);
    let content: String = (0..SIZE / 16).map(|_| format!("{:016x}", random.number())).collect();
    operator.root.write("srv/big/holo-bundle.toml", "name = \"big\"\nversion = \"1\"\n");
    operator.root.write("srv/big/etc/holo/data/big.txt", &content);
    let bundle = operator.publish_folder("srv/big", "big", "1");
    let begun = Instant::now();
    operator.must(&["rollout", "start", "web", &bundle, "--waves", "100%", "--soak", "0s", "--follow"]);
    println!("a rollout of {} kB in one wave: {:?}", content.len() >> 10, begun.elapsed());
    assert!(roots.iter().all(|root| fs::read_to_string(root.join("etc/holo/data/big.txt")).unwrap() == content));

    for command in
        [&["status", "--json"][..], &["hosts", "--json"], &["hosts", "--json", "--where", "channel == \"web\""]]
    {
        let begun = Instant::now();
        let lines = operator.json(command);
        println!("holo-fleet {}: {:?}, {} lines", command.join(" "), begun.elapsed(), lines.len());
    }
    let (begun, page) = (Instant::now(), operator.root.join("page.html"));
    operator.must(&["report", "--output", &page.to_string_lossy()]);
    println!("holo-fleet report: {:?}", begun.elapsed());
    let status = operator.json(&["status", "--json"]);
    assert_eq!(status[0]["hosts"]["in_step"], json!(number));
    let begun = Instant::now();
    let events = loop {
        let events = operator.json(&["events", "--json"]).len() as u64;
        if events >= number || begun.elapsed() > PATIENCE {
            break events;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(events, number, "each host has run once");
    let memory = hosts.iter().map(|host| own_memory(host.id())).max().unwrap();
    println!("a host needs at most {memory} kB, without mapped files");
    assert!(memory < 15 << 10, "{memory} kB");
}

/// Returns the number of messages a minute while three hosts and a controller do what they do.
fn messages_a_minute(server: &Server) -> f64 {
    let (before, begun) = (server.messages(), Instant::now());
    std::thread::sleep(COUNTING);
    (server.messages() - before) as f64 * 60.0 / begun.elapsed().as_secs_f64()
}

fn few_messages() {
    let server = Server::counting();
    let operator = Operator::new(&server);
    operator.must(&["init"]);
    let (url, signers) = (server.url(), operator.root.read("etc/holo/allowed_signers"));
    let scratch = ScratchRoot::in_memory();
    let roots: Vec<PathBuf> = (0..3).map(|number| scratch.join(format!("h{number}"))).collect();
    agents(roots.clone());
    let _hosts: Vec<Process> =
        roots.iter().zip(0..).map(|(root, number)| host(root, number, &url, signers.as_slice())).collect();
    operator.until(&["hosts", "--json"], |lines| {
        lines.len() == 3 && lines.iter().all(|line| line["result"] == "unchanged")
    });
    let alone = messages_a_minute(&server);
    let _controller = operator.background(&["controller"]);
    let _standby = operator.background(&["controller"]);
    std::thread::sleep(CALM);
    let idle = messages_a_minute(&server);
    let bundle = operator.publish("site", "1", "port 80");
    operator.must(&["rollout", "start", "web", &bundle, "--waves", "100%", "--soak", "1h"]);
    operator.until(&["status", "--json"], |lines| lines[0]["hosts"]["in_step"] == 3);
    std::thread::sleep(CALM);
    let rolling = messages_a_minute(&server);
    println!(
        "messages a minute of 3 hosts: {alone:.0}; with two controllers {idle:.0}, and during a rollout {rolling:.0}"
    );
    assert!(idle < 100.0 && rolling < 300.0, "{idle} {rolling}");
}
