-- Objects, inheritance, operators, weak tables and finalizers.
local Point = {}
Point.__index = Point
local function point(x, y) return setmetatable({x = x, y = y}, Point) end
Point.__add = function(a, b) return point(a.x + b.x, a.y + b.y) end
Point.__mul = function(a, k) return point(a.x * k, a.y * k) end
Point.__eq = function(a, b) return a.x == b.x and a.y == b.y end
Point.__lt = function(a, b) return a.x < b.x end
Point.__le = function(a, b) return a.x <= b.x end
Point.__len = function(a) return a.x + a.y end
Point.__tostring = function(a) return '(' .. a.x .. ',' .. a.y .. ')' end
Point.__concat = function(a, b) return tostring(a) .. tostring(b) end
Point.__call = function(a, z) return a.x + a.y + z end
print(tostring(point(1, 2) + point(3, 4) * 2), point(1, 2) == point(1, 2), point(1, 9) < point(2, 0))
print(point(1, 2) <= point(1, 0), #point(3, 4), point(1, 2) .. point(3, 4), point(1, 2)(10))

local Base = {name = 'base'}
Base.__index = Base
function Base.new(class, fields) return setmetatable(fields or {}, class) end
function Base:hello() return self.name .. ' says hello' end
local Derived = setmetatable({name = 'derived'}, Base)
Derived.__index = Derived
print(Base:new():hello(), Derived:new():hello(), Derived.new(Derived, {name = 'own'}):hello())

local reads = {}
local proxy = setmetatable({}, {
  __index = function(_, key) reads[#reads + 1] = key; return key .. '!' end,
  __newindex = function(table, key, value) rawset(table, key, value * 2) end,
})
proxy.x = 21
print(proxy.x, proxy.y, proxy.z, table.concat(reads, ','))

local finalized = 0
for i = 1, 300 do setmetatable({}, {__gc = function() finalized = finalized + 1 end}) end
collectgarbage()
collectgarbage()
local weak = setmetatable({}, {__mode = 'v'})
weak[1], weak[2] = {}, 'kept'
collectgarbage()
print(finalized, weak[1], weak[2])
collectgarbage('generational')
local keep = {}
for i = 1, 3000 do keep[i % 50] = {i} end
collectgarbage('incremental')
print(#keep)
