//! `sweep`: compared with the queries that define it, and the dry run compared with the real one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use escale::journal::{ActionMeta, ActionType, Protect, Retention, iso8601, plan};
use escale::{Code, Error};
use escale_server::engine::Engine;
use escale_server::sweep::{BATCH_ROWS, Gone, Sweep, Swept, VACUUM_ROWS, sweep_each};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rusqlite::{Connection, params};

use crate::support::operating::*;
use crate::support::world::*;

const TABLE: &str =
    "CREATE TABLE actions (goblin TEXT, action TEXT, version TEXT, type TEXT, commitId TEXT, timestamp TEXT)";

/// An action: its actor, its type, whether it is accepted, the day of its time.
type Row = (u8, u8, bool, u64);

const KINDS: [&str; 4] = ["persist", "update", "create", "other"];

fn fill(connection: &Connection, rows: &[Row]) {
    connection.execute_batch(TABLE).unwrap();
    let sql = "INSERT INTO actions VALUES (?1, '{}', '1', ?2, ?3, ?4)";
    for (actor, kind, accepted, day) in rows {
        let commit = accepted.then_some("c");
        let time = iso8601(NOON + day * DAY);
        connection.execute(sql, params![format!("a{actor}"), KINDS[*kind as usize], commit, time]).unwrap();
    }
}

fn journal(folder: &Path, name: &str, rows: &[Row]) -> PathBuf {
    let path = folder.join(name);
    fill(&Connection::open(&path).unwrap(), rows);
    path
}

/// The query of the rule, as it was first written down: by count with 100 nulls and `<`, by date with two and
/// `<=`.
fn query(limit: u32, before: Option<&str>, is_synchronised: bool) -> String {
    let nulls = vec!["(0)"; if before.is_some() { 2 } else { 100 }].join(",");
    let (older, compare) = match before {
        Some(date) => (format!("AND timestamp < '{date}'"), "<="),
        None => (String::new(), "<"),
    };
    let text = format!(
        "SELECT actions.rowid FROM actions LEFT JOIN (
           SELECT max(rowid) AS max, goblinId FROM (
             SELECT rowid, goblin AS goblinId FROM actions
             WHERE rowid BETWEEN (
                 SELECT rowid FROM actions
                 WHERE goblin = goblinId AND type = 'persist' AND commitId IS NOT NULL {older}
                 ORDER BY rowid ASC LIMIT 1
               ) AND (
                 SELECT rowid FROM (
                   SELECT rowid FROM actions
                   WHERE goblin = goblinId AND type = 'persist' AND commitId IS NOT NULL {older}
                   UNION ALL SELECT NULL AS rowid FROM (VALUES {nulls})
                   ORDER BY rowid DESC LIMIT {limit}
                 ) ORDER BY rowid ASC LIMIT 1
               )
               AND type = 'persist' AND commitId IS NOT NULL
             ORDER BY goblin, rowid ASC
           ) GROUP BY goblinId
         ) AS removeList
         WHERE actions.goblin = removeList.goblinId AND actions.rowid {compare} removeList.max"
    );
    if is_synchronised { text } else { text.replace("AND commitId IS NOT NULL", "") }
}

/// Removes by the queries, except for protected actions. Returns the removed rows.
fn by_queries(connection: &Connection, retention: &Retention, is_synchronised: bool) -> BTreeSet<i64> {
    let queries = match retention {
        Retention::Count(count) => vec![query(*count, None, is_synchronised)],
        Retention::Before(date) => vec![query(2, Some(date), is_synchronised)],
        Retention::Days { max, before } => {
            vec![query(*max, None, is_synchronised), query(2, Some(before), is_synchronised)]
        }
    };
    let kept = if is_synchronised { "AND NOT (type = 'persist' AND commitId IS NULL)" } else { "" };
    let mut gone = BTreeSet::new();
    for query in queries {
        let sql = format!("DELETE FROM actions WHERE rowid IN ({query}) {kept} RETURNING rowid");
        let mut statement = connection.prepare(&sql).unwrap();
        gone.extend(statement.query_map([], |row| row.get::<_, i64>(0)).unwrap().map(Result::unwrap));
    }
    gone
}

fn rowids(path: &Path) -> BTreeSet<i64> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare("SELECT rowid FROM actions").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn numbers(gone: &[Gone]) -> Vec<i64> {
    gone.iter().map(|gone| gone.rowid).collect()
}

/// The result of a sweep, and the rows that it passed on.
fn swept(sweep: &Sweep, path: &Path) -> (Swept, Vec<Gone>) {
    let mut told = Vec::new();
    let swept = sweep.run(path, |gone| {
        told.push(gone);
        Ok(())
    });
    (swept.unwrap(), told)
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    // Times mostly ascend with the rows, as clocks do, and sometimes not.
    let row = (0..4_u8, prop_oneof![3 => Just(0_u8), 4 => 0..4_u8], prop::bool::weighted(0.8), 0..4_u64);
    prop::collection::vec(row, 0..60).prop_map(|rows| {
        rows.into_iter().enumerate().map(|(at, (a, k, c, day))| (a, k, c, at as u64 / 2 + day)).collect()
    })
}

fn retention() -> impl Strategy<Value = Retention> {
    let date = || (0..34_u64).prop_map(|day| iso8601(NOON + day * DAY));
    prop_oneof![
        (1..8_u32).prop_map(Retention::Count),
        date().prop_map(Retention::Before),
        (1..8_u32, date()).prop_map(|(max, before)| Retention::Days { max, before }),
    ]
}

#[test]
fn sweeps_remove_what_the_queries_remove_and_dry_runs_tell_it() {
    let folder = quick_folder();
    let path = folder.path().join("j.db");
    let mut runner = TestRunner::new(cases(1_000));
    let how = (any::<bool>(), 1..9_u32, prop::option::of(0..20_usize));
    let result = runner.run(&(rows(), retention(), how), |(rows, retention, how)| {
        let (is_synchronised, batch_rows, cut_off) = how;
        let reference = Connection::open_in_memory().unwrap();
        fill(&reference, &rows);
        let expected = by_queries(&reference, &retention, is_synchronised);
        // Without waiting for the disk: 1,000 files.
        let made = Connection::open(&path).unwrap();
        made.execute_batch("PRAGMA synchronous = OFF; BEGIN").unwrap();
        fill(&made, &rows);
        made.execute_batch("COMMIT").unwrap();
        drop(made);
        let sweep = Sweep { retention, is_synchronised, apply: false, batch_rows };
        let before = std::fs::read(&path).unwrap();
        let dry = swept(&sweep, &path);
        prop_assert_eq!(std::fs::read(&path).unwrap(), before, "a dry run writes nothing");
        prop_assert_eq!(&numbers(&dry.1), &expected.iter().copied().collect::<Vec<i64>>(), "each row once");
        prop_assert_eq!(dry.0.gone, expected.len() as u64);
        let real = Sweep { apply: true, ..sweep };
        if let Some(rows) = cut_off {
            // It ends within a batch or after it. Every removed row was passed on, except for the end of the
            // batch.
            let mut told = Vec::new();
            let cut = real.run(&path, |gone| {
                if told.len() == rows {
                    return Err(Error::new(Code::Internal, "as asked"));
                }
                told.push(gone);
                Ok(())
            });
            let left = rowids(&path);
            let gone: Vec<&Gone> = dry.1.iter().filter(|gone| !left.contains(&gone.rowid)).collect();
            prop_assert_eq!(cut.is_ok(), told.len() == expected.len());
            prop_assert_eq!(told.iter().collect::<Vec<_>>(), gone[..told.len()].to_vec());
            prop_assert!(gone.len() - told.len() <= batch_rows as usize, "no more than a batch");
            prop_assert!(expected.is_superset(&gone.iter().map(|gone| gone.rowid).collect()));
            let rest = swept(&real, &path);
            prop_assert_eq!(rest.1.as_slice(), &dry.1[gone.len()..], "each row once over both");
        } else {
            prop_assert_eq!(&swept(&real, &path), &dry);
        }
        let left: BTreeSet<i64> = (1..=rows.len() as i64).filter(|rowid| !expected.contains(rowid)).collect();
        prop_assert_eq!(rowids(&path), left);
        std::fs::remove_file(&path).unwrap();
        Ok(())
    });
    result.unwrap();
}

/// On the device, an action of any type stays if the server has not accepted it. Otherwise the queries
/// decide.
#[test]
fn the_devices_sweep_removes_what_the_queries_remove_but_for_what_is_not_accepted() {
    let mut runner = TestRunner::new(cases(1_000));
    let result = runner.run(&(rows(), retention()), |(rows, retention)| {
        let reference = Connection::open_in_memory().unwrap();
        fill(&reference, &rows);
        let by_queries = by_queries(&reference, &retention, true);
        let metas: Vec<ActionMeta> = (1..)
            .zip(&rows)
            .map(|(rowid, (actor, kind, accepted, day))| ActionMeta {
                rowid,
                actor: format!("a{actor}"),
                kind: ActionType::parse(KINDS[*kind as usize]),
                accepted: *accepted,
                timestamp: iso8601(NOON + day * DAY),
            })
            .collect();
        let is_accepted = |rowid: &i64| rows[*rowid as usize - 1].2;
        let expected: Vec<i64> = by_queries.iter().copied().filter(is_accepted).collect();
        prop_assert_eq!(plan(&metas, &retention, Protect::Unaccepted).unwrap(), expected);
        Ok(())
    });
    result.unwrap();
}

#[test]
fn a_rule_that_is_none_is_refused_before_anything_is_opened() {
    let nowhere = [PathBuf::from("/nowhere/journal.db")];
    for retention in [Retention::Count(0), Retention::Count(101), Retention::Before("soon".into())] {
        let sweep = Sweep { retention, is_synchronised: true, apply: true, batch_rows: BATCH_ROWS };
        let swept = sweep_each(&sweep, &nowhere, |_, _| Ok(()), |path, _| panic!("{path:?}"));
        assert_eq!(swept.unwrap_err().code(), Code::BadOption);
    }
}

#[test]
fn a_sweep_goes_in_small_transactions_and_others_write_in_between() {
    let folder = tempfile::tempdir().unwrap();
    let rows: Vec<Row> = (0..40).map(|day| (1, 0, true, day)).collect();
    let path = journal(folder.path(), "j.db", &rows);
    let other = Connection::open(&path).unwrap();
    other.busy_timeout(std::time::Duration::ZERO).unwrap();
    let mut told = 0;
    let sweep = Sweep { retention: Retention::Count(1), is_synchronised: true, apply: true, batch_rows: 4 };
    let swept = sweep.run(&path, |_| {
        told += 1;
        // A batch is removed when its rows are passed on, and no later one: deletions are not collected to be
        // done at once.
        let left: u64 = other
            .query_row("SELECT count(*) FROM actions WHERE goblin = 'a1'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(left, 40 - u64::div_ceil(told, 4) * 4 + u64::from(told > 36));
        other
            .execute("INSERT INTO actions VALUES ('a2', '{}', '1', 'other', NULL, ?1)", [iso8601(NOON)])
            .unwrap();
        Ok(())
    });
    assert_eq!((swept.unwrap().gone, told), (39, 39));
    assert_eq!(rowids(&path).len(), 1 + 39);
}

#[test]
fn a_large_sweep_compacts_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j.db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(TABLE).unwrap();
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
               INSERT INTO actions SELECT 'a', 'x', '1', 'persist', 'c', '2026-01-01T00:00:00.000Z' FROM n";
    connection.execute(sql, [VACUUM_ROWS + 2]).unwrap();
    drop(connection);
    let size = || std::fs::metadata(&path).unwrap().len();
    let before = size();
    let mut told = 0;
    let sweep =
        Sweep { retention: Retention::Count(1), is_synchronised: true, apply: true, batch_rows: BATCH_ROWS };
    let swept = sweep.run(&path, |gone| {
        told += 1;
        assert_eq!(gone.rowid, told);
        Ok(())
    });
    let swept = swept.unwrap();
    assert_eq!((swept.gone, swept.compacted), (VACUUM_ROWS + 1, Some(Ok(()))));
    assert_eq!(told as u64, VACUUM_ROWS + 1);
    assert!(size() < before / 10, "{} of {before}", size());
    let statistics: u64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_stat1'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(statistics, 1);
}

fn command(folder: &Path, args: &[&str]) -> (Option<i32>, Vec<String>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_escale-server"));
    let Output { status, stdout, stderr } =
        command.arg("sweep").args(args).current_dir(folder).output().unwrap();
    let lines = String::from_utf8(stdout).unwrap().lines().map(str::to_owned).collect();
    (status.code(), lines, String::from_utf8(stderr).unwrap())
}

fn six_persists() -> Vec<Row> {
    (0..6).map(|day| (0, 0, true, day)).collect()
}

#[test]
fn the_command_tells_without_apply_what_it_removes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = journal(folder.path(), "j.db", &six_persists());
    for (args, removed) in [
        (&["--count", "--list"][..], 2),
        (&["--count", "3", "--list"], 1),
        (&["--before", "2027-01-20", "--list", "--no-sync"], 1),
        (&["--days", "--max", "1", "--list"], 1),
    ] {
        let all = [&["--db", "j.db"], args].concat();
        let (code, dry, err) = command(folder.path(), &all);
        assert_eq!(code, Some(0), "{err}");
        let before = rowids(&path);
        let (code, real, err) = command(folder.path(), &[&all[..], &["--apply"]].concat());
        assert_eq!(code, Some(0), "{err}");
        let (line, rows) = real.split_last().unwrap();
        assert!(
            line.contains(&format!("{removed} of {} actions removed (persist {removed})", before.len())),
            "{real:?}"
        );
        assert_eq!(dry[..rows.len()], *rows);
        assert_eq!(dry[rows.len()], line.replace("removed", "to remove"));
        assert!(dry.len() == real.len() + 1 && dry.last().unwrap().starts_with("dry run"));
        let listed: BTreeSet<i64> =
            rows.iter().map(|line| line.trim().split(' ').next().unwrap().parse().unwrap()).collect();
        assert_eq!(listed, before.difference(&rowids(&path)).copied().collect());
        assert_eq!(listed.len(), removed);
    }
}

#[test]
fn each_database_s_failure_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    journal(folder.path(), "a.db", &six_persists());
    journal(folder.path(), "b.db", &six_persists());
    Connection::open(folder.path().join("other.db")).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    std::fs::write(folder.path().join("text.db"), "no database").unwrap();
    let databases =
        ["--db", "a.db", "--db", "none.db", "--db", "other.db", "--db", "text.db", "--db", "b.db"];
    let (code, lines, err) = command(folder.path(), &[&databases[..], &["--count", "1", "--apply"]].concat());
    assert_eq!(code, Some(1));
    assert!(err.contains("3 of 5 databases failed"), "{err}");
    assert!(
        lines[0].starts_with("a.db: 5 of 6 actions removed") && lines[4].starts_with("b.db: 5 of 6"),
        "{lines:?}"
    );
    for (line, name) in lines[1..4].iter().zip(["none.db", "other.db", "text.db"]) {
        assert_eq!(*line, format!("{name}: failed, bad_option"));
    }
    assert!(!folder.path().join("none.db").exists(), "nothing is made");
}

#[test]
fn bad_input_is_named_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = journal(folder.path(), "j.db", &six_persists());
    let before = std::fs::read(&path).unwrap();
    for args in [
        &["--count", "0"][..],
        &["--count", "101"],
        &["--before", "yesterday"],
        &["--before", "2026-02-30T99:00Z"],
        &["--days", "3", "--max", "0"],
    ] {
        let (code, lines, err) = command(folder.path(), &[&["--db", "j.db", "--apply"], args].concat());
        assert!(code == Some(1) && lines.is_empty() && err.contains("bad_option"), "{args:?} {err}");
    }
    for args in
        [&["--count", "1", "--before", "2026-01-01"][..], &["--count", "1", "--max", "3"], &["--count", "x"]]
    {
        assert_eq!(
            command(folder.path(), &[&["--db", "j.db", "--apply"], args].concat()).0,
            Some(2),
            "{args:?}"
        );
    }
    assert_eq!(command(folder.path(), &[]).0, Some(2), "a database must be named");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_server_s_own_journal_is_swept_under_it() {
    let world = operating();
    for seq in 1..=6 {
        send(&world.engine, vec![op(&seq.to_string(), seq, "counter.add", add_args("c", 1))]);
    }
    let path = Engine::database_in(world.folder.path());
    let args = ["--db", path.to_str().unwrap(), "--count", "2"];
    let (code, dry, err) = command(world.folder.path(), &args);
    assert!(code == Some(0) && dry[0].contains("4 of 6 actions to remove"), "{dry:?} {err}");
    assert_eq!(command(world.folder.path(), &[&args[..], &["--apply"]].concat()).0, Some(0));
    assert_eq!(rowids(&path), [5, 6].into());
    send(&world.engine, vec![op("7", 7, "counter.add", add_args("c", 1))]);
    assert_eq!((counted(&world.engine, "c"), rowids(&path).len()), (7, 3));
}
