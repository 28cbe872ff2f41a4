#!lua
-- give_log: remove the entries of one receipt from a sliding_log, or, at a
-- reset, all. Receipts from before a reset then find none of theirs.
--
-- KEYS[1]  as sliding_log keeps it
-- ARGV[1]  nonce of the charge, or 'all'
-- ARGV[2]  entries to remove, at most; all: 0
-- ARGV[3]  how many entries of the same nonce come before these; all: 0
-- ARGV[4]  tests only: now, µs
-- Returns  '<dd' now, 1 if entries were removed, else 0
-- Clock    the shard's own TIME; clients send none
-- Writes   KEYS[1] at most, which keeps its expiry
local now = ARGV[4]
if now then
  now = now + 0
else
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local left = redis.call('ZCARD', KEYS[1])
if ARGV[1] == 'all' then
  if left > 0 then redis.call('DEL', KEYS[1]) end
  return struct.pack('<dd', now, math.min(left, 1))
end
local removed, entries, before, i = 0, ARGV[2] + 0, ARGV[3] + 0, 0
while left > removed and i < entries do -- once the key has gone it is not touched again
  local members, size = {}, math.min(entries - i, 1000)
  for j = 1, size do
    members[j] = ARGV[1] .. string.format('%.0f', before + i + j)
  end
  removed = removed + redis.call('ZREM', KEYS[1], unpack(members))
  i = i + size
end
return struct.pack('<dd', now, math.min(removed, 1))
