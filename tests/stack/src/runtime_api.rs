//! A Lambda Runtime API of our own, for tests that start, kill and double function processes.
//!
//! cargo lambda's emulator never answers an invocation whose process died, and its deadline is no
//! date. This one gives a deadline in milliseconds since 1970, fails an invocation as soon as its
//! process is gone, and tells two processes of one function apart: each gets its own address,
//! `http://127.0.0.1:PORT/<function>/<process>`.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::Cursor;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use tiny_http::{Header, Method, Request, Response, Server};

use crate::aws::{ACCOUNT, REGION};
use crate::kops::CLUSTER;

const API: &str = "2018-06-01/runtime";
/// Threads that read requests. A `next` that waits is put aside and holds none of them.
const READERS: usize = 8;

/// The server; stops when the last clone is dropped.
#[derive(Clone)]
pub struct RuntimeApi {
    shared: Arc<Shared>,
}

struct Shared {
    server: Arc<Server>,
    port: u16,
    state: Arc<Mutex<State>>,
}

/// How an invocation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvocationResult {
    /// The function's answer.
    Answer(String),
    /// The function reported an error: its JSON body.
    Failed(String),
    /// The process ended before it answered.
    Died,
    /// No answer before the deadline.
    TimedOut,
}

#[derive(Default)]
struct State {
    /// How long an invocation of a function may take.
    timeouts: BTreeMap<String, Duration>,
    count: u64,
    /// Invocations that no process has taken.
    queued: VecDeque<Invocation>,
    /// Invocations that a process works on.
    running: Vec<Invocation>,
    /// Processes that wait for work, longest first.
    idle: VecDeque<(ProcessOf, Request)>,
    /// Processes that have ended. Their last `next` may be read only after that, and must get no
    /// work.
    gone: HashSet<String>,
}

/// A function and one of its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProcessOf {
    function: String,
    process: String,
}

struct Invocation {
    id: String,
    function: String,
    process: Option<String>,
    payload: String,
    deadline: Instant,
    answer: Sender<InvocationResult>,
}

impl RuntimeApi {
    /// Starts it on a free port, for functions that may take so long each. Others may take no time
    /// at all.
    pub fn start(timeouts: BTreeMap<String, Duration>) -> Result<Self> {
        let server =
            Server::http(("127.0.0.1", 0)).map_err(|error| anyhow!("starting the Runtime API: {error}"))?;
        let port = server.server_addr().to_ip().map(|address| address.port()).unwrap_or_default();
        let server = Arc::new(server);
        let state = Arc::new(Mutex::new(State { timeouts, ..State::default() }));
        for _ in 0..READERS {
            let (server, state) = (Arc::clone(&server), Arc::clone(&state));
            thread::spawn(move || {
                while let Ok(request) = server.recv() {
                    route(&state, request);
                }
            });
        }
        Ok(Self { shared: Arc::new(Shared { server, port, state }) })
    }

    /// Root of the Invoke API.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.shared.port)
    }

    /// `AWS_LAMBDA_RUNTIME_API` for one process of a function.
    pub fn address(&self, function: &str, process: &str) -> String {
        format!("{}/{function}/{process}", self.url())
    }

    /// Invokes a function and waits for how it ends.
    pub fn invoke(&self, function: &str, payload: &str) -> InvocationResult {
        invoke(&self.shared.state, function, payload)
    }

    /// Says that a process is gone: what it worked on has died, and nothing is given to it any
    /// more.
    pub fn forget(&self, process: &str) {
        let mut state = lock(&self.shared.state);
        state.gone.insert(process.to_owned());
        state.idle.retain(|(process_of, _)| process_of.process != process);
        let (gone, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut state.running)
            .into_iter()
            .partition(|invocation| invocation.process.as_deref() == Some(process));
        state.running = kept;
        for invocation in gone {
            finish(&invocation, InvocationResult::Died);
        }
    }

    /// How many processes of a function wait for work.
    pub fn idle(&self, function: &str) -> usize {
        lock(&self.shared.state).idle.iter().filter(|(process_of, _)| process_of.function == function).count()
    }

    /// How many invocations of a function are being worked on.
    pub fn running(&self, function: &str) -> usize {
        lock(&self.shared.state).running.iter().filter(|invocation| invocation.function == function).count()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for _ in 0..READERS {
            self.server.unblock();
        }
    }
}

impl State {
    fn timeout(&self, function: &str) -> Duration {
        self.timeouts.get(function).copied().unwrap_or_default()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn invoke(state: &Mutex<State>, function: &str, payload: &str) -> InvocationResult {
    let (answer, outcome) = channel();
    let id = {
        let mut state = lock(state);
        state.count += 1;
        let id = format!("00000000-0000-4000-8000-{:012x}", state.count);
        let (function, payload) = (function.to_owned(), payload.to_owned());
        let deadline = Instant::now() + state.timeout(&function);
        state.queued.push_back(Invocation {
            id: id.clone(),
            function,
            process: None,
            payload,
            deadline,
            answer,
        });
        hand_out(&mut state);
        id
    };
    // A process that starts late still has its whole time: the clock starts anew when it takes the
    // invocation.
    loop {
        if let Ok(outcome) = outcome.recv_timeout(Duration::from_millis(100)) {
            return outcome;
        }
        let mut state = lock(state);
        let late = |one: &Invocation| one.id == id && Instant::now() > one.deadline;
        if state.queued.iter().any(late) || state.running.iter().any(late) {
            state.queued.retain(|one| one.id != id);
            state.running.retain(|one| one.id != id);
            return InvocationResult::TimedOut;
        }
    }
}

/// Gives waiting invocations to waiting processes.
fn hand_out(state: &mut State) {
    let mut index = 0;
    while index < state.queued.len() {
        let function = state.queued[index].function.clone();
        let Some(waiting) = state.idle.iter().position(|(process_of, _)| process_of.function == function)
        else {
            index += 1;
            continue;
        };
        let (Some((process_of, request)), Some(mut invocation)) =
            (state.idle.remove(waiting), state.queued.remove(index))
        else {
            return;
        };
        invocation.process = Some(process_of.process);
        let timeout = state.timeout(&invocation.function);
        invocation.deadline = Instant::now() + timeout;
        send(request, 200, &invocation.payload.clone(), &headers(&invocation, timeout));
        state.running.push(invocation);
    }
}

fn headers(invocation: &Invocation, timeout: Duration) -> Vec<(String, String)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let arn = format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{}", invocation.function);
    let trace = format!("Root=1-{:08x}-{};Parent=53995c3f42cd8ad8;Sampled=1", now.as_secs(), "0".repeat(24));
    [
        ("Lambda-Runtime-Aws-Request-Id", invocation.id.clone()),
        ("Lambda-Runtime-Deadline-Ms", (now + timeout).as_millis().to_string()),
        ("Lambda-Runtime-Invoked-Function-Arn", arn),
        ("Lambda-Runtime-Trace-Id", trace),
        ("Content-Type", "application/json".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

fn route(state: &Arc<Mutex<State>>, mut request: Request) {
    let mut body = String::new();
    if request.as_reader().read_to_string(&mut body).is_err() {
        return send(request, 400, "the body is not text", &[]);
    }
    let path = request.url().trim_matches('/').to_owned();
    if path == "2015-03-31/functions" && *request.method() == Method::Get {
        return list(state, request);
    }
    if let Some(name) = path.strip_prefix("2015-03-31/functions/") {
        let function = name.trim_end_matches("/invocations").to_owned();
        return answer_caller(state, request, function, body);
    }
    let parts: Vec<&str> = path.splitn(3, '/').collect();
    let [function, process, call] = parts[..] else {
        return send(request, 404, "no such path", &[]);
    };
    let process_of = ProcessOf { function: function.to_owned(), process: process.to_owned() };
    match call.strip_prefix(API).map(|rest| rest.trim_matches('/')) {
        Some("invocation/next") if *request.method() == Method::Get => {
            let mut state = lock(state);
            if state.gone.contains(&process_of.process) {
                return;
            }
            state.idle.push_back((process_of, request));
            hand_out(&mut state);
        }
        Some("init/error") => send(request, 202, "{\"status\":\"OK\"}", &[]),
        Some(rest) => complete(state, request, rest, body),
        None => send(request, 404, "no such path", &[]),
    }
}

/// Takes `invocation/<id>/response` and `invocation/<id>/error`.
fn complete(state: &Mutex<State>, request: Request, rest: &str, body: String) {
    let parts: Vec<&str> = rest.split('/').collect();
    let ["invocation", id, how] = parts[..] else {
        return send(request, 404, "no such path", &[]);
    };
    let invocation = {
        let mut state = lock(state);
        let index = state.running.iter().position(|one| one.id == id);
        index.map(|index| state.running.swap_remove(index))
    };
    let Some(invocation) = invocation else {
        let refusal =
            json!({"errorType": "InvalidRequestID", "errorMessage": "no such invocation is running"});
        return send(request, 400, &refusal.to_string(), &[]);
    };
    send(request, 202, "{\"status\":\"OK\"}", &[]);
    finish(
        &invocation,
        if how == "response" { InvocationResult::Answer(body) } else { InvocationResult::Failed(body) },
    );
}

/// Lambda's ListFunctions, in one page. Each function serves the stack's cluster.
fn list(state: &Mutex<State>, request: Request) {
    let functions: Vec<Value> = lock(state)
        .timeouts
        .keys()
        .map(|name| {
            let variables = json!({"OUTRIGGER_CLUSTER": CLUSTER});
            json!({"FunctionName": name, "Environment": {"Variables": variables}})
        })
        .collect();
    send(request, 200, &json!({"Functions": functions}).to_string(), &[]);
}

/// The Invoke API: waits on a thread of its own, so that readers stay free for the functions.
fn answer_caller(state: &Arc<Mutex<State>>, request: Request, function: String, body: String) {
    let event = request.headers().iter().any(|header| {
        header.field.equiv("X-Amz-Invocation-Type") && header.value.as_str().eq_ignore_ascii_case("Event")
    });
    let state = Arc::clone(state);
    thread::spawn(move || {
        if event {
            send(request, 202, "", &[]);
            invoke(&state, &function, &body);
            return;
        }
        let failed = [("X-Amz-Function-Error".to_owned(), "Unhandled".to_owned())];
        match invoke(&state, &function, &body) {
            InvocationResult::Answer(text) => send(request, 200, &text, &[]),
            InvocationResult::Failed(text) => send(request, 200, &text, &failed),
            InvocationResult::Died => {
                let text = json!({"errorType": "Runtime.ExitError", "errorMessage": "the process ended"});
                send(request, 200, &text.to_string(), &failed);
            }
            InvocationResult::TimedOut => {
                let seconds = lock(&state).timeout(&function).as_secs_f64();
                let message = format!("Task timed out after {seconds:.2} seconds");
                let text = json!({"errorType": "Sandbox.Timedout", "errorMessage": message});
                send(request, 200, &text.to_string(), &failed);
            }
        }
    });
}

fn finish(invocation: &Invocation, outcome: InvocationResult) {
    // A caller that gave up listens no more, and nobody else wants to know.
    let _ = invocation.answer.send(outcome);
}

fn send(request: Request, status: u16, body: &str, headers: &[(String, String)]) {
    let length = body.len();
    let mut response =
        Response::new(status.into(), Vec::new(), Cursor::new(body.as_bytes().to_vec()), Some(length), None);
    for (name, value) in headers {
        if let Ok(header) = Header::from_bytes(name.as_bytes(), value.as_bytes()) {
            response.add_header(header);
        }
    }
    // The other side may have hung up, which is its own affair.
    let _ = request.respond(response);
}
