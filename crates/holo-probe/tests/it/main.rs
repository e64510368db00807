//! Tests of the probes with test servers.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use holo_download::testing::{Reply, Server};
use holo_process::Program;
use holo_testing::{Need, trial_of};
use std::net::TcpListener;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let case = |name, case: fn()| trial_of(name, &[], case);
    holo_testing::run_modules([(
        "probes",
        vec![
            case("statuses and texts of an answer are judged", statuses),
            case("a server that is silent, gone or breaks off is critical", silence),
            case("servers with TLS are trusted as the system trusts them", tls),
            case("connections are taken, or not", connections),
            case("what cannot be understood is unknown", nonsense),
            trial_of("a unit that is not there is critical or unknown", &[Need::Program("systemctl")], units),
        ],
    )])
}

fn probe(arguments: &[&str]) -> (Option<i32>, String) {
    let mut probe = Program::new(env!("CARGO_BIN_EXE_holo-probe"));
    let said = probe.args(arguments).env_remove("SSL_CERT_FILE").output().unwrap();
    (said.ended.code(), String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

fn statuses() {
    let server = Server::new(|asked| match asked.path.as_str() {
        "/good" => Reply::of("all is <b>well</b>"),
        path => Reply::new(path.trim_start_matches('/').parse().unwrap()),
    });
    for (path, options, expected) in [
        ("good", &[][..], (0, "the server reports 200 OK")),
        ("good", &["--contains", "<b>well"], (0, "the server reports 200 OK")),
        ("good", &["--contains", "ill"], (2, "the answer does not contain \"ill\"")),
        ("good", &["--status", "204"], (2, "the server reports 200 OK, where 204 is expected")),
        ("301", &[], (0, "the server reports 301 Moved Permanently")),
        ("404", &[], (2, "the server reports 404 Not Found")),
        ("404", &["--status=404"], (0, "the server reports 404 Not Found")),
        ("503", &[], (2, "the server reports 503 Service Unavailable")),
    ] {
        let url = server.url(&format!("/{path}"));
        let answer = probe(&[&["http"], options, &[&url]].concat());
        assert_eq!(answer, (Some(expected.0), expected.1.to_owned()), "{path} {options:?}");
    }
}

fn silence() {
    let begun = Instant::now();
    // The server accepts connections, but never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/");
    let answer = probe(&["--timeout", "300", "http", &url]);
    assert_eq!(answer, (Some(2), "no answer within 300ms".to_owned()));
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    drop(silent);
    let (code, said) = probe(&["http", &url]);
    assert!(code == Some(2) && said.contains("refused"), "{said}");
    let server = Server::new(|_| Reply { length: Some(100), cut: Some(3), ..Reply::of("abcdef") });
    let (code, said) = probe(&["http", "--contains", "def", &server.url("/x")]);
    assert!(code == Some(2) && said.contains("breaks off"), "{said}");
}

fn tls() {
    let server = Server::with_tls(|_| Reply::of("safe"));
    let (code, said) = probe(&["http", &server.url("/x")]);
    assert!(code == Some(2) && !said.is_empty(), "{said}");
    let certificate = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(certificate.path(), &server.certificate).unwrap();
    let mut trusting = Program::new(env!("CARGO_BIN_EXE_holo-probe"));
    trusting.args(["http", "--contains", "safe", &server.url("/x")]).env("SSL_CERT_FILE", certificate.path());
    let said = trusting.output().unwrap();
    assert_eq!(said.ended.code(), Some(0), "{}", String::from_utf8_lossy(&said.stdout));
}

fn connections() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    assert_eq!(probe(&["tcp", &address]), (Some(0), format!("{address} takes connections")));
    drop(listener);
    let (code, said) = probe(&["tcp", &address]);
    assert!(code == Some(2) && said.contains("refused"), "{said}");
}

fn nonsense() {
    for arguments in
        [&["tcp", "localhost"][..], &["http"], &["ping", "x"], &["http", "http://"], &["--timeout=x", "tcp", "a:1"]]
    {
        assert_eq!(probe(arguments).0, Some(3), "{arguments:?}");
    }
}

fn units() {
    let (code, said) = probe(&["unit", "no-such-unit-anywhere.service"]);
    // Without a running systemd, the state is unknown.
    assert!(matches!(code, Some(2 | 3)) && !said.is_empty(), "{code:?} {said}");
}
