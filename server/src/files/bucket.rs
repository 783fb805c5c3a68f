//! Objects in a bucket of a store that speaks the protocol of Amazon S3: `{prefix}/{shaS of the org}/{name}`.
//!
//! The store's answer to a put says that the object is durable, and its listings ascend by name. The keys of the store
//! are in the environment, as for any other of its clients.

use std::sync::Arc;

use escale::model::sha_s;
use escale::{Code, Error, Result};
use futures_util::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::runtime::{Builder, Runtime};

use super::{BUCKET, Files};

/// Objects in a bucket.
#[derive(Debug)]
pub struct BucketFiles {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// Carries the requests. It is here to end last.
    runtime: Option<Runtime>,
}

impl BucketFiles {
    /// The objects at `s3://BUCKET` or `s3://BUCKET/PREFIX`, with keys, region and endpoint from `AWS_ACCESS_KEY_ID` and
    /// its like. Errors: `bad_option`.
    pub fn open(address: &str) -> Result<Self> {
        let bad = |what: &str| Error::new(Code::BadOption, format!("--files {address}: {what}"));
        let rest = address.strip_prefix(BUCKET).ok_or_else(|| bad("write it as s3://BUCKET/PREFIX"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        // An error says that another part of the program has chosen before. There is one choice only.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let store = AmazonS3Builder::from_env().with_bucket_name(bucket).build();
        let store = store.map_err(|error| bad(&error.to_string()))?;
        Self::over(Arc::new(store), prefix.trim_end_matches('/'))
    }

    /// The objects of any store. Its listings must ascend.
    pub fn over(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("files")
            .enable_all()
            .build()
            .map_err(|error| Error::new(Code::Internal, error.to_string()))?;
        Ok(BucketFiles { store, prefix: Path::from(prefix), runtime: Some(runtime) })
    }

    fn of_org(&self, org: &str) -> Path {
        self.prefix.clone().join(sha_s(org))
    }

    fn path(&self, org: &str, name: &str) -> Path {
        self.of_org(org).join(name)
    }

    /// Waits for an answer of the store, on a thread that may wait.
    fn wait<T>(&self, asked: impl Future<Output = object_store::Result<T>>) -> Result<T> {
        let runtime = self.runtime.as_ref().expect("held until dropped");
        runtime
            .block_on(asked)
            .map_err(|error| Error::new(Code::StorageFailed, format!("the store: {error}")))
    }
}

impl Files for BucketFiles {
    fn put(&self, org: &str, name: &str, bytes: &[u8]) -> Result<()> {
        self.wait(self.store.put(&self.path(org, name), bytes.to_vec().into())).map(drop)
    }

    fn get(&self, org: &str, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.path(org, name);
        let read = async {
            match self.store.get(&path).await {
                Ok(found) => found.bytes().await.map(|bytes| Some(bytes.to_vec())),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.wait(read)
    }

    fn delete(&self, org: &str, name: &str) -> Result<()> {
        let path = self.path(org, name);
        let deleted = async {
            match self.store.delete(&path).await {
                Err(object_store::Error::NotFound { .. }) => Ok(()),
                ended => ended,
            }
        };
        self.wait(deleted)
    }

    fn list(&self, org: &str, after: &str, limit: usize) -> Result<Vec<String>> {
        let folder = self.of_org(org);
        let offset = if after.is_empty() { folder.clone() } else { folder.clone().join(after) };
        let read = async {
            let mut listed = self.store.list_with_offset(Some(&folder), &offset);
            let mut names = Vec::new();
            while names.len() < limit
                && let Some(found) = listed.try_next().await?
            {
                names.extend(found.location.filename().map(str::to_owned));
            }
            Ok(names)
        };
        self.wait(read)
    }

    fn orgs(&self) -> Result<Vec<String>> {
        let listed = self.wait(self.store.list_with_delimiter(Some(&self.prefix)))?;
        let mut orgs: Vec<String> =
            listed.common_prefixes.iter().filter_map(|folder| folder.filename().map(str::to_owned)).collect();
        orgs.sort();
        Ok(orgs)
    }
}

impl Drop for BucketFiles {
    fn drop(&mut self) {
        // The last owner may be a task of another runtime, which must not wait for this one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
