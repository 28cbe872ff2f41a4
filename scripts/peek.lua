#!lua flags=no-writes
-- peek: what is stored, from which the client derives what a request would meet.
--
-- KEYS[1]  the state of any policy but a sliding_log's
-- ARGV[1]  what it is: 'packed', as several, token_bucket and sliding_window
--          keep it; 'number', as gcra does; 'window', as fixed_window does
-- ARGV[2]  window: period, µs; else 0
-- ARGV[3]  window: the index from which the client derived the key; else 0
-- ARGV[4]  tests only: now, µs
-- Returns  packed: what is stored, then '<dd' now, 0; number and window:
--          '<ddd' the number (0: nothing is stored), now, 0, or -1 for the last
--          if now lies in another window
-- Clock    the shard's own TIME; clients send none
-- Writes   nothing
local now = ARGV[4]
if now then
  now = now + 0
else
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if ARGV[1] == 'window' and math.floor(now / ARGV[2]) ~= ARGV[3] + 0 then
  return struct.pack('<ddd', 0, now, -1)
end

local stored = redis.call('GET', KEYS[1])
if ARGV[1] == 'packed' then return (stored or '') .. struct.pack('<dd', now, 0) end
local number = 0
if stored then number = tonumber(stored) or struct.unpack('<d', stored, 2) end
return struct.pack('<ddd', number, now, 0)
