-- Coroutines: generators, errors across them, wrap, close.
local function permutations(list, n)
  n = n or #list
  if n <= 1 then coroutine.yield(list) return end
  for i = 1, n do
    list[n], list[i] = list[i], list[n]
    permutations(list, n - 1)
    list[n], list[i] = list[i], list[n]
  end
end
for p in coroutine.wrap(function() permutations {'a', 'b', 'c', 'd'} end) do
  io.write(table.concat(p), ' ')
end
print()

local broken = coroutine.create(function(x) coroutine.yield(x + 1); error({code = x}) end)
print(coroutine.resume(broken, 41))
local ok, what = coroutine.resume(broken)
print(ok, type(what), what.code, coroutine.status(broken))
print(coroutine.resume(broken))

local log = {}
local pending = coroutine.create(function()
  local guard <close> = setmetatable({}, {__close = function() log[#log + 1] = 'closed' end})
  coroutine.yield()
end)
coroutine.resume(pending)
print(coroutine.close(pending), log[1], coroutine.isyieldable())
