-- Expressions, types, text, dates, errors.
SELECT 1 + 2 * 3, 7 / 2, 7 / 2.0, -7 % 3, 1 << 40, ~5, 5 & 3 | 8, 'a' || 1 || NULL, 'a' || 1;
SELECT typeof(1), typeof(1.0), typeof('1'), typeof(x'01'), typeof(NULL), CAST('12abc' AS INTEGER), CAST(3.99 AS INTEGER), '10' + 5;
SELECT 9223372036854775807 + 1, 9223372036854775807, abs(-5), round(2.567, 2), max(1, 9, 4), min('b', 'a'), nullif(1, 1), coalesce(NULL, 'x');
SELECT upper('straße'), length('äöü'), hex('abc'), quote('it''s'), instr('hello', 'l'), replace('banana', 'an', '<>'), trim('  x '), substr('abcdef', -3, 2), unicode('€');
SELECT 'abc' LIKE 'A%', 'abc' GLOB 'A*', 'a_c' LIKE 'a\_c' ESCAPE '\', 'abc' BETWEEN 'abb' AND 'abd', NULL IS NULL, NULL = NULL, 3 IN (1, 2, NULL);
SELECT CASE WHEN 0 THEN 'no' WHEN 1 THEN 'yes' ELSE 'never' END, iif(1 > 2, 'a', 'b'), CASE 5 WHEN 4 THEN 'four' END;
SELECT date('2024-02-28', '+2 days'), strftime('%Y-%j %W', '2021-12-31'), julianday('2000-01-01 12:00'), time('12:34:56', '-90 minutes'), date('2023-01-31', '+1 month', 'start of month', '-1 day');
SELECT json_extract('{"a":[1,2,{"b":"c"}]}', '$.a[2].b'), json_array(1, 'two', NULL), json('{"x" : 1.50}'), json_type('[1]');
SELECT value, key FROM json_each('[10,20,"x"]');
SELECT printf('%05d|%-6s|%.3f|%x|%Q|%,d', 42, 'ab', 2.0 / 3, 255, 'q''q', 1234567);
SELECT nosuch FROM nowhere;
SELECT abs('-9223372036854775808');
SELEC 1;
SELECT group_concat(x, ' ') FROM (SELECT x FROM (SELECT 3 AS x UNION ALL SELECT 1 UNION ALL SELECT 2) ORDER BY x DESC);
SELECT count(*), sum(value) FROM (WITH RECURSIVE s(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM s WHERE value < 2000) SELECT value FROM s);
