#!lua
-- sliding_window: count units in windows aligned to 1970, the window before
-- weighed by the part of it that the last period still covers.
--
-- KEYS[1]  the window's index, the units of the window before, its own units.
--          12 bytes where they fit ('<I6I3I3'), else '<ddd'. Of a leased key
--          '<ddddddd', with units lent of its own and of the window before, units
--          offered to borrowers, and the µs at which that was true. After a reset
--          with two more, the µs of it and the µs until which it is kept
-- ARGV[1]  rate, units per window, > 0
-- ARGV[2]  period, the window's length, µs
-- ARGV[3]  cost of one request, units; absent: 1
-- ARGV[4]  requests asked for; absent: 1; 0: one, charged whatever is left
-- ARGV[5]  tests only: now, µs; the key then lives an hour longer
-- Returns  what is stored, then '<dd' now, requests granted
-- Clock    the shard's own TIME; clients send none
-- Writes   KEYS[1] at most, expiring two windows after the start of its own
local rate, period = ARGV[1] + 0, ARGV[2] + 0
local cost, count = (ARGV[3] or 1) + 0, (ARGV[4] or 1) + 0
local now = ARGV[5]
if now then
  now = now + 0
else
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local stored = redis.call('GET', KEYS[1])
local index, prev, used, lent, before, demand, asked, reset, keep = 0, 0, 0, 0, 0, 0, 0
if stored then
  if #stored == 12 then
    index, prev, used = struct.unpack('<I6I3I3', stored)
  elseif #stored == 24 then
    index, prev, used = struct.unpack('<ddd', stored)
  elseif #stored == 40 then
    index, prev, used, reset, keep = struct.unpack('<ddddd', stored)
  elseif #stored == 56 then
    index, prev, used, lent, before, demand, asked = struct.unpack('<ddddddd', stored)
  else
    index, prev, used, lent, before, demand, asked, reset, keep = struct.unpack('<ddddddddd', stored)
  end
end

local window, late = math.floor(now / period), false
if index > window then -- the clock stepped back
  if index * period - now > 1000000 then
    late, index, prev, used, lent, before = true, window, 0, used + prev, lent + before, 0
  end
elseif index == window - 1 then
  index, prev, used, lent, before = window, used, 0, 0, lent
elseif index < window then
  index, prev, used, lent, before = window, 0, 0, 0, 0
end

local elapsed = math.max(now - index * period, 0)
local weighed = prev * (period - elapsed) + used * period
local full, each = rate * period, cost * period
local n
if count == 0 then
  n = 1
elseif count == 1 then
  n = weighed + each <= full and 1 or 0
else
  n = math.min(math.max(math.floor((full - weighed) / each), 0), count)
  if n < count and weighed + (n + 1) * each <= full then
    n = n + 1
  elseif n > 0 and weighed + n * each > full then
    n = n - 1
  end
end

if n > 0 or late then
  used = used + n * cost
  local ends = (index + 2) * period
  local marked = keep and keep > now
  if math.abs(now - asked) >= 400000 then demand, asked = 0, 0 end
  if lent + before + demand > 0 then
    stored = struct.pack('<ddddddd', index, prev, used, lent, before, demand, asked)
  elseif not marked and prev < 16777216 and used < 16777216 then
    stored = struct.pack('<I6I3I3', index, prev, used)
  else
    stored = struct.pack('<ddd', index, prev, used)
  end
  if marked then
    stored = stored .. struct.pack('<dd', reset, keep)
    ends = math.max(ends, keep)
  end
  local life = math.ceil((ends - now) / 1000)
  if ARGV[5] then life = life + 3600000 end
  redis.call('SET', KEYS[1], stored, 'PX', string.format('%.0f', life))
end
return (stored or '') .. struct.pack('<dd', now, n)
