-- Window functions, common table expressions, compound selects.
CREATE TABLE t(a INTEGER, b TEXT, c REAL);
WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 24)
INSERT INTO t SELECT i, char(97 + i % 4), i * 1.5 FROM n;
SELECT a, b, row_number() OVER w, rank() OVER w, sum(c) OVER w, lag(a, 2, -1) OVER w FROM t WINDOW w AS (PARTITION BY b ORDER BY a DESC) ORDER BY b, a LIMIT 12;
SELECT b, group_concat(a, '+') FILTER (WHERE a > 10) FROM t GROUP BY b;
SELECT a, avg(c) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING), ntile(3) OVER (ORDER BY a), first_value(b) OVER (ORDER BY a RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t WHERE a <= 8;
WITH RECURSIVE fib(i, x, y) AS (VALUES(1, 0, 1) UNION ALL SELECT i + 1, y, x + y FROM fib WHERE i < 30) SELECT max(x) FROM fib;
WITH RECURSIVE
  xaxis(x) AS (VALUES(-2.0) UNION ALL SELECT x + 0.1 FROM xaxis WHERE x < 1.0),
  yaxis(y) AS (VALUES(-1.0) UNION ALL SELECT y + 0.2 FROM yaxis WHERE y < 1.0),
  m(iter, cx, cy, x, y) AS (
    SELECT 0, x, y, 0.0, 0.0 FROM xaxis, yaxis
    UNION ALL
    SELECT iter + 1, cx, cy, x * x - y * y + cx, 2.0 * x * y + cy FROM m WHERE (x * x + y * y) < 4.0 AND iter < 12),
  m2(iter, cx, cy) AS (SELECT max(iter), cx, cy FROM m GROUP BY cx, cy),
  a(t) AS (SELECT group_concat(substr(' .+*#', 1 + min(iter / 3, 4), 1), '') FROM m2 GROUP BY cy)
SELECT group_concat(rtrim(t), x'0a') FROM a;
SELECT 1 UNION SELECT 2 UNION ALL SELECT 2 EXCEPT SELECT 1 INTERSECT SELECT 2;
