-- Errors, protected calls, handlers, deep stacks: the interpreter's longjmp.
local function depth(n) if n == 0 then error('bottom', 0) end return 1 + depth(n - 1) end
for _, n in ipairs {0, 1, 50} do print(pcall(depth, n)) end
print(select('#', pcall(error)))
print(pcall(function() local t = nil; return t.field end))
print(pcall(function() return 1 + {} end))
print(pcall(string.rep, 'x', -1))
print(pcall(string.rep))

local function handler(message) return 'handled: ' .. message:gsub('^.-:%d+: ', '') end
print(xpcall(function() error('inside') end, handler))
print(xpcall(function(a, b) return a .. b end, handler, 'fine ', 'too'))

local function forever() return 1 + forever() end
local ok, message = pcall(forever)
print(ok, message:match('stack overflow'))

local failures = 0
for i = 1, 2000 do
  if not pcall(function() if i % 3 == 0 then error(i) end end) then failures = failures + 1 end
end
print(failures)
print(pcall(load, function() error('reader') end))
print(load('return +'))
