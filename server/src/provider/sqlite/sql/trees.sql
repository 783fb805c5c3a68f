-- Format 5: trees, which are documents with their items. Class and pk are those of the parent. `floor`: the version at
-- which it was last created or deleted; `due`: a floor below which items may still be stored (0: none are).
CREATE TABLE trees (
    org TEXT NOT NULL, class TEXT NOT NULL, pk TEXT NOT NULL,
    floor INTEGER NOT NULL, v INTEGER NOT NULL, n INTEGER NOT NULL, horizon INTEGER NOT NULL,
    items INTEGER NOT NULL, tombstones INTEGER NOT NULL, due INTEGER NOT NULL,
    PRIMARY KEY (org, class, pk)
) WITHOUT ROWID, STRICT;
CREATE INDEX trees_due ON trees (org, class, pk, due, tombstones) WHERE due > 0 OR tombstones > 1000;
