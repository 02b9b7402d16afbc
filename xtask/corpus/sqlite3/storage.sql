-- A database that outgrows its cache: many pages, overflow, freelist, several indexes.
PRAGMA page_size = 512;
PRAGMA cache_size = 20;
CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT, body BLOB);
CREATE UNIQUE INDEX item_word ON item(word);
CREATE INDEX item_part ON item(length(body)) WHERE id % 3 = 0;
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 800)
INSERT INTO item SELECT i, printf('%04x', i * 40503 % 65536), zeroblob(i * 37 % 1500) FROM n;
COMMIT;
PRAGMA page_count;
DELETE FROM item WHERE id % 5 < 2;
PRAGMA freelist_count;
INSERT INTO item(word, body) SELECT 'x' || word, 'copy of ' || id FROM item WHERE id < 100;
SELECT count(*), sum(length(body)), min(word), max(word) FROM item;
SELECT id, word FROM item WHERE word >= 'f000' ORDER BY word LIMIT 5;
REINDEX;
ANALYZE;
SELECT tbl, idx, stat FROM sqlite_stat1 ORDER BY idx;
CREATE TEMP TABLE other AS SELECT * FROM item ORDER BY word DESC;
SELECT count(*) FROM other JOIN item USING(word) WHERE other.id <> item.id;
PRAGMA integrity_check;
VACUUM;
PRAGMA page_count;
PRAGMA freelist_count;
