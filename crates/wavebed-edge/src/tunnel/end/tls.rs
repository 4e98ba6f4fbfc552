//! TLS 1.3 with raw public keys (RFC 7250): each end has the other's key and takes no other.

use std::sync::Arc;

use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme, version::TLS13,
};

use super::key::{PrivateKey, PublicKey};

/// The protocol's name (RFC 7301); another version of the tunnel has another one.
const PROTOCOL: &[u8] = b"wavebed-tunnel/1";

/// Takes the one key that it was made with.
#[derive(Debug)]
struct Pinned {
    spki: Vec<u8>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    fn compare(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        if shown.as_ref() == self.spki {
            Ok(())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.compare(shown)?;
        let spki = SubjectPublicKeyInfoDer::from(shown.as_ref());
        verify_tls13_signature_with_raw_key(message, &spki, signature, &self.algorithms)
    }
}

/// TLS 1.2 is not offered.
fn only_tls13() -> Error {
    Error::General("TLS 1.2 is not offered".to_owned())
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.compare(end_entity)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.compare(end_entity)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// What both kinds of end need.
struct Parts {
    provider: Arc<CryptoProvider>,
    own: Arc<CertifiedKey>,
    pinned: Arc<Pinned>,
}

fn parts(key: &PrivateKey, peer: PublicKey) -> Result<Parts, Error> {
    let provider = Arc::new(ring::default_provider());
    let signing = ring::sign::any_eddsa_type(&key.pkcs8())?;
    let shown = CertificateDer::from(key.public().spki());
    let pinned = Pinned {
        spki: peer.spki(),
        algorithms: provider.signature_verification_algorithms,
    };
    Ok(Parts {
        provider,
        own: Arc::new(CertifiedKey::new(vec![shown], signing)),
        pinned: Arc::new(pinned),
    })
}

/// The configuration of the end that connects.
pub fn client(key: &PrivateKey, peer: PublicKey) -> Result<ClientConfig, Error> {
    let parts = parts(key, peer)?;
    let mut config = ClientConfig::builder_with_provider(parts.provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(parts.pinned)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(parts.own)));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

/// The configuration of the end that listens. Data before the end of the handshake, which could be replayed, is refused.
pub fn server(key: &PrivateKey, peer: PublicKey) -> Result<ServerConfig, Error> {
    let parts = parts(key, peer)?;
    let mut config = ServerConfig::builder_with_provider(parts.provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(parts.pinned)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(parts.own)));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.max_early_data_size = 0;
    // A session that is resumed shows no key.
    config.send_tls13_tickets = 0;
    Ok(config)
}
