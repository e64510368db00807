//! Names of modules.

use std::fmt;
use std::path::PathBuf;

/// The collection of Ansible's own modules.
const BUILTIN: &str = "ansible.builtin";
/// Its name in playbooks in which custom modules take precedence.
const LEGACY: &str = "ansible.legacy";

/// The full name of a module: `NAMESPACE.COLLECTION.NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ModuleName {
    /// `None` for a module of Ansible itself.
    collection: Option<(String, String)>,
    /// The rest, with dots for subfolders of the collection.
    name: String,
}

impl ModuleName {
    /// Parses a name in a definition: a full name, or a single word for a module of Ansible itself.
    ///
    /// # Errors
    /// The reason why the name is invalid.
    pub(crate) fn parse(text: &str) -> Result<ModuleName, String> {
        let is_part = |part: &str| {
            let letters = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
            !part.is_empty() && part.bytes().all(letters)
        };
        let parts: Vec<&str> = text.split('.').collect();
        let wrong = || Err(format!("{text:?} is not a module's name, such as \"copy\" or \"ansible.posix.sysctl\""));
        if !parts.iter().all(|part| is_part(part)) {
            return wrong();
        }
        match parts[..] {
            [name] => Ok(ModuleName::builtin(name)),
            [namespace, collection, ref name @ ..] if !name.is_empty() => {
                let full = format!("{namespace}.{collection}");
                let is_builtin = full == BUILTIN || full == LEGACY;
                let collection = (!is_builtin).then(|| (namespace.to_owned(), collection.to_owned()));
                Ok(ModuleName { collection, name: name.join(".") })
            }
            _ => wrong(),
        }
    }

    /// Returns the name of a module of Ansible itself.
    pub(crate) fn builtin(name: &str) -> ModuleName {
        ModuleName { collection: None, name: name.to_owned() }
    }

    /// Returns the short name if it is a module of Ansible itself.
    pub(crate) fn as_builtin(&self) -> Option<&str> {
        self.collection.is_none().then_some(&*self.name)
    }

    /// Returns the collection, unless it is a module of Ansible itself.
    pub(crate) fn collection(&self) -> Option<(&str, &str)> {
        self.collection.as_ref().map(|(namespace, name)| (&**namespace, &**name))
    }

    /// Returns the path of the module below the folder of modules, without its suffix.
    pub(crate) fn path(&self) -> PathBuf {
        self.name.split('.').collect()
    }

    /// Returns the name for importing it in Python.
    pub(crate) fn in_python(&self) -> String {
        match &self.collection {
            None => format!("ansible.modules.{}", self.name),
            Some((namespace, collection)) => {
                format!("ansible_collections.{namespace}.{collection}.plugins.modules.{}", self.name)
            }
        }
    }
}

impl fmt::Display for ModuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.collection {
            None => write!(f, "{BUILTIN}.{}", self.name),
            Some((namespace, collection)) => write!(f, "{namespace}.{collection}.{}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_module_of_ansible_itself() {
        for text in ["copy", "ansible.builtin.copy", "ansible.legacy.copy"] {
            let name = ModuleName::parse(text).unwrap();
            assert_eq!(
                (name.to_string().as_str(), name.as_builtin()),
                ("ansible.builtin.copy", Some("copy")),
                "{text}"
            );
            assert_eq!((name.in_python().as_str(), name.collection()), ("ansible.modules.copy", None));
        }
    }

    #[test]
    fn other_modules_have_a_collection_and_perhaps_folders() {
        let name = ModuleName::parse("ansible.posix.sysctl").unwrap();
        assert_eq!((name.to_string().as_str(), name.as_builtin()), ("ansible.posix.sysctl", None));
        assert_eq!(name.in_python(), "ansible_collections.ansible.posix.plugins.modules.sysctl");
        let name = ModuleName::parse("community.general.files.ini_file").unwrap();
        assert_eq!(name.collection(), Some(("community", "general")));
        assert_eq!(name.path(), PathBuf::from("files/ini_file"));
        assert_eq!(name.in_python(), "ansible_collections.community.general.plugins.modules.files.ini_file");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["", ".", "a.b", "Copy", "a b", "a/b", "..a", "a..b.c", "ansible.builtin", "ansible.posix.", "cöpy"]
        {
            assert!(ModuleName::parse(text).is_err(), "{text:?}");
        }
    }
}
