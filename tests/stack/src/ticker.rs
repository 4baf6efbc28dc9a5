//! The ticker: `EventBridge`'s part. It posts the schedules' events, and delivers what rings a
//! function's doorbell queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use crate::aws::{ACCOUNT, Aws, REGION};
use crate::http::{Answer, Http};
use crate::schedule::{FUNCTIONS, Function, doorbell_queue};

/// Events under way to one function; a schedule's event beyond that is dropped, a doorbell's waits
/// in its queue.
const IN_FLIGHT: usize = 4;

/// How often schedules fire.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// A period for a function, in place of its own.
    pub every: BTreeMap<String, Duration>,
    /// Functions whose schedule never fires; their doorbells ring all the same.
    pub silent: Vec<String>,
}

/// A running ticker; stops when dropped.
pub struct Ticker {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Ticker {
    /// Starts it: `invoke_url` is the root of an Invoke API, `aws` is where the doorbell queues
    /// are.
    pub fn spawn(invoke_url: &str, aws: &Aws, rates: Rates) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let rates = Arc::new(rates);
        let mut threads = Vec::new();
        for function in FUNCTIONS {
            let line = Line::new(function, invoke_url, Arc::clone(&stop));
            let (schedule, rates) = (line.clone(), Arc::clone(&rates));
            threads.push(thread::spawn(move || schedule.run_schedule(&rates)));
            if !function.doorbells.is_empty() {
                let (line, aws) = (line.clone(), aws.clone());
                threads.push(thread::spawn(move || line.run_doorbell(&aws)));
            }
            if let Some(queue) = function.queue {
                let aws = aws.clone();
                threads.push(thread::spawn(move || line.run_queue(&aws, queue)));
            }
        }
        Self { stop, threads }
    }

    /// Waits for as long as it runs, which is until the process ends.
    pub fn join(mut self) {
        for thread in std::mem::take(&mut self.threads) {
            // A thread that panicked has said why on standard error.
            let _ = thread.join();
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in std::mem::take(&mut self.threads) {
            // As in `join`.
            let _ = thread.join();
        }
    }
}

/// The way to one function.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) function: Function,
    url: String,
    http: Http,
    in_flight: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Line {
    fn new(function: Function, invoke_url: &str, stop: Arc<AtomicBool>) -> Self {
        let url = format!(
            "{}/2015-03-31/functions/{}/invocations",
            invoke_url.trim_end_matches('/'),
            function.name
        );
        // Longer than any function may run, so that a slow one is not taken for a dead one.
        let http = Http::plain(Duration::from_mins(2));
        Self { function, url, http, in_flight: Arc::default(), stop }
    }

    fn run_schedule(&self, rates: &Rates) {
        if rates.silent.iter().any(|name| name == self.function.name) {
            return;
        }
        let Some(every) = rates.every.get(self.function.name).copied().or(self.function.every) else {
            return;
        };
        let mut next = Instant::now();
        while !self.stopped() {
            if Instant::now() < next {
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            next += every;
            if self.full() {
                eprintln!(
                    "ticker: {} still has {IN_FLIGHT} events; this tick is dropped",
                    self.function.name
                );
                continue;
            }
            self.post(scheduled_event(self.function.name), |_| ());
        }
    }

    fn run_doorbell(&self, aws: &Aws) {
        let queue = format!("http://queue/{ACCOUNT}/{}", doorbell_queue(self.function.name));
        while !self.stopped() {
            if self.full() {
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            if let Err(error) = self.ring(aws, &queue) {
                eprintln!("ticker: doorbell of {}: {error:#}", self.function.name);
                thread::sleep(Duration::from_millis(500));
            }
        }
    }

    /// Takes one message off the queue and delivers it; deleted only once the function has
    /// answered.
    fn ring(&self, aws: &Aws, queue: &str) -> Result<()> {
        let ask = json!({"QueueUrl": queue, "MaxNumberOfMessages": 1, "WaitTimeSeconds": 1, "VisibilityTimeout": 150});
        let answer = aws.json("sqs", "AmazonSQS.ReceiveMessage", &ask)?;
        for message in answer["Messages"].as_array().into_iter().flatten() {
            let mut event: Value = serde_json::from_str(message["Body"].as_str().unwrap_or_default())?;
            // moto leaves the account out of the envelope.
            event["account"] = json!(ACCOUNT);
            let delete = json!({"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"]});
            let aws = aws.clone();
            self.post(event, move |_| {
                if let Err(error) = aws.json("sqs", "AmazonSQS.DeleteMessage", &delete) {
                    eprintln!("ticker: a delivered doorbell stays in its queue: {error:#}");
                }
            });
        }
        Ok(())
    }

    /// Posts an event on a thread of its own and calls `done` with the function's answer.
    pub(crate) fn post(&self, event: Value, done: impl FnOnce(&Answer) + Send + 'static) {
        let line = self.clone();
        line.in_flight.fetch_add(1, Ordering::Relaxed);
        thread::spawn(move || {
            let body = event.to_string();
            let content = [("content-type", "application/json")];
            match line.http.send("POST", &line.url, &content, Some(body.as_bytes())) {
                Ok(answer) => {
                    if answer.status >= 300 || answer.function_error.is_some() {
                        eprintln!("ticker: {} failed: {} {}", line.function.name, answer.status, answer.body);
                    }
                    done(&answer);
                }
                Err(error) => eprintln!("ticker: {} did not answer: {error:#}", line.function.name),
            }
            line.in_flight.fetch_sub(1, Ordering::Relaxed);
        });
    }

    pub(crate) fn full(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) >= IN_FLIGHT
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The event that a rule with a schedule sends.
pub fn scheduled_event(function: &str) -> Value {
    static COUNT: AtomicUsize = AtomicUsize::new(1);
    let id = format!("5cede000-0000-4000-8000-{:012x}", COUNT.fetch_add(1, Ordering::Relaxed));
    json!({
        "version": "0",
        "id": id,
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "region": REGION,
        "resources": [format!("arn:aws:events:{REGION}:{ACCOUNT}:rule/outrigger-{function}")],
        "detail": {},
    })
}
