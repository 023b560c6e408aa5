-- Work for the Lua interpreter that touches most of it: numbers, strings, tables, closures,
-- patterns, coroutines, errors, the compiler and the collector. lua workload.lua ROUNDS

local seed = 42
local function random(n)
    seed = (seed * 1103515245 + 12345) % 2147483648
    return seed // 65536 % n + 1
end

local function queens(n)
    local columns, rising, falling, found = {}, {}, {}, 0
    local function place(row)
        if row > n then
            found = found + 1
            return
        end
        for column = 1, n do
            local up, down = row + column, row - column
            if not (columns[column] or rising[up] or falling[down]) then
                columns[column], rising[up], falling[down] = true, true, true
                place(row + 1)
                columns[column], rising[up], falling[down] = nil, nil, nil
            end
        end
    end
    place(1)
    return found
end

local function words(count)
    local list = {}
    for i = 1, count do
        local letters = {}
        for k = 1, random(8) + 2 do
            letters[k] = string.char(96 + random(26))
        end
        list[i] = table.concat(letters)
    end
    return list
end

local function text(count)
    local list = words(count)
    table.sort(list, function(a, b) return #a < #b or (#a == #b and a < b) end)
    local joined, seen = table.concat(list, " "), {}
    for word in joined:gmatch("%a+") do
        seen[word] = (seen[word] or 0) + 1
    end
    joined = joined:gsub("([aeiou])", "<%1>"):upper():gsub("<(.)>", string.lower)
    return #joined, joined:find("zz[^a-z]", 1) or 0, string.format("%08.3f %x", #list / 7, #joined)
end

local Point = {}
Point.__index = Point
Point.__add = function(a, b) return setmetatable({x = a.x + b.x, y = a.y + b.y}, Point) end
function Point:length() return math.sqrt(self.x * self.x + self.y * self.y) end

local function points(count)
    local sum, longest = setmetatable({x = 0, y = 0}, Point), 0
    for i = 1, count do
        sum = sum + setmetatable({x = i % 17 - 8, y = i % 13 / 2}, Point)
        longest = math.max(longest, sum:length())
    end
    return longest
end

local function pipeline(count)
    local function numbers()
        for i = 1, count do
            coroutine.yield(i ~ i >> 1)
        end
    end
    local sum = 0
    for value in coroutine.wrap(numbers) do
        if value % 3 == 0 then
            sum = sum + value
        elseif not pcall(error, value) then
            sum = sum - 1
        end
    end
    return sum
end

local function chunks(count)
    local sum = 0
    for i = 1, count do
        local text = "local a, b = ... if a < b then return a * " .. i .. " else return b end"
        local chunk = load(text)
        sum = sum + chunk(i, count - i)
    end
    return sum
end

for _ = 1, tonumber(arg[1]) do
    print(queens(7), points(20000), pipeline(8000), chunks(400))
    print(text(4000))
end
