-- Format 4: a head for each org. Counters are by org, and so is everything that is purged.

CREATE TABLE heads (
    org TEXT PRIMARY KEY, epoch TEXT NOT NULL, commits INTEGER NOT NULL,
    highest INTEGER NOT NULL, told INTEGER NOT NULL, horizon INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

-- In an older file, each org goes on from the numbers that were those of all. The first files had no `commits`.
INSERT INTO heads
SELECT org, (SELECT CAST(value AS TEXT) FROM meta WHERE name = 'epoch'),
    coalesce((SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM meta WHERE name = 'commits'), 0),
    (SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM meta WHERE name = 'highest'),
    (SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM meta WHERE name = 'told'),
    (SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM meta WHERE name = 'horizon')
FROM orgs;
DROP TABLE orgs;

-- An org without a head was given a `now` up to these, too.
UPDATE meta SET value = (SELECT CAST(CAST(max(CAST(CAST(value AS TEXT) AS INTEGER)) AS TEXT) AS BLOB) FROM meta
    WHERE name IN ('told', 'highest')) WHERE name = 'told';
INSERT OR IGNORE INTO meta SELECT 'commits', CAST('0' AS BLOB) FROM meta WHERE name = 'epoch';
INSERT INTO meta SELECT 'last_epoch', value FROM meta WHERE name = 'epoch';
INSERT INTO meta SELECT 'generation', CAST('1' AS BLOB) FROM meta WHERE name = 'epoch';
DELETE FROM meta WHERE name IN ('highest', 'horizon');

DROP INDEX documents_ttl;
CREATE INDEX documents_ttl ON documents (org, ttl) WHERE ttl IS NOT NULL;
DROP INDEX memberships_left;
CREATE INDEX memberships_left ON memberships (org, v) WHERE del = 1;
DROP INDEX ops_at;
CREATE INDEX ops_at ON ops (org, at);
