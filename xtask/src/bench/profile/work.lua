-- work.lua ROUNDS SEED: tables, strings, closures, coroutines, metatables, floats.
local rounds, seed = tonumber(arg[1]), tonumber(arg[2])

local function random(limit)
    seed = (seed * 1103515245 + 12345) & 0x7fffffff
    return (seed >> 8) % limit + 1
end

local function sieve(limit)
    local composite, primes = {}, 0
    for i = 2, limit do
        if not composite[i] then
            primes = primes + 1
            for j = i * i, limit, i do composite[j] = true end
        end
    end
    return primes
end

local function queens(size)
    local columns, up, down, found = {}, {}, {}, 0
    local function place(row)
        if row > size then
            found = found + 1
            return
        end
        for column = 1, size do
            if not (columns[column] or up[row + column] or down[row - column]) then
                columns[column], up[row + column], down[row - column] = true, true, true
                place(row + 1)
                columns[column], up[row + column], down[row - column] = nil, nil, nil
            end
        end
    end
    place(1)
    return found
end

local function words(count)
    local seen, order = {}, {}
    for _ = 1, count do
        local word = string.char(96 + random(26), 96 + random(6), 96 + random(3))
        if not seen[word] then
            order[#order + 1] = word
        end
        seen[word] = (seen[word] or 0) + 1
    end
    table.sort(order, function(a, b)
        if seen[a] ~= seen[b] then return seen[a] > seen[b] end
        return a < b
    end)
    local text = table.concat(order, " ")
    local vowels = select(2, text:gsub("[aeiou]", "%0"))
    return #order, vowels, text:find("b%a+c") or 0
end

local Vector = {}
Vector.__index = Vector
Vector.__add = function(a, b) return setmetatable({ a[1] + b[1], a[2] + b[2] }, Vector) end
function Vector:norm() return (self[1] * self[1] + self[2] * self[2]) ^ 0.5 end

local function walk(steps)
    local at = setmetatable({ 0.0, 0.0 }, Vector)
    for _ = 1, steps do
        at = at + setmetatable({ random(3) - 2, random(3) - 2 }, Vector)
    end
    return string.format("%.3f", at:norm())
end

local function tree(depth)
    return coroutine.wrap(function()
        local function visit(low, high)
            if low > high then return end
            local middle = (low + high) // 2
            visit(low, middle - 1)
            coroutine.yield(middle)
            visit(middle + 1, high)
        end
        visit(1, 2 ^ depth // 1 | 0)
    end)
end

for round = 1, rounds do
    local sum = 0
    for value in tree(9) do sum = sum + value % 7 end
    print(round, sieve(4000 + random(100)), queens(6), sum, walk(2000), words(3000))
end
