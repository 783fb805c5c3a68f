//! A client of the endpoint `account`, whose secrets are X themselves: nothing here derives a key from a passphrase.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use escale::codec::pack;
use escale::model::Value;
use escale::{Code, Result};
use escale_server::accounts::{AccountTokens, Auth, SignUp, SignedIn, answer, signature};
use escale_server::engine::Engine;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};

pub type Map = BTreeMap<String, Value>;

pub const ORG: &str = "o";

/// The private key of an account, by a number.
pub fn private_of(n: u8) -> [u8; 32] {
    sha(&[b"private", &[n]])
}

/// Its public key.
pub fn public_of(n: u8) -> [u8; 32] {
    x25519(private_of(n), X25519_BASEPOINT_BYTES)
}

/// The private key of one of these public keys.
fn owner_of(public: &[u8]) -> [u8; 32] {
    static OWNERS: OnceLock<HashMap<[u8; 32], [u8; 32]>> = OnceLock::new();
    let owners = OWNERS.get_or_init(|| (0..=u8::MAX).map(|n| (public_of(n), private_of(n))).collect());
    owners[public]
}

/// The key that the owner of a private key shares with a server, for one purpose.
pub fn shared_key(private: [u8; 32], server_key: &[u8], purpose: &str) -> [u8; 32] {
    let shared = x25519(private, server_key.try_into().unwrap());
    let public = x25519(private, X25519_BASEPOINT_BYTES);
    hmac(&shared, &[b"escale/1/", purpose.as_bytes(), &[0], server_key, &public].concat())
}

/// The token of an answer to a sign-in, if this private key opens it.
pub fn token_of(private: [u8; 32], answer: &Value, auth: &[u8]) -> Option<String> {
    let key = shared_key(private, &bytes("serverKey", answer), "token");
    let sealed = bytes("token", answer);
    let (nonce, msg) = sealed.split_first_chunk::<12>()?;
    let cipher = Aes256Gcm::new(&Key::<Aes256Gcm>::from(key));
    let opened = cipher.decrypt(&Nonce::from(*nonce), Payload { msg, aad: auth }).ok()?;
    Some(String::from_utf8(opened).unwrap())
}

fn sha(parts: &[&[u8]]) -> [u8; 32] {
    Sha256::digest(parts.concat()).into()
}

pub fn derive(x: &[u8; 32], purpose: &str) -> [u8; 32] {
    hmac(x, &[b"escale/1/", purpose.as_bytes(), &[0]].concat())
}

pub fn hmac(key: &[u8; 32], bytes: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(bytes);
    mac.finalize().into_bytes().into()
}

/// A secret, and the wrap that it opens.
#[derive(Clone, Debug, PartialEq)]
pub struct Secret {
    pub id: String,
    pub by: &'static str,
    pub x: [u8; 32],
}

impl Secret {
    pub fn passphrase(text: &str) -> Self {
        Secret { id: "passphrase".into(), by: "passphrase", x: sha(&[b"x", text.as_bytes()]) }
    }

    pub fn code(text: &str) -> Self {
        Secret { id: format!("code-{text}"), by: "code", x: sha(&[b"c", text.as_bytes()]) }
    }

    pub fn passkey(text: &str) -> Self {
        Secret { id: format!("key-{text}"), by: "passkey", x: sha(&[b"p", text.as_bytes()]) }
    }

    pub fn rounds(&self) -> u32 {
        if self.by == "passphrase" { 600_000 } else { 0 }
    }

    pub fn kdf(&self) -> &'static str {
        if self.by == "passphrase" { "pbkdf2" } else { "none" }
    }

    pub fn stored(&self) -> [u8; 32] {
        sha(&[&derive(&self.x, "sign-in")])
    }

    pub fn wrap(&self) -> Value {
        map([
            ("id", Value::from(self.id.as_str())),
            ("by", Value::from(self.by)),
            ("kdf", Value::from(self.kdf())),
            ("rounds", Value::from(i64::from(self.rounds()))),
            ("wrapped", Value::Bytes(self.wrapped())),
            ("stored", Value::Bytes(self.stored().to_vec())),
            ("server", Value::Bytes(derive(&self.x, "server").to_vec())),
        ])
    }

    /// Stands for the sealed key: the server does not look into it.
    pub fn wrapped(&self) -> Vec<u8> {
        [hmac(&self.x, b"one").as_slice(), &hmac(&self.x, b"two")[..28]].concat()
    }
}

pub fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

pub fn text(name: &str, value: &Value) -> String {
    value.as_map().unwrap()[name].as_str().unwrap().to_owned()
}

pub fn bytes(name: &str, value: &Value) -> Vec<u8> {
    match &value.as_map().unwrap()[name] {
        Value::Bytes(bytes) => bytes.clone(),
        other => panic!("{name} is {other:?}"),
    }
}

/// The requests of clients at one engine.
pub struct Desk<'e> {
    pub engine: &'e Engine,
    pub sign_up: SignUp,
    nonce: std::cell::Cell<u8>,
}

impl<'e> Desk<'e> {
    pub fn new(engine: &'e Engine) -> Self {
        Desk { engine, sign_up: SignUp::Open, nonce: std::cell::Cell::default() }
    }

    /// Sends a request, with the token's bearer as the transport finds it.
    pub fn ask(&self, request: &Value, token: Option<&str>) -> Result<Value> {
        let entered = token.and_then(|token| self.bearer(token));
        answer(self.engine, ORG, self.sign_up, request, entered.as_ref())
    }

    /// The bearer of a token, by a new instance.
    pub fn bearer(&self, token: &str) -> Option<SignedIn> {
        AccountTokens::default().enter(self.engine, ORG, token).unwrap()
    }

    pub fn sign_up(
        &self,
        login: &str,
        public: u8,
        secrets: &[&Secret],
        invite: Option<&str>,
    ) -> Result<String> {
        let wraps = secrets.iter().map(|secret| secret.wrap()).collect();
        let request = self.signing_up(login, public, wraps, invite)?;
        Ok(text("account", &self.ask(&Value::Map(request), None)?))
    }

    /// A sign-up with the proof of its key.
    pub fn signing_up(&self, login: &str, n: u8, wraps: Vec<Value>, invite: Option<&str>) -> Result<Map> {
        let started = self.ask(&Value::Map(request_of("start", login)), None)?;
        Ok(self.signing_up_with(&started, (ORG, login), (private_of(n), public_of(n)), wraps, invite))
    }

    /// The same for an answer to `start`. The private key need not be that of the public one.
    pub fn signing_up_with(
        &self,
        started: &Value,
        (org, login): (&str, &str),
        (private, public): ([u8; 32], [u8; 32]),
        wraps: Vec<Value>,
        invite: Option<&str>,
    ) -> Map {
        let mut other = Map::from([
            ("pub".to_owned(), Value::Bytes(public.to_vec())),
            ("wraps".to_owned(), Value::Array(wraps)),
        ]);
        other.extend(invite.map(|invite| ("invite".to_owned(), Value::from(invite))));
        self.nonce.set(self.nonce.get().wrapping_add(1));
        let (challenge, nonce) = (bytes("challenge", started), [self.nonce.get(); 32]);
        let auth = Auth {
            request: "sign-up",
            org,
            login,
            wrap: "",
            challenge: challenge.as_slice().try_into().unwrap(),
            nonce: &nonce,
            rounds: 0,
            kdf: "none",
            other: &pack(&other).unwrap(),
        };
        let proof = hmac(&shared_key(private, &bytes("serverKey", started), "sign-up"), &auth.bytes());
        let mut request = request_of("sign-up", login);
        request.extend(other);
        request.insert("challenge".into(), Value::Bytes(challenge));
        request.insert("nonce".into(), Value::Bytes(nonce.to_vec()));
        request.insert("proof".into(), Value::Bytes(proof.to_vec()));
        request
    }

    pub fn challenge(&self, login: &str, wrap: &str) -> (Vec<u8>, String, u64) {
        let mut request = request_of("start", login);
        request.insert("wrap".into(), Value::from(wrap));
        let answer = self.ask(&Value::Map(request), None).unwrap();
        let rounds = answer.as_map().unwrap()["rounds"].as_u64().unwrap();
        (bytes("challenge", &answer), text("kdf", &answer), rounds)
    }

    /// A request with a proof.
    pub fn proven(&self, name: &str, login: &str, secret: &Secret, other: Map) -> Map {
        let challenge = self.challenge(login, &secret.id).0;
        self.proven_with(name, login, secret, other, challenge)
    }

    pub fn proven_with(
        &self,
        name: &str,
        login: &str,
        secret: &Secret,
        other: Map,
        challenge: Vec<u8>,
    ) -> Map {
        self.nonce.set(self.nonce.get().wrapping_add(1));
        let nonce = [self.nonce.get(); 32];
        let auth = auth_of(name, login, secret, &other, (&challenge, &nonce));
        let mask = hmac(&secret.stored(), &auth);
        let key = derive(&secret.x, "sign-in");
        let proof = key.iter().zip(mask).map(|(key, mask)| key ^ mask).collect();
        let mut request = request_of(name, login);
        request.extend(other);
        request.insert("wrap".into(), Value::from(secret.id.as_str()));
        request.insert("challenge".into(), Value::Bytes(challenge));
        request.insert("nonce".into(), Value::Bytes(nonce.to_vec()));
        request.insert("proof".into(), Value::Bytes(proof));
        request
    }

    /// Signs in, and returns token and device. Checks the server's signature and the wrapped key.
    pub fn sign_in(&self, login: &str, secret: &Secret, device: Option<&str>) -> Result<(String, String)> {
        let mut of = Map::new();
        if let Some(id) = device {
            of.insert("id".into(), Value::from(id));
        }
        let other = Map::from([("device".to_owned(), Value::Map(of))]);
        let request = self.proven("sign-in", login, secret, other);
        let answer = self.ask(&Value::Map(request.clone()), None)?;
        let auth = auth_of_sign_in(login, secret, &request);
        let (public, wrapped) = (bytes("pub", &answer), bytes("wrapped", &answer));
        assert_eq!(wrapped, secret.wrapped());
        let signed = signature(&derive(&secret.x, "server"), &auth, &public, &wrapped);
        assert_eq!(bytes("signature", &answer), signed);
        let token = token_of(owner_of(&public), &answer, &auth).expect("a token for the owner");
        Ok((token, text("device", &answer)))
    }

    pub fn change(
        &self,
        (login, token): (&str, &str),
        secret: &Secret,
        put: &[&Secret],
        remove: &[&str],
        others: bool,
    ) -> Result<Value> {
        let mut other = Map::new();
        other.insert("put".into(), Value::Array(put.iter().map(|secret| secret.wrap()).collect()));
        other.insert("remove".into(), Value::Array(remove.iter().map(|id| Value::from(*id)).collect()));
        if others {
            other.insert("revoke".into(), Value::from("others"));
        }
        self.ask(&Value::Map(self.proven("wraps", login, secret, other)), Some(token))
    }

    pub fn simple(&self, name: &str, token: &str) -> Result<Value> {
        self.ask(&map([("p", Value::from(1)), ("do", Value::from(name))]), Some(token))
    }

    pub fn revoke(&self, token: &str, device: &str) -> Result<Value> {
        let request =
            map([("p", Value::from(1)), ("do", Value::from("revoke")), ("device", Value::from(device))]);
        self.ask(&request, Some(token))
    }

    pub fn close(&self, (login, token): (&str, &str), secret: &Secret) -> Result<Value> {
        self.ask(&Value::Map(self.proven("close", login, secret, Map::new())), Some(token))
    }
}

pub fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
    result.expect_err("a refusal").code()
}

fn request_of(name: &str, login: &str) -> Map {
    let Value::Map(map) =
        map([("p", Value::from(1)), ("do", Value::from(name)), ("login", Value::from(login))])
    else {
        unreachable!()
    };
    map
}

/// The bytes that the proof of a sign-in covers.
pub fn auth_of_sign_in(login: &str, secret: &Secret, request: &Map) -> Vec<u8> {
    let field = |name: &str| bytes(name, &Value::Map(request.clone()));
    let other = Map::from([("device".to_owned(), request["device"].clone())]);
    let nonce: [u8; 32] = field("nonce").try_into().unwrap();
    auth_of("sign-in", login, secret, &other, (&field("challenge"), &nonce))
}

fn auth_of(name: &str, login: &str, secret: &Secret, other: &Map, at: (&[u8], &[u8; 32])) -> Vec<u8> {
    Auth {
        request: name,
        org: ORG,
        login,
        wrap: &secret.id,
        challenge: at.0.try_into().unwrap(),
        nonce: at.1,
        rounds: secret.rounds(),
        kdf: secret.kdf(),
        other: &pack(other).unwrap(),
    }
    .bytes()
}
