//! Our Runtime API, with this test in the part of the function's process.
#![allow(clippy::expect_used, reason = "a test that cannot go on says so")]

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use outrigger_stack::{Http, InvocationResult, RuntimeApi};
use serde_json::Value;

const NEXT: &str = "2018-06-01/runtime/invocation/next";

#[test]
fn two_processes_of_one_function_work_at_once() {
    let api = start(Duration::from_secs(10));
    let workers = ["a", "b"].map(|name| worker(&api, name, Duration::from_millis(300)));
    let began = SystemTime::now();
    let calls = [0, 1].map(|_| call(&api));
    let mut answers = calls.map(|call| call.join().expect("the caller ends"));
    answers.sort_by_key(|answer| format!("{answer:?}"));
    assert_eq!(answers, ["a", "b"].map(|name| InvocationResult::Answer(name.to_owned())));
    assert!(began.elapsed().expect("time goes on") < Duration::from_millis(550));
    for worker in workers {
        worker.join().expect("the worker ends");
    }
}

#[test]
fn an_invocation_fails_when_its_process_is_gone_and_no_other_is_lost() {
    let api = start(Duration::from_secs(10));
    let victim = worker(&api, "victim", Duration::from_millis(400));
    let lost = call(&api);
    wait(|| api.running("provision") == 1);
    api.forget("victim");
    assert_eq!(lost.join().expect("the caller ends"), InvocationResult::Died);
    victim.join().expect("the victim ends");

    // A process that waited for work when it went: the next invocation must not fall into its
    // hands.
    let idle = worker(&api, "idle", Duration::ZERO);
    wait(|| api.idle("provision") == 1);
    api.forget("idle");
    let late = call(&api);
    let heir = worker(&api, "heir", Duration::ZERO);
    assert_eq!(late.join().expect("the caller ends"), InvocationResult::Answer("heir".to_owned()));
    heir.join().expect("the heir ends");
    idle.join().expect("the idle one ends");
}

#[test]
fn the_invoke_api_answers_as_lambda_does() {
    let api = start(Duration::from_millis(300));
    let http = Http::plain(Duration::from_secs(5));
    let url = format!("{}/2015-03-31/functions/provision/invocations", api.url());
    let worker = worker(&api, "a", Duration::ZERO);
    let answer = http.send("POST", &url, &[], Some(b"{}")).expect("an answer");
    assert_eq!((answer.status, answer.body.as_str(), answer.function_error), (200, "a", None));
    worker.join().expect("the worker ends");

    let answer =
        http.send("POST", &url, &[("x-amz-invocation-type", "Event")], Some(b"{}")).expect("an answer");
    assert_eq!(answer.status, 202);

    let answer = http.send("POST", &url, &[], Some(b"{}")).expect("an answer");
    let body: Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!((answer.status, answer.function_error.as_deref()), (200, Some("Unhandled")));
    assert_eq!(body["errorType"], "Sandbox.Timedout");
}

fn start(timeout: Duration) -> RuntimeApi {
    RuntimeApi::start([("provision".to_owned(), timeout)].into()).expect("the Runtime API starts")
}

fn call(api: &RuntimeApi) -> thread::JoinHandle<InvocationResult> {
    let api = api.clone();
    thread::spawn(move || api.invoke("provision", "{}"))
}

/// A process that takes one invocation, works for a while and answers with its name.
fn worker(api: &RuntimeApi, name: &'static str, work: Duration) -> thread::JoinHandle<()> {
    let address = api.address("provision", name);
    thread::spawn(move || {
        let agent = ureq::Agent::new_with_defaults();
        let Ok(response) = agent.get(format!("{address}/{NEXT}")).call() else {
            // It was told to be gone while it waited.
            return;
        };
        let header = |name: &str| response.headers()[name].to_str().expect("text").to_owned();
        let deadline: u128 = header("lambda-runtime-deadline-ms").parse().expect("a number");
        assert!(deadline > SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis());
        thread::sleep(work);
        let id = header("lambda-runtime-aws-request-id");
        let http = Http::plain(Duration::from_secs(5));
        let url = format!("{address}/2018-06-01/runtime/invocation/{id}/response");
        http.send("POST", &url, &[], Some(name.as_bytes())).expect("the answer is taken");
    })
}

fn wait(mut reached: impl FnMut() -> bool) {
    let end = SystemTime::now() + Duration::from_secs(5);
    while !reached() {
        assert!(SystemTime::now() < end, "it did not come to that");
        thread::sleep(Duration::from_millis(10));
    }
}
