CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INTEGER, item TEXT, price REAL, day INTEGER);
CREATE TABLE customers(id INTEGER PRIMARY KEY, name TEXT, town TEXT);
WITH RECURSIVE n(i, x) AS (
  VALUES(1, @SEED@) UNION ALL SELECT i + 1, (x * 1103515245 + 12345) % 2147483648 FROM n WHERE i < @ROWS@)
INSERT INTO orders SELECT i, x / 256 % 997, 'item ' || (x / 65536 % 61), (x / 1024 % 10000) / 100.0, x / 4096 % 365 FROM n;
WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < 996)
INSERT INTO customers SELECT i, 'name ' || (i * 7919 % 1000), char(65 + i % 26) || 'ville' FROM n;
CREATE INDEX by_customer ON orders(customer, day);
CREATE INDEX by_item ON orders(item);
SELECT town, count(*), round(sum(price), 2) FROM orders JOIN customers ON customer = customers.id GROUP BY town ORDER BY 3 DESC LIMIT 8;
SELECT item, count(DISTINCT customer), max(price), min(day) FROM orders GROUP BY item HAVING count(*) > 3 ORDER BY item LIMIT 8;
SELECT customer, day, round(sum(price) OVER (PARTITION BY customer ORDER BY day, id), 2) FROM orders WHERE customer % 50 = 3 ORDER BY customer, day, id LIMIT 8;
SELECT count(*) FROM orders WHERE item LIKE '%4%' AND (day BETWEEN 30 AND 60 OR price > 90.5);
SELECT a.name, count(*) FROM customers a JOIN orders o ON o.customer = a.id AND o.day < 20 WHERE a.town IN (SELECT town FROM customers WHERE id % 13 = 0) GROUP BY a.name ORDER BY 2 DESC, 1 LIMIT 8;
UPDATE orders SET price = round(price * 1.1, 2) WHERE customer % 3 = 1;
DELETE FROM orders WHERE day % 7 = 6 AND price < 20;
SELECT upper(substr(item, 1, 4)) || printf('%05d', id), length(item), hex(day), coalesce(nullif(day, 100), -1) FROM orders ORDER BY price, id LIMIT 8;
SELECT count(*), round(avg(price), 4), total(day) FROM orders;
