//! A machine's private keys.

use crate::SecretError;
use age::armor::ArmoredReader;
use age::{DecryptError, Decryptor, Identity, IdentityFile, ssh};
use holo_process::words::reason;
use holo_system::Root;
use std::io::Read;
use std::path::Path;

/// The machine's age key, below the root.
pub(crate) const AGE: &str = "etc/holo/age.key";
/// The SSH server's key, below the root.
pub(crate) const SSH: &str = "etc/ssh/ssh_host_ed25519_key";

/// The maximum size of a value to decrypt.
const MAX_SIZE: u64 = 16 << 20;

/// The group that may read the private keys of SSH servers on some distributions.
const KEY_GROUP: &str = "ssh_keys";

/// Returns true if users other than the owner may access a private key, as ssh judges it. If this cannot be determined,
/// it is not used.
fn may_be_read_by_others(root: &Root, path: &str) -> bool {
    let Ok((_, mode)) = root.stat(path) else { return true };
    let is_of_key_group = || {
        let groups = root.text("etc/group").unwrap_or_default();
        let mut group = groups.lines().filter_map(|line| line.strip_prefix(KEY_GROUP)?.strip_prefix(':'));
        let id = group.next().and_then(|fields| fields.split(':').nth(1)?.parse::<u32>().ok());
        id.is_some() && id == root.group_id(path).ok()
    };
    let open = mode.bits() & 0o077;
    open != 0 && !(open == 0o040 && is_of_key_group())
}

/// The available keys, and the errors of the others.
pub(crate) struct Keys {
    identities: Vec<Box<dyn Identity>>,
    /// The files, as shown to the user.
    files: Vec<String>,
    problems: Vec<String>,
}

impl Keys {
    /// Reads the keys of the machine below a root.
    pub(crate) fn read(root: &Path) -> Keys {
        let root = Root::new(root);
        let mut keys = Keys { identities: Vec::new(), files: Vec::new(), problems: Vec::new() };
        for (path, identities) in [(AGE, age as fn(&[u8]) -> _), (SSH, ssh as fn(&[u8]) -> _)] {
            let shown = root.shown(path).display().to_string();
            let content = match root.read(path) {
                Ok(None) => continue,
                Ok(Some(content)) => content,
                Err(error) => {
                    keys.problems.push(format!("{shown}: {}", reason(&error)));
                    continue;
                }
            };
            match identities(&content) {
                Ok(_) if may_be_read_by_others(&root, path) => {
                    keys.problems.push(format!("{shown}: other users may read this private key; chmod 0600 {shown}"));
                }
                Ok(found) => {
                    keys.identities.extend(found);
                    keys.files.push(shown);
                }
                Err(problem) => keys.problems.push(format!("{shown}: {problem}")),
            }
        }
        if keys.identities.is_empty() && keys.problems.is_empty() {
            let [age, ssh] = [AGE, SSH].map(|path| root.shown(path).display().to_string());
            keys.problems.push(format!("this machine has no key for it: there is neither {age} nor {ssh}"));
        }
        keys
    }

    /// Decrypts a value in age's ASCII armor.
    ///
    /// # Errors
    /// If no key matches, or the value is damaged.
    pub(crate) fn decrypt(&self, armored: &[u8]) -> Result<Vec<u8>, SecretError> {
        let damaged = |error: &dyn std::fmt::Display| SecretError(format!("the encrypted value is damaged: {error}"));
        // Text after the armor would be an error, and TOML strings may end with more white space than files.
        let reader = ArmoredReader::new(armored.trim_ascii());
        let decryptor = Decryptor::new_buffered(reader).map_err(|error| damaged(&error))?;
        if decryptor.is_scrypt() {
            return Err(SecretError(
                "it is encrypted with a passphrase, which cannot be requested here; encrypt it for a key".to_owned(),
            ));
        }
        let identities = self.identities.iter().map(|identity| &**identity);
        let opened = decryptor.decrypt(identities).map_err(|error| match error {
            DecryptError::NoMatchingKeys => self.no_key(),
            error => damaged(&error),
        })?;
        let mut content = Vec::new();
        opened.take(MAX_SIZE + 1).read_to_end(&mut content).map_err(|error| damaged(&reason(&error)))?;
        if content.len() as u64 > MAX_SIZE {
            return Err(SecretError("the encrypted value is too large".to_owned()));
        }
        Ok(content)
    }

    fn no_key(&self) -> SecretError {
        let others = (!self.files.is_empty()).then(|| {
            let files = self.files.join(" and ");
            format!("it is not encrypted for {files}; encrypt it again with holo-secret encrypt")
        });
        SecretError(others.into_iter().chain(self.problems.iter().cloned()).collect::<Vec<_>>().join("; "))
    }
}

fn age(content: &[u8]) -> Result<Vec<Box<dyn Identity>>, &'static str> {
    let file = IdentityFile::from_buffer(content).map_err(|_| "this is not a private key of age")?;
    let identities = file.into_identities().map_err(|_| "this is not a private key of age")?;
    Ok(identities.into_iter().map(|identity| identity as Box<dyn Identity>).collect())
}

fn ssh(content: &[u8]) -> Result<Vec<Box<dyn Identity>>, &'static str> {
    match ssh::Identity::from_buffer(content, None) {
        Ok(ssh::Identity::Unencrypted(key)) => Ok(vec![Box::new(ssh::Identity::from(key))]),
        Ok(ssh::Identity::Encrypted(_)) => Err("this key has a passphrase, which cannot be requested here"),
        Ok(ssh::Identity::Unsupported(_)) => Err("this type of key does not support encryption"),
        Err(_) => Err("this is not a private key of SSH"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn no_encrypted_value_makes_the_decryption_panic() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(AGE);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        // The example of age's specification.
        fs::write(&file, "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX\n").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let keys = Keys::read(root.path());
        let target = holo_testing::fuzz::Target::new(env!("CARGO_MANIFEST_DIR"), "values");
        assert_eq!(keys.decrypt(&target.input(0)).unwrap(), b"a secret value\n");
        let words = [
            "-> X25519 ",
            "-> scrypt ",
            "---",
            "-----BEGIN AGE ENCRYPTED FILE-----\n",
            "\n",
            "=",
            "18446744073709551615",
        ];
        target.words(&words).inputs(2000).run(|input| {
            drop(keys.decrypt(input));
            drop(age(input));
            drop(ssh(input));
        });
    }
}
