//! The key of an account, as the server meets it: who signs up shows that it has the private key, and a token opens by that
//! key alone.
//!
//! Both need no state and no secret of the database. So a copy of the database, and all that was ever sent, sign nobody in.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use escale::{Code, Error, Result};
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};
use zeroize::Zeroizing;

use super::formulas::hmac;

/// A token that the owner of a key opens, and the key of the server that it was sealed with.
pub(super) struct SealedToken {
    pub(super) server_key: [u8; 32],
    /// Nonce, ciphertext and tag.
    pub(super) sealed: Vec<u8>,
}

/// Random bytes.
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
    Ok(bytes)
}

/// The server's private key for the challenge of a sign-up. Every instance finds it again.
fn private_of(secret: &[u8; 32], challenge: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(hmac(secret, &[b"key of a challenge", challenge]))
}

/// The server's public key for the challenge of a sign-up.
pub(super) fn server_key_of(secret: &[u8; 32], challenge: &[u8; 32]) -> [u8; 32] {
    x25519(*private_of(secret, challenge), X25519_BASEPOINT_BYTES)
}

/// Whether the proof of a sign-up shows the private key of `public`, over the bytes of [`super::Auth::bytes`].
pub(super) fn is_shown(
    secret: &[u8; 32],
    challenge: &[u8; 32],
    public: &[u8; 32],
    auth: &[u8],
    proof: &[u8; 32],
) -> bool {
    let private = private_of(secret, challenge);
    let server_key = x25519(*private, X25519_BASEPOINT_BYTES);
    shared(&private, public).is_some_and(|shared| {
        let key = key_for("sign-up", &shared, &server_key, public);
        // Digests under another key are compared: the time tells nothing of the proof that was expected.
        hmac(&key, &[&hmac(&key, &[auth])]) == hmac(&key, &[proof])
    })
}

/// Seals a token to the owner of `public`, for the request with these bytes of [`super::Auth::bytes`]. None if the key is
/// none that anybody could own.
pub(super) fn seal_token(public: &[u8; 32], auth: &[u8], token: &str) -> Result<Option<SealedToken>> {
    let private = Zeroizing::new(random::<32>()?);
    let server_key = x25519(*private, X25519_BASEPOINT_BYTES);
    let Some(shared) = shared(&private, public) else { return Ok(None) };
    let key = key_for("token", &shared, &server_key, public);
    let nonce = random::<12>()?;
    let payload = Payload { msg: token.as_bytes(), aad: auth };
    let sealed = Aes256Gcm::new(&Key::<Aes256Gcm>::from(*key))
        .encrypt(&Nonce::from(nonce), payload)
        .map_err(|_| Error::new(Code::Internal, "a token could not be sealed"))?;
    Ok(Some(SealedToken { server_key, sealed: [nonce.as_slice(), &sealed].concat() }))
}

/// The secret of two keys. None for a point of low order: everybody would know it.
fn shared(private: &[u8; 32], public: &[u8; 32]) -> Option<Zeroizing<[u8; 32]>> {
    let shared = Zeroizing::new(x25519(*private, *public));
    (*shared != [0; 32]).then_some(shared)
}

fn key_for(
    purpose: &str,
    shared: &[u8; 32],
    server_key: &[u8; 32],
    public: &[u8; 32],
) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(hmac(shared, &[b"escale/1/", purpose.as_bytes(), &[0], server_key, public]))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::accounts::Auth;

    const VECTORS: &str = include_str!("../../../tests/vectors/accounts.json");

    #[test]
    fn every_formula_of_keys_gives_the_bytes_of_the_vectors() {
        let vectors: serde_json::Value = serde_json::from_str(VECTORS).unwrap();
        let list = vectors["accounts"].as_array().unwrap();
        assert!(list.len() >= 3);
        for vector in list {
            let text = |name: &str| vector[name].as_str().unwrap();
            let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)).unwrap();
            let [private, public, challenge, nonce] = ["serverPrivate", "pub", "challenge", "nonce"]
                .map(|name| <[u8; 32]>::try_from(bytes(name)).unwrap());
            let server_key = x25519(private, X25519_BASEPOINT_BYTES);
            assert_eq!(server_key.as_slice(), bytes("serverKey"));
            let shared = shared(&private, &public).unwrap();
            let mut auth = Auth {
                request: "sign-up",
                org: text("org"),
                login: text("login"),
                wrap: "",
                challenge: &challenge,
                nonce: &nonce,
                rounds: 0,
                kdf: "none",
                other: &bytes("signUpOther"),
            };
            assert_eq!(Sha256::digest(auth.bytes()).as_slice(), bytes("signUpAuth"));
            let key = key_for("sign-up", &shared, &server_key, &public);
            assert_eq!(hmac(&key, &[&auth.bytes()]).as_slice(), bytes("signUpProof"));
            let (other, key) = (bytes("other"), key_for("token", &shared, &server_key, &public));
            auth = Auth { request: "sign-in", wrap: text("wrap"), kdf: text("kdf"), other: &other, ..auth };
            auth.rounds = vector["rounds"].as_u64().unwrap() as u32;
            let sealed = bytes("sealedToken");
            let payload = Payload { msg: &sealed[12..], aad: &auth.bytes() };
            let nonce = Nonce::from(*sealed.first_chunk::<12>().unwrap());
            let token = Aes256Gcm::new(&Key::<Aes256Gcm>::from(*key)).decrypt(&nonce, payload).unwrap();
            assert_eq!(token, text("token").as_bytes());
        }
    }

    /// The points of low order (RFC 7748, section 6.1), in one form each, and one of them in another.
    const LOW: [&str; 6] = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ];

    #[test]
    fn a_key_that_everybody_owns_shows_nothing_and_gets_no_token() {
        let (secret, challenge, auth) = ([7; 32], [8; 32], b"auth");
        for low in LOW {
            let mut public = [0; 32];
            for (at, byte) in public.iter_mut().enumerate() {
                *byte = u8::from_str_radix(&low[2 * at..2 * at + 2], 16).unwrap_or_default();
            }
            let server_key = server_key_of(&secret, &challenge);
            let proof = hmac(&key_for("sign-up", &[0; 32], &server_key, &public), &[auth]);
            assert!(!is_shown(&secret, &challenge, &public, auth, &proof), "{low}");
            assert!(seal_token(&public, auth, "token").is_ok_and(|sealed| sealed.is_none()), "{low}");
        }
    }

    #[test]
    fn a_proof_of_the_key_fits_one_site_one_challenge_and_one_message() {
        let (secret, challenge, private) = ([7; 32], [8; 32], [9; 32]);
        let public = x25519(private, X25519_BASEPOINT_BYTES);
        let server_key = server_key_of(&secret, &challenge);
        let key = key_for("sign-up", &x25519(private, server_key), &server_key, &public);
        let proof = hmac(&key, &[b"auth"]);
        assert!(is_shown(&secret, &challenge, &public, b"auth", &proof));
        assert!(!is_shown(&[1; 32], &challenge, &public, b"auth", &proof), "another site");
        assert!(!is_shown(&secret, &[1; 32], &public, b"auth", &proof), "another challenge");
        assert!(!is_shown(&secret, &challenge, &public, b"other", &proof), "another message");
        for bit in 0..256 {
            let mut altered = proof;
            altered[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_shown(&secret, &challenge, &public, b"auth", &altered), "bit {bit}");
        }
    }
}
