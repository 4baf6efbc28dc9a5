//! A proxy before DynamoDB that cancels transactions in its place, as DynamoDB does where two meet
//! on one item. DynamoDB Local lets one of them wait for the other and cancels neither.

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::lossy_proxy::read_message;

/// Another transaction is at work on an item.
pub(crate) const COLLIDES: &str = "TransactionConflict";
/// A condition does not hold.
pub(crate) const REFUSED: &str = "ConditionalCheckFailed";

pub(crate) struct CollidingProxy {
    /// What a client connects to.
    pub(crate) url: String,
    to_cancel: Arc<AtomicUsize>,
}

impl CollidingProxy {
    /// Stands in front of `upstream` (`http://host:port`) and cancels for the reason of this code.
    pub(crate) fn start(upstream: &str, code: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let upstream = upstream.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let to_cancel = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&to_cancel);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (upstream, to_cancel) = (upstream.clone(), Arc::clone(&counter));
                std::thread::spawn(move || {
                    let _ = serve(client, &upstream, code, &to_cancel);
                });
            }
        });
        Self { url, to_cancel }
    }

    /// Cancels the next `count` transactions; the server never hears of them.
    pub(crate) fn cancel_next(&self, count: usize) {
        self.to_cancel.store(count, Ordering::SeqCst);
    }

    /// How many are still to be cancelled.
    pub(crate) fn remaining(&self) -> usize {
        self.to_cancel.load(Ordering::SeqCst)
    }
}

fn serve(client: TcpStream, upstream: &str, code: &str, to_cancel: &AtomicUsize) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    loop {
        let (head, body) = read_message(&mut client)?;
        let is_transaction = String::from_utf8_lossy(&head).contains(".TransactWriteItems\r\n");
        let take = |remaining: usize| remaining.checked_sub(1);
        if is_transaction && to_cancel.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
            client.get_mut().write_all(cancelled(code).as_bytes())?;
            continue;
        }
        let mut server = TcpStream::connect(upstream)?;
        server.write_all(&head)?;
        server.write_all(&body)?;
        let (answer_head, answer_body) = read_message(&mut BufReader::new(server))?;
        client.get_mut().write_all(&answer_head)?;
        client.get_mut().write_all(&answer_body)?;
    }
}

/// What DynamoDB says where the first of two items is the reason.
fn cancelled(code: &str) -> String {
    let answer = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": format!(
            "Transaction cancelled, please refer cancellation reasons for specific reasons [{code}, None]"
        ),
        "CancellationReasons": [{"Code": code}, {"Code": "None"}],
    });
    let body = answer.to_string();
    let length = body.len();
    let kind = "application/x-amz-json-1.0";
    format!("HTTP/1.1 400 Bad Request\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
}
