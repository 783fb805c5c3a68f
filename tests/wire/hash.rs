//! The two hashes, compared with vectors made elsewhere.

use escale::model::{sha_s, sha32};

#[derive(serde::Deserialize)]
struct Vectors {
    hashes: Vec<Vector>,
}

#[derive(serde::Deserialize)]
#[allow(non_snake_case)] // as the vectors spell them
struct Vector {
    s: Text,
    sha32: String,
    shaS: String,
}

/// A text, or a repeated one.
#[derive(Debug, serde::Deserialize)]
#[serde(untagged)]
enum Text {
    Plain(String),
    Repeated { repeat: String, times: usize },
}

#[test]
fn the_hashes_of_the_vectors() {
    let vectors: Vectors = serde_json::from_str(include_str!("../vectors/hash.json")).expect("vectors");
    assert!(vectors.hashes.len() > 3);
    for vector in vectors.hashes {
        let text = match &vector.s {
            Text::Plain(text) => text.clone(),
            Text::Repeated { repeat, times } => repeat.repeat(*times),
        };
        assert_eq!(sha32(&text), vector.sha32, "sha32 of {:?}", vector.s);
        assert_eq!(sha_s(&text), vector.shaS, "shaS of {:?}", vector.s);
        assert_eq!((vector.sha32.len(), vector.shaS.len()), (43, 22));
    }
}
