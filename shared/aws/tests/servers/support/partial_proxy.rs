//! A proxy before DynamoDB that lets batches through in part: the first keys or items of each
//! request reach the server, and the answer calls the others unprocessed, as DynamoDB does when it
//! has too much to do.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::lossy_proxy::read_message;

pub(crate) struct PartialProxy {
    /// What a client connects to.
    pub(crate) url: String,
    batches: Arc<AtomicUsize>,
}

impl PartialProxy {
    /// Stands in front of `upstream` (`http://host:port`) and lets so many keys or items of a batch
    /// through.
    pub(crate) fn start(upstream: &str, processed: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let upstream = upstream.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let batches = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&batches);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (upstream, counted) = (upstream.clone(), Arc::clone(&counted));
                std::thread::spawn(move || {
                    let _ = serve(client, &upstream, processed, &counted);
                });
            }
        });
        Self { url, batches }
    }

    /// How many batches came.
    pub(crate) fn batches(&self) -> usize {
        self.batches.load(Ordering::SeqCst)
    }
}

fn serve(client: TcpStream, upstream: &str, processed: usize, batches: &AtomicUsize) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    loop {
        let (head, body) = read_message(&mut client)?;
        if !String::from_utf8_lossy(&head).contains("_20120810.Batch") {
            let (head, body) = send(upstream, &head, &body)?;
            client.get_mut().write_all(&head)?;
            client.get_mut().write_all(&body)?;
            continue;
        }
        batches.fetch_add(1, Ordering::SeqCst);
        let answer = in_part(upstream, &head, &body, processed)?.to_string();
        let length = answer.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {length}\r\n\r\n"
        );
        client.get_mut().write_all(head.as_bytes())?;
        client.get_mut().write_all(answer.as_bytes())?;
    }
}

/// The answer of the server to the first part of a batch, with the rest as unprocessed.
fn in_part(upstream: &str, head: &[u8], body: &[u8], processed: usize) -> std::io::Result<Value> {
    let mut request: Value = serde_json::from_slice(body)?;
    let (table, wanted) = request["RequestItems"].as_object_mut().unwrap().iter_mut().next().unwrap();
    let table = table.clone();
    let reads = wanted.is_object();
    let requests = if reads { wanted["Keys"].as_array_mut() } else { wanted.as_array_mut() }.unwrap();
    let rest = requests.split_off(processed.min(requests.len()));
    let (unprocessed, rest) = if reads {
        let keys = json!({"Keys": rest.clone(), "ConsistentRead": true});
        ("UnprocessedKeys", if rest.is_empty() { json!({}) } else { json!({table: keys}) })
    } else {
        ("UnprocessedItems", if rest.is_empty() { json!({}) } else { json!({table: rest}) })
    };
    let mut answer = if processed == 0 {
        json!({"Responses": {}})
    } else {
        serde_json::from_slice(&send(upstream, head, request.to_string().as_bytes())?.1)?
    };
    answer[unprocessed] = rest;
    Ok(answer)
}

/// Head and body of the answer to a request with this body.
fn send(upstream: &str, head: &[u8], body: &[u8]) -> std::io::Result<(Vec<u8>, Vec<u8>)> {
    let mut server = TcpStream::connect(upstream)?;
    for line in head.lines().map_while(Result::ok).filter(|line| !line.is_empty()) {
        if !line.to_ascii_lowercase().starts_with("content-length:") {
            write!(server, "{line}\r\n")?;
        }
    }
    write!(server, "content-length: {}\r\n\r\n", body.len())?;
    server.write_all(body)?;
    read_message(&mut BufReader::new(server))
}
