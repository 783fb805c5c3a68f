-- Format 2: operations and the journal.

-- Sessions: the account of each, and its last executed operation, kept for ever.
CREATE TABLE sessions (
    org TEXT NOT NULL, session TEXT NOT NULL, account TEXT NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (org, session)
) WITHOUT ROWID, STRICT;

-- Executed operations, as long as their results are kept. `name` is the hash of the operation's name, `v` the version
-- that it gave (null: it was refused), `at` the time, `result` the answer, sealed as documents are.
CREATE TABLE ops (
    org TEXT NOT NULL, account TEXT NOT NULL, session TEXT NOT NULL, seq INTEGER NOT NULL, id TEXT NOT NULL,
    name TEXT NOT NULL, v INTEGER, at INTEGER NOT NULL, result BLOB
) STRICT;
CREATE UNIQUE INDEX ops_id ON ops (org, account, id) WHERE result IS NOT NULL;
CREATE UNIQUE INDEX ops_seq ON ops (org, session, seq);
CREATE INDEX ops_at ON ops (at);

-- The journal. `goblin` is org/Class@pk; `action` the stored document after it (null: deleted); `version` its v.
CREATE TABLE actions (
    rowid INTEGER PRIMARY KEY,
    goblin TEXT NOT NULL, action BLOB, version INTEGER NOT NULL, type TEXT NOT NULL,
    commitId TEXT, timestamp TEXT NOT NULL
) STRICT;
CREATE INDEX actions_goblin ON actions (goblin);
