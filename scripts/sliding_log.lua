#!lua
-- sliding_log: keep one entry a unit for a period, and count them.
--
-- KEYS[1]  sorted set: a member a unit (a nonce and a number), its score the µs
--          at which it was charged
-- ARGV[1]  rate, units per period, 1 to 10,000
-- ARGV[2]  period, µs
-- ARGV[3]  nonce, unique to this call
-- ARGV[4]  cost of one request, units; absent: 1
-- ARGV[5]  requests asked for; absent: 1; 0: one, charged whatever is left: at
--          most rate entries, the newest rate entries stay
-- ARGV[6]  tests only: now, µs; the key then lives an hour longer
-- Returns  '<ddddd' entries in the window, score of the newest, score of the
--          entry that must leave before one more request passes (0: none
--          must), now, requests granted
-- Clock    the shard's own TIME; clients send none
-- Writes   KEYS[1] at most, expiring a period after its newest entry. First it
--          adds, then it trims: the key never vanishes under a script that
--          still needs it, which would fail in the middle on a moving slot
-- Work     O(cost + 64 stale entries)
local rate, period = ARGV[1] + 0, ARGV[2] + 0
local cost, count = (ARGV[4] or 1) + 0, (ARGV[5] or 1) + 0
local now = ARGV[6]
if now then
  now = now + 0
else
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local function text(number) return string.format('%.0f', number) end

-- entries more than a second ahead are pulled back to a second ahead
local late = redis.call('ZCOUNT', KEYS[1], '(' .. text(now + 1000000), '+inf') > 0
if late then
  local ahead = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. text(now + 1000000), '+inf', 'LIMIT', 0, 1000)
  local pairs, score = {}, text(now + 1000000)
  for i = 1, #ahead do
    pairs[2 * i - 1], pairs[2 * i] = score, ahead[i]
  end
  redis.call('ZADD', KEYS[1], unpack(pairs))
end

local used = redis.call('ZCOUNT', KEYS[1], '(' .. text(now - period), '+inf')
local n, units
if count == 0 then
  n, units = 1, math.min(cost, rate)
else
  n = math.min(math.max(math.floor((rate - used) / cost), 0), count)
  units = n * cost
end

local stale = redis.call('ZCARD', KEYS[1]) - used
if n > 0 then
  local score, i = text(now), 0
  while i < units do
    local pairs, size = {}, math.min(units - i, 1000)
    for j = 1, size do
      pairs[2 * j - 1], pairs[2 * j] = score, ARGV[3] .. text(i + j)
    end
    redis.call('ZADD', KEYS[1], unpack(pairs))
    i = i + size
  end
  used = used + units
  if used > rate then
    redis.call('ZREMRANGEBYRANK', KEYS[1], stale, stale + used - rate - 1)
    used = rate
  end
  local trim = math.min(stale, units + 64)
  if trim > 0 then redis.call('ZREMRANGEBYRANK', KEYS[1], 0, trim - 1) end
  stale = stale - trim
end

local newest = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2] or 0
if n > 0 or late then
  local life = math.max(math.ceil((newest + period - now) / 1000), 1)
  if ARGV[6] then life = life + 3600000 end
  redis.call('PEXPIRE', KEYS[1], text(life))
end
local leave, more = 0, count == 0 and 1 or cost
if n < count or count == 0 then
  local rank = stale + used + more - rate - 1
  if rank >= stale then leave = redis.call('ZRANGE', KEYS[1], rank, rank, 'WITHSCORES')[2] or 0 end
end
return struct.pack('<ddddd', used, newest, leave, now, n)
