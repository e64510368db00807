//! A link between a host and a server that can be slow, cut, and dropped.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{io, thread};

/// The longest time for which a thread does not notice a change.
const TICK: Duration = Duration::from_millis(20);
/// The pieces on their way, each of at most this size.
const PIECE: usize = 1024;
const PIECES: usize = 1 << 16;

/// How a link is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition {
    Good,
    /// Nothing passes, and neither end is told.
    Cut,
    /// Bytes arrive after this time, and only so many in a second.
    Slow(Duration, u32),
}

/// A link to a server, with a port of its own.
pub(crate) struct Link {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    condition: Mutex<Condition>,
    /// Increases when all connections are dropped.
    drops: AtomicU64,
    passed: AtomicU64,
}

impl Link {
    /// Makes a good link to a server with this address.
    pub(crate) fn to(address: &str) -> Link {
        let address = address.trim_start_matches("nats://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let condition = Mutex::new(Condition::Good);
        let shared = Arc::new(Shared { condition, drops: AtomicU64::new(0), passed: AtomicU64::new(0) });
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            for near in listener.incoming() {
                let shared = Arc::clone(&of_thread);
                // The server may be away.
                if let (Ok(near), Ok(far)) = (near, TcpStream::connect(&address)) {
                    let _ = shared.connect(&near, &far);
                }
            }
        });
        Link { port, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Changes how the link is.
    pub(crate) fn set(&self, condition: Condition) {
        *self.shared.condition.lock().unwrap() = condition;
    }

    /// Ends all connections.
    pub(crate) fn drop_connections(&self) {
        self.shared.drops.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number of bytes that have passed, in both directions.
    pub(crate) fn passed(&self) -> u64 {
        self.shared.passed.load(Ordering::SeqCst)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.drop_connections();
    }
}

impl Shared {
    fn connect(self: Arc<Self>, near: &TcpStream, far: &TcpStream) -> io::Result<()> {
        for (from, to) in [(near, far), (far, near)] {
            let drops = self.drops.load(Ordering::SeqCst);
            let (sender, receiver) = sync_channel(PIECES);
            let (mut reader, mut writer) = (from.try_clone()?, to.try_clone()?);
            reader.set_read_timeout(Some(TICK))?;
            let (of_reader, of_writer) = (Arc::clone(&self), Arc::clone(&self));
            thread::spawn(move || {
                of_reader.read(&mut reader, &sender, drops);
                let _ = reader.shutdown(Shutdown::Both);
            });
            thread::spawn(move || {
                of_writer.write(&mut writer, &receiver, drops);
                let _ = writer.shutdown(Shutdown::Both);
            });
        }
        Ok(())
    }

    fn condition(&self) -> Condition {
        *self.condition.lock().unwrap()
    }

    fn is_dropped(&self, drops: u64) -> bool {
        self.drops.load(Ordering::SeqCst) != drops
    }

    fn read(&self, from: &mut TcpStream, to: &SyncSender<(Instant, Vec<u8>)>, drops: u64) {
        let mut buffer = [0; PIECE];
        while !self.is_dropped(drops) {
            match from.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => {
                    if to.send((Instant::now(), buffer[..length].to_vec())).is_err() {
                        return;
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(_) => return,
            }
        }
    }

    fn write(&self, to: &mut TcpStream, from: &Receiver<(Instant, Vec<u8>)>, drops: u64) {
        loop {
            let (sent, piece) = match from.try_recv() {
                Ok(piece) => piece,
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) if self.is_dropped(drops) => return,
                Err(TryRecvError::Empty) => {
                    thread::sleep(Duration::from_millis(1));
                    continue;
                }
            };
            loop {
                if self.is_dropped(drops) {
                    return;
                }
                match self.condition() {
                    Condition::Good => break,
                    Condition::Cut => thread::sleep(TICK),
                    Condition::Slow(delay, _) if sent.elapsed() < delay => {
                        thread::sleep(delay.saturating_sub(sent.elapsed()).min(TICK));
                    }
                    Condition::Slow(_, rate) => {
                        thread::sleep(Duration::from_secs(piece.len() as u64) / rate);
                        break;
                    }
                }
            }
            if to.write_all(&piece).is_err() {
                return;
            }
            self.passed.fetch_add(piece.len() as u64, Ordering::SeqCst);
        }
    }
}
