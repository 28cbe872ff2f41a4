#!lua
-- token_bucket: take units from one subject's burst, or say what is used.
--
-- KEYS[1]  what is used, in units x period so that it falls by the rate each
--          µs and stays whole, and the µs at which that was true. 12 bytes
--          where they fit ('<I6I6': 48 bits of the µs; used x 16 + the rest of
--          the µs), else '<dd'. Of a leased key '<dddddd', with units lent in
--          the epoch of 200,000 µs that those µs lie in, and in the one before;
--          units offered to borrowers, and the µs at which that was true. After
--          a reset with two more, the µs of it and the µs until which it is kept
-- ARGV[1]  rate, units per period, > 0
-- ARGV[2]  period, µs
-- ARGV[3]  burst, units
-- ARGV[4]  cost of one request, units; absent: 1
-- ARGV[5]  requests asked for; absent: 1; 0: one, charged whatever is left
-- ARGV[6]  tests only: now, µs; the key then lives an hour longer
-- Returns  what is stored; then, unless all was granted at the stored µs,
--          '<dd' now, requests granted
-- Clock    the shard's own TIME; clients send none
-- Writes   KEYS[1] at most, expiring when nothing is used any more
local rate, period, burst = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local cost, count = (ARGV[4] or 1) + 0, (ARGV[5] or 1) + 0
local now = ARGV[6]
if now then
  now = now + 0
else
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local stored = redis.call('GET', KEYS[1])
local used, at, lent, before, demand, asked, reset, keep = 0, now
if stored then
  if #stored == 12 then
    local low, high = struct.unpack('<I6I6', stored)
    local rest = high % 16
    used, at = (high - rest) / 16, rest * 281474976710656 + low
  elseif #stored == 16 then
    used, at = struct.unpack('<dd', stored)
  elseif #stored == 32 then
    used, at, reset, keep = struct.unpack('<dddd', stored)
  elseif #stored == 48 then
    used, at, lent, before, demand, asked = struct.unpack('<dddddd', stored)
  else
    used, at, lent, before, demand, asked, reset, keep = struct.unpack('<dddddddd', stored)
  end
end

local late = at > now + 1000000
if late then at = now + 1000000 end
local current, since, floor = used, at, 0
if lent then -- what is lent holds up what is used until its epoch and the next have ended
  local ends = (math.floor(at / 200000) + 1) * 200000
  while lent + before > 0 and now >= ends do
    current, since = math.max((lent + before) * period, current - (ends - since) * rate), ends
    lent, before, ends = 0, lent, ends + 200000
  end
  floor = (lent + before) * period
end
if now > since then
  current = math.max(floor, current - (now - since) * rate)
  since = now
end

local full, each = burst * period, cost * period
local n
if count == 0 then
  n = 1
elseif count == 1 then
  n = current + each <= full and 1 or 0
else
  n = math.min(math.max(math.floor((full - current) / each), 0), count)
  if n < count and current + (n + 1) * each <= full then
    n = n + 1
  elseif n > 0 and current + n * each > full then
    n = n - 1
  end
end

if n > 0 then
  used, at = current + n * cost * period, since
end
if n > 0 or late then
  local ends = at + math.ceil(used / rate)
  local marked = keep and keep > now
  if lent and math.abs(now - asked) >= 400000 then demand, asked = 0, 0 end
  if lent and lent + before + demand > 0 then
    stored = struct.pack('<dddddd', used, at, lent, before, demand, asked)
    ends = math.max((math.floor(at / 200000) + 2) * 200000 + math.ceil(used / rate), asked + 400000)
  elseif not marked and used < 17592186044416 and at < 4503599627370496 then
    local low = at % 281474976710656
    stored = struct.pack('<I6I6', low, used * 16 + (at - low) / 281474976710656)
  else
    stored = struct.pack('<dd', used, at)
  end
  if marked then
    stored = stored .. struct.pack('<dd', reset, keep)
    ends = math.max(ends, keep)
  end
  local life = math.min(math.max(math.ceil((ends - now) / 1000), 1), 3155760000000)
  if ARGV[6] then life = life + 3600000 end
  redis.call('SET', KEYS[1], stored, 'PX', string.format('%.0f', life))
end
if n == count and at == now and #stored <= 16 then return stored end
return (stored or struct.pack('<dd', 0, now)) .. struct.pack('<dd', now, n)
