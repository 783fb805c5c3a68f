-- Format 3: ids are kept for ever.

-- Operations whose results were purged: 16 bytes for the id within its org and account, and the version given (null: it
-- was refused). Operations purged under format 2 have left nothing: their numbers count as those of other operations.
CREATE TABLE spent (key BLOB PRIMARY KEY, v INTEGER) WITHOUT ROWID, STRICT;

-- Nothing reads any more which number was used for an id that was already known.
DELETE FROM ops WHERE result IS NULL;
