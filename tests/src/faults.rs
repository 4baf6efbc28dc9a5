//! An HTTP proxy before the API server or a service of AWS that reads each request and does to its
//! answer what a test asks for.
//!
//! [`crate::proxy`] passes bytes on and knows nothing of what they say; this one ends TLS, so that
//! an answer may be broken off at a byte, put off, or given in the server's place. Every connection
//! carries one request.

mod message;

use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use outrigger_stack::{Http, Stack};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use crate::faults::message::{Message, answer};

/// Longer than any call of the functions may take.
const LONGEST_CALL: Duration = Duration::from_secs(60);

/// What is done to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The server never hears of it, and the connection is closed.
    Unheard,
    /// The server acts, and the connection is closed.
    AnswerLost,
    /// So many hundredths of the answer are sent under the length of the whole, then the connection
    /// is closed.
    CutAfterPercent(usize),
    /// It is answered in the server's place: a status, further header lines, and the words of a
    /// Status object or, where AWS is asked, the code of the error.
    Refused(u16, &'static str, &'static str),
    /// It is served after a while.
    Late(Duration),
    /// The server gets it twice, and the second answer is passed on. Each event of a watch comes
    /// twice.
    Repeated,
    /// The answer says that the list is of another version than the server's.
    OtherVersion,
    /// So many events of a watch are passed on, then the connection is closed in the middle of the
    /// next one.
    CutAfterEvents(usize),
}

/// A fault, and which requests it is done to.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What the request's name must hold, all of it.
    pub holds: Vec<&'static str>,
    /// How many such requests are served before.
    pub after: usize,
    /// How many are struck then.
    pub times: usize,
    /// What is done.
    pub fault: Fault,
}

/// A request as the proxy saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Method and path, as `GET /api/v1/pods?limit=500`; where AWS is asked, the action behind
    /// them, as `POST / CreateFleet` or `POST / DynamoDB_20120810.Query`.
    pub line: String,
    /// When it came.
    pub at: Instant,
    /// Whether its answer may be compressed.
    pub takes_gzip: bool,
    /// Whether a rule struck it.
    pub struck: bool,
}

/// The proxy; ends with the process.
pub struct FaultProxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: String,
    http: Http,
    /// How a client is spoken to that wants to know whom it speaks to.
    tls: Option<Arc<ServerConfig>>,
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    rules: Vec<Rule>,
    page_size: Option<usize>,
    seen: Vec<Seen>,
}

impl FaultProxy {
    /// Starts a proxy before the API server of a stack, with the server's own certificate.
    pub fn start(stack: &Stack) -> Result<Self> {
        let pki = stack.directory().join("pki");
        let ca = std::fs::read_to_string(pki.join("ca.crt"))?;
        let server = stack.state().endpoints.kubernetes.clone();
        Self::listen(server, Http::trusting(&ca, LONGEST_CALL)?, Some(tls(&pki)?))
    }

    /// Starts a proxy before services of AWS that are played at an address, as
    /// `http://127.0.0.1:8000`.
    pub fn before(address: &str) -> Result<Self> {
        Self::listen(address.to_owned(), Http::plain(LONGEST_CALL), None)
    }

    fn listen(upstream: String, http: Http, tls: Option<Arc<ServerConfig>>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared { upstream, http, tls, plan: Mutex::default() });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                // A client that goes away is none of our business.
                thread::spawn(move || drop(accept(client, &shared)));
            }
        });
        Ok(Self { port, shared })
    }

    /// Its address, as `http://127.0.0.1:8000`.
    pub fn url(&self) -> String {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// From now on only these rules hold, and nothing has been seen.
    pub fn set(&self, rules: &[Rule]) {
        let mut plan = self.plan();
        plan.rules = rules.to_vec();
        plan.seen.clear();
    }

    /// Lets lists come in pages of this size, whatever the client asks for.
    pub fn page_size(&self, size: usize) {
        self.plan().page_size = Some(size);
    }

    /// The requests since the rules were set.
    pub fn seen(&self) -> Vec<Seen> {
        self.plan().seen.clone()
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.shared.plan()
    }
}

impl Shared {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be done to a request, and the line that the server gets.
    fn judge(&self, message: &Message) -> (Option<Fault>, String) {
        let mut plan = self.plan();
        let line = message.name();
        let mut fault = None;
        for rule in &mut plan.rules {
            if !rule.holds.iter().all(|part| line.contains(part)) || fault.is_some() {
                continue;
            }
            if rule.after > 0 {
                rule.after -= 1;
            } else if rule.times > 0 {
                rule.times -= 1;
                fault = Some(rule.fault.clone());
            }
        }
        let struck = fault.is_some();
        plan.seen.push(Seen { line, at: Instant::now(), takes_gzip: message.takes_gzip, struck });
        let sent = plan.page_size.map(|size| message.line.replace("limit=500", &format!("limit={size}")));
        (fault, sent.unwrap_or_else(|| message.line.clone()))
    }

    fn send(&self, line: &str, message: &Message) -> Result<outrigger_stack::Answer> {
        let (method, path) = line.split_once(' ').context("a request without a path")?;
        let headers: Vec<_> =
            message.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let body = (!message.body.is_empty()).then_some(message.body.as_slice());
        self.http.send(method, &format!("{}{path}", self.upstream), &headers, body)
    }
}

/// The API server's certificate and key.
fn tls(pki: &Path) -> Result<Arc<ServerConfig>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_file_iter(pki.join("server.crt"))?.collect();
    let key = PrivateKeyDer::from_pem_file(pki.join("server.key"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_no_client_auth().with_single_cert(certificates?, key)?))
}

fn accept(mut client: TcpStream, shared: &Shared) -> Result<()> {
    let Some(tls) = &shared.tls else { return serve(&mut client, shared) };
    let mut client = StreamOwned::new(ServerConnection::new(Arc::clone(tls))?, client);
    let served = serve(&mut client, shared);
    // An end that is not announced is an error to the client, and a watch may end well.
    client.conn.send_close_notify();
    client.flush()?;
    served
}

fn serve(client: &mut (impl Read + Write), shared: &Shared) -> Result<()> {
    let mut client = BufReader::new(client);
    let message = Message::read(&mut client)?;
    let client = client.into_inner();
    let (fault, line) = shared.judge(&message);
    match fault {
        Some(Fault::Unheard) => return Ok(()),
        Some(Fault::Refused(status, headers, words)) => {
            return answer(client, status, headers, message.refusal(status, words).as_bytes(), 100);
        }
        Some(Fault::Late(time)) => thread::sleep(time),
        Some(Fault::AnswerLost) => return shared.send(&line, &message).map(drop),
        Some(Fault::Repeated) if !is_watch(&line) => drop(shared.send(&line, &message)?),
        Some(
            Fault::Repeated | Fault::CutAfterPercent(_) | Fault::OtherVersion | Fault::CutAfterEvents(_),
        )
        | None => {}
    }
    if is_watch(&line) {
        return watch(client, shared, &line, &message, fault.as_ref());
    }
    let mut given = shared.send(&line, &message)?;
    if matches!(fault, Some(Fault::OtherVersion)) {
        given.body = of_another_version(&given.body)?;
    }
    let percent = if let Some(Fault::CutAfterPercent(percent)) = fault { percent } else { 100 };
    answer(client, given.status, "", given.body.as_bytes(), percent)
}

/// A list under a version that no list of the server has.
fn of_another_version(list: &str) -> Result<String> {
    let mut list: Value = serde_json::from_str(list)?;
    list["metadata"]["resourceVersion"] = "1".into();
    Ok(list.to_string())
}

fn is_watch(line: &str) -> bool {
    line.contains("watch=")
}

/// A watch goes on for as long as both sides like.
fn watch(
    client: &mut impl Write,
    shared: &Shared,
    line: &str,
    message: &Message,
    fault: Option<&Fault>,
) -> Result<()> {
    let path = line.split_once(' ').context("a request without a path")?.1;
    let headers: Vec<_> =
        message.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let lines = shared.http.lines(&format!("{}{path}", shared.upstream), &headers)?;
    write!(client, "HTTP/1.1 200 -\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")?;
    let copies = if matches!(fault, Some(Fault::Repeated)) { 2 } else { 1 };
    for (index, event) in lines.enumerate() {
        let event = event?;
        if matches!(fault, Some(Fault::CutAfterEvents(events)) if *events == index) {
            write!(client, "{}", event.split_at(event.len() / 2).0)?;
            return Ok(());
        }
        for _ in 0..copies {
            writeln!(client, "{event}")?;
        }
        client.flush()?;
    }
    Ok(())
}
