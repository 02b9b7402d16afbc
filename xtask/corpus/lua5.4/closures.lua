-- Closures, upvalues, varargs, tail calls, goto.
local function counter(step)
  local n = 0
  return function(...)
    n = n + step * select('#', ...)
    return n
  end
end
local by_two, by_three = counter(2), counter(3)
print(by_two('a', 'b'), by_three('c'), by_two(), by_three(1, 2, 3))

local function loop(n, sum)
  if n == 0 then return sum end
  return loop(n - 1, sum + n)
end
print(loop(20000, 0))

local found = {}
for i = 2, 60 do
  for j = 2, i - 1 do
    if i % j == 0 then goto next end
  end
  found[#found + 1] = i
  ::next::
end
print(table.concat(found, ' '))

local shared = {}
for i = 1, 3 do shared[i] = function() i = i * 10; return i end end
print(shared[1](), shared[1](), shared[2](), shared[3]())
print(select(-2, 'x', 'y', 'z'), (select(2, 'x', 'y', 'z')))
