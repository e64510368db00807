//! Recipients of encrypted values: public age and SSH keys.

use crate::keys::{AGE, SSH};
use crate::{Recipients, SecretError, words};
use age::armor::{ArmoredReader, ArmoredWriter, Format};
use age::{Encryptor, IdentityFile, Recipient, ssh, x25519};
use holo_system::Root;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

/// Returns the requested recipients, by default those of the machine itself.
///
/// # Errors
/// If there are none, or one is not a public key.
pub(crate) fn all(arguments: &Recipients, root: &Path) -> Result<Vec<Box<dyn Recipient>>, SecretError> {
    let mut recipients = Vec::new();
    for key in &arguments.recipient {
        recipients.push(parse(key).ok_or_else(|| SecretError(format!("{key}: this is not a public key")))?);
    }
    for path in &arguments.recipients_file {
        let shown = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| words(&shown, &error))?;
        recipients.extend(of_lines(&text, &shown)?);
    }
    if arguments.recipient.is_empty() && arguments.recipients_file.is_empty() {
        recipients = of_machine(&Root::new(root))?;
    }
    if recipients.is_empty() {
        return Err(SecretError("there is no public key in these files".to_owned()));
    }
    Ok(recipients)
}

fn of_machine(root: &Root) -> Result<Vec<Box<dyn Recipient>>, SecretError> {
    let mut recipients = Vec::new();
    let public = format!("{SSH}.pub");
    let read = |path: &str| root.read(path).map_err(|error| words(&root.shown(path).display().to_string(), &error));
    if let Some(content) = read(AGE)? {
        let identities = IdentityFile::from_buffer(&*content).ok();
        let found = identities.and_then(|file| file.to_recipients().ok());
        let wrong = || SecretError(format!("{}: this is not a private key of age", root.shown(AGE).display()));
        recipients.extend(found.ok_or_else(wrong)?.into_iter().map(|recipient| recipient as Box<dyn Recipient>));
    }
    if let Some(content) = read(&public)? {
        recipients.extend(of_lines(&String::from_utf8_lossy(&content), &root.shown(&public).display().to_string())?);
    }
    if recipients.is_empty() {
        let [age, ssh] = [AGE, &public].map(|path| root.shown(path).display().to_string());
        return Err(SecretError(format!("there is neither {age} nor {ssh}; say for whom it is, with --recipient")));
    }
    Ok(recipients)
}

/// Parses public keys, one per line; empty lines and comments are skipped.
fn of_lines(text: &str, shown: &str) -> Result<Vec<Box<dyn Recipient>>, SecretError> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    keys.map(|(number, line)| {
        parse(line).ok_or_else(|| SecretError(format!("{shown}:{number}: this is not a public key of age or SSH")))
    })
    .collect()
}

fn parse(key: &str) -> Option<Box<dyn Recipient>> {
    match (key.parse::<x25519::Recipient>(), key.parse::<ssh::Recipient>()) {
        (Ok(key), _) => Some(Box::new(key)),
        (_, Ok(key)) => Some(Box::new(key)),
        _ => None,
    }
}

/// Encrypts a text into age's ASCII armor.
///
/// # Errors
/// If encryption fails.
pub(crate) fn encrypt(recipients: &[Box<dyn Recipient>], content: &[u8]) -> Result<String, SecretError> {
    let failed = |error: io::Error| words("encryption", &error);
    let encryptor = Encryptor::with_recipients(recipients.iter().map(|recipient| &**recipient))
        .map_err(|error| SecretError(format!("encryption: {error}")))?;
    let armor = ArmoredWriter::wrap_output(Vec::new(), Format::AsciiArmor).map_err(failed)?;
    let mut writer = encryptor.wrap_output(armor).map_err(failed)?;
    writer.write_all(content).map_err(failed)?;
    let armored = writer.finish().and_then(ArmoredWriter::finish).map_err(failed)?;
    Ok(String::from_utf8_lossy(&armored).into_owned())
}

/// Returns what an encrypted value reveals about its recipients: the kinds of keys, and a part of the digests of SSH
/// keys.
///
/// # Errors
/// If the text is not an encrypted value.
pub(crate) fn stanzas(armored: &str) -> Result<Vec<String>, SecretError> {
    let mut bytes = Vec::new();
    let read = ArmoredReader::new(armored.trim_ascii().as_bytes()).read_to_end(&mut bytes);
    read.map_err(|error| words("what is encrypted", &error))?;
    let header = bytes.split(|byte| *byte == b'\n').take_while(|line| !line.starts_with(b"---"));
    let lines = header.filter_map(|line| std::str::from_utf8(line.strip_prefix(b"-> ")?).ok());
    let mut stanzas: Vec<String> = lines
        .filter_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            // Some programs add an unreadable stanza, to ensure that readers tolerate unknown ones.
            [kind, ..] if kind.ends_with("-grease") => None,
            [kind, digest, _] if kind.starts_with("ssh-") => Some(format!("{kind} {digest}")),
            [kind, ..] => Some(kind.to_owned()),
            [] => None,
        })
        .collect();
    stanzas.sort();
    Ok(stanzas)
}
