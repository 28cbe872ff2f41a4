#!lua
-- gcra: let a request pass if it arrives no earlier than its burst tolerates,
-- or say when the last one would have arrived (virtual scheduling, ITU-T I.371).
--
-- KEYS[1]  TAT, the theoretical arrival time: a decimal integer, in ticks of
--          1/16 µs since 2026-01-01
-- ARGV[1]  rate, units per period, > 0
-- ARGV[2]  period, µs
-- ARGV[3]  burst, units
-- ARGV[4]  cost of one request, units; absent: 1
-- ARGV[5]  requests asked for; absent: 1
-- ARGV[6]  tests only: now, µs; the key then lives an hour longer
-- Returns  '<ddd' TAT, now, requests granted
-- Clock    the shard's own TIME; clients send none
-- Writes   KEYS[1] at most, expiring when TAT is past
local interval = math.ceil(16 * ARGV[2] / ARGV[1])
local cost, count = (ARGV[4] or 1) + 0, (ARGV[5] or 1) + 0
local now = ARGV[6]
if now then
  now = now + 0
else
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local tick = (now - 1767225600000000) * 16

local stored = redis.call('GET', KEYS[1])
local tat = stored and stored + 0 or tick
local full, each = ARGV[3] * interval, cost * interval
local farthest = tick + full + 16000000
local late = tat > farthest
if late then tat = farthest end
local ahead = math.max(tat - tick, 0)

local n
if count == 1 then
  n = ahead + each <= full and 1 or 0
else
  n = math.min(math.max(math.floor((full - ahead) / each), 0), count)
  if n < count and ahead + (n + 1) * each <= full then
    n = n + 1
  elseif n > 0 and ahead + n * each > full then
    n = n - 1
  end
end

if n > 0 then tat = math.max(tat, tick) + n * cost * interval end
if n > 0 or late then
  local ends = 1767225600000000 + math.ceil(tat / 16)
  local life = math.max(math.ceil((ends - now) / 1000), 1)
  if ARGV[6] then life = life + 3600000 end
  redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', string.format('%.0f', life))
end
return struct.pack('<ddd', tat, now, n)
