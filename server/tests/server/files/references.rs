//! References in operations, the right to objects, quotas of uploads, and seals.

use std::sync::Arc;

use escale::Code;
use escale::codec::{Fault, FilesRequest, Op, SyncRequest};
use escale::model::schema::Schema;
use escale::model::{Value, sha_s};
use escale_server::clock::ManualClock;
use escale_server::engine::{
    Audit, Caller, Engine, Filing, Object, Opening, Put, Side, first_site, sha_of, with_files,
};
use escale_server::files::{Files, MemoryFiles};
use escale_server::mark::Mark;
use escale_server::provider::{MemoryDatabase, MemoryProvider};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::support::world::{DAY, NOON};

const SCHEMA: &str = r#"{ "Note": { "key": ["id"], "properties": { "file": "file", "files": "file[]" } } }"#;
const MIB: usize = 1 << 20;

struct World {
    engine: Engine,
    clock: Arc<ManualClock>,
    files: MemoryFiles,
    database: Arc<MemoryDatabase>,
    ops: std::cell::Cell<u64>,
}

fn open(schema: &str, settings: Settings, seal: Seal) -> World {
    let database = MemoryDatabase::new(first_site(1).unwrap());
    open_on(&database, &MemoryFiles::default(), schema, settings, seal)
}

fn open_on(
    database: &Arc<MemoryDatabase>,
    files: &MemoryFiles,
    schema: &str,
    settings: Settings,
    seal: Seal,
) -> World {
    let clock = ManualClock::at(NOON);
    let opening =
        Opening { schema: Schema::from_json(schema).unwrap(), settings, seal, clock: clock.clone() };
    let provider = MemoryProvider::open(database);
    let engine = Engine::over(Box::new(provider), Mark::none(), opening, 7).unwrap();
    let engine = with_files(engine, Box::new(files.clone())).unwrap();
    World { engine, clock, files: files.clone(), database: database.clone(), ops: std::cell::Cell::new(0) }
}

fn of(account: &str) -> Caller {
    Caller { account: account.into(), may_write: true, is_admin: false, ..Caller::default() }
}

fn plain(bytes: &[u8]) -> Object {
    Object::new(&sha_of(bytes), None, bytes.to_vec(), 1 << 31).unwrap()
}

/// The list of these chunks.
fn list(chunks: &[&[u8]]) -> Object {
    use base64::Engine as _;
    let digest =
        |chunk: &&[u8]| base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(sha_of(chunk)).unwrap();
    let bytes: Vec<u8> = chunks.iter().flat_map(digest).collect();
    let size = chunks.iter().map(|chunk| chunk.len() as u64).sum();
    Object::new(&sha_of(&bytes), Some(size), bytes, 1 << 31).unwrap()
}

fn reference(sha: &str, size: u64) -> Value {
    Value::from([("sha", Value::from(sha)), ("size", Value::from(size as i64))])
}

fn put_args(id: &str, property: &'static str, value: Value) -> Value {
    let data = Value::from([("id", Value::from(id)), (property, value)]);
    Value::from([("class", Value::from("Note")), ("data", data)])
}

impl World {
    fn put(&self, account: &str, object: &Object) -> Result<Put, Code> {
        Filing::of(&self.engine).put_object("o", &of(account), object).map_err(|error| error.code())
    }

    fn get(&self, account: &str, sha: &str) -> Result<Vec<u8>, Code> {
        Filing::of(&self.engine).object("o", &of(account), sha).map_err(|error| error.code())
    }

    fn run(&self, account: &str, name: &str, args: Value) -> Option<Fault> {
        let seq = self.ops.get() + 1;
        self.ops.set(seq);
        let session = format!("{account}-{seq}");
        let op = Op { id: session.clone(), seq: 1, name: name.into(), args, at: 0, after: None };
        let request = SyncRequest { ops: vec![op], ..SyncRequest::of(session) };
        self.engine.sync("o", &of(account), &request).unwrap().results.remove(0).fault
    }

    /// The code of the end of a put of a note with one file.
    fn refer(&self, account: &str, id: &str, sha: &str, size: u64) -> String {
        let fault = self.run(account, "doc.put", put_args(id, "file", reference(sha, size)));
        fault.map_or("ok".into(), |fault| fault.code)
    }

    fn until(&self, sha: &str) -> Option<u64> {
        self.engine.provider().read().unwrap().files().file("o", sha).unwrap().expect("the object").until
    }
}

#[test]
fn r23_a_reference_has_the_size_of_its_file() {
    let world = open(SCHEMA, Settings::default(), Seal::clear());
    let (chunk, rest) = (vec![7; MIB], b"rest");
    let long = list(&[&chunk, rest]);
    for object in [&plain(&chunk), &plain(rest), &long] {
        assert!(matches!(world.put("x", object), Ok(Put::Kept(_))));
    }
    let size = (MIB + rest.len()) as u64;
    assert_eq!(world.refer("x", "1", long.sha(), size), "ok");
    assert_eq!(world.refer("x", "1", long.sha(), size - 1), "bad_value");
    // The same bytes are a file, too.
    assert_eq!(world.refer("x", "1", long.sha(), 64), "ok");
    assert_eq!(world.refer("x", "1", &sha_of(rest), 5), "bad_value");
    assert_eq!(world.refer("x", "1", &sha_of(&chunk), MIB as u64), "ok");
    assert_eq!(world.refer("x", "1", &sha_of(rest), size), "file_missing", "it is no list");
}

#[test]
fn r25_the_fault_names_what_is_missing_and_nothing_is_written() {
    let world = open(SCHEMA, Settings::default(), Seal::clear());
    let (one, two) = (plain(b"one"), plain(b"two"));
    world.put("x", &one).unwrap();
    let both = Value::Array(vec![reference(one.sha(), 3), reference(two.sha(), 3), reference(two.sha(), 3)]);
    let fault = world.run("x", "doc.put", put_args("1", "files", both)).expect("a fault");
    assert_eq!((fault.code.as_str(), fault.files), ("file_missing", vec![two.sha().to_owned()]));
    assert!(world.until(one.sha()).is_some(), "the reference to the other one was undone");
    // The end of the operation counts.
    let delete = Value::from([("class", Value::from("Note")), ("key", Value::Array(vec![Value::from("2")]))]);
    let part = |name: &str, args: Value| Value::from([("name", Value::from(name)), ("args", args)]);
    let put = put_args("2", "file", reference(two.sha(), 3));
    let batch = Value::Array(vec![part("doc.put", put), part("doc.delete", delete)]);
    assert_eq!(world.run("x", "batch", Value::from([("ops", batch)])), None);
}

#[test]
fn r25_deadlines_of_uploads_and_of_files() {
    let world = open(SCHEMA, Settings::default(), Seal::clear());
    let object = plain(b"one");
    assert_eq!(world.put("x", &object), Ok(Put::Kept(NOON + 7 * DAY)));
    world.clock.advance(DAY);
    let have = FilesRequest { p: 1, have: vec![object.sha().into(), plain(b"two").sha().into()] };
    let reply = Filing::of(&world.engine).have("o", &of("x"), &have).unwrap();
    assert_eq!((reply.there, reply.until), (vec![object.sha().to_owned()], NOON + 8 * DAY));
    assert_eq!(world.until(object.sha()), Some(NOON + 8 * DAY));
    assert_eq!(world.refer("x", "1", object.sha(), 3), "ok");
    assert_eq!(world.until(object.sha()), None);
    world.clock.advance(100 * DAY);
    assert_eq!(world.run("x", "doc.put", put_args("1", "file", Value::Null)), None);
    let until = world.until(object.sha()).expect("its last reference has ended");
    assert!((NOON + 131 * DAY..NOON + 131 * DAY + 1_000).contains(&until), "{until}");
}

#[test]
fn lists_name_chunks_that_are_there_and_have_their_lengths() {
    let world = open(SCHEMA, Settings::default(), Seal::clear());
    let (chunk, short) = (vec![7; MIB], vec![7; MIB - 1]);
    let good = list(&[&chunk, &chunk, b"end"]);
    let missing = world.put("x", &good).unwrap();
    let mut names = vec![sha_of(&chunk), sha_of(b"end")];
    names.sort();
    assert_eq!(missing, Put::Missing(names));
    for object in [plain(&chunk), plain(&short), plain(b"end")] {
        world.put("x", &object).unwrap();
    }
    assert!(matches!(world.put("x", &good), Ok(Put::Kept(_))));
    assert_eq!(world.until(&sha_of(&chunk)), None, "the list references it");
    // Only the last chunk of a list is shorter.
    let bad = list(&[&short, &chunk]);
    assert_eq!(world.put("x", &bad), Err(Code::BadValue));
    assert_eq!(world.files.all().len(), 4, "nothing of it is in the store");
    // An object that was stored as plain bytes becomes a list.
    let again = list(&[&chunk, &chunk]);
    let bytes = [again.clone()].map(|object| plain(&bytes_of(&object)));
    world.put("x", &bytes[0]).unwrap();
    assert_eq!(world.refer("x", "1", again.sha(), 2 << 20), "file_missing");
    assert!(matches!(world.put("x", &again), Ok(Put::Kept(_))));
    assert_eq!(world.refer("x", "1", again.sha(), 2 << 20), "ok");
}

fn bytes_of(list: &Object) -> Vec<u8> {
    list.bytes().to_vec()
}

#[test]
fn damaged_bytes_and_wrong_lists_are_refused_by_name() {
    let code = |sha: &str, list: Option<u64>, bytes: Vec<u8>| {
        Object::new(sha, list, bytes, 1 << 31).map(drop).map_err(|error| error.code())
    };
    let sha = sha_of(b"one");
    assert_eq!(code(&sha, None, b"two".to_vec()), Err(Code::FileDamaged));
    assert_eq!(code(&sha, None, vec![0; MIB + 1]), Err(Code::TooLarge));
    let list = vec![0; 64];
    let of = |size| code(&sha_of(&list), Some(size), list.clone());
    assert_eq!(of(2 << 20), Ok(()));
    assert_eq!(of((1 << 20) + 1), Ok(()));
    assert_eq!(of(1 << 20), Err(Code::BadValue));
    assert_eq!(of((2 << 20) + 1), Err(Code::BadValue));
    assert_eq!(of((2 << 30) + 1), Err(Code::TooLarge));
    assert_eq!(of(u64::MAX), Err(Code::TooLarge));
}

#[test]
fn an_account_has_room_for_so_many_unreferenced_uploads() {
    let settings = Settings { uploads_max: 3, upload_bytes_max: 2_500, ..Settings::default() };
    let world = open(SCHEMA, settings, Seal::clear());
    let object = |n: u8| plain(&vec![n; 1_000]);
    for n in 0..2 {
        assert!(matches!(world.put("x", &object(n)), Ok(Put::Kept(_))));
    }
    assert_eq!(world.put("x", &object(2)), Err(Code::QuotaExceeded));
    assert_eq!(world.files.all().len(), 2, "no bytes are stored for it");
    assert!(matches!(world.put("x", &object(0)), Ok(Put::Kept(_))), "again");
    assert!(matches!(world.put("y", &object(2)), Ok(Put::Kept(_))), "another account has its own room");
    assert_eq!(world.refer("x", "1", object(0).sha(), 1_000), "ok");
    assert!(matches!(world.put("x", &object(2)), Ok(Put::Kept(_))), "a referenced file takes no room");
    assert_eq!(world.put("x", &object(3)), Err(Code::QuotaExceeded));
    world.clock.advance(8 * DAY);
    world.engine.purge().unwrap();
    assert!(matches!(world.put("x", &object(3)), Ok(Put::Kept(_))), "the others are past their time");
    for n in 4..6 {
        assert!(matches!(world.put("x", &plain(&[n])), Ok(Put::Kept(_))));
    }
    assert_eq!(world.put("x", &plain(&[7])), Err(Code::QuotaExceeded), "three objects");
}

const RIGHTS: &str = r#"{ "Note": { "key": ["id"], "properties": { "file": "file", "owner": "string" },
    "rights": { "read": { "own": "owner" } } } }"#;

/// A note of `owner` with a file.
fn owned(id: &str, owner: &str, sha: &str, size: u64) -> Value {
    let file = reference(sha, size);
    let data = Value::from([("id", Value::from(id)), ("owner", Value::from(owner)), ("file", file)]);
    Value::from([("class", Value::from("Note")), ("data", data)])
}

/// R86: to know a hash is no right.
#[test]
fn r86_objects_are_for_uploaders_and_readers() {
    let world = open(RIGHTS, Settings::default(), Seal::clear());
    let (chunk, end) = (vec![7; MIB], b"end");
    let (one, long) = (plain(b"one"), list(&[&chunk, end]));
    for object in [&one, &plain(&chunk), &plain(end), &long] {
        world.put("x", object).unwrap();
    }
    let have = |account: &str| {
        let have = vec![one.sha().to_owned(), long.sha().to_owned()];
        Filing::of(&world.engine).have("o", &of(account), &FilesRequest { p: 1, have }).unwrap().there.len()
    };
    assert_eq!((have("x"), have("y")), (2, 0));
    assert_eq!(world.get("x", one.sha()), Ok(b"one".to_vec()));
    assert_eq!(world.get("y", one.sha()), Err(Code::NotFound));
    // A document of one's own that names the hash gives no right to the bytes.
    let fault = world.run("y", "doc.put", owned("1", "y", one.sha(), 3)).expect("a fault");
    assert_eq!((fault.code.as_str(), fault.files.len()), ("file_missing", 1));
    assert_eq!(
        world.put("y", &long),
        Ok(Put::Missing({
            let mut names = vec![sha_of(&chunk), sha_of(end)];
            names.sort();
            names
        }))
    );
    // The bytes themselves do.
    world.put("y", &one).unwrap();
    assert_eq!(world.run("y", "doc.put", owned("1", "y", one.sha(), 3)), None);
    // A document shows its file to its readers, with the chunks.
    let size = (MIB + end.len()) as u64;
    assert_eq!(world.run("x", "doc.put", owned("2", "z", long.sha(), size)), None);
    assert_eq!(world.get("z", long.sha()).map(|list| list.len()), Ok(64));
    assert_eq!(world.get("z", &sha_of(end)), Ok(end.to_vec()));
    assert_eq!(world.get("z", one.sha()), Err(Code::NotFound));
    assert_eq!(world.get("y", &sha_of(end)), Err(Code::NotFound));
    // Who may read it may write it elsewhere.
    assert_eq!(world.run("z", "doc.put", owned("3", "z", long.sha(), size)), None);
}

/// R86: the bytes of a list show nothing of its chunks, whichever way a reference comes to name the file.
#[test]
fn r86_a_reference_that_names_its_object_as_another_file_is_new() {
    let with_any = RIGHTS.replace(r#""owner": "string""#, r#""owner": "string", "other": "any""#);
    let with_file = RIGHTS.replace(r#""owner": "string""#, r#""owner": "string", "other": "file""#);
    let world = open(&with_any, Settings::default(), Seal::clear());
    let (chunk, end, one) = (vec![7; MIB], b"end", plain(b"one"));
    let long = list(&[&chunk, end]);
    for object in [&plain(&chunk), &plain(end), &long, &one] {
        world.put("x", object).unwrap();
    }
    let size = (MIB + end.len()) as u64;
    assert_eq!(world.run("x", "doc.put", owned("0", "x", long.sha(), size)), None);
    // A former reader kept the list, and uploads its bytes as a file of their own.
    world.put("y", &plain(&bytes_of(&long))).unwrap();
    assert_eq!(world.run("y", "doc.put", owned("1", "y", long.sha(), 64)), None);
    let code = |fault: Option<Fault>| fault.map_or("ok".into(), |fault| fault.code);
    let patch_of = |id: &str, property: &'static str, value: Value| {
        let key = Value::Array(vec![Value::from(id)]);
        Value::from([("class", Value::from("Note")), ("key", key), ("set", Value::from([(property, value)]))])
    };
    let patch = |property: &'static str, value: Value| patch_of("1", property, value);
    for change in [owned("1", "y", long.sha(), size), owned("2", "y", long.sha(), size)] {
        assert_eq!(code(world.run("y", "doc.put", change)), "file_missing");
    }
    let larger = patch("file", reference(long.sha(), size));
    assert_eq!(code(world.run("y", "doc.patch", larger)), "file_missing");
    assert_eq!(world.get("y", &sha_of(end)), Err(Code::NotFound));
    assert_eq!(
        code(world.run("x", "doc.put", owned("0", "x", long.sha(), 64))),
        "ok",
        "the list is a file, too"
    );
    assert_eq!(code(world.run("x", "doc.put", owned("0", "x", long.sha(), size))), "ok");
    // Who may read a document may copy its file, also while the same write changes that document.
    assert_eq!(code(world.run("x", "doc.put", owned("4", "z", long.sha(), size))), "ok");
    let part = |name: &str, args: Value| Value::from([("name", Value::from(name)), ("args", args)]);
    let moved = part("doc.patch", patch_of("4", "file", Value::Null));
    let copied = part("doc.put", owned("5", "z", long.sha(), size));
    let batch = Value::from([("ops", Value::Array(vec![moved, copied]))]);
    assert_eq!(code(world.run("z", "batch", batch)), "ok");
    // A property that becomes a file later: nobody was asked when it was written.
    assert_eq!(code(world.run("y", "doc.patch", patch("other", reference(long.sha(), size)))), "ok");
    let data = [("id", Value::from("3")), ("owner", Value::from("y")), ("other", reference(one.sha(), 3))];
    let put = Value::from([("class", Value::from("Note")), ("data", Value::from(data))]);
    assert_eq!(code(world.run("y", "doc.put", put)), "ok");
    let world = World {
        ops: world.ops.clone(),
        ..open_on(&world.database, &world.files, &with_file, Settings::default(), Seal::clear())
    };
    for sha in [sha_of(end), one.sha().to_owned()] {
        assert_eq!(world.get("y", &sha), Err(Code::NotFound));
    }
    assert_eq!(world.until(long.sha()), None, "the other document keeps its reference");
    assert_eq!(world.get("x", &sha_of(end)), Ok(end.to_vec()));
    let unchanged = patch("owner", Value::from("y"));
    assert_eq!(code(world.run("y", "doc.patch", unchanged)), "ok", "nothing is written");
    assert_eq!(code(world.run("y", "doc.patch", patch("more", Value::from(1_i64)))), "file_missing");
}

#[test]
fn a_role_that_only_reads_uploads_nothing() {
    let world = open(SCHEMA, Settings::default(), Seal::clear());
    let reader = Caller { may_write: false, ..of("x") };
    let code = Filing::of(&world.engine).put_object("o", &reader, &plain(b"one")).unwrap_err().code();
    let have = FilesRequest { p: 1, have: vec![] };
    assert_eq!(
        (code, Filing::of(&world.engine).have("o", &reader, &have).unwrap_err().code()),
        (Code::Forbidden, Code::Forbidden)
    );
    assert_eq!(world.files.all(), []);
}

#[test]
fn with_a_site_key_objects_are_sealed_to_their_org_and_hash() {
    let world = open(SCHEMA, Settings::default(), Seal::with_key(&[7; 32]));
    let (one, two) = (plain(&b"secret".repeat(9)), plain(b"two"));
    world.put("x", &one).unwrap();
    world.put("x", &two).unwrap();
    let names: Vec<String> = world.files.all().into_iter().map(|(_, name)| name).collect();
    let stored = |object: &Object| {
        let name = names.iter().find(|name| name.starts_with(object.sha())).unwrap();
        (name.clone(), world.files.get("o", name).unwrap().unwrap())
    };
    let ((_, sealed), (other, _)) = (stored(&one), stored(&two));
    assert!(!sealed.windows(6).any(|bytes| bytes == b"secret"));
    assert_eq!(world.get("x", one.sha()), Ok(b"secret".repeat(9)));
    world.files.put("o", &other, &sealed).unwrap();
    assert_eq!(world.get("x", two.sha()), Err(Code::StorageFailed), "bytes of another object");
}

#[test]
fn an_audit_finds_damaged_bytes_and_says_whether_a_document_needs_them() {
    let world = open(SCHEMA, Settings::default(), Seal::clear());
    for bytes in [b"one", b"two", b"six"] {
        world.put("x", &plain(bytes)).unwrap();
    }
    assert_eq!(world.refer("x", "1", &sha_of(b"one"), 3), "ok");
    for (org, name) in world.files.all().into_iter().filter(|(_, name)| !name.starts_with(&sha_of(b"six"))) {
        world.files.put(&org, &name, b"\0other").unwrap();
    }
    let mut told = Vec::new();
    let mut tell = |side, _: &str, name: &str| {
        told.push((name.to_owned(), side));
        Ok(())
    };
    let audit = Filing::of(&world.engine).audit_files(true, &mut tell).unwrap();
    assert_eq!(audit, Audit { objects: 3, lost: 2, unknown: 1, unknown_orgs: 0 });
    told.retain(|(_, side)| *side != Side::Unknown);
    told.sort_by_key(|(name, _)| *name == sha_of(b"two"));
    let lost = |bytes: &[u8], is_referenced| (sha_of(bytes), Side::Lost { is_referenced });
    assert_eq!(told, [lost(b"one", true), lost(b"two", false)]);
    assert_eq!(world.get("x", &sha_of(b"two")), Err(Code::NotFound), "it was forgotten");
    assert_eq!(world.until(&sha_of(b"one")), None, "the document keeps its reference");
}

/// The database is from an old copy, and the store has swept a list since then.
#[test]
fn an_audit_that_forgets_a_list_gives_its_chunks_a_deadline() {
    let world = open(SCHEMA, Settings::default(), Seal::clear());
    let (chunk, end) = (vec![7; 1 << 20], b"end");
    let long = list(&[&chunk, end]);
    for object in [&plain(&chunk), &plain(end), &long] {
        world.put("x", object).unwrap();
    }
    assert_eq!(world.until(&sha_of(&chunk)), None, "the list has it");
    for (org, name) in world.files.all().into_iter().filter(|(_, name)| name.starts_with(long.sha())) {
        world.files.delete(&org, &name).unwrap();
    }
    let audit = Filing::of(&world.engine).audit_files(true, &mut |_, _, _| Ok(())).unwrap();
    assert_eq!(audit, Audit { objects: 3, lost: 1, ..Audit::default() });
    for bytes in [&chunk[..], end] {
        assert!(world.until(&sha_of(bytes)).is_some(), "nothing lists it any more");
    }
}

#[test]
fn an_audit_names_an_org_that_the_database_does_not_know_and_leaves_its_objects() {
    let world = open(SCHEMA, Settings::default(), Seal::clear());
    world.put("x", &plain(b"one")).unwrap();
    world.files.put("younger", &sha_of(b"two"), b"two").unwrap();
    let mut told = Vec::new();
    let mut tell = |side, org: &str, name: &str| {
        told.push((side, org.to_owned(), name.to_owned()));
        Ok(())
    };
    let audit = Filing::of(&world.engine).audit_files(true, &mut tell).unwrap();
    assert_eq!(audit, Audit { objects: 1, lost: 0, unknown: 0, unknown_orgs: 1 });
    assert_eq!(told, [(Side::UnknownOrg, sha_s("younger"), String::new())]);
    assert!(world.files.get("younger", &sha_of(b"two")).unwrap().is_some());
}

/// The server's own mark is in the store, next to the folders of orgs.
#[test]
fn with_a_site_key_an_audit_names_no_folder_of_the_server_itself() {
    let world = open(SCHEMA, Settings::default(), Seal::with_key(&[7; 32]));
    let audit = || {
        let mut told = Vec::new();
        let mut tell = |_, org: &str, name: &str| {
            told.push((org.to_owned(), name.to_owned()));
            Ok(())
        };
        let audit = Filing::of(&world.engine).audit_files(false, &mut tell).unwrap();
        (audit, told)
    };
    assert_eq!(audit(), (Audit::default(), vec![]), "at the start");
    world.put("x", &plain(b"one")).unwrap();
    assert_eq!(audit(), (Audit { objects: 1, ..Audit::default() }, vec![]));
    world.files.put("younger", &sha_of(b"two"), b"two").unwrap();
    let found =
        (Audit { objects: 1, unknown_orgs: 1, ..Audit::default() }, vec![(sha_s("younger"), String::new())]);
    assert_eq!(audit(), found);
}

#[test]
fn a_schema_that_declares_files_finds_the_references() {
    let settings = Settings::default();
    let any = SCHEMA.replace(r#""file": "file""#, r#""file": "any""#);
    let world = open(&any, settings.clone(), Seal::clear());
    let (one, two) = (plain(b"one"), plain(b"two"));
    world.put("x", &one).unwrap();
    assert_eq!(world.refer("x", "1", one.sha(), 3), "ok");
    assert_eq!(world.refer("x", "2", two.sha(), 3), "ok", "nobody looks at it");
    assert_eq!(world.run("x", "doc.put", put_args("3", "file", Value::from("no reference"))), None);
    let world = open_on(&world.database, &world.files, SCHEMA, settings.clone(), Seal::clear());
    assert_eq!(world.until(one.sha()), None);
    let world = open_on(&world.database, &world.files, &any, settings, Seal::clear());
    assert_eq!(world.until(one.sha()), Some(NOON + 30 * DAY));
}
