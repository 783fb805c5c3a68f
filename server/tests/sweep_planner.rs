//! The sweeper's planner against queries that say the same in SQL, run by SQLite on random journals: the same rows, but
//! that what the server has not accepted is never removed (a persist on a server's journal, any action on a device).

use escale::crypto::SeededRandom;
use escale::journal::{ActionMeta, ActionType, Protect, Retention, iso8601, plan};
use rusqlite::{Connection, params};

const JOURNALS: u64 = 1_000;

/// What a sweep by count removes: `$LATE` narrows the persists, `$NULLS` keeps actors that have too few, `$COMPARE` says
/// whether the bound itself goes.
const QUERY: &str = "
    SELECT actions.rowid FROM actions
    LEFT JOIN (
      SELECT max(rowid) AS max, goblinId
      FROM (
        SELECT rowid, goblin AS goblinId
        FROM actions
        WHERE rowid BETWEEN (
            SELECT rowid FROM actions
            WHERE goblin = goblinId AND type = 'persist' AND commitId IS NOT NULL $LATE
            ORDER BY rowid ASC LIMIT 1
          ) AND (
            SELECT rowid FROM (
              SELECT rowid FROM (
                SELECT rowid FROM actions
                WHERE goblin = goblinId AND type = 'persist' AND commitId IS NOT NULL $LATE
                UNION ALL
                SELECT NULL AS rowid FROM (VALUES $NULLS)
              )
              ORDER BY rowid DESC LIMIT $COUNT
            )
            ORDER BY rowid ASC LIMIT 1
          )
          AND type = 'persist' AND commitId IS NOT NULL $LATE
        ORDER BY goblin, rowid ASC
      )
      GROUP BY goblinId
    ) AS removeList
    WHERE actions.goblin = removeList.goblinId AND actions.rowid $COMPARE removeList.max";

fn query(count: u32, before: Option<&str>, sync: bool) -> String {
    let nulls = if before.is_some() { 2 } else { 100 };
    let late = before.map_or(String::new(), |before| format!("AND timestamp < '{before}'"));
    let text = QUERY
        .replace("$LATE", &late)
        .replace("$NULLS", &vec!["(0)"; nulls].join(", "))
        .replace("$COUNT", &count.to_string())
        .replace("$COMPARE", if before.is_some() { "<=" } else { "<" });
    if sync { text } else { text.replace("AND commitId IS NOT NULL", "") }
}

/// Removes what the query finds and nothing protects. Gives the rows.
fn sweep(db: &Connection, query: &str, protect: Protect) -> Vec<i64> {
    let mut statement = db.prepare(query).expect("a query");
    let found: rusqlite::Result<Vec<i64>> = statement.query_map([], |row| row.get(0)).expect("rows").collect();
    let spared = match protect {
        Protect::Unaccepted => "commitId IS NULL",
        Protect::UnacceptedPersists => "commitId IS NULL AND type = 'persist'",
        Protect::Nothing => "FALSE",
    };
    let delete = format!("DELETE FROM actions WHERE rowid = ?1 AND NOT ({spared})");
    found.expect("rows").into_iter().filter(|row| db.execute(&delete, params![row]).expect("a row") == 1).collect()
}

fn below(random: &mut SeededRandom, bound: u64) -> u64 {
    random.next() % bound
}

fn journal(random: &mut SeededRandom) -> Vec<ActionMeta> {
    let (actions, goblins) = (below(random, 60), below(random, 5) + 1);
    let (mut rowid, mut now) = (0, 1_700_000_000_000);
    (0..actions)
        .map(|_| {
            rowid += 1 + below(random, 3) as i64;
            // Mostly forward, sometimes a clock that was put back, sometimes twice the same moment.
            now = now + below(random, 3) * 3_600_000 - below(random, 2) * 1_800_000;
            let kind = match below(random, 6) {
                0 => Some(ActionType::Create),
                1 | 2 => Some(ActionType::Update),
                3..5 => Some(ActionType::Persist),
                _ => None,
            };
            ActionMeta {
                rowid,
                goblin: format!("goblin@{}", below(random, goblins)),
                kind,
                accepted: below(random, 4) > 0,
                timestamp: iso8601(now),
            }
        })
        .collect()
}

fn database(rows: &[ActionMeta]) -> Connection {
    let db = Connection::open_in_memory().expect("a database");
    db.execute_batch("CREATE TABLE actions (goblin TEXT, action TEXT, version TEXT, type TEXT, commitId TEXT, timestamp TEXT)")
        .expect("a table");
    for row in rows {
        let kind = row.kind.map_or("other", ActionType::as_str);
        let commit = row.accepted.then_some("commit");
        db.execute(
            "INSERT INTO actions (rowid, goblin, type, commitId, timestamp) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![row.rowid, row.goblin, kind, commit, row.timestamp],
        )
        .expect("a row");
    }
    db
}

#[test]
fn the_planner_removes_what_the_queries_remove() {
    let mut removed = 0;
    for seed in 0..JOURNALS {
        let mut random = SeededRandom::new(seed);
        let rows = journal(&mut random);
        let count = 1 + below(&mut random, 6) as u32;
        let before = iso8601(1_700_000_000_000 + below(&mut random, 60) * 1_800_000);
        let retentions = [
            Retention::Count(count),
            Retention::Before(before.clone()),
            Retention::Days { max: count, before: before.clone() },
        ];
        for retention in &retentions {
            for protect in [Protect::Unaccepted, Protect::UnacceptedPersists, Protect::Nothing] {
                let sync = protect != Protect::Nothing;
                let db = database(&rows);
                let mut wanted = Vec::new();
                if !matches!(retention, Retention::Before(_)) {
                    wanted.extend(sweep(&db, &query(count, None, sync), protect));
                }
                if !matches!(retention, Retention::Count(_)) {
                    wanted.extend(sweep(&db, &query(2, Some(&before), sync), protect));
                }
                wanted.sort_unstable();
                let found = plan(&rows, retention, protect).expect("a rule");
                assert_eq!(found, wanted, "seed {seed}, {retention:?}, {protect:?}\n{rows:#?}");
                removed += found.len();
            }
        }
    }
    println!("{removed} rows removed of {JOURNALS} journals");
    assert!(removed > 10_000, "journals that say little: {removed}");
}
