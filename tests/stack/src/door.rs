//! The front door of the stack's AWS: who calls, whether EC2 would take the call, and whether the
//! caller's role allows it. What passes is handed on to moto or `DynamoDB` Local; what does not is
//! refused as AWS refuses it.
//!
//! It is also what aws-iam-authenticator is on a control plane: the API server asks it whose a
//! token is.

mod account;
mod authenticator;
mod refusal;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tiny_http::{Header, Request, Server};

use crate::aws::Aws;
use crate::cache::Cache;
use crate::door::account::Moto;
use crate::door::authenticator::Authenticator;
use crate::door::refusal::Refusal;
use crate::ec2::Ec2Model;
use crate::http::{Forwarded, Http};
use crate::options::deployed;
use crate::roles::{Call, Need, Role, needs};
use crate::schedule::FUNCTIONS;
use crate::state::{Endpoints, State};
use crate::template::Deployed;
use crate::tools::Tools;

/// Requests that are worked on at once; functions and their pollers are few.
const WORKERS: usize = 32;
/// Longer than moto takes for anything.
const LONGEST_ANSWER: Duration = Duration::from_mins(1);
/// Where the API server asks.
pub(crate) const TOKEN_REVIEWS: &str = "/token-reviews";
/// Headers that belong to one connection.
const OF_THE_CONNECTION: [&str; 4] = ["connection", "content-length", "host", "transfer-encoding"];

/// The servers behind the door.
#[derive(Clone, Debug)]
pub(crate) struct Behind {
    /// moto's address.
    pub(crate) moto: String,
    /// `DynamoDB` Local's address.
    pub(crate) dynamodb: String,
}

/// The door; closed when dropped.
pub struct Door {
    server: Arc<Server>,
    shared: Arc<Shared>,
}

struct Shared {
    behind: Behind,
    http: Http,
    model: Ec2Model,
    rights: RwLock<Rights>,
    refusals: Mutex<Vec<String>>,
    /// What a test has taken from a role: the function and the action.
    taken: Mutex<Option<(String, String)>>,
}

/// What callers may do.
struct Rights {
    roles: BTreeMap<String, Role>,
    authenticator: Authenticator,
}

impl Rights {
    fn new(deployed: &Deployed) -> Result<Self> {
        let roles = FUNCTIONS.iter().map(|one| Ok((one.name.to_owned(), deployed.role(one.name)?)));
        Ok(Self { roles: roles.collect::<Result<_>>()?, authenticator: Authenticator::new(deployed)? })
    }
}

impl Door {
    /// Opens it on a port.
    pub(crate) fn open(port: u16, behind: Behind, deployed: &Deployed, model: Ec2Model) -> Result<Self> {
        let shared = Arc::new(Shared {
            rights: RwLock::new(Rights::new(deployed)?),
            http: Http::plain(LONGEST_ANSWER),
            refusals: Mutex::default(),
            taken: Mutex::default(),
            behind,
            model,
        });
        let server =
            Server::http(("127.0.0.1", port)).map_err(|error| anyhow!("opening the front door: {error}"))?;
        let server = Arc::new(server);
        for _ in 0..WORKERS {
            let (server, shared) = (Arc::clone(&server), Arc::clone(&shared));
            thread::spawn(move || {
                while let Ok(request) = server.recv() {
                    shared.serve(request);
                }
            });
        }
        Ok(Self { server, shared })
    }

    /// Opens the door of the stack in a directory, whose state says where.
    pub fn of_stack(state: &State) -> Result<Self> {
        Self::in_front_of(state, &Tools::ensure(&Cache::open()?)?)
    }

    /// The same, with tools that are there.
    pub(crate) fn in_front_of(state: &State, tools: &Tools) -> Result<Self> {
        let Endpoints { aws, dynamodb, door, .. } = &state.endpoints;
        let port = door.rsplit(':').next().and_then(|port| port.parse().ok());
        let port = port.with_context(|| format!("the front door has no port: {door}"))?;
        let behind = Behind { moto: aws.clone(), dynamodb: dynamodb.clone() };
        Self::open(port, behind, &deployed(state)?, Ec2Model::installed(&tools.moto)?)
    }

    /// Goes by the roles of another deployment from now on.
    pub(crate) fn enforce(&self, deployed: &Deployed) -> Result<()> {
        *self.shared.rights.write().unwrap_or_else(PoisonError::into_inner) = Rights::new(deployed)?;
        Ok(())
    }

    /// The actions that a function's role allows.
    pub(crate) fn actions(&self, function: &str) -> BTreeSet<String> {
        let rights = self.shared.rights();
        let role = rights.roles.get(function);
        role.into_iter().flat_map(|role| role.actions().map(str::to_owned)).collect()
    }

    /// Takes an action from a function's role, and gives back what was taken before.
    pub(crate) fn take(&self, taken: Option<(&str, &str)>) {
        let taken = taken.map(|(function, action)| (function.to_owned(), action.to_owned()));
        *self.shared.taken.lock().unwrap_or_else(PoisonError::into_inner) = taken;
    }

    /// What was refused so far: who asked for what, and why not.
    pub fn refusals(&self) -> Vec<String> {
        self.shared.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        for _ in 0..WORKERS {
            self.server.unblock();
        }
    }
}

impl Shared {
    fn rights(&self) -> RwLockReadGuard<'_, Rights> {
        self.rights.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut request: Request) {
        let mut body = Vec::new();
        if request.as_reader().read_to_end(&mut body).is_err() {
            // Whoever sends half a request has gone.
            return;
        }
        let answer = if request.url().split('?').next() == Some(TOKEN_REVIEWS) {
            self.rights().authenticator.review(&body)
        } else {
            let header =
                |header: &Header| (header.field.to_string().to_ascii_lowercase(), header.value.to_string());
            let headers: Vec<_> = request.headers().iter().map(header).collect();
            let method = request.method().to_string();
            self.answer(&method, request.url(), &headers, &body)
        };
        // The other side may have hung up, which is its own affair.
        let _ = send(request, &answer);
    }

    fn answer(&self, method: &str, target: &str, headers: &[(String, String)], body: &[u8]) -> Forwarded {
        let call = match Call::read(method, target, headers, body) {
            Ok(call) => call,
            Err(error) => return Refusal::unsigned(&format!("{error:#}")).answer(""),
        };
        if let Err(refusal) = self.judge(&call) {
            let refused = format!("{} {}:{}: {refusal}", call.caller, call.service, call.operation);
            eprintln!("door: {refused}");
            self.refusals.lock().unwrap_or_else(PoisonError::into_inner).push(refused);
            return refusal.answer(&call.service);
        }
        let upstream = if call.service == "dynamodb" { &self.behind.dynamodb } else { &self.behind.moto };
        let kept = headers
            .iter()
            .filter(|(name, _)| !OF_THE_CONNECTION.contains(&name.as_str()) && name != "expect");
        let kept: Vec<_> = kept.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        match self.http.forward(method, &format!("{upstream}{target}"), &kept, body) {
            Ok(answer) if call.operation == "DescribeSubnets" => counted_as_by_ec2(answer),
            Ok(answer) => answer,
            Err(error) => Refusal::silence(&format!("{error:#}")).answer(&call.service),
        }
    }

    /// Whether AWS would take the call.
    fn judge(&self, call: &Call) -> Result<(), Refusal> {
        let rights = self.rights();
        let role = rights.roles.get(&call.caller).ok_or_else(|| Refusal::unknown_caller(&call.caller))?;
        if call.service == "ec2" {
            self.model.check(call).map_err(|fault| Refusal::of_ec2(&fault))?;
        }
        let account = Moto(Aws::new(&self.behind.moto));
        let needs = needs(call, &account)
            .with_context(|| format!("judging {}", call.operation))
            .map_err(|error| Refusal::unjudged(&format!("{error:#}")))?;
        let refused = needs.iter().find(|need| self.is_taken(&call.caller, need)).or(role.refused(&needs));
        refused.map_or(Ok(()), |need| Err(Refusal::denied(&call.caller, need)))
    }

    fn is_taken(&self, caller: &str, need: &Need) -> bool {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.as_ref().is_some_and(|(function, action)| function == caller && *action == need.action)
    }
}

/// EC2 counts free IPv4 addresses alone, and so none where a subnet has only those of IPv6. moto
/// counts these: more than EC2's number can hold.
fn counted_as_by_ec2(mut answer: Forwarded) -> Forwarded {
    const COUNT: &str = "<availableIpAddressCount>";
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let of_ipv4 = |part: &str| {
        let (count, rest) = part.split_once('<').unwrap_or((part, ""));
        format!("{}<{rest}", count.trim().parse::<i32>().unwrap_or_default())
    };
    let mut parts = text.split(COUNT);
    let head = parts.next().unwrap_or_default().to_owned();
    answer.body =
        std::iter::once(head).chain(parts.map(of_ipv4)).collect::<Vec<_>>().join(COUNT).into_bytes();
    answer
}

/// Sends an answer with its own headers, and ends the connection: the server may leave a new
/// connection unread for as long as others stay open.
fn send(request: Request, answer: &Forwarded) -> std::io::Result<()> {
    let mut client = request.into_writer();
    let Forwarded { status, headers, body } = answer;
    write!(client, "HTTP/1.1 {status} -\r\nContent-Length: {}\r\nConnection: close\r\n", body.len())?;
    for (name, value) in headers.iter().filter(|(name, _)| !OF_THE_CONNECTION.contains(&name.as_str())) {
        write!(client, "{name}: {value}\r\n")?;
    }
    client.write_all(b"\r\n")?;
    client.write_all(body)?;
    client.flush()
}
