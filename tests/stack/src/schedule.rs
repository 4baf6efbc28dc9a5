//! The functions and what rings them, as template.yaml says it too: a test compares the two.

use std::time::Duration;

/// Source of the project's own events.
pub const EVENT_SOURCE: &str = "outrigger";

/// A function as the stack runs it.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its name, and its binary's.
    pub name: &'static str,
    /// Its logical id in template.yaml, and its folder in what SAM builds.
    pub logical_id: &'static str,
    /// How often its schedule fires, if it has one. The first event comes at once.
    pub every: Option<Duration>,
    /// The `detail-type`s of our own events that wake it.
    pub doorbells: &'static [&'static str],
    /// The queue whose messages it is given.
    pub queue: Option<&'static str>,
}

/// What EC2 tells of its instances.
pub const INTERRUPTIONS: &str = "interruptions";
/// What of it nobody could read or handle.
pub const DEAD_INTERRUPTIONS: &str = "dead-interruptions";
/// How long a message stays unseen once it was received, in seconds, and how often it is received.
pub(crate) const VISIBILITY_SECONDS: u32 = 60;
pub(crate) const MOST_DELIVERIES: u32 = 7;
/// How many messages the function is given at once, and how long they are gathered.
pub(crate) const BATCH: usize = 100;
pub(crate) const WINDOW: Duration = Duration::from_secs(1);

/// Every function of the stack.
pub const FUNCTIONS: [Function; 5] = [
    Function {
        name: "provision",
        logical_id: "ProvisionFunction",
        every: Some(Duration::from_mins(1)),
        doorbells: &["NodeClaims Interrupted", "Command Committed"],
        queue: None,
    },
    Function {
        name: "lifecycle",
        logical_id: "LifecycleFunction",
        every: Some(Duration::from_mins(1)),
        doorbells: &["NodeClaims Launched", "NodeClaims Interrupted", "Command Committed"],
        queue: None,
    },
    Function {
        name: "disrupt",
        logical_id: "DisruptFunction",
        every: Some(Duration::from_mins(1)),
        doorbells: &[],
        queue: None,
    },
    Function {
        name: "refresh",
        logical_id: "RefreshFunction",
        every: Some(Duration::from_hours(12)),
        doorbells: &[],
        queue: None,
    },
    Function {
        name: "interrupt",
        logical_id: "InterruptFunction",
        every: None,
        doorbells: &[],
        queue: Some(INTERRUPTIONS),
    },
];

/// The queue that carries a function's doorbells.
pub fn doorbell_queue(function: &str) -> String {
    format!("doorbell-{function}")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::options::Options;
    use crate::template::Template;

    fn events<'t>(properties: &'t Value, kind: &str) -> Vec<&'t Value> {
        let events = properties["Events"].as_object().into_iter().flatten().map(|(_, event)| event);
        events.filter(|event| event["Type"] == kind).map(|event| &event["Properties"]).collect()
    }

    /// How often a schedule such as `rate(12 hours)` fires; one that is a parameter by its default.
    fn rate(template: &Template, schedule: &Value) -> Duration {
        let expression = match schedule["Ref"].as_str() {
            Some(parameter) => &template.root()["Parameters"][parameter]["Default"],
            None => schedule,
        };
        let inner = expression.as_str().and_then(|text| text.strip_prefix("rate(")?.strip_suffix(')'));
        let (count, unit) = inner.and_then(|inner| inner.split_once(' ')).unwrap();
        let unit = if unit.starts_with("hour") { Duration::from_hours(1) } else { Duration::from_mins(1) };
        unit * count.parse().unwrap()
    }

    #[test]
    fn the_template_says_the_same() {
        let template = Template::of_checkout(&Options::default().checkout).unwrap();
        let resources = &template.root()["Resources"];
        let is_function = |resource: &&Value| resource["Type"] == "AWS::Serverless::Function";
        assert_eq!(resources.as_object().unwrap().values().filter(is_function).count(), FUNCTIONS.len());
        for function in FUNCTIONS {
            let properties = &resources[function.logical_id]["Properties"];
            let every = events(properties, "ScheduleV2")
                .first()
                .map(|tick| rate(&template, &tick["ScheduleExpression"]));
            assert_eq!(every, function.every, "{}", function.name);
            let mut bells: Vec<&str> = events(properties, "EventBridgeRule")
                .into_iter()
                .flat_map(|rule| rule["Pattern"]["detail-type"].as_array().unwrap())
                .filter_map(Value::as_str)
                .collect();
            let mut doorbells = function.doorbells.to_vec();
            bells.sort_unstable();
            doorbells.sort_unstable();
            assert_eq!(bells, doorbells, "{}", function.name);
            let queues = events(properties, "SQS");
            assert_eq!(queues.len(), usize::from(function.queue.is_some()), "{}", function.name);
            for queue in queues {
                assert_eq!(queue["BatchSize"].as_u64(), Some(BATCH as u64));
                assert_eq!(queue["MaximumBatchingWindowInSeconds"].as_u64(), Some(WINDOW.as_secs()));
            }
        }
        let queue = &resources["Interruptions"]["Properties"];
        assert_eq!(queue["VisibilityTimeout"], VISIBILITY_SECONDS);
        assert_eq!(queue["RedrivePolicy"]["maxReceiveCount"], MOST_DELIVERIES);
    }
}
