//! Ending several conversations at once.

use super::Conversation;
use crate::child::{Child, wait_for_any};
use crate::ended::Status;
use crate::error::ConversationError;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Ends several conversations within a time limit, and returns the status of each program.
///
/// Pending requests are written, then the inputs are closed, which tells the programs to exit. After half of the time,
/// the process groups of programs that are still running receive SIGTERM; at the end, the remaining groups are killed.
/// Lines of standard error are passed to `heard` with the index of the conversation.
///
/// Background processes of a program that exits in time keep running.
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

/// Returns the conversations whose programs are running.
fn running(conversations: &mut [Conversation]) -> impl Iterator<Item = &mut Conversation> {
    conversations.iter_mut().filter(|conversation| conversation.status.is_none() && !conversation.child.has_exited())
}

/// Waits until all programs have ended, or until a point in time.
fn await_ends(conversations: &mut [Conversation], until: Option<Instant>, heard: &mut dyn FnMut(usize, &[u8])) {
    while until.is_none_or(|until| Instant::now() < until) {
        let mut children: Vec<&mut Child> =
            running(conversations).map(|conversation| &mut conversation.child).collect();
        // Programs that cannot be waited for are killed.
        if children.is_empty() || wait_for_any(&mut children, until, &[]).is_err() {
            return;
        }
        for (index, conversation) in conversations.iter_mut().enumerate() {
            if conversation.status.is_none() {
                conversation.take(&mut |line| heard(index, line));
                // Further answers are discarded.
                conversation.answers.take_rest();
            }
        }
    }
}
