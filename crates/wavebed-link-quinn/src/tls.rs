//! TLS for simulations: a raw public key (RFC 7250) that everybody can read here. Nothing else is as quick to make, and
//! no certificate has to be signed or renewed. For anything but simulations it is worthless.

use std::sync::Arc;

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::version::TLS13;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// PKCS #8 (RFC 8410) around an Ed25519 key of 32 bytes.
const PKCS8_HEAD: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
const KEY: [u8; 32] = *b"a key for simulations, no secret";
const PROTOCOL: &[u8] = b"simulation";

fn signing_key() -> Arc<dyn SigningKey> {
    let pkcs8 = [&PKCS8_HEAD[..], &KEY].concat();
    ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8)).expect("a constant")
}

fn public_key() -> SubjectPublicKeyInfoDer<'static> {
    let key = signing_key();
    key.public_key().expect("Ed25519 has one").into_owned()
}

/// A server that shows the key of this module.
///
/// # Panics
/// Never: its parts are constants.
#[must_use]
pub fn server_config() -> quinn_proto::ServerConfig {
    let shown = CertificateDer::from(public_key().as_ref().to_vec());
    let own = Arc::new(CertifiedKey::new(vec![shown], signing_key()));
    let mut config =
        rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has TLS 1.3")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(own)));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    let crypto = QuicServerConfig::try_from(config).expect("the provider has QUIC's first suite");
    quinn_proto::ServerConfig::with_crypto(Arc::new(crypto))
}

/// A client that takes the key of this module and no other.
///
/// # Panics
/// Never: its parts are constants.
#[must_use]
pub fn client_config() -> quinn_proto::ClientConfig {
    let mut config =
        rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Known))
            .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    let crypto = QuicClientConfig::try_from(config).expect("the provider has QUIC's first suite");
    quinn_proto::ClientConfig::new(Arc::new(crypto))
}

/// Takes the key of this module.
#[derive(Debug)]
struct Known;

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if end_entity.as_ref() == public_key().as_ref() {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("QUIC has no TLS 1.2".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        let key = SubjectPublicKeyInfoDer::from(cert.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, dss, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
