-- Format 4: the bytes of an org's results and of its journal, and an index of the journal for its sweep.
CREATE INDEX actions_goblin ON actions (goblin, number);

ALTER TABLE heads ADD COLUMN kept bigint NOT NULL DEFAULT 0;

UPDATE heads SET kept =
    (SELECT coalesce(sum(octet_length(session) + octet_length(id) + octet_length(result) + 64), 0)
     FROM ops WHERE ops.org = heads.org)
  + (SELECT coalesce(sum(octet_length(goblin) + coalesce(octet_length(commit_id), 0)
       + coalesce(octet_length(action), 0) + 64), 0)
     FROM actions WHERE goblin > heads.org || '/' AND goblin < heads.org || '0');
