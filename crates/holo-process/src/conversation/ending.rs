//! The end of several conversations at once.

use super::Conversation;
use crate::child::{Child, wait_for_any};
use crate::ended::Status;
use crate::error::ConversationError;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Ends several conversations within the same time, and returns how each program has ended.
///
/// What was sent is written, then their input ends, which tells them to end by themselves. Those that still run when half of the time is
/// over are asked by SIGTERM to their process groups; the groups of those that are left in the end are killed. What they say on standard
/// error meanwhile is heard with their index.
///
/// What a program that ends in time has left in the background lives on.
pub fn end_together(
    mut conversations: Vec<Conversation>,
    within: Duration,
    heard: &mut dyn FnMut(usize, &[u8]),
) -> Vec<Result<Status, ConversationError>> {
    for conversation in &mut conversations {
        conversation.child.end_input();
    }
    let now = Instant::now();
    await_ends(&mut conversations, now.checked_add(within / 2), heard);
    for conversation in running(&mut conversations) {
        conversation.child.signal(Signal::TERM);
    }
    await_ends(&mut conversations, now.checked_add(within), heard);
    for conversation in running(&mut conversations) {
        conversation.child.signal(Signal::KILL);
    }
    let conversations = conversations.iter_mut().enumerate();
    let end = |(index, conversation): (usize, &mut Conversation)| match conversation.status {
        Some(status) => Ok(status),
        None => conversation.reap(&mut |line| heard(index, line)),
    };
    conversations.map(end).collect()
}

/// The conversations whose programs have not ended.
fn running(conversations: &mut [Conversation]) -> impl Iterator<Item = &mut Conversation> {
    conversations.iter_mut().filter(|conversation| conversation.status.is_none() && !conversation.child.has_exited())
}

/// Waits until all have ended, or until this time.
fn await_ends(conversations: &mut [Conversation], until: Option<Instant>, heard: &mut dyn FnMut(usize, &[u8])) {
    while until.is_none_or(|until| Instant::now() < until) {
        let mut children: Vec<&mut Child> =
            running(conversations).map(|conversation| &mut conversation.child).collect();
        // A program that cannot be waited for is killed.
        if children.is_empty() || wait_for_any(&mut children, until, &[]).is_err() {
            return;
        }
        for (index, conversation) in conversations.iter_mut().enumerate() {
            if conversation.status.is_none() {
                conversation.take(&mut |line| heard(index, line));
                // It has nobody to answer to.
                conversation.answers.take_rest();
            }
        }
    }
}
