-- Format 6: files. Objects by their hashes: `name` is that of the bytes in the store, `list` the bytes of the file that
-- the object lists, `until` the time until which it is kept (null: something references it).
CREATE TABLE files (
    org TEXT NOT NULL, sha TEXT NOT NULL, name TEXT NOT NULL, size INTEGER NOT NULL, list INTEGER, until INTEGER,
    PRIMARY KEY (org, sha)
) WITHOUT ROWID, STRICT;
CREATE INDEX files_until ON files (org, until) WHERE until IS NOT NULL;

-- The documents that reference an object: made from `data`, as memberships are.
CREATE TABLE file_refs (
    org TEXT NOT NULL, sha TEXT NOT NULL, class TEXT NOT NULL, pk TEXT NOT NULL,
    PRIMARY KEY (org, sha, class, pk)
) WITHOUT ROWID, STRICT;
CREATE INDEX file_refs_pk ON file_refs (org, class, pk, sha);

-- The chunks of each list.
CREATE TABLE file_chunks (
    org TEXT NOT NULL, list TEXT NOT NULL, place INTEGER NOT NULL, chunk TEXT NOT NULL,
    PRIMARY KEY (org, list, place)
) WITHOUT ROWID, STRICT;
CREATE INDEX file_chunks_chunk ON file_chunks (org, chunk, list);

-- The accounts that uploaded an object. `open` says whether nothing references it, as `files.until` does.
CREATE TABLE file_uploads (
    org TEXT NOT NULL, sha TEXT NOT NULL, account TEXT NOT NULL, open INTEGER NOT NULL,
    PRIMARY KEY (org, sha, account)
) WITHOUT ROWID, STRICT;
CREATE INDEX file_uploads_open ON file_uploads (org, account, sha) WHERE open = 1;

-- Names of objects that may be in the store, and are to be removed from `at` on.
CREATE TABLE purges (
    org TEXT NOT NULL, name TEXT NOT NULL, at INTEGER NOT NULL, claimed INTEGER NOT NULL,
    PRIMARY KEY (org, name)
) WITHOUT ROWID, STRICT;
CREATE INDEX purges_at ON purges (org, at);
