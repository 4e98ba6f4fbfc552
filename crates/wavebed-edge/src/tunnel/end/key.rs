//! Keys: Ed25519, in files that their owner alone reads.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde::Deserialize;
use wavebed_os::unix;

/// Bytes of a public key (RFC 8032).
const PUBLIC_BYTES: usize = 32;
/// What comes before it in its `SubjectPublicKeyInfo` (RFC 8410, section 4).
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// No key file is larger.
const MAX_BYTES: u64 = 4096;

/// The public half of a key, which names an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PublicKey([u8; PUBLIC_BYTES]);

impl PublicKey {
    /// Its `SubjectPublicKeyInfo`, DER: what TLS shows of a raw public key (RFC 7250).
    pub fn spki(self) -> Vec<u8> {
        [&SPKI_PREFIX[..], &self.0].concat()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&hexadecimal(&self.0))
    }
}

impl TryFrom<String> for PublicKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes = bytes_of(&text).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| {
            format!(
                "a public key has 64 hexadecimal digits, `{text}` is none: write what `wavebed-edge tunnel key FILE` \
                 prints at the other end"
            )
        })
    }
}

/// A private key.
pub struct PrivateKey {
    pkcs8: Vec<u8>,
    public: PublicKey,
}

impl PrivateKey {
    /// Makes a key and writes it to `file`, which must not exist.
    ///
    /// # Errors
    /// One line: the file exists or cannot be made.
    pub fn create(file: &Path) -> Result<Self, String> {
        let failed = |error: &dyn fmt::Display| format!("{}: {error}", file.display());
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .map_err(|_| failed(&"the system gives no random numbers"))?;
        let key = Self::of(document.as_ref().to_vec()).map_err(|error| failed(&error))?;
        let mut to = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(file)
            .map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => failed(&"there is such a file already"),
                _ => failed(&error),
            })?;
        writeln!(to, "{}", hexadecimal(&key.pkcs8)).map_err(|error| failed(&error))?;
        Ok(key)
    }

    /// Reads the key of `file`.
    ///
    /// # Errors
    /// One line: it is no key, or others own it or may read it.
    pub fn read(file: &Path) -> Result<Self, String> {
        let failed = |error: &dyn fmt::Display| format!("{}: {error}", file.display());
        let text = unix::read_private(file, MAX_BYTES).map_err(|error| failed(&error))?;
        let bytes = bytes_of(text.trim()).ok_or_else(|| failed(&Self::NONE))?;
        Self::of(bytes).map_err(|error| failed(&error))
    }

    const NONE: &'static str = "this is no key: make one by `wavebed-edge tunnel key FILE`";

    fn of(pkcs8: Vec<u8>) -> Result<Self, String> {
        let pair = Ed25519KeyPair::from_pkcs8(&pkcs8).map_err(|_| Self::NONE.to_owned())?;
        let public = pair
            .public_key()
            .as_ref()
            .try_into()
            .map_err(|_| Self::NONE)?;
        Ok(Self {
            pkcs8,
            public: PublicKey(public),
        })
    }

    /// The public half.
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    /// The key as rustls takes it.
    pub fn pkcs8(&self) -> PrivatePkcs8KeyDer<'_> {
        PrivatePkcs8KeyDer::from(self.pkcs8.as_slice())
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits = |byte: &u8| [byte >> 4, byte & 15];
    let digit = |value| char::from_digit(u32::from(value), 16);
    bytes.iter().flat_map(digits).filter_map(digit).collect()
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_written_once_and_read_back_by_its_owner_only() {
        let folder = std::env::temp_dir().join(format!("wavebed-key-{}", std::process::id()));
        // Left by a test that was killed, in a process of the same number.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).expect("a folder");
        let file = folder.join("key");
        let made = PrivateKey::create(&file).expect("made");
        assert!(PrivateKey::create(&file).is_err_and(|error| error.contains("already")));
        let read = PrivateKey::read(&file).expect("read");
        assert_eq!(read.public(), made.public());
        let text = made.public().to_string();
        assert_eq!(PublicKey::try_from(text), Ok(made.public()));
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("chmod");
        assert!(PrivateKey::read(&file).is_err_and(|error| error.contains("chmod 600")));
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("chmod");
        if std::os::unix::fs::chown(&file, Some(65534), None).is_ok() {
            // Only root gives a file to another user.
            let refused = PrivateKey::read(&file).err().expect("refused");
            assert!(refused.contains("belongs to user 65534"), "{refused}");
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in ["", "zz", "abc", "é€", &"ab".repeat(31)] {
            assert!(PublicKey::try_from(text.to_owned()).is_err(), "{text}");
        }
        assert!(PrivateKey::of(vec![1, 2, 3]).is_err());
    }
}
