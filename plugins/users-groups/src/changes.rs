//! The changes of an account as messages.

use crate::account::{Account, Kind};
use std::collections::BTreeSet;

/// Returns the changes of an account as message fragments in the past tense. Empty if there are none.
pub(crate) fn changes(before: Option<&Account>, now: Option<&Account>) -> Vec<String> {
    match (before, now) {
        (None, None) => Vec::new(),
        (None, Some(now)) => {
            let number = now.number.map(|number| format!(" with {} {number}", now.id.kind.number_word()));
            vec![format!("created {}{}", shown(now), number.unwrap_or_default())]
        }
        (Some(before), None) => vec![format!("deleted {}", shown(before))],
        (Some(before), Some(now)) => differences(before, now),
    }
}

fn differences(before: &Account, now: &Account) -> Vec<String> {
    let mut changes = Vec::new();
    if before.id != now.id {
        changes.push(format!("renamed {} to {}", shown(before), now.id.name));
    }
    let whose = shown(now);
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
    let comments = ("comment", before.comment.clone(), now.comment.clone());
    let essentials = before.essentials().into_iter().zip(now.essentials());
    let essentials = essentials.map(|((what, before), (_, now))| (what, before, now));
    for (what, before, now) in essentials.chain([comments]).filter(|(_, before, now)| before != now) {
        changes.push(format!("changed the {what} of {whose} from {} to {}", value(&before), value(&now)));
    }
    let (old, new): (BTreeSet<&String>, BTreeSet<&String>) =
        (before.groups.iter().collect(), now.groups.iter().collect());
    changes.extend(new.difference(&old).map(|group| format!("added {whose} to group {group}")));
    changes.extend(old.difference(&new).map(|group| format!("removed {whose} from group {group}")));
    changes
}

fn shown(account: &Account) -> String {
    let kind = match account.id.kind {
        Kind::Group => "group",
        Kind::User => "user",
    };
    format!("{kind} {}", account.id.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::AccountId;

    #[test]
    fn changes_list_every_difference() {
        let bare = |id: &str| Account::bare(AccountId::parse(id).unwrap());
        let anne = Account {
            number: Some(7),
            home: Some("/a".into()),
            groups: vec!["audio".into(), "crew".into()],
            ..bare("user:anne")
        };
        let bert = Account {
            number: Some(8),
            comment: Some("B".into()),
            home: None,
            groups: vec!["crew".into(), "video".into()],
            ..bare("user:bert")
        };
        assert_eq!(changes(None, Some(&anne)), ["created user anne with UID 7"]);
        assert_eq!(changes(Some(&bare("group:g")), None), ["deleted group g"]);
        assert!(changes(Some(&anne), Some(&anne)).is_empty() && changes(None, None).is_empty());
        assert_eq!(
            changes(Some(&anne), Some(&bert)),
            [
                "renamed user anne to bert",
                "changed the UID of user bert from 7 to 8",
                "changed the home directory of user bert from /a to none",
                "changed the comment of user bert from none to B",
                "added user bert to group video",
                "removed user bert from group audio",
            ]
        );
    }
}
