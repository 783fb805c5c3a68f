-- Format 3: files. Objects by their hashes: `name` is that of the bytes in the store, `list` the bytes of the file that
-- the object lists, `until` the time until which it is kept (null: something references it).
CREATE TABLE files (
    org text COLLATE "C" NOT NULL, sha text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL,
    size bigint NOT NULL, list bigint, until bigint,
    PRIMARY KEY (org, sha)
);
CREATE INDEX files_until ON files (org, until) WHERE until IS NOT NULL;

-- The documents that reference an object: made from `data`, as memberships are.
CREATE TABLE file_refs (
    org text COLLATE "C" NOT NULL, sha text COLLATE "C" NOT NULL,
    class text COLLATE "C" NOT NULL, pk text COLLATE "C" NOT NULL,
    PRIMARY KEY (org, sha, class, pk)
);
CREATE INDEX file_refs_pk ON file_refs (org, class, pk, sha);

-- The chunks of each list.
CREATE TABLE file_chunks (
    org text COLLATE "C" NOT NULL, list text COLLATE "C" NOT NULL, place bigint NOT NULL,
    chunk text COLLATE "C" NOT NULL,
    PRIMARY KEY (org, list, place)
);
CREATE INDEX file_chunks_chunk ON file_chunks (org, chunk, list);

-- The accounts that uploaded an object. `open` says whether nothing references it, as `files.until` does.
CREATE TABLE file_uploads (
    org text COLLATE "C" NOT NULL, sha text COLLATE "C" NOT NULL, account bytea NOT NULL, open boolean NOT NULL,
    PRIMARY KEY (org, sha, account)
);
CREATE INDEX file_uploads_open ON file_uploads (org, account, sha) WHERE open;

-- Names of objects that may be in the store, and are to be removed from `at` on.
CREATE TABLE purges (
    org text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL, at bigint NOT NULL, claimed boolean NOT NULL,
    PRIMARY KEY (org, name)
);
CREATE INDEX purges_at ON purges (org, at);
