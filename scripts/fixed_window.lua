#!lua
-- fixed_window: count units in one window aligned to 1970, a key for each.
--
-- KEYS[1]  the window's units, a decimal integer; after a reset 'R' and '<dd'
--          units, µs of the reset; of a leased key 'L' and '<ddddd' units, µs of
--          a reset or 0, units lent, units offered to borrowers, and the µs at
--          which that was true
-- ARGV[1]  rate, units per window, > 0
-- ARGV[2]  period, the window's length, µs
-- ARGV[3]  the window's index, from which the client derived the key
-- ARGV[4]  cost of one request, units; absent: 1
-- ARGV[5]  requests asked for; absent: 1; 0: one, charged whatever is left
-- ARGV[6]  tests only: now, µs; the key then lives an hour longer
-- Returns  '<ddd' units used, now, requests granted; granted is -1, and
--          nothing was charged, if now lies in another window
-- Clock    the shard's own TIME; clients send none
-- Writes   KEYS[1] at most, expiring one period (at most 10 s) after the
--          window, so that a clock that steps back finds its count
local rate, period, index = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local cost, count = (ARGV[4] or 1) + 0, (ARGV[5] or 1) + 0
local now = ARGV[6]
if now then
  now = now + 0
else
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if math.floor(now / period) ~= index then return struct.pack('<ddd', 0, now, -1) end

local stored = redis.call('GET', KEYS[1])
local used, reset, lent, demand, asked = 0
if stored then
  used = tonumber(stored)
  if not used and #stored == 17 then
    used, reset = struct.unpack('<dd', stored, 2)
  elseif not used then
    used, reset, lent, demand, asked = struct.unpack('<ddddd', stored, 2)
    if reset == 0 then reset = nil end
  end
end

local n
if count == 0 then
  n = 1
elseif count == 1 then
  n = used + cost <= rate and 1 or 0
else
  n = math.min(math.max(math.floor((rate - used) / cost), 0), count)
end

if n > 0 then
  used = used + n * cost
  local life = math.ceil(((index + 1) * period + math.min(period, 10000000) - now) / 1000)
  if ARGV[6] then life = life + 3600000 end
  if lent and math.abs(now - asked) >= 400000 then demand, asked = 0, 0 end
  local value = string.format('%.0f', used)
  if lent and lent + demand > 0 then
    value = 'L' .. struct.pack('<ddddd', used, reset or 0, lent, demand, asked)
  elseif reset then
    value = 'R' .. struct.pack('<dd', used, reset)
  end
  redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', life))
end
return struct.pack('<ddd', used, now, n)
