//! The server's journal: a `persist` for each document written, sealed as documents are.

use std::path::Path;

use escale::codec::Row;
use escale::model::Pk;
use escale_server::engine::Engine;
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::support::operating::*;
use crate::support::world::*;

type Line = (String, bool, u64, String, String, String);

fn raw(folder: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(Engine::database_in(folder)).unwrap()
}

fn lines(folder: &Path) -> Vec<Line> {
    let connection = raw(folder);
    let sql = "SELECT goblin, action IS NULL, version, type, commitId, timestamp FROM actions ORDER BY rowid";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn each_document_written_is_a_persist_of_its_operation() {
    let world = operating();
    let actor = |id: &str| format!("o/Note@{}", escale::model::sha_s(id));
    let ops = vec![
        op("p", 1, "doc.put", put_args("a", "one")),
        op("refused", 2, "doc.delete", key_args("b")),
        op("d", 3, "doc.delete", key_args("a")),
    ];
    let reply = send(&world.engine, ops.clone());
    send(&world.engine, ops);
    let by_import = put(&world.engine, note("c", "one")).unwrap().unwrap();
    let v = |at: usize| reply.results[at].ok.as_ref().unwrap().v;
    let expected = [
        (actor("a"), false, v(0), "p".to_owned()),
        (actor("a"), true, v(2), "d".to_owned()),
        (actor("c"), false, by_import, format!("v{by_import}")),
    ];
    let seen = lines(world.folder.path());
    assert_eq!(seen.len(), expected.len());
    for ((actor, deleted, v, kind, commit, time), expected) in seen.into_iter().zip(expected) {
        assert_eq!((kind.as_str(), time), ("persist", escale::journal::iso8601(v)));
        assert_eq!((actor, deleted, v, commit), expected);
    }
}

/// Whether any file of the folder contains that text.
pub fn holds(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds(&path, text);
        }
        std::fs::read(path).unwrap().windows(text.len()).any(|window| window == text.as_bytes())
    })
}

fn deletion_of(id: &str, v: u64) -> Row {
    Row { pk: Pk::from_key(&[id]).unwrap(), v, deleted: true, max_life: None, data: None }
}

#[test]
fn a_site_key_seals_the_journal_and_the_results_too() {
    const SECRET: &str = "a text that stands nowhere else";
    let World { folder, clock, engine } = operating();
    let ops = vec![
        op("1", 1, "doc.put", put_args("a", SECRET)),
        op("2", 2, "doc.put", with(put_args("a", "one"), "ifVersion", escale::model::Value::from(1))),
        op("3", 3, "doc.delete", key_args("a")),
    ];
    let first = send(&engine, ops.clone());
    assert_eq!(told(&first), [("1", "ok"), ("2", "version_conflict"), ("3", "ok")]);
    drop(engine);
    assert!(holds(folder.path(), SECRET), "in clear without a site key");
    // A conflict tells the row as it is when it is asked again.
    let mut again = first.results.clone();
    again[1].fault.as_mut().unwrap().doc = Some(deletion_of("a", first.results[2].ok.as_ref().unwrap().v));
    let sealed =
        || open_with(folder.path(), &clock, Settings::default(), Seal::with_key(&[7; 32]).adopting());
    let engine = sealed();
    assert_eq!(send(&engine, ops.clone()).results, again);
    send(&engine, vec![op("4", 4, "doc.put", put_args("b", SECRET))]);
    drop(engine);
    assert!(!holds(folder.path(), SECRET), "sealed, what was before and what came after");
    assert_eq!(send(&sealed(), ops).results, again);
}

#[test]
fn a_database_from_before_operations_is_brought_up_to_date() {
    let World { folder, clock, engine } = operating();
    let v = put(&engine, note("a", "one")).unwrap();
    drop(engine);
    let earlier = raw(folder.path());
    earlier
        .execute_batch(
            "DROP TABLE sessions; DROP TABLE ops; DROP TABLE actions; DROP TABLE spent;
             DROP TABLE trees; DROP TABLE files; DROP TABLE file_refs; DROP TABLE file_chunks;
             DROP TABLE file_uploads; DROP TABLE purges;
             INSERT INTO meta SELECT 'highest', CAST(CAST(highest AS TEXT) AS BLOB) FROM heads;
             INSERT INTO meta SELECT 'horizon', CAST(CAST(horizon AS TEXT) AS BLOB) FROM heads;
             CREATE TABLE orgs (org TEXT PRIMARY KEY) WITHOUT ROWID, STRICT;
             INSERT INTO orgs SELECT org FROM heads;
             DROP TABLE heads;
             DELETE FROM meta WHERE name IN ('commits', 'last_epoch', 'generation');
             PRAGMA user_version = 1;",
        )
        .unwrap();
    drop(earlier);
    let old = escale_server::engine::epoch_of(&Engine::database_in(folder.path()), None).unwrap_err();
    assert!(old.detail().contains("format 1"), "{}", old.detail());
    let engine = open_with(folder.path(), &clock, Settings::default(), Seal::clear());
    assert_eq!(Some(pull(&engine, &def("Note"), 0).rows[0].v), v);
    assert_eq!(told(&send(&engine, vec![op("1", 1, "doc.put", put_args("b", "one"))])), [("1", "ok")]);
    assert_eq!(lines(folder.path()).len(), 1);
}
