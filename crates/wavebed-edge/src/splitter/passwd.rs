//! Users of `/etc/passwd`.

use std::path::Path;

use wavebed_os::unix;

/// No such file is larger.
const MAX_BYTES: u64 = 1 << 20;

/// The number of `user`, which is a name or a number.
///
/// # Errors
/// One line: no such user, or it is root.
pub fn user_id(user: &str) -> Result<u32, String> {
    let number = if let Ok(number) = user.parse() {
        Some(number)
    } else {
        let text = unix::read_text(Path::new("/etc/passwd"), MAX_BYTES)
            .map_err(|error| format!("user: /etc/passwd {error}"))?;
        find(&text, user)
    };
    match number {
        None => Err(format!(
            "user: this machine has no user `{user}`: write `nobody` or a number"
        )),
        Some(0) => Err(format!("user: `{user}` is root: write `nobody`")),
        Some(number) => Ok(number),
    }
}

fn find(text: &str, user: &str) -> Option<u32> {
    text.lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.first() == Some(&user))
        .and_then(|fields| fields.get(2)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let text = "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";
        assert_eq!(find(text, "nobody"), Some(65534));
        assert_eq!(find(text, "nobod"), None);
        assert_eq!(user_id("1234"), Ok(1234));
        assert!(user_id("0").is_err());
    }
}
