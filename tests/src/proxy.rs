//! A proxy in front of a server: passes bytes on until a test tells it to break something.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;

/// What is done with the bytes of a request.
pub type Noted = Arc<dyn Fn(&[u8]) + Send + Sync>;
/// What happens in place of an answer.
pub type Action = Arc<dyn Fn() + Send + Sync>;

/// What the proxy does with connections.
#[derive(Clone)]
pub enum Mode {
    /// Passes everything on.
    Pass,
    /// Closes every connection at once, as a server that is down does.
    Down,
    /// Passes everything on, and shows each piece of a request that holds `text` as it goes by.
    Note {
        /// What the request must hold; an empty text is in all of them.
        text: &'static str,
        /// What is done with it.
        then: Noted,
    },
    /// When a request holds `text`, lets the server answer, then calls `then` instead of passing
    /// the answer on.
    LoseAnswer {
        /// What the request must hold.
        text: &'static str,
        /// What happens in place of the answer.
        then: Action,
    },
}

/// How many bytes have gone by, those of TLS among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// To the server.
    pub sent: u64,
    /// From the server.
    pub received: u64,
}

/// A proxy on a free port of this machine; ends with the process.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: String,
    mode: Mutex<Mode>,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Proxy {
    /// Starts a proxy before `upstream`, as `127.0.0.1:8000`.
    pub fn start(upstream: &str) -> Result<Self> {
        Self::start_at("127.0.0.1:0", upstream)
    }

    /// The same at another address of this machine, as `[::1]:0`.
    pub fn start_at(address: &str, upstream: &str) -> Result<Self> {
        let listener = TcpListener::bind(address)?;
        let shared = Arc::new(Shared {
            upstream: upstream.to_owned(),
            mode: Mutex::new(Mode::Pass),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        });
        let proxy = Self { port: listener.local_addr()?.port(), shared: Arc::clone(&shared) };
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(&client, &shared));
            }
        });
        Ok(proxy)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes what it does, for open connections too.
    pub fn set(&self, mode: Mode) {
        *self.shared.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// What has gone by since it was last asked.
    pub fn take_traffic(&self) -> Traffic {
        let Shared { sent, received, .. } = &*self.shared;
        Traffic { sent: sent.swap(0, Ordering::Relaxed), received: received.swap(0, Ordering::Relaxed) }
    }
}

impl Shared {
    fn mode(&self) -> Mode {
        self.mode.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(client: &TcpStream, shared: &Arc<Shared>) {
    if matches!(shared.mode(), Mode::Down) {
        return;
    }
    let Ok(server) = TcpStream::connect(&shared.upstream) else { return };
    let (Ok(from_server), Ok(to_client)) = (server.try_clone(), client.try_clone()) else { return };
    let struck = Arc::new(Mutex::new(None));
    let answers = {
        let (shared, struck) = (Arc::clone(shared), Arc::clone(&struck));
        thread::spawn(move || pass_answers(from_server, to_client, &shared, &struck))
    };
    pass_requests(client, &server, shared, &struck);
    let _ = answers.join();
}

/// The action that takes the place of the next answer.
type Struck = Mutex<Option<Action>>;

fn pass_requests(mut client: &TcpStream, mut server: &TcpStream, shared: &Shared, struck: &Struck) {
    let mut buffer = [0; 16_384];
    // A request may come in several reads; what was read of the connection so far is searched as a
    // whole.
    let mut seen = Vec::new();
    while let Ok(read) = client.read(&mut buffer) {
        if read == 0 {
            break;
        }
        shared.sent.fetch_add(read as u64, Ordering::Relaxed);
        match shared.mode() {
            Mode::Pass => seen.clear(),
            Mode::Down => break,
            Mode::Note { text, then } => {
                seen.extend_from_slice(&buffer[..read]);
                if holds(&seen, text) {
                    then(&seen);
                    seen.clear();
                }
            }
            Mode::LoseAnswer { text, then } => {
                seen.extend_from_slice(&buffer[..read]);
                if holds(&seen, text) {
                    *struck.lock().unwrap_or_else(PoisonError::into_inner) = Some(then);
                }
            }
        }
        if server.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

fn holds(bytes: &[u8], text: &str) -> bool {
    text.is_empty() || bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn pass_answers(mut server: TcpStream, mut client: TcpStream, shared: &Shared, struck: &Struck) {
    let mut buffer = [0; 16_384];
    while let Ok(read) = server.read(&mut buffer) {
        let action = struck.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(action) = action {
            action();
            break;
        }
        shared.received.fetch_add(read as u64, Ordering::Relaxed);
        if read == 0 || matches!(shared.mode(), Mode::Down) || client.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}
