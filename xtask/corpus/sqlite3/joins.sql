-- Tables, indexes, joins, grouping, sorting.
CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT);
CREATE TABLE purchase(id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customer(id), cents INTEGER, day TEXT);
CREATE INDEX purchase_by_customer ON purchase(customer, day);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
INSERT INTO customer SELECT i, printf('name%02d', i), substr('ABCDE', i % 5 + 1, 1) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
INSERT INTO purchase SELECT i, i * 7 % 45 + 1, i * 131 % 997, date('2020-01-01', printf('+%d days', i % 90)) FROM n;
SELECT city, count(*), sum(cents), min(day), max(day) FROM customer JOIN purchase ON customer = customer.id GROUP BY city ORDER BY 3 DESC;
SELECT name, total FROM (SELECT customer, sum(cents) AS total FROM purchase GROUP BY customer HAVING total > 7000) JOIN customer ON id = customer ORDER BY total DESC, name LIMIT 5;
SELECT count(*) FROM purchase LEFT JOIN customer ON customer.id = purchase.customer WHERE customer.id IS NULL;
SELECT DISTINCT city FROM customer WHERE id IN (SELECT customer FROM purchase WHERE cents BETWEEN 100 AND 120) ORDER BY city DESC;
EXPLAIN QUERY PLAN SELECT * FROM purchase WHERE customer = 3 AND day > '2020-02-01';
UPDATE purchase SET cents = cents + 1 WHERE customer IN (SELECT id FROM customer WHERE city = 'A');
DELETE FROM purchase WHERE cents % 2 = 0;
SELECT count(*), total(cents), round(avg(cents), 3) FROM purchase;
