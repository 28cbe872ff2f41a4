#!lua
-- lease: end leases that a process settles, and lend it units that it may then
-- spend by itself, charged here already.
--
-- KEYS[1]  as token_bucket, sliding_window or fixed_window keeps it
-- ARGV[1]  t, s, or w for a fixed_window with a key for each window
-- ARGV[2]  rate, units per period, > 0
-- ARGV[3]  period, µs
-- ARGV[4]  burst, units; of a window: 0
-- ARGV[5]  w: the window's index, from which the client derived the key; else 0
-- ARGV[6]  units wanted, what the asker expects to need in half a lease time,
--          times 1.2; 0: none
-- ARGV[7]  units offered to the asker since it last asked
-- ARGV[8]  µs after which nothing is lent any more; 0: no matter when
-- ARGV[3i+6 … 3i+8]  of settlement i: µs at which the lease was lent, its size,
--          what of it is unspent
-- ARGV[3k+9]  behind the k settlements, tests only: now, µs; the key then lives
--          an hour longer
-- Returns  what is stored, as peek replies it, but ending in '<ddd' now, units
--          lent, µs until which nothing more is to be asked for. Units are -1,
--          and nothing was done, if units are wanted of a window that now is not in
-- Clock    the shard's own TIME; clients send none
-- Writes   KEYS[1] at most, of a refused ask what was offered; expiring when
--          neither use, nor leases, nor demand need it any more
local kind, rate, period, burst, index = ARGV[1], ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0
local want, offered, latest = ARGV[6] + 0, ARGV[7] + 0, ARGV[8] + 0
local settlements = math.floor((#ARGV - 8) / 3)
local now, longer = ARGV[3 * settlements + 9], 0
if now then
  now, longer = now + 0, 3600000
else
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if kind == 'w' and want > 0 and math.floor(now / period) ~= index then
  return struct.pack('<dddd', 0, now, -1, 0)
end

-- read
local stored = redis.call('GET', KEYS[1])
local window = math.floor(now / period)
local at, used, prev, lent, before, demand, asked, reset, keep = window, 0, 0, 0, 0, 0, 0
if kind == 'w' then
  at = index
  if stored then used = tonumber(stored) end
  if not used and #stored == 17 then
    used, reset = struct.unpack('<dd', stored, 2)
  elseif not used then
    used, reset, lent, demand, asked = struct.unpack('<ddddd', stored, 2)
    if reset == 0 then reset = nil end
  end
elseif kind == 's' and stored then
  if #stored == 12 then
    at, prev, used = struct.unpack('<I6I3I3', stored)
  elseif #stored == 24 then
    at, prev, used = struct.unpack('<ddd', stored)
  elseif #stored == 40 then
    at, prev, used, reset, keep = struct.unpack('<ddddd', stored)
  elseif #stored == 56 then
    at, prev, used, lent, before, demand, asked = struct.unpack('<ddddddd', stored)
  else
    at, prev, used, lent, before, demand, asked, reset, keep = struct.unpack('<ddddddddd', stored)
  end
elseif kind == 't' then
  at = now
  if stored and #stored == 12 then
    local low, high = struct.unpack('<I6I6', stored)
    used, at = (high - high % 16) / 16, high % 16 * 281474976710656 + low
  elseif stored and #stored == 16 then
    used, at = struct.unpack('<dd', stored)
  elseif stored and #stored == 32 then
    used, at, reset, keep = struct.unpack('<dddd', stored)
  elseif stored and #stored == 48 then
    used, at, lent, before, demand, asked = struct.unpack('<dddddd', stored)
  elseif stored then
    used, at, lent, before, demand, asked, reset, keep = struct.unpack('<dddddddd', stored)
  end
end

-- bring to now; a window's own key stays what it is. What a bucket lends holds
-- up what is used until its epoch, of 200,000 µs, and the next have ended
local late = false
if kind == 't' then
  late = at > now + 1000000
  if late then at = now + 1000000 end
  local ends = (math.floor(at / 200000) + 1) * 200000
  while lent + before > 0 and now >= ends do
    used, at = math.max((lent + before) * period, used - (ends - at) * rate), ends
    lent, before, ends = 0, lent, ends + 200000
  end
  if now > at then
    used, at = math.max((lent + before) * period, used - (now - at) * rate), now
  end
elseif kind == 's' and at > window then
  if at * period - now > 1000000 then
    late, at, prev, used, lent, before = true, window, 0, used + prev, lent + before, 0
  end
elseif kind == 's' and at == window - 1 then
  at, prev, used, lent, before = window, used, 0, 0, lent
elseif kind == 's' and at < window then
  at, prev, used, lent, before = window, 0, 0, 0, 0
end
if kind ~= 'w' and math.abs(now - asked) >= 400000 then demand, asked = 0, 0 end

-- settle: credit each lease to the epoch or window that it was lent in, but none
-- that was lent after now: the clock stepped back, and numbers come again
local unit, settled = kind == 'w' and 1 or period, false
for i = 1, settlements do
  local since, size, unspent = ARGV[3 * i + 6] + 0, ARGV[3 * i + 7] + 0, ARGV[3 * i + 8] + 0
  local ago = at - math.floor(since / period)
  if kind == 't' then ago = math.floor(at / 200000) - math.floor(since / 200000) end
  local taken = 0
  if reset and since <= reset or since > now then
    ago = -1
  elseif ago == 0 then
    taken = math.min(size, lent)
    lent = lent - taken
  elseif ago == 1 then
    taken = math.min(size, before)
    before = before - taken
  end
  local back = math.min(unspent, taken)
  if kind == 't' then
    used = math.max((lent + before) * period, used - back * period)
  elseif ago == 0 then
    used = math.max(0, used - back)
  elseif ago == 1 then
    prev = math.max(0, prev - back)
  end
  settled = settled or taken > 0
end

-- lend: what is offered decays linearly, within 400,000 µs
if latest > 0 and now > latest then want = 0 end
if want > 0 or offered > 0 then
  demand = demand * math.max(400000 - math.max(now - asked, 0), 0) / 400000 + offered
  asked = demand > 0 and now or 0
end
local n, next, capacity = 0, 0, kind == 't' and burst or rate
local full, demanded, supplied = capacity * unit, demand * period, 400000 * rate
local share = want
if demanded > supplied then share = math.floor(want * supplied / demanded) end
local room = math.floor(capacity / 4) - lent
if kind == 't' then room = room - before end
local function fits(spent, most)
  local fit = math.min(math.max(math.floor((full - spent) / unit), 0), most)
  if fit < most and spent + (fit + 1) * unit <= full then
    return fit + 1
  elseif fit > 0 and spent + fit * unit > full then
    return fit - 1
  end
  return fit
end
if share < 4 or room < 4 then
  n = 0
elseif kind == 't' and at <= now then
  local most = math.min(share, room)
  n = fits(used, most)
  if demanded * 10 > supplied * 9 and n < most / 2 then
    n, next = 0, 50000
  elseif n < 4 then
    n = 0
  elseif demanded > supplied then
    next = 130000 * n / want * (demanded / supplied) * (math.min(used, full) / full)
    next = math.min(math.floor(next), 250000)
  end
elseif kind ~= 't' and at == window then
  local spent = used
  if kind == 's' then spent = prev * (period - (now - at * period)) + used * period end
  local left = (at + 1) * period - now
  if left < 100000 then want = math.floor(want * left / 100000) end
  if (full - spent) * 10 >= full then n = fits(spent, math.min(want, room)) end
  if n < 4 then n = 0 end
end
used, lent = used + n * (kind == 't' and period or 1), lent + n

-- write
if n > 0 or late or settled or offered > 0 then
  local leased, ends = lent + before + demand > 0
  if keep and keep <= now then reset, keep = nil, nil end
  if kind == 'w' then
    ends = (index + 1) * period + math.min(period, 10000000)
    if leased then
      stored = 'L' .. struct.pack('<ddddd', used, reset or 0, lent, demand, asked)
    else
      stored = reset and 'R' .. struct.pack('<dd', used, reset) or string.format('%.0f', used)
    end
  elseif kind == 's' then
    ends = (at + 2) * period
    if leased then
      stored = struct.pack('<ddddddd', at, prev, used, lent, before, demand, asked)
    elseif not keep and prev < 16777216 and used < 16777216 then
      stored = struct.pack('<I6I3I3', at, prev, used)
    else
      stored = struct.pack('<ddd', at, prev, used)
    end
  else
    ends = at + math.ceil(used / rate)
    if leased then
      ends = math.max((math.floor(at / 200000) + 2) * 200000 + math.ceil(used / rate), asked + 400000)
      stored = struct.pack('<dddddd', used, at, lent, before, demand, asked)
    elseif not keep and used < 17592186044416 and at < 4503599627370496 then
      local low = at % 281474976710656
      stored = struct.pack('<I6I6', low, used * 16 + (at - low) / 281474976710656)
    else
      stored = struct.pack('<dd', used, at)
    end
  end
  if keep then
    stored, ends = stored .. struct.pack('<dd', reset, keep), math.max(ends, keep)
  end
  local life = math.min(math.max(math.ceil((ends - now) / 1000), 1), 3155760000000) + longer
  redis.call('SET', KEYS[1], stored, 'PX', string.format('%.0f', life))
end
if kind == 'w' then return struct.pack('<dddd', used, now, n, next) end
return (stored or '') .. struct.pack('<ddd', now, n, next)
