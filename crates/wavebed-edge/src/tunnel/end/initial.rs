//! Authentication of a connection's first packet: the connecting end puts a message authentication code into the
//! connection ID that it chooses (RFC 9000, section 7.2), and the listening end answers no other.

use std::fmt;

use quinn::ConnectionId;
use ring::digest::{self, digest};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::key::PublicKey;

/// RFC 9000 wants 64 unpredictable bits.
const NONCE_BYTES: usize = 8;
/// HMAC-SHA-256, cut to what is left: RFC 2104, section 5, wants 80 bits at least.
const CODE_BYTES: usize = 12;
/// The longest connection ID.
const ID_BYTES: usize = NONCE_BYTES + CODE_BYTES;
/// Separates this use of the keys from others.
const PURPOSE: &[u8] = b"wavebed-tunnel/1 first connection ID";

/// A key that both ends derive from both public keys. TLS 1.3 encrypts these, and each end shows its own to the other
/// only: who records packets does not learn them.
#[derive(Clone)]
pub struct InitialKey(hmac::Key);

impl fmt::Debug for InitialKey {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("InitialKey")
    }
}

impl InitialKey {
    /// The key of the listening and the connecting end.
    pub fn new(listening: PublicKey, connecting: PublicKey) -> Self {
        let all = [PURPOSE, &listening.spki(), &connecting.spki()].concat();
        let secret = digest(&digest::SHA256, &all);
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_ref()))
    }

    /// A connection ID for a new connection.
    pub fn connection_id(&self) -> ConnectionId {
        let mut id = [0; ID_BYTES];
        let (nonce, code) = id.split_at_mut(NONCE_BYTES);
        // The kernel's random numbers do not fail once it has given some; zeros would be authentic, too.
        let _ = SystemRandom::new().fill(nonce);
        code.copy_from_slice(&self.code(nonce));
        ConnectionId::new(&id)
    }

    /// Whether an end with this key made `id`.
    pub fn made(&self, id: &[u8]) -> bool {
        let Some((nonce, code)) = id.split_at_checked(NONCE_BYTES) else {
            return false;
        };
        let expected = self.code(nonce);
        // In constant time: the time of a comparison must not tell how much of a guess is right.
        let differs = expected
            .iter()
            .zip(code)
            .fold(0, |all, (a, b)| all | (a ^ b));
        code.len() == CODE_BYTES && differs == 0
    }

    fn code(&self, nonce: &[u8]) -> [u8; CODE_BYTES] {
        let mut code = [0; CODE_BYTES];
        code.copy_from_slice(&hmac::sign(&self.0, nonce).as_ref()[..CODE_BYTES]);
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(digit: &str) -> PublicKey {
        PublicKey::try_from(digit.repeat(64)).expect("a key")
    }

    #[test]
    fn an_id_is_taken_by_ends_with_the_same_keys_only() {
        let (one, other, third) = (public("1"), public("2"), public("3"));
        let key = InitialKey::new(one, other);
        let id = key.connection_id();
        assert!(InitialKey::new(one, other).made(&id));
        assert!(!InitialKey::new(other, one).made(&id));
        assert!(!InitialKey::new(one, third).made(&id));
        assert_ne!(id, key.connection_id());
    }

    #[test]
    fn an_id_that_was_changed_or_cut_is_refused() {
        let key = InitialKey::new(public("1"), public("2"));
        let id = key.connection_id();
        for bit in 0..id.len() * 8 {
            let mut changed = id.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.made(&changed), "bit {bit}");
        }
        for bytes in 0..id.len() {
            assert!(!key.made(&id[..bytes]), "{bytes} bytes");
        }
        assert!(!key.made(&[&id[..], &[0]].concat()));
    }
}
