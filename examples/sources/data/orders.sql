CREATE SCHEMA sales;
CREATE TABLE sales.orders (id integer PRIMARY KEY, customer varchar(40), amount decimal(10,2), ordered_on date);
INSERT INTO sales.orders VALUES
  (1, 'Ann', 12.50, '2026-01-01'), (2, 'Ben', 7.00, '2026-01-02'), (3, 'Zoë', 100.25, '2026-01-03');
