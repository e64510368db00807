//! Finds the name that a misspelt one probably stands for.

/// At most one in this many letters of a word may differ.
const SLIPS: usize = 3;
/// The maximum length in bytes of words that are compared.
const MAX_LENGTH: usize = 160;

/// Returns the word that was probably meant, if any is similar enough.
#[must_use]
pub fn similar<'w>(written: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let plain = |word: &str| word.to_ascii_lowercase().replace(['-', ' '], "_");
    let written = plain(written);
    // Comparing long words is slow.
    if written.len() > MAX_LENGTH {
        return None;
    }
    let all = words.into_iter().filter(|word| word.len().abs_diff(written.len()) * SLIPS <= word.len() + SLIPS);
    let all = all.map(|word| {
        let word_plain = plain(word);
        // An extra or missing s is the most common slip, even in short words.
        let is_plural =
            written.strip_suffix('s') == Some(&word_plain) || word_plain.strip_suffix('s') == Some(&written);
        let distance = if is_plural { 1 } else { strsim::damerau_levenshtein(&written, &word_plain) };
        // So are two transposed letters.
        let is_slip = is_plural || (distance == 1 && sorted(&written) == sorted(&word_plain));
        (distance, is_slip, word)
    });
    let close = all.filter(|(distance, is_slip, word)| *is_slip || *distance * SLIPS < word.len());
    close.min_by_key(|(distance, ..)| *distance).map(|(.., word)| word)
}

fn sorted(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
}

/// Returns a question that suggests the similar word.
#[must_use]
pub fn did_you_mean<'w>(written: &str, words: impl IntoIterator<Item = &'w str>) -> Option<String> {
    similar(written, words).map(|word| format!("did you mean {word}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        let words = ["name", "ensure", "refresh_only", "path", "mode", "if", "now", "git"];
        for (written, meant) in [
            ("nmae", Some("name")),
            ("Name", Some("name")),
            ("names", Some("name")),
            ("ensrue", Some("ensure")),
            ("refreshonly", Some("refresh_only")),
            ("refresh-only", Some("refresh_only")),
            ("Mode", Some("mode")),
            ("state", None),
            ("x", None),
            ("of", None),
            ("mod", Some("mode")),
            ("pat", Some("path")),
            ("not", None),
            ("gti", Some("git")),
            ("got", None),
            ("", None),
        ] {
            assert_eq!(similar(written, words), meant, "{written}");
        }
    }
}
