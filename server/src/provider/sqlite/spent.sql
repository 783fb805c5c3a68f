-- Format 3: ids are known for ever.

-- Operations whose results are gone: 16 bytes for the id within its org and account, and the version given (null: it was
-- refused). Of what was purged under format 2 nothing is left: its numbers are taken for other operations'.
CREATE TABLE spent (key BLOB PRIMARY KEY, v INTEGER) WITHOUT ROWID, STRICT;

-- Which number was used for an id that was known is asked by nobody any more.
DELETE FROM ops WHERE result IS NULL;
