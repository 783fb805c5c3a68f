//! The formulas, by vectors that Node computes too (tests/js/accounts/formulas.test.mjs).

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use escale::codec::pack;
use escale::model::Value;
use escale_server::accounts::{Auth, account_id, is_proven, signature};
use sha2::{Digest, Sha256};

use super::support::*;

const VECTORS: &str = include_str!("../../../../tests/vectors/accounts.json");

fn field<'v>(vector: &'v serde_json::Value, name: &str) -> &'v str {
    vector[name].as_str().unwrap()
}

fn octets(vector: &serde_json::Value, name: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(field(vector, name)).unwrap()
}

/// RFC 7677, section 3: the exchange of SCRAM-SHA-256.
#[test]
fn r74_the_proof_is_that_of_scram() {
    let decoded = |text: &str| STANDARD.decode(text).unwrap();
    let auth = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
        r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
        c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    let salted: [u8; 32] = decoded("xKSVEDI6tPlSysH6mUQZOeeOp01r6B3fcJbodRPcYV0=").try_into().unwrap();
    let proof: [u8; 32] = decoded("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").try_into().unwrap();
    let stored: [u8; 32] = Sha256::digest(hmac(&salted, b"Client Key")).into();
    assert!(is_proven(&stored, auth.as_bytes(), &proof));
    for bit in 0..256 {
        let mut altered = proof;
        altered[bit / 8] ^= 1 << (bit % 8);
        assert!(!is_proven(&stored, auth.as_bytes(), &altered), "bit {bit}");
    }
    let server = hmac(&salted, b"Server Key");
    let expected = decoded("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    assert_eq!(signature(&server, auth.as_bytes(), b"", b"").as_slice(), expected);
}

#[test]
fn r72_r74_every_formula_gives_the_bytes_of_the_vectors() {
    let vectors: serde_json::Value = serde_json::from_str(VECTORS).unwrap();
    let list = vectors["accounts"].as_array().unwrap();
    assert!(list.len() >= 3);
    for vector in list {
        let (org, login) = (field(vector, "org"), field(vector, "login"));
        let salt = Sha256::digest(format!("escale/1/{org}/{login}"));
        assert_eq!(salt.as_slice(), octets(vector, "salt"));
        let x: [u8; 32] = octets(vector, "x").try_into().unwrap();
        let public: [u8; 32] = octets(vector, "pub").try_into().unwrap();
        assert_eq!(account_id(org, &public), field(vector, "account"));
        let stored: [u8; 32] = Sha256::digest(derive(&x, "sign-in")).into();
        assert_eq!(stored.as_slice(), octets(vector, "stored"));
        let server = derive(&x, "server");
        assert_eq!(server.as_slice(), octets(vector, "server"));
        let device = Value::Map(
            vector["device"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, value)| (name.clone(), Value::from(value.as_str().unwrap())))
                .collect(),
        );
        let other = pack(&Map::from([("device".to_owned(), device)])).unwrap();
        assert_eq!(other, octets(vector, "other"));
        let auth = Auth {
            request: "sign-in",
            org,
            login,
            wrap: field(vector, "wrap"),
            challenge: &octets(vector, "challenge").try_into().unwrap(),
            nonce: &octets(vector, "nonce").try_into().unwrap(),
            rounds: vector["rounds"].as_u64().unwrap() as u32,
            kdf: field(vector, "kdf"),
            other: &other,
        }
        .bytes();
        assert_eq!(Sha256::digest(&auth).as_slice(), octets(vector, "auth"));
        assert!(is_proven(&stored, &auth, &octets(vector, "proof").try_into().unwrap()));
        let wrapped = octets(vector, "wrapped");
        assert_eq!(signature(&server, &auth, &public, &wrapped).as_slice(), octets(vector, "signature"));
    }
}
