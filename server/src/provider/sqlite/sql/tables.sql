-- Format 1: documents, their memberships and indexes, and the feed.

CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID, STRICT;

CREATE TABLE orgs (org TEXT PRIMARY KEY) WITHOUT ROWID, STRICT;

-- Documents and tombstones. `shown` is JSON: the collections that hold the document and the values of its indexes.
CREATE TABLE documents (
    org TEXT NOT NULL, class TEXT NOT NULL, pk TEXT NOT NULL,
    v INTEGER NOT NULL, deleted INTEGER NOT NULL, max_life INTEGER, ttl INTEGER,
    shown TEXT NOT NULL, data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX documents_pk ON documents (org, class, pk);
-- Covers the counts and `present` of a whole class.
CREATE INDEX documents_v ON documents (org, class, v, pk, deleted, max_life);
CREATE INDEX documents_ttl ON documents (ttl) WHERE ttl IS NOT NULL;

-- Memberships of documents in collections. `del`: 0 a living member, 1 a departure at `v`, 2 the member is a tombstone.
CREATE TABLE memberships (
    org TEXT NOT NULL, class TEXT NOT NULL, collection TEXT NOT NULL, hash TEXT NOT NULL, pk TEXT NOT NULL,
    v INTEGER NOT NULL, del INTEGER NOT NULL, max_life INTEGER,
    PRIMARY KEY (org, class, collection, hash, pk)
) WITHOUT ROWID, STRICT;
CREATE INDEX memberships_v ON memberships (org, class, collection, hash, v, pk, del, max_life);
CREATE INDEX memberships_left ON memberships (v) WHERE del = 1;

-- Values of indexes. `scope` is the org, or empty for an index across orgs.
CREATE TABLE entries (
    scope TEXT NOT NULL, class TEXT NOT NULL, name TEXT NOT NULL, value ANY NOT NULL,
    org TEXT NOT NULL, pk TEXT NOT NULL,
    PRIMARY KEY (scope, class, name, value, org, pk)
) WITHOUT ROWID, STRICT;

-- Recent writes, in commit order: the servers make their hints from them.
CREATE TABLE feed (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    org TEXT NOT NULL, class TEXT NOT NULL, pk TEXT NOT NULL, v INTEGER NOT NULL, links TEXT NOT NULL
) STRICT;
