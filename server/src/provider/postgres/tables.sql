-- Format 1. Texts that the rules restrict are compared by their bytes. What a caller may choose is bytea, because text
-- refuses U+0000.

CREATE TABLE migrations (format integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());

-- The state that all orgs share: one row. `server` is the database server that the last epochs began on.
CREATE TABLE site (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    epoch text NOT NULL, last_epoch text NOT NULL, generation bigint NOT NULL, told bigint NOT NULL,
    cursor_key bytea NOT NULL, schema text NOT NULL, seal_check bytea NOT NULL, server text NOT NULL
);

-- Commits over all orgs. A sequence: orgs must not wait for each other to count.
CREATE SEQUENCE commits MINVALUE 0 START 0;

CREATE TABLE heads (
    org text COLLATE "C" PRIMARY KEY, epoch text NOT NULL, commits bigint NOT NULL,
    highest bigint NOT NULL, told bigint NOT NULL, horizon bigint NOT NULL
) WITH (fillfactor = 50);

-- Documents and tombstones. `shown` is JSON: the collections that hold the document and the values of its indexes.
CREATE TABLE documents (
    org text COLLATE "C" NOT NULL, class text COLLATE "C" NOT NULL, pk text COLLATE "C" NOT NULL,
    v bigint NOT NULL, deleted boolean NOT NULL, max_life bigint, ttl bigint,
    shown text NOT NULL, data bytea NOT NULL,
    PRIMARY KEY (org, class, pk)
);
-- Covers the counts and `present` of a whole class.
CREATE INDEX documents_v ON documents (org, class, v, pk) INCLUDE (deleted, max_life);
CREATE INDEX documents_ttl ON documents (org, ttl) WHERE ttl IS NOT NULL;

-- Memberships of documents in collections. `del`: 0 a living member, 1 a departure at `v`, 2 the member is a tombstone.
CREATE TABLE memberships (
    org text COLLATE "C" NOT NULL, class text COLLATE "C" NOT NULL, collection text COLLATE "C" NOT NULL,
    hash text COLLATE "C" NOT NULL, pk text COLLATE "C" NOT NULL,
    v bigint NOT NULL, del smallint NOT NULL, max_life bigint,
    PRIMARY KEY (org, class, collection, hash, pk)
);
CREATE INDEX memberships_v ON memberships (org, class, collection, hash, v, pk) INCLUDE (del, max_life);
CREATE INDEX memberships_left ON memberships (org, v) WHERE del = 1;

-- Values of indexes, packed so that their bytes are in their order. `shared`: the index covers all orgs.
CREATE TABLE entries (
    shared boolean NOT NULL, class text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL, value bytea NOT NULL,
    org text COLLATE "C" NOT NULL, pk text COLLATE "C" NOT NULL,
    PRIMARY KEY (shared, class, name, value, org, pk)
);

-- Recent writes. A row is found by the transaction that wrote it. The table does not survive a crash of the database, and
-- need not: the crash ends the readers' connections, and they then hint everything.
CREATE UNLOGGED TABLE feed (
    number bigint GENERATED ALWAYS AS IDENTITY, xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    org text NOT NULL, class text NOT NULL, pk text NOT NULL, v bigint NOT NULL, links text NOT NULL
);
CREATE INDEX feed_xid ON feed (xid);
CREATE INDEX feed_at ON feed (at);

-- Sessions: the account of each, and its last executed operation, kept for ever.
CREATE TABLE sessions (
    org text COLLATE "C" NOT NULL, session bytea NOT NULL, account bytea NOT NULL, seq bigint NOT NULL,
    PRIMARY KEY (org, session)
);

-- Executed operations, as long as their results are kept. `key` stands for org, account and id. `name` is the hash of the
-- operation's name, `v` the version that it gave (null: it was refused), `result` the answer, sealed as documents are.
CREATE TABLE ops (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key bytea NOT NULL UNIQUE,
    org text COLLATE "C" NOT NULL, account bytea NOT NULL, session bytea NOT NULL, seq bigint NOT NULL, id bytea NOT NULL,
    name text NOT NULL, v bigint, at bigint NOT NULL, result bytea NOT NULL
);
CREATE UNIQUE INDEX ops_seq ON ops (org, session, seq);
CREATE INDEX ops_at ON ops (org, at);

-- Operations whose results were purged: the key of each, and the version given (null: it was refused). Kept for ever.
CREATE TABLE spent (key bytea PRIMARY KEY, v bigint);

-- The journal. `goblin` is org/Class@pk; `action` the stored document after it (null: deleted); `version` its v.
CREATE TABLE actions (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    goblin text COLLATE "C" NOT NULL, action bytea, version bigint NOT NULL, type text NOT NULL,
    commit_id bytea, timestamp text NOT NULL
);

-- The time in milliseconds since 1970: the clock of every write.
CREATE FUNCTION clock_ms() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;
