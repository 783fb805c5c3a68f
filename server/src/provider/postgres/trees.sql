-- Format 2: trees, which are documents with their items. Class and pk are those of the parent. `floor`: the version at
-- which it was last created or deleted; `due`: a floor below which items may still be stored (0: none are).
CREATE TABLE trees (
    org text COLLATE "C" NOT NULL, class text COLLATE "C" NOT NULL, pk text COLLATE "C" NOT NULL,
    floor bigint NOT NULL, v bigint NOT NULL, n bigint NOT NULL, horizon bigint NOT NULL,
    items bigint NOT NULL, tombstones bigint NOT NULL, due bigint NOT NULL,
    PRIMARY KEY (org, class, pk)
) WITH (fillfactor = 50);
CREATE INDEX trees_due ON trees (org, class, pk) INCLUDE (due, tombstones) WHERE due > 0 OR tombstones > 1000;
