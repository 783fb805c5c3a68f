//! A client of the endpoint `account`, whose secrets are X themselves: nothing here derives a key from a passphrase.

use std::collections::BTreeMap;

use escale::codec::pack;
use escale::model::Value;
use escale::{Code, Result};
use escale_server::accounts::{AccountTokens, Auth, Entered, SignUp, answer, signature};
use escale_server::engine::Engine;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

pub type Map = BTreeMap<String, Value>;

pub const ORG: &str = "o";

/// The key of an account, by a number.
pub fn public_of(n: u8) -> [u8; 32] {
    sha(&[b"public", &[n]])
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
    pub fn bearer(&self, token: &str) -> Option<Entered> {
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
        let mut request = request_of("sign-up", login);
        request.insert("pub".into(), Value::Bytes(public_of(public).to_vec()));
        request.insert("wraps".into(), Value::Array(wraps));
        if let Some(invite) = invite {
            request.insert("invite".into(), Value::from(invite));
        }
        Ok(text("account", &self.ask(&Value::Map(request), None)?))
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
        let request = self.proven("sign-in", login, secret, other.clone());
        let answer = self.ask(&Value::Map(request.clone()), None)?;
        let of_request = |name: &str| bytes(name, &Value::Map(request.clone()));
        let nonce: [u8; 32] = of_request("nonce").try_into().unwrap();
        let auth = auth_of("sign-in", login, secret, &other, (&of_request("challenge"), &nonce));
        let (public, wrapped) = (bytes("pub", &answer), bytes("wrapped", &answer));
        assert_eq!(wrapped, secret.wrapped());
        let signed = signature(&derive(&secret.x, "server"), &auth, &public, &wrapped);
        assert_eq!(bytes("signature", &answer), signed);
        Ok((text("token", &answer), text("device", &answer)))
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
