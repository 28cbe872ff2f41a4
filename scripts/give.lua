#!lua
-- give: take back what one receipt charged and has not decayed since, or, at a
-- reset, all that is used. A reset leaves its time behind for one life of the
-- state, so that receipts from before it give nothing (a lone gcra has no room
-- for that mark: its key goes).
--
-- KEYS[1]  the state of any policy but a sliding_log's
-- ARGV[5i-4 … 5i]  of limit i: its kind, rate, period in µs, burst, and what
--          the charge left behind: the µs of a token_bucket's state, the index
--          of a window. Kinds: t, g, s, f as several; w for a fixed_window with
--          a key for each window
-- ARGV[5k+1]  behind the k limits: units granted to the receipt, or 'all'
-- ARGV[5k+2]  µs at which they were charged; all: 0
-- ARGV[5k+3]  tests only: now, µs; the key then lives an hour longer
-- Returns  '<dd' now, 1 if the state was written, 0 if nothing was there to
--          give to, -1 if now lies in another window than a reset was sent for
-- Clock    the shard's own TIME; clients send none
-- Writes   KEYS[1] at most, expiring as under the algorithms' own scripts
local limits = math.floor(#ARGV / 5)
local granted, charged = ARGV[5 * limits + 1], ARGV[5 * limits + 2] + 0
local all, lone = granted == 'all', limits == 1 and ARGV[1]
granted = all and 0 or granted + 0
local now, longer = ARGV[5 * limits + 3], 0
if now then
  now, longer = now + 0, 3600000
else
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local tick = (now - 1767225600000000) * 16

if all and lone == 'w' and math.floor(now / ARGV[3]) ~= ARGV[5] + 0 then
  return struct.pack('<dd', now, -1)
end
local stored = redis.call('GET', KEYS[1])
if not stored then return struct.pack('<dd', now, 0) end
if all and lone == 'g' then
  redis.call('DEL', KEYS[1])
  return struct.pack('<dd', now, 1)
end

-- read: the limits' states, what is lent of a lone one, and the mark of an
-- earlier reset
local at, used, prev, next, reset, keep = {}, {}, {}, 1
local lent, before, demand, asked = 0, 0, 0, 0
if lone == 'g' then
  at[1], next = stored + 0, #stored + 1
elseif lone == 'w' then
  at[1], prev[1], used[1], next = ARGV[5] + 0, 0, tonumber(stored), #stored + 1
  if not used[1] and #stored == 17 then
    used[1], reset = struct.unpack('<dd', stored, 2)
  elseif not used[1] then
    used[1], reset, lent, demand, asked = struct.unpack('<ddddd', stored, 2)
    if reset == 0 then reset = nil end
  end
elseif lone == 't' and #stored == 12 then
  local low, high = struct.unpack('<I6I6', stored)
  used[1], at[1], next = (high - high % 16) / 16, high % 16 * 281474976710656 + low, 13
elseif lone == 's' and #stored == 12 then
  at[1], prev[1], used[1], next = struct.unpack('<I6I3I3', stored)
else
  for i = 1, limits do
    if ARGV[5 * i - 4] == 't' then
      used[i], at[i], next = struct.unpack('<dd', stored, next)
    elseif ARGV[5 * i - 4] == 'g' then
      at[i], next = struct.unpack('<d', stored, next)
    else
      at[i], prev[i], used[i], next = struct.unpack('<ddd', stored, next)
    end
  end
end
if next + 31 <= #stored then lent, before, demand, asked, next = struct.unpack('<dddd', stored, next) end
if next <= #stored then reset, keep = struct.unpack('<dd', stored, next) end
if not all and reset and charged <= reset then return struct.pack('<dd', now, 0) end

-- give: bring each state to now, then take back
local ends, packed = 0, {}
local function outlives(moment) if moment > ends then ends = moment end end
for i = 1, limits do
  local kind, rate, period = ARGV[5 * i - 4], ARGV[5 * i - 3] + 0, ARGV[5 * i - 2] + 0
  local a, u, p, left = at[i], used[i], prev[i], ARGV[5 * i] + 0
  if kind == 't' then
    a = math.min(a, now + 1000000)
    local turn = (math.floor(a / 200000) + 1) * 200000
    while lent + before > 0 and now >= turn do
      u, a = math.max((lent + before) * period, u - (turn - a) * rate), turn
      lent, before, turn = 0, lent, turn + 200000
    end
    local floor = (lent + before) * period
    if now > a then
      u = math.max(floor, u - (now - a) * rate)
      a = now
    end
    local unused = a -- until when what is lent holds that up
    if floor > 0 then unused = turn + 200000 end
    if all then
      outlives(unused + math.ceil(u / rate))
      u = floor
    else
      u = math.max(floor, u - math.max(granted * period - math.max(a - left, 0) * rate, 0))
      outlives(unused + math.ceil(u / rate))
    end
    packed[i] = struct.pack('<dd', u, a)
  elseif kind == 'g' then
    local interval = math.ceil(16 * period / rate)
    a = math.min(a, tick + ARGV[5 * i - 1] * interval + 16000000)
    if all then
      outlives(1767225600000000 + math.ceil(a / 16))
      a = tick
    else
      local decayed = math.max(tick - (charged - 1767225600000000) * 16, 0)
      a = math.max(a - math.max(granted * interval - decayed, 0), tick)
      outlives(1767225600000000 + math.ceil(a / 16))
    end
    packed[i] = struct.pack('<d', a)
  else
    if kind ~= 'w' then
      local window = math.floor(now / period)
      if a == window - 1 then
        a, p, u, before, lent = window, u, 0, lent, 0
      elseif a < window then
        a, p, u, before, lent = window, 0, 0, 0, 0
      elseif a * period - now > 1000000 and (kind == 's' or a > window + 1) then
        a, p, u, lent, before = window, 0, u + p, lent + before, 0
      end
    end
    outlives((a + 1) * period + (kind == 's' and period or math.min(period, 10000000)))
    if all then
      p, u = math.min(p, before), math.min(u, lent)
    elseif left == a then
      u = math.max(0, u - granted)
    elseif left == a - 1 then
      p = math.max(0, p - granted)
    end
    packed[i] = struct.pack('<ddd', a, p, u)
    used[i] = u
  end
  at[i] = a
end

-- write
if (all or lone ~= 'w') and math.abs(now - asked) >= 400000 then demand, asked = 0, 0 end
if demand > 0 then outlives(asked + 400000) end
if all then
  reset, keep = now, math.max(ends, keep or 0)
end
local leased, value = lent + before + demand > 0
if lone == 'g' then
  value = string.format('%.0f', at[1])
elseif lone == 'w' and leased then
  value = 'L' .. struct.pack('<ddddd', used[1], reset or 0, lent, demand, asked)
elseif lone == 'w' then
  value = reset and 'R' .. struct.pack('<dd', used[1], reset) or string.format('%.0f', used[1])
else
  if leased then
    packed[#packed + 1] = struct.pack('<dddd', lent, before, demand, asked)
  end
  if keep and keep > now then
    packed[#packed + 1] = struct.pack('<dd', reset, keep)
    outlives(keep)
  end
  value = table.concat(packed)
end
local life = math.min(math.max(math.ceil((ends - now) / 1000), 1), 3155760000000) + longer
redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', life))
return struct.pack('<dd', now, 1)
