//! An HTTP proxy that delivers every request and loses the answers that it is told to: the server
//! has acted, and the client cannot know.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct LossyProxy {
    /// What a client connects to.
    pub(crate) url: String,
    to_lose: Arc<AtomicUsize>,
    lost: Arc<AtomicUsize>,
}

impl LossyProxy {
    /// Stands in front of `upstream` (`http://host:port`) and loses answers to `operation` only.
    pub(crate) fn start(upstream: &str, operation: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let upstream = upstream.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let (to_lose, lost) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counters = (Arc::clone(&to_lose), Arc::clone(&lost));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (upstream, (to_lose, lost)) = (upstream.clone(), counters.clone());
                std::thread::spawn(move || {
                    let _ = serve(client, &upstream, operation, &to_lose, &lost);
                });
            }
        });
        Self { url, to_lose, lost }
    }

    /// Loses the next `count` answers.
    pub(crate) fn lose_next(&self, count: usize) {
        self.to_lose.store(count, Ordering::SeqCst);
    }

    /// How many answers were lost.
    pub(crate) fn lost(&self) -> usize {
        self.lost.load(Ordering::SeqCst)
    }
}

fn serve(
    client: TcpStream,
    upstream: &str,
    operation: &str,
    to_lose: &AtomicUsize,
    lost: &AtomicUsize,
) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    loop {
        let (head, body) = read_message(&mut client)?;
        let mut server = TcpStream::connect(upstream)?;
        server.write_all(&head)?;
        server.write_all(&body)?;
        let (answer_head, answer_body) = read_message(&mut BufReader::new(server))?;
        let concerned = String::from_utf8_lossy(&head).contains(&format!(".{operation}\r\n"));
        let take = |remaining: usize| remaining.checked_sub(1);
        if concerned && to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
            lost.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        client.get_mut().write_all(&answer_head)?;
        client.get_mut().write_all(&answer_body)?;
    }
}

/// Head and body of one HTTP/1.1 message with a length.
pub(super) fn read_message(reader: &mut impl BufRead) -> std::io::Result<(Vec<u8>, Vec<u8>)> {
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(line.as_bytes());
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((head, body))
}
