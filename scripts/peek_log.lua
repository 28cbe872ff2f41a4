#!lua flags=no-writes
-- peek_log: what a request of one unit would meet in a sliding_log.
--
-- KEYS[1]  as sliding_log keeps it
-- ARGV[1]  rate, units per period
-- ARGV[2]  period, µs
-- ARGV[3]  tests only: now, µs
-- Returns  '<ddddd' entries in the window, score of the newest, score of the
--          entry that must leave before one unit passes (0: none must), now, 0
-- Clock    the shard's own TIME; clients send none
-- Writes   nothing
local now = ARGV[3]
if now then
  now = now + 0
else
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local used = redis.call('ZCOUNT', KEYS[1], '(' .. string.format('%.0f', now - ARGV[2]), '+inf')
local newest = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2] or 0
local leave = 0
if used + 1 > ARGV[1] + 0 then
  local rank = redis.call('ZCARD', KEYS[1]) - ARGV[1]
  leave = redis.call('ZRANGE', KEYS[1], rank, rank, 'WITHSCORES')[2] or 0
end
return struct.pack('<ddddd', used, newest, leave, now, 0)
