-- Format 7: the bytes of an org's results and of its journal.
ALTER TABLE heads ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;

UPDATE heads SET kept =
    (SELECT coalesce(sum(length(CAST(session AS BLOB)) + length(CAST(id AS BLOB)) + length(result) + 64), 0)
     FROM ops WHERE ops.org = heads.org AND result IS NOT NULL)
  + (SELECT coalesce(sum(length(CAST(goblin AS BLOB)) + coalesce(length(CAST(commitId AS BLOB)), 0)
       + coalesce(length(action), 0) + 64), 0)
     FROM actions WHERE goblin > heads.org || '/' AND goblin < heads.org || '0');
