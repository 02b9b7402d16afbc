-- Patterns, formatting, packing, UTF-8.
local text = 'the quick brown fox jumps over the lazy dog'
local counts = {}
for letter in text:gmatch('%a') do counts[letter] = (counts[letter] or 0) + 1 end
local letters = {}
for letter in pairs(counts) do letters[#letters + 1] = letter end
table.sort(letters, function(a, b)
  if counts[a] ~= counts[b] then return counts[a] > counts[b] end
  return a < b
end)
for i = 1, 6 do io.write(letters[i], '=', counts[letters[i]], ' ') end
print()
print(text:gsub('(%w+) (%w+)', '%2 %1'))
print(text:gsub('%w+', {quick = 'slow', dog = 'cat'}))
print(text:find('b(r)(o)'), text:match('^(%a+).-(%a+)$'))
print(('%5.2f|%-8s|%08.3f|%x|%q|%+d|%5s|%i'):format(3.14159, 'left', -2.5, 255, 'a\n"b"', 7, true, 42))
print(('key = value ; other=thing'):gsub('(%w+)%s*=%s*(%w+)', function(k, v) return v .. '<-' .. k end))
print(('[%a bracket] (nested (parens) here)'):match('%b()'), ('THE (quick) fox'):find('%((%a+)%)'))
print(('%f[%a]%a+'):len(), ('hello world'):gsub('%f[%a]%a', string.upper))
print(string.pack('>I2 i4 z', 258, -2, 'zed'):byte(1, -1))
print(string.unpack('<I3 s1', '\1\2\3\5hello'))
print(utf8.char(72, 228, 8364, 128512), utf8.len('äöü€'), utf8.codepoint('€', 1))
for position, code in utf8.codes('aé€') do io.write(position, ':', code, ' ') end
print()
print(('x'):rep(3, '-'), ('abc'):reverse(), ('abc'):byte(-1), ('%d'):format(3.0))
print(tostring(1e15), 2^53, 10 // 3, -10 // 3, 10 % -3, 7.5 // 2, 1 / 0, math.tointeger(3.0), 0x7fffffffffffffff + 1)
print(tonumber('0x1p4'), tonumber('  12  '), tonumber('z', 36), tonumber('8', 8), math.type(1), math.type(1.0))
