//! Downloads from misbehaving servers: either the requested content is kept, or none.

use crate::support::{apply, define, fails, root, settled, sha256};
use holo_download::testing::{Reply, Server, closed_port, silent_port};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        a_file_is_downloaded_once,
        how_far_a_download_has_come_is_said_to_those_who_can_see_it,
        mode_and_owner_are_mended_without_a_download,
        what_broke_off_is_resumed,
        parts_of_two_versions_are_not_put_together,
        a_server_that_ignores_if_range_is_seen_through,
        without_a_word_about_versions_the_checksum_decides,
        an_earlier_run_is_taken_up,
        what_others_have_put_there_is_not_taken_up,
        a_wrong_checksum_replaces_nothing,
        a_wrong_length_is_no_download,
        a_server_that_says_no_is_asked_once,
        a_server_in_trouble_is_asked_again,
        redirects_are_followed_but_not_for_ever,
        secrets_go_to_their_server_only_and_are_never_shown,
        what_has_not_changed_is_not_downloaded_again,
        the_date_of_a_change_will_do_and_without_it_once_is_enough,
        what_is_there_is_kept_while_nobody_answers,
        mirrors_are_tried_in_their_order,
        an_attempt_ends_when_its_time_is_up,
        the_system_says_which_certificates_are_trusted,
        a_definition_says_which_certificates_are_trusted,
        a_proxy_is_asked_for_the_whole_url,
        a_tunnel_through_a_proxy_ends_at_the_server,
        exceptions_are_asked_without_a_proxy,
        a_server_that_asks_for_patience_gets_it,
        files_of_this_machine_are_below_the_root,
        a_persons_file_is_kept_and_comes_back,
        directories_that_were_made_go_again,
        a_mirror_gets_no_secrets_of_another_server,
        a_download_has_a_bound,
        nothing_is_left_of_a_download_that_never_began,
        a_check_knows_of_a_file_that_changed_and_says_what_it_does_not_know,
    ]
}

const BODY: &[u8] = b"The quick brown fox jumps over the lazy dog.\n";

/// A larger content without repetitions.
fn large() -> Vec<u8> {
    (0..400_000_u32).flat_map(u32::to_le_bytes).collect()
}

fn no_part_is_left(root: &holo_testing::ScratchRoot) {
    let names: Vec<_> = fs::read_dir(root.join("srv")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_str().unwrap().contains("holo")), "{names:?}");
}

fn a_file_is_downloaded_once() {
    let server = Server::new(|_| Reply::of(BODY));
    let root = root(&format!("url = {:?}\nchecksum = {:?}", server.url("/a"), sha256(BODY)));
    let check = root.holo(&["check"]);
    assert!(check.stdout_lossy().contains(&format!("would download {}", server.url("/a"))), "{check}");
    assert_eq!(server.asked().len(), 0, "check does not download");
    apply(&root);
    assert_eq!(root.read("srv/app.tar"), BODY);
    assert_eq!(fs::metadata(root.join("srv/app.tar")).unwrap().permissions().mode() & 0o7777, 0o644);
    settled(&root);
    assert_eq!(server.asked().len(), 1);
    no_part_is_left(&root);
}

fn how_far_a_download_has_come_is_said_to_those_who_can_see_it() {
    let body = large();
    let pause = Some((body.len() / 2, Duration::from_millis(600)));
    let server = Server::new(move |_| Reply { pause, ..Reply::of(large()) });
    let root = root(&format!("url = {:?}\nchecksum = {:?}", server.url("/a"), sha256(&body)));
    let script = format!(
        "cd \"$HOLO_ROOT_DIR\"; export HOLO_RESOURCE_DIR=usr/share/holo/archives HOLO_STATE_DIR=var/lib/holo/archives HOLO_CACHE_DIR=tmp
        mkdir -p \"$HOLO_STATE_DIR\"; HOLO_API_VERSION=$0 {} apply archive:/srv/app.tar 3>tmp/messages",
        holo_testing::binaries::built("holo-archives").display()
    );
    for (version, is_said) in [("4", true), ("3", false)] {
        let run = root.run("sh", &["-ec", &script, version]);
        assert!(run.success() && !run.stdout_lossy().contains("progress"), "{run}");
        let messages = root.read("tmp/messages").to_string();
        let progress: Vec<&str> = messages.lines().filter_map(|line| line.strip_prefix("progress: ")).collect();
        assert_eq!(!progress.is_empty(), is_said, "{messages}");
        for said in progress {
            let (done, total) = said.split_once(' ').unwrap().0.split_once('/').unwrap();
            assert!(done.parse::<usize>().unwrap() >= body.len() / 2 && total == body.len().to_string(), "{said}");
            assert!(said.contains(" downloading, ") && said.ends_with("B of 1.6 MB"), "{said}");
        }
        fs::remove_file(root.join("srv/app.tar")).unwrap();
    }
}

fn mode_and_owner_are_mended_without_a_download() {
    let server = Server::new(|_| Reply::of(BODY));
    let (url, sum) = (server.url("/a"), sha256(BODY));
    let root = root(&format!("url = {url:?}\nchecksum = {sum:?}\nmode = \"0o600\""));
    apply(&root);
    let mode = || fs::metadata(root.join("srv/app.tar")).unwrap().mode() & 0o7777;
    assert_eq!(mode(), 0o600);
    define(&root, &format!("url = {url:?}\nchecksum = {sum:?}\nmode = \"640\""));
    assert!(root.holo(&["check"]).stdout_lossy().contains("would change the mode of /srv/app.tar"));
    apply(&root);
    assert_eq!(mode(), 0o640);
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if is_root {
        root.write("etc/passwd", "app:x:1234:1235::/:/bin/sh\n");
        root.write("etc/group", "app:x:1235:\n");
        define(&root, &format!("url = {url:?}\nchecksum = {sum:?}\nmode = \"640\"\nowner = \"app\"\ngroup = \"app\""));
        apply(&root);
        let metadata = fs::metadata(root.join("srv/app.tar")).unwrap();
        assert_eq!((metadata.uid(), metadata.gid(), mode()), (1234, 1235, 0o640));
        settled(&root);
    }
    define(&root, &format!("url = {url:?}\nchecksum = {sum:?}\nowner = \"nobody-here\""));
    fails(&root, "there is no user \"nobody-here\"");
    assert_eq!(server.asked().len(), 1);
}

fn what_broke_off_is_resumed() {
    let body = large();
    let served = body.clone();
    let server = Server::new(move |asked| {
        let reply = Reply::rest(asked, &served, "\"one\"");
        let cut = 300_000.min(reply.body.len());
        reply.cut(cut)
    });
    // Neither requires a checksum, because the server identifies matching parts.
    let root = root(&format!("url = {:?}", server.url("/a")));
    apply(&root);
    assert!(root.read("srv/app.tar") == body);
    let offsets: Vec<_> = server.asked().iter().map(holo_download::testing::Asked::offset).collect();
    assert_eq!(offsets.len(), 6);
    assert_eq!(offsets[..2], [None, Some(300_000)]);
    assert!(server.asked()[1..].iter().all(|asked| asked.header("if-range") == Some("\"one\"")));
}

fn parts_of_two_versions_are_not_put_together() {
    let (old, new) = (large(), large().into_iter().rev().collect::<Vec<u8>>());
    let served = (old, new.clone());
    let server = Server::new(move |asked| match asked.number {
        0 => Reply::rest(asked, &served.0, "\"old\"").cut(300_000),
        _ => Reply::rest(asked, &served.1, "\"new\""),
    });
    let root = root(&format!("url = {:?}", server.url("/a")));
    apply(&root);
    assert!(root.read("srv/app.tar") == new);
}

fn a_server_that_ignores_if_range_is_seen_through() {
    let (old, new) = (large(), large().into_iter().rev().collect::<Vec<u8>>());
    let served = (old, new.clone());
    let server = Server::new(move |asked| {
        let mut asked = asked.clone();
        asked.headers.remove("if-range");
        match asked.number {
            0 => Reply::rest(&asked, &served.0, "\"old\"").cut(300_000),
            _ => Reply::rest(&asked, &served.1, "\"new\""),
        }
    });
    let root = root(&format!("url = {:?}", server.url("/a")));
    apply(&root);
    assert!(root.read("srv/app.tar") == new);
}

fn without_a_word_about_versions_the_checksum_decides() {
    let (old, new) = (large(), large().into_iter().rev().collect::<Vec<u8>>());
    let served = (old, new.clone());
    let server = Server::new(move |asked| {
        let body = if asked.number == 0 { &served.0 } else { &served.1 };
        let mut reply = Reply::rest(asked, body, "");
        reply.headers.retain(|(name, _)| name != "ETag");
        if asked.number == 0 { reply.cut(300_000) } else { reply }
    });
    let root = root(&format!("url = {:?}\nchecksum = {:?}", server.url("/a"), sha256(&new)));
    apply(&root);
    assert!(root.read("srv/app.tar") == new);
    let offsets: Vec<_> = server.asked().iter().map(holo_download::testing::Asked::offset).collect();
    assert_eq!(offsets, [None, Some(300_000), None]);
}

fn an_earlier_run_is_taken_up() {
    let body = large();
    let (served, is_up) = (body.clone(), Arc::new(AtomicBool::new(false)));
    let up = Arc::clone(&is_up);
    let server = Server::new(move |asked| {
        let reply = Reply::rest(asked, &served, "\"one\"");
        match (asked.number, up.load(Ordering::Relaxed)) {
            (_, true) => reply,
            (0, _) => reply.cut(1_000_000),
            _ => reply.cut(0),
        }
    });
    let root = root(&format!("url = {:?}\nchecksum = {:?}", server.url("/a"), sha256(&body)));
    fails(&root, "cannot download");
    assert!(!root.exists("srv/app.tar"));
    assert_eq!(fs::metadata(root.join("srv/app.tar.holopart")).unwrap().permissions().mode() & 0o777, 0o600);
    is_up.store(true, Ordering::Relaxed);
    apply(&root);
    assert!(root.read("srv/app.tar") == body);
    assert_eq!(server.asked().last().unwrap().offset(), Some(1_000_000));
    no_part_is_left(&root);
}

fn what_others_have_put_there_is_not_taken_up() {
    let server = Server::new(|_| Reply::of(BODY));
    let root = root(&format!("url = {:?}\nchecksum = {:?}", server.url("/a"), sha256(BODY)))
        .file("srv/elsewhere", "a victim's")
        .symlink("srv/app.tar.holopart", "elsewhere");
    apply(&root);
    assert_eq!(root.read("srv/elsewhere"), "a victim's");
    assert_eq!(root.read("srv/app.tar"), BODY);
    assert_eq!(server.asked()[0].offset(), None);
}

fn a_wrong_checksum_replaces_nothing() {
    let server = Server::new(|_| Reply::of("something else"));
    let root = root(&format!("url = {:?}\nchecksum = {:?}", server.url("/a"), sha256(BODY))).file("srv/app.tar", "old");
    let run = fails(&root, "the checksum is sha256:");
    assert!(run.stderr_lossy().contains(&sha256(BODY)), "{run}");
    assert_eq!(root.read("srv/app.tar"), "old");
    assert_eq!(server.asked().len(), 1, "it would be as wrong the next time");
    no_part_is_left(&root);
}

fn a_wrong_length_is_no_download() {
    let server = Server::new(|_| Reply { length: Some(BODY.len() + 10), ..Reply::of(BODY) });
    let root = root(&format!("url = {:?}", server.url("/a")));
    fails(&root, "cannot download");
    assert!(!root.exists("srv/app.tar"));
    assert!(server.asked().len() > 1);
    no_part_is_left(&root);
}

fn a_server_that_says_no_is_asked_once() {
    for status in [403, 404, 410, 206, 204, 304] {
        let server = Server::new(move |_| Reply::new(status));
        let root = root(&format!("url = {:?}", server.url("/a")));
        fails(&root, if status == 206 { "206" } else { "the server reports" });
        assert_eq!(server.asked().len(), 1, "{status}");
        assert!(!root.exists("srv/app.tar"));
    }
}

fn a_server_in_trouble_is_asked_again() {
    let server = Server::new(|asked| if asked.number < 2 { Reply::new(503) } else { Reply::of(BODY) });
    let root = root(&format!("url = {:?}", server.url("/a")));
    let run = apply(&root);
    assert!(run.stderr_lossy().contains("503") && run.stderr_lossy().contains("trying again"), "{run}");
    assert_eq!(root.read("srv/app.tar"), BODY);
}

fn redirects_are_followed_but_not_for_ever() {
    let server = Server::new(|asked| match &*asked.path {
        "/a/start" => Reply::redirect("../b?token=x"),
        "/b?token=x" => Reply::redirect("/c"),
        "/c" => Reply::of(BODY),
        _ => Reply::redirect("/loop"),
    });
    let there = root(&format!("url = {:?}", server.url("/a/start")));
    apply(&there);
    assert_eq!(there.read("srv/app.tar"), BODY);
    let before = server.asked().len();
    let round = root(&format!("url = {:?}", server.url("/loop")));
    fails(&round, "more than 10 redirects");
    assert_eq!(server.asked().len() - before, 11);
    let local = Server::new(|_| Reply::redirect("file:///etc/passwd"));
    let root = root(&format!("url = {:?}", local.url("/a")));
    fails(&root, "a redirect to a file of this machine");
}

fn secrets_go_to_their_server_only_and_are_never_shown() {
    let other = Server::new(|_| Reply::of(BODY));
    let elsewhere = other.url("/b");
    let server = Server::new(move |asked| match (&*asked.path, asked.header("authorization")) {
        // fred:s3cret-word
        ("/a?token=s3cret-word", Some("Basic ZnJlZDpzM2NyZXQtd29yZA==")) => Reply::redirect(elsewhere.clone()),
        _ => Reply::new(401),
    });
    let url = server.url("/a?token=s3cret-word");
    let in_url = url.replace("http://", "http://fred:s3cret-word@");
    for credentials in [
        format!("url = {url:?}\nusername = \"fred\"\npassword = \"s3cret-word\""),
        format!("url = {url:?}\nusername = \"fred\"\npassword_file = \"/etc/secret\""),
        format!("url = {in_url:?}"),
    ] {
        let root = root(&format!("{credentials}\nheaders = {{ X-Token = \"s3cret-word\" }}"));
        root.write("etc/secret", "s3cret-word\n");
        let mut shown = String::new();
        for arguments in [&["scan"][..], &["check"], &["apply"], &["check"], &["diff"], &["apply"], &["scan", "--json"]]
        {
            let run = root.holo(arguments);
            assert!(arguments != ["apply"] || run.status == Some(0), "{run}");
            shown += &run.to_string();
        }
        assert!(!shown.contains("s3cret") && !shown.contains("ZnJl"), "{shown}");
        assert_eq!(root.read("srv/app.tar"), BODY);
        let dump = root.dump().to_string();
        let state = dump.split("var/lib").skip(1).collect::<String>();
        assert!(!state.contains("s3cret"), "{state}");
    }
    let asked = server.asked();
    assert!(asked.iter().all(|asked| asked.header("x-token") == Some("s3cret-word")));
    assert!(!other.asked().is_empty());
    for asked in other.asked() {
        assert!(asked.header("x-token").is_none() && asked.header("authorization").is_none(), "{asked:?}");
    }
}

fn what_has_not_changed_is_not_downloaded_again() {
    let version = Arc::new(Mutex::new(("\"1\"", b"one".to_vec())));
    let served = Arc::clone(&version);
    let server = Server::new(move |asked| {
        let (etag, body) = served.lock().unwrap().clone();
        if asked.header("if-none-match") == Some(etag) { Reply::new(304) } else { Reply::of(body).header("ETag", etag) }
    });
    let root = root(&format!("url = {:?}", server.url("/a")));
    apply(&root);
    settled(&root);
    assert_eq!(server.asked().len(), 2);
    assert_eq!(server.asked()[1].header("if-none-match"), Some("\"1\""));
    *version.lock().unwrap() = ("\"2\"", b"two".to_vec());
    apply(&root);
    assert_eq!(root.read("srv/app.tar"), "two");
    settled(&root);
    // The same content with another validator is not a change.
    version.lock().unwrap().0 = "\"3\"";
    settled(&root);
    assert_eq!(server.asked().last().unwrap().header("if-none-match"), Some("\"2\""));
    settled(&root);
    assert_eq!(server.asked().last().unwrap().header("if-none-match"), Some("\"3\""));
    fs::remove_file(root.join("srv/app.tar")).unwrap();
    apply(&root);
    assert_eq!(server.asked().last().unwrap().header("if-none-match"), None, "what is missing is not unmodified");
    assert_eq!(root.read("srv/app.tar"), "two");
}

fn the_date_of_a_change_will_do_and_without_it_once_is_enough() {
    let date = "Fri, 20 Nov 2026 10:00:00 GMT";
    let server = Server::new(move |asked| match &*asked.path {
        "/dated" if asked.header("if-modified-since") == Some(date) => Reply::new(304),
        "/dated" => Reply::of(BODY).header("Last-Modified", date),
        _ => Reply::of(BODY),
    });
    let dated = root(&format!("url = {:?}", server.url("/dated")));
    apply(&dated);
    settled(&dated);
    assert_eq!(server.asked().len(), 2);
    let bare = root(&format!("url = {:?}", server.url("/bare")));
    apply(&bare);
    settled(&bare);
    assert_eq!(server.asked().len(), 3);
    // Another URL may refer to another file.
    define(&bare, &format!("url = {:?}", server.url("/other")));
    apply(&bare);
    assert_eq!(server.asked().len(), 4);
}

fn what_is_there_is_kept_while_nobody_answers() {
    let is_up = Arc::new(AtomicBool::new(true));
    let up = Arc::clone(&is_up);
    let server =
        Server::new(
            move |_| if up.load(Ordering::Relaxed) { Reply::of(BODY).header("ETag", "\"1\"") } else { Reply::new(403) },
        );
    let root = root(&format!("url = {:?}", server.url("/a")));
    apply(&root);
    is_up.store(false, Ordering::Relaxed);
    let run = apply(&root);
    assert!(run.stderr_lossy().contains("keeping the existing file"), "{run}");
    assert_eq!(root.read("srv/app.tar"), BODY);
}

fn mirrors_are_tried_in_their_order() {
    let wrong = Server::new(|_| Reply::of("wrong"));
    let right = Server::new(|_| Reply::of(BODY));
    let root = root(&format!(
        "url = \"http://127.0.0.1:{}/a\"\nmirrors = [{:?}, {:?}]\nchecksum = {:?}\ntimeout = \"90s\"",
        closed_port(),
        wrong.url("/a"),
        right.url("/a"),
        sha256(BODY)
    ));
    let run = apply(&root);
    assert_eq!(run.stderr_lossy().matches("trying the next mirror").count(), 2, "{run}");
    assert_eq!(root.read("srv/app.tar"), BODY);
    settled(&root);
}

fn an_attempt_ends_when_its_time_is_up() {
    let slow = Server::new(|_| Reply { pause: Some((5, Duration::from_secs(50))), ..Reply::of(BODY) });
    let silent = format!("http://127.0.0.1:{}/a", silent_port());
    for url in [slow.url("/a"), silent] {
        let root = root(&format!("url = {url:?}\ntimeout = \"1s\""));
        fails(&root, "cannot download");
        assert!(!root.exists("srv/app.tar"));
        no_part_is_left(&root);
    }
}

fn the_system_says_which_certificates_are_trusted() {
    let server = Server::with_tls(|_| Reply::of(BODY));
    let definition = format!("url = {:?}", server.url("/a"));
    let distrusting = root(&definition);
    fails(&distrusting, "certificate is not trusted");
    assert!(server.asked().is_empty());
    let trusting = root(&definition).file("etc/ca.pem", &server.certificate);
    let certificate = trusting.join("etc/ca.pem");
    let trusting = trusting.env("SSL_CERT_FILE", certificate);
    apply(&trusting);
    assert_eq!(trusting.read("srv/app.tar"), BODY);
    assert_eq!(server.asked().len(), 1);
}

fn a_definition_says_which_certificates_are_trusted() {
    let server = Server::with_tls(|_| Reply::of(BODY));
    let root = root(&format!("url = {:?}", server.url("/a")));
    let run = fails(&root, "its certificate is not trusted: ");
    assert!(run.stderr_lossy().contains("ca_file can name a certificate"), "{run}");
    define(&root, &format!("url = {:?}\nca_file = \"/etc/ca.pem\"", server.url("/a")));
    fails(&root, "etc/ca.pem");
    root.write("etc/ca.pem", "nothing");
    fails(&root, "there is none in ca_file");
    root.write("etc/ca.pem", &server.certificate);
    apply(&root);
    assert_eq!(root.read("srv/app.tar"), BODY);
    settled(&root);
}

/// A proxy for all requests, and a definition with a password for the server.
fn proxied(proxy: &Server, url: &str) -> holo_testing::ScratchRoot {
    let root = root(&format!("url = {url:?}\nusername = \"fred\"\npassword = \"secret\""));
    root.env("http_proxy", proxy.url("/").replace("://", "://me:mine@"))
}

fn a_proxy_is_asked_for_the_whole_url() {
    let proxy = Server::new(|asked| match &*asked.path {
        "http://example.test:8000/a?b" => Reply::redirect("/c"),
        "http://example.test:8000/c" => Reply::of(BODY),
        _ => Reply::new(500),
    });
    let root = proxied(&proxy, "http://example.test:8000/a?b");
    apply(&root);
    assert_eq!(root.read("srv/app.tar"), BODY);
    for asked in proxy.asked() {
        assert_eq!(asked.header("host"), Some("example.test:8000"));
        assert_eq!(asked.header("proxy-authorization"), Some("Basic bWU6bWluZQ=="));
        assert_eq!(asked.header("authorization"), Some("Basic ZnJlZDpzZWNyZXQ="));
    }
    assert_eq!(proxy.asked().len(), 2);
}

fn a_tunnel_through_a_proxy_ends_at_the_server() {
    let proxy = Server::new(|_| Reply::new(403));
    let root = root("url = \"https://example.test/a\"").env("https_proxy", proxy.url("/"));
    fails(&root, "cannot download https://example.test/a");
    assert_eq!(proxy.asked()[0].path, "example.test:443");
    assert_eq!(proxy.asked()[0].header("authorization"), None);
    let root = root.env("https_proxy", "http://me:mine@");
    let run = fails(&root, "the proxy that https_proxy names is not a URL");
    assert!(!run.to_string().contains("mine"), "{run}");
}

fn exceptions_are_asked_without_a_proxy() {
    let proxy = Server::new(|_| Reply::new(403));
    let server = Server::new(|_| Reply::of(BODY));
    let root = proxied(&proxy, &server.url("/a"));
    fails(&root, "403");
    let root = root.env("no_proxy", "example.test, 127.0.0.0/8");
    apply(&root);
    assert_eq!(server.asked()[0].path, "/a");
    assert_eq!(server.asked()[0].header("proxy-authorization"), None);
}

fn a_server_that_asks_for_patience_gets_it() {
    let server = Server::new(|asked| match asked.number {
        0 => Reply::new(503).header("Retry-After", "2"),
        _ => Reply::of(BODY),
    });
    let root = root(&format!("url = {:?}", server.url("/a")));
    let begin = std::time::Instant::now();
    let run = apply(&root);
    assert!(begin.elapsed() >= Duration::from_secs(2), "{run}");
    assert!(run.stderr_lossy().contains("trying again in 2s"), "{run}");
    let server = Server::new(|_| Reply::new(429).header("Retry-After", "3600"));
    define(&root, &format!("url = {:?}", server.url("/a")));
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("429"), "{run}");
    assert_eq!(server.asked().len(), 1, "an hour is not waited for");
}

fn files_of_this_machine_are_below_the_root() {
    let root = root("url = \"file:///usr/share/a%20b\"").file("usr/share/a b", "one");
    apply(&root);
    assert_eq!(root.read("srv/app.tar"), "one");
    settled(&root);
    root.write("usr/share/a b", "two");
    apply(&root);
    assert_eq!(root.read("srv/app.tar"), "two");
    settled(&root);
    fs::remove_file(root.join("usr/share/a b")).unwrap();
    let run = apply(&root);
    assert!(run.stderr_lossy().contains("keeping the existing file"), "{run}");
}

fn a_persons_file_is_kept_and_comes_back() {
    let root = root("url = \"file:///usr/share/one\"").file("usr/share/one", "one").file("usr/share/two", "two");
    root.write("srv/app.tar", "found");
    apply(&root);
    assert_eq!(root.read("srv/app.tar"), "one");
    root.write("srv/app.tar", "edited");
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("--force"), "{run}");
    assert_eq!(root.read("srv/app.tar"), "edited");
    assert_eq!(root.holo(&["apply", "--force"]).status, Some(0));
    assert_eq!(root.read("srv/app.tar"), "one");
    define(&root, "url = \"file:///usr/share/two\"");
    apply(&root);
    assert_eq!(root.read("srv/app.tar"), "two");
    define(&root, "ensure = \"absent\"");
    apply(&root);
    assert!(!root.exists("srv/app.tar"));
    settled(&root);
    fs::remove_file(root.join("usr/share/holo/archives/10-test.toml")).unwrap();
    let scan = root.holo(&["scan"]);
    assert!(
        scan.stdout_lossy().contains("Scrubbing") || scan.stdout_lossy().contains("archive:/srv/app.tar"),
        "{scan}"
    );
    apply(&root);
    assert_eq!(root.read("srv/app.tar"), "found");
    assert_eq!(root.holo(&["scan"]).stdout, "");
    assert_eq!(fs::read_dir(root.join("var/lib/holo/archives")).unwrap().count(), 0, "{}", root.dump());
}

fn directories_that_were_made_go_again() {
    let root = root("url = \"file:///usr/share/one\"").file("usr/share/one", "one");
    let text = root.read("usr/share/holo/archives/10-test.toml").to_string().replace("/srv/", "/new/deep/");
    root.write("usr/share/holo/archives/10-test.toml", text);
    apply(&root);
    assert_eq!(root.read("new/deep/app.tar"), "one");
    fs::remove_file(root.join("usr/share/holo/archives/10-test.toml")).unwrap();
    apply(&root);
    assert!(!root.exists("new"));
}

fn a_mirror_gets_no_secrets_of_another_server() {
    let mirror = Server::new(|_| Reply::of(BODY));
    let server = Server::new(|_| Reply::new(404));
    let with_own = mirror.url("/own").replace("http://", "http://mirror:its-own@");
    let same = server.url("/same");
    let root = root(&format!(
        "url = {:?}\nmirrors = [{same:?}, {:?}]\nusername = \"fred\"\npassword = \"secret\"\nheaders = {{ X-Token = \"secret\" }}",
        server.url("/a"),
        mirror.url("/a")
    ));
    apply(&root);
    define(
        &root,
        &format!("url = {:?}\nmirrors = [{with_own:?}]\nheaders = {{ X-Token = \"secret\" }}", server.url("/b")),
    );
    apply(&root);
    // Headers and credentials are sent to the server of the URL, and to a mirror on the same server.
    assert_eq!(server.asked().len(), 3);
    assert!(server.asked().iter().all(|asked| asked.header("x-token") == Some("secret")));
    assert!(server.asked().iter().take(2).all(|asked| asked.header("authorization").is_some()));
    let asked = mirror.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|asked| asked.header("x-token").is_none()), "{asked:?}");
    assert_eq!(asked[0].header("authorization"), None);
    assert_eq!(asked[1].header("authorization"), Some("Basic bWlycm9yOml0cy1vd24="), "but what its own URL says");
}

fn a_download_has_a_bound() {
    // The download is not started if its size is announced, and aborted otherwise.
    let announced = Server::new(|_| Reply::of(vec![b'x'; 100_000]));
    let root = root(&format!("url = {:?}\nmax_size = 50000", announced.url("/a")));
    fails(&root, "it has more than 50000 bytes");
    assert!(!root.exists("srv/app.tar") && !root.exists("srv/app.tar.holopart"));
    let silent = Server::new(|_| Reply::of(vec![b'x'; 100_000]).without_length());
    define(&root, &format!("url = {:?}\nmax_size = 50000", silent.url("/a")));
    fails(&root, "it has more than 50000 bytes");
    assert_eq!((announced.asked().len(), silent.asked().len()), (1, 1), "it is not tried again");
    root.write("usr/share/large", vec![b'x'; 100_000]);
    define(&root, "url = \"file:///usr/share/large\"\nmax_size = 50000");
    fails(&root, "it has more than 50000 bytes");
    define(&root, "url = \"file:///usr/share/large\"\nmax_size = 100000");
    apply(&root);
}

fn nothing_is_left_of_a_download_that_never_began() {
    let root = root(&format!("url = \"http://127.0.0.1:{}/a\"\nchecksum = {:?}", closed_port(), sha256(BODY)));
    fails(&root, "cannot download");
    assert!(!root.exists("srv/app.tar.holopart"), "{}", root.dump());
}

fn a_check_knows_of_a_file_that_changed_and_says_what_it_does_not_know() {
    let root = root("url = \"file:///usr/share/app\"").file("usr/share/app", "one");
    apply(&root);
    settled(&root);
    assert_eq!(root.holo(&["check"]).status, Some(0));
    root.write("usr/share/app", "two");
    let check = root.holo(&["check"]);
    assert_eq!(check.status, Some(3), "{check}");
    assert!(check.stdout_lossy().contains("would download file:///usr/share/app"), "{check}");

    let etag = Arc::new(Mutex::new("\"1\""));
    let served = Arc::clone(&etag);
    let server = Server::new(move |asked| {
        let etag = *served.lock().unwrap();
        if asked.header("if-none-match") == Some(etag) { Reply::new(304) } else { Reply::of(BODY).header("ETag", etag) }
    });
    let url = server.url("/a");
    define(&root, &format!("url = {url:?}"));
    apply(&root);
    let check = root.holo(&["check"]);
    assert_eq!(check.status, Some(3), "only the server could tell: {check}");
    assert!(!check.stdout_lossy().contains("would"), "{check}");
    assert_eq!(server.asked().len(), 1, "which is not asked");
    define(&root, &format!("url = {url:?}\nonline = true"));
    assert_eq!(root.holo(&["check"]).status, Some(0));
    *etag.lock().unwrap() = "\"2\"";
    let before = root.dump();
    let check = root.holo(&["check"]);
    assert_eq!(check.status, Some(3), "{check}");
    assert!(check.stdout_lossy().contains("would download http://"), "{check}");
    assert_eq!(root.dump(), before, "a check changes nothing");
    define(&root, &format!("url = {url:?}\nchecksum = {:?}", sha256(BODY)));
    assert_eq!(root.holo(&["check"]).status, Some(0), "a checksum settles it");
}
