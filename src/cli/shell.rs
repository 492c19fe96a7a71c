//! Words of a command line that a user can paste into a shell.

/// The word as a shell argument, in single quotes if it contains characters that a shell would interpret.
pub fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "/._-=:%+,".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
