//! The queue of interruptions: events come late, out of order, twice or not at all, and what is not
//! deleted comes again.

use std::time::Duration;

use outrigger_engine::interruption::{Delivery, Message};

use crate::time::Moment;

/// How long a message that was received stays unseen, as in `template.yaml`.
const VISIBILITY: Duration = Duration::from_mins(1);
/// After so many deliveries a message goes to the dead letters.
const MOST_DELIVERIES: u32 = 7;
/// A standard queue with the event bus in front of it.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    messages: Vec<Queued>,
    events: u64,
    keys: u64,
    dead: Vec<Message>,
}

#[derive(Debug)]
struct Queued {
    key: String,
    message: Message,
    visible: Duration,
    deliveries: u32,
}

impl Queue {
    /// Raised by every message.
    pub(crate) const fn version(&self) -> u64 {
        self.keys
    }

    /// Messages that were given up.
    pub(crate) fn dead(&self) -> &[Message] {
        &self.dead
    }

    /// How many messages are still to be handled.
    pub(crate) const fn len(&self) -> usize {
        self.messages.len()
    }

    /// The id of one more event.
    pub(crate) fn next_event_id(&mut self) -> String {
        self.events += 1;
        format!("event-{}", self.events)
    }

    /// A message arrives, and is seen from a time on.
    pub(crate) fn put(&mut self, message: Message, visible: Duration) {
        self.keys += 1;
        let key = format!("m{}", self.keys);
        self.messages.push(Queued { key, message, visible, deliveries: 0 });
    }

    /// When the next message can be received.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.messages.iter().map(|queued| queued.visible).min()
    }

    /// Takes up to `most` messages, which nobody else is given for a while.
    pub(crate) fn receive(&mut self, most: usize, moment: Moment) -> Vec<Delivery> {
        let is_worn =
            |queued: &mut Queued| queued.visible <= moment.elapsed && queued.deliveries >= MOST_DELIVERIES;
        let worn = self.messages.extract_if(.., is_worn).map(|queued| queued.message);
        self.dead.extend(worn);
        let visible = self.messages.iter_mut().filter(|queued| queued.visible <= moment.elapsed);
        visible
            .take(most)
            .map(|queued| {
                queued.visible = moment.elapsed.saturating_add(VISIBILITY);
                queued.deliveries += 1;
                Delivery {
                    key: queued.key.clone(),
                    count: queued.deliveries,
                    message: queued.message.clone(),
                }
            })
            .collect()
    }

    /// A message that could not be handled is to come again after so long.
    pub(crate) fn defer(&mut self, key: &str, delay: Duration, moment: Moment) {
        let named = self.messages.iter_mut().filter(|queued| queued.key == key);
        named.for_each(|queued| queued.visible = moment.elapsed.saturating_add(delay));
    }

    /// Deletes a message.
    pub(crate) fn delete(&mut self, key: &str) {
        self.messages.retain(|queued| queued.key != key);
    }
}
