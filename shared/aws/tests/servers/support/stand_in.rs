//! A server that answers one operation of EC2 itself, which moto does not have, and hands on the
//! rest.

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::lossy_proxy::read_message;

pub(crate) struct StandIn {
    /// What a client connects to.
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl StandIn {
    /// Stands in front of `upstream` (`http://host:port`) and answers `operation` with this XML.
    pub(crate) fn start(upstream: &str, operation: &'static str, answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let upstream = upstream.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&asked);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (upstream, noted) = (upstream.clone(), Arc::clone(&noted));
                std::thread::spawn(move || {
                    let _ = serve(client, &upstream, operation, answer, &noted);
                });
            }
        });
        Self { url, asked }
    }

    /// The bodies of the requests for an operation.
    pub(crate) fn asked(&self, operation: &str) -> Vec<String> {
        let action = format!("Action={operation}&");
        self.asked.lock().unwrap().iter().filter(|body| body.starts_with(&action)).cloned().collect()
    }
}

fn serve(
    client: TcpStream,
    upstream: &str,
    operation: &str,
    answer: &str,
    noted: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    loop {
        let (head, body) = read_message(&mut client)?;
        let text = String::from_utf8_lossy(&body).into_owned();
        let is_ours = text.starts_with(&format!("Action={operation}&"));
        noted.lock().unwrap().push(text);
        if is_ours {
            let length = answer.len();
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-type: text/xml\r\ncontent-length: {length}\r\n\r\n");
            client.get_mut().write_all(head.as_bytes())?;
            client.get_mut().write_all(answer.as_bytes())?;
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
