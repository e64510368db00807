//! Tests of the phases of a download, each with its own timeout.

use super::*;
use crate::testing::{Reply, Server, closed_port, silent_port};
use holo_change::Tree;
use holo_plugin::{Sink, Stream};
use std::io::{self, Read};

#[derive(Default)]
struct Said(Vec<u8>);

impl Sink for Said {
    fn write(&mut self, _: Stream, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// Downloads with short time limits. Returns the content or the error, and the output.
fn hasty(url: &str) -> (Result<Vec<u8>, String>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let host = Host::from_environment(|_| Some(path.clone().into())).unwrap();
    let target = Tree::open(folder.path()).unwrap().place("target".as_ref());
    let soon = Duration::from_millis(300);
    let checksums = ChecksumCache::open(target.with_suffix(".known"), false);
    let request = Request {
        addresses: &[url.parse().unwrap()],
        headers: Vec::new(),
        credentials: None,
        authorities: None,
        checksum: None,
        previous: None,
        checksums: &checksums,
        max_size: u64::MAX,
        deadline: None,
        timeouts: Timeouts {
            connect: soon,
            first_byte: soon,
            stall: soon,
            attempts: 2,
            back_off: Duration::from_millis(1),
        },
    };
    let mut said = Said::default();
    let result = download(&request, &target, &host, &mut Output::new(&mut said)).map(|download| match download {
        Download::Unmodified => Vec::new(),
        Download::Complete(mut whole) => {
            let mut content = Vec::new();
            io::Seek::rewind(&mut whole.file).unwrap();
            whole.file.read_to_end(&mut content).unwrap();
            content
        }
    });
    (result.map_err(|error| error.to_string()), String::from_utf8(said.0).unwrap())
}

#[test]
fn a_server_that_stalls_is_asked_for_the_rest() {
    let body = b"0123456789".repeat(1000);
    let served = body.clone();
    let server = Server::new(move |asked| {
        let reply = Reply::rest(asked, &served, "\"x\"");
        if asked.number == 0 { Reply { pause: Some((4000, Duration::from_secs(30))), ..reply } } else { reply }
    });
    let (result, said) = hasty(&server.url("/x"));
    assert_eq!(result.unwrap(), body);
    assert!(said.contains("it stalled; trying again in 1ms (1 of 1)"), "{said}");
    assert_eq!(server.asked()[1].offset(), Some(4000));
}

#[test]
fn no_answer_is_not_waited_for() {
    let (result, said) = hasty(&format!("http://127.0.0.1:{}/x", silent_port()));
    assert!(result.unwrap_err().contains("timed out") && said.contains("trying again"), "{said}");
    let (result, _) = hasty(&format!("http://127.0.0.1:{}/x", closed_port()));
    assert!(result.unwrap_err().contains("cannot download http://127.0.0.1:"));
}

#[test]
fn what_comes_slowly_comes() {
    let server = Server::new(|_| Reply { pause: Some((5, Duration::from_millis(50))), ..Reply::of("slow and steady") });
    assert_eq!(hasty(&server.url("/x")).0.unwrap(), b"slow and steady");
}
