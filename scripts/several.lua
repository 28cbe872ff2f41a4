#!lua
-- several: take units from each of several limits, or from none.
--
-- KEYS[1]  the limits' states side by side, doubles: token_bucket (t) units x
--          period used, µs; gcra (g) TAT, ticks; sliding_window (s) and
--          fixed_window (f) window's index, units of the window before, its
--          own units; after a reset also the µs of the reset and the µs until
--          which it is kept
-- ARGV[4i-3 … 4i]  of limit i: its kind (t, g, s, f), rate, period in µs, burst
--          (of a window: 0)
-- ARGV[4k+1]  behind the k limits: cost of one request, units; absent: 1
-- ARGV[4k+2]  requests asked for; absent: 1; 0: one, charged whatever is left
-- ARGV[4k+3]  tests only: now, µs; the key then lives an hour longer
-- Returns  what is stored, then '<dd' now, requests granted
-- Clock    the shard's own TIME; clients send none
-- Writes   KEYS[1] at most, expiring when the last of the limits needs it no more
local limits = math.floor(#ARGV / 4)
local cost, count = (ARGV[4 * limits + 1] or 1) + 0, (ARGV[4 * limits + 2] or 1) + 0
local now = ARGV[4 * limits + 3]
if now then
  now = now + 0
else
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local tick = (now - 1767225600000000) * 16

local stored = redis.call('GET', KEYS[1])
local at, used, prev, add, late = {}, {}, {}, {}, false
local n, next = count == 0 and 1 or count, 1
for i = 1, limits do
  local kind, rate, period, burst = ARGV[4 * i - 3], ARGV[4 * i - 2] + 0, ARGV[4 * i - 1] + 0, ARGV[4 * i] + 0
  local a, u, p, spent, full, unit = 0, 0, 0
  if kind == 't' then
    if stored then u, a, next = struct.unpack('<dd', stored, next) end
    if a > now + 1000000 then a, late = now + 1000000, true end
    if now > a then
      u = math.max(0, u - (now - a) * rate)
      a = now
    end
    spent, full, unit, add[i] = u, burst * period, period, period
  elseif kind == 'g' then
    if stored then a, next = struct.unpack('<d', stored, next) else a = tick end
    unit = math.ceil(16 * period / rate)
    full = burst * unit
    if a > tick + full + 16000000 then a, late = tick + full + 16000000, true end
    spent, add[i] = math.max(a - tick, 0), unit
  else
    if stored then a, p, u, next = struct.unpack('<ddd', stored, next) end
    local window = math.floor(now / period)
    if a == window - 1 then
      a, p, u = window, u, 0
    elseif a < window then
      a, p, u = window, 0, 0
    elseif a * period - now > 1000000 and (kind == 's' or a > window + 1) then -- the clock stepped back
      a, p, u, late = window, 0, u + p, true
    end
    if kind == 's' then
      spent, full, unit = p * (period - math.max(now - a * period, 0)) + u * period, rate * period, period
    else -- one window back, its own count still stands
      spent, full, unit = a == window + 1 and p or u, rate, 1
    end
  end
  at[i], used[i], prev[i] = a, u, p
  if count > 0 then
    local each = cost * unit
    local fit = math.min(math.max(math.floor((full - spent) / each), 0), count)
    if fit < count and spent + (fit + 1) * each <= full then
      fit = fit + 1
    elseif fit > 0 and spent + fit * each > full then
      fit = fit - 1
    end
    n = math.min(n, fit)
  end
end

if n > 0 or late then
  local reset, keep
  if stored and next <= #stored then reset, keep = struct.unpack('<dd', stored, next) end
  local ends, packed = 0, {}
  for i = 1, limits do
    local kind, rate, period = ARGV[4 * i - 3], ARGV[4 * i - 2] + 0, ARGV[4 * i - 1] + 0
    if kind == 't' then
      local u = used[i] + n * cost * add[i]
      packed[i] = struct.pack('<dd', u, at[i])
      ends = math.max(ends, at[i] + math.ceil(u / rate))
    elseif kind == 'g' then
      local tat = n > 0 and math.max(at[i], tick) + n * cost * add[i] or at[i]
      packed[i] = struct.pack('<d', tat)
      ends = math.max(ends, 1767225600000000 + math.ceil(tat / 16))
    elseif kind == 'f' and at[i] == math.floor(now / period) + 1 then
      packed[i] = struct.pack('<ddd', at[i], prev[i] + n * cost, used[i])
      ends = math.max(ends, (at[i] + 1) * period + math.min(period, 10000000))
    else
      packed[i] = struct.pack('<ddd', at[i], prev[i], used[i] + n * cost)
      ends = math.max(ends, (at[i] + 1) * period + (kind == 's' and period or math.min(period, 10000000)))
    end
  end
  if keep and keep > now then
    packed[limits + 1] = struct.pack('<dd', reset, keep)
    ends = math.max(ends, keep)
  end
  stored = table.concat(packed)
  local life = math.min(math.max(math.ceil((ends - now) / 1000), 1), 3155760000000)
  if ARGV[4 * limits + 3] then life = life + 3600000 end
  redis.call('SET', KEYS[1], stored, 'PX', string.format('%.0f', life))
end
return (stored or '') .. struct.pack('<dd', now, n)
