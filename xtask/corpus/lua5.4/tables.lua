-- Tables as arrays, hashes, queues; sort with comparators; a sieve; matrices.
local function sieve(n)
  local prime, list = {}, {}
  for i = 2, n do prime[i] = true end
  for i = 2, n do
    if prime[i] then
      list[#list + 1] = i
      for j = i * i, n, i do prime[j] = false end
    end
  end
  return list
end
local primes = sieve(5000)
print(#primes, primes[#primes])

local seed = 42
local function random(n) seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n end
local list = {}
for i = 1, 500 do list[i] = random(1000) end
table.sort(list)
print(list[1], list[250], list[500])
table.sort(list, function(a, b) return a % 10 < b % 10 or a % 10 == b % 10 and a > b end)
print(list[1], list[250], list[500])
print(pcall(table.sort, {3, 1, 'x'}))

local function multiply(a, b)
  local c = {}
  for i = 1, #a do
    c[i] = {}
    for j = 1, #b[1] do
      local sum = 0
      for k = 1, #b do sum = sum + a[i][k] * b[k][j] end
      c[i][j] = sum
    end
  end
  return c
end
local function square(n, f)
  local m = {}
  for i = 1, n do m[i] = {} for j = 1, n do m[i][j] = f(i, j) end end
  return m
end
local m = square(12, function(i, j) return i - j end)
print(multiply(m, multiply(m, m))[3][7])

local queue = {}
for i = 1, 100 do table.insert(queue, 1, i) end
for i = 1, 40 do table.remove(queue, 1) end
print(#queue, queue[1], queue[60], table.concat(queue, ',', 1, 5))
print(table.unpack(table.move({1, 2, 3}, 1, 3, 3, {9, 9})))
local words = {}
for i = 1, 300 do words['key' .. i % 37] = (words['key' .. i % 37] or 0) + i end
local total = 0
for _, value in pairs(words) do total = total + value end
print(total, next({}), #'', rawlen({1, 2}))
