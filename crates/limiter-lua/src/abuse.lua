-- abuse.lua: record, read, forgive or unblock the attempts of one identity under one policy, in one atomic step.
-- Twin of limiter_core::abuse (record, status, forgive, unblock). Change both; abuse_laws and the comparison with the model
-- must pass.
-- Why Lua: read, decide and write must be one step; MULTI cannot branch on what it read.
-- KEYS[1]    string of the identity under the policy; absent: never tried
-- ARGV[1]    packed call, big-endian: op u8 (0 status, 1 record, 2 forgive, 3 unblock), ignore u8 (1: attempts while blocked
--            leave no trace), tiers u8, factor u8 (0: no escalation), memory_us u48, at_most_us u48, then for each tier, the
--            mildest first, threshold u16, window_us u48, block_us u48
-- ARGV[2..]  the name of each tier; then, with a manual clock only, seconds and microseconds in place of TIME
-- State      tag u8 (0x16: version 1, form 6), seen_us u56, expires_us u56, strikes u8, started u8 (a bit a tier), since_us
--            u56, ends_us u56 (0: never blocked), length of the scope u8, the scope, then for each attempt, the oldest first,
--            when_us u56; at most as many as the largest threshold
-- Reply      now_us u56, started u8 (1: this attempt started the block), since_us u56, ends_us u56 (0: no block in force), for
--            each tier count u32, then the scope; of unblock the block that was lifted
-- Errors     LIMITERSTATE if the state is of an unknown version or corrupt; nothing was written then
-- TTL        frees memory, decides nothing; written together with the state. With a manual clock, an hour more
-- Numbers are doubles: all stay under 2^53 and whole; microseconds, never nanoseconds

local key, call = KEYS[1], ARGV[1]
local read, write, floor = struct.unpack, struct.pack, math.floor
local op, ignore, tiers, factor, memory, at_most, at = read('>BBBBI6I6', call)
local thresholds, windows, blocks = {}, {}, {}
for i = 1, tiers do
  thresholds[i], windows[i], blocks[i], at = read('>I2I6I6', call, at)
end
local manual = ARGV[tiers + 2]
local time = manual and {manual, ARGV[tiers + 3]} or redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local state = redis.call('GET', key)
local seen, strikes, started, since, ends, scope, attempts = now, 0, 0, 0, 0, '', ''
if state then
  local form = string.byte(state) or 0
  if floor(form / 16) ~= 1 then
    return redis.error_reply('LIMITERSTATE unknown version ' .. floor(form / 16) .. ' of the attempts')
  end
  local named = form == 0x16 and #state >= 32 and string.byte(state, 32) or 0
  if form ~= 0x16 or #state < 32 + named or (#state - 32 - named) % 7 ~= 0 then
    return redis.error_reply('LIMITERSTATE corrupt attempts')
  end
  seen, strikes, started, since, ends = read('>I7xxxxxxxBBI7I7', state, 2)
  scope, attempts = state:sub(33, 32 + named), state:sub(33 + named)
  if now > seen then seen = now end
end
-- From here on `seen` is the present moment as the state sees it: time does not run back.
local count = #attempts / 7

-- Returns how many attempts have left a window that ends now.
local function left(window)
  local low, high = 0, count
  while low < high do
    local middle = floor((low + high) / 2)
    if read('>I7', attempts, middle * 7 + 1) + window <= seen then low = middle + 1 else high = middle end
  end
  return low
end

local blocked, fresh, changed = ends > seen, 0, false
local told_since, told_ends, told_scope = since, ends, scope

if op == 1 and not (blocked and ignore == 1) then
  local first = left(windows[tiers])
  if count - first >= thresholds[tiers] then first = count - thresholds[tiers] + 1 end
  attempts = attempts:sub(first * 7 + 1) .. write('>I7', seen)
  count, changed = count - first + 1, true

  local standing = 0
  if blocked then
    if strikes > 0 then standing = strikes - 1 end
  else
    started = 0
    if factor > 0 then
      standing = strikes - floor((seen - ends) / memory)
      if standing < 0 then standing = 0 end
    end
  end
  local last_end, last_tier = 0, nil
  for i = 1, tiers do
    local bit = 2 ^ (i - 1)
    if floor(started / bit) % 2 == 0 and count - left(windows[i]) >= thresholds[i] then
      started = started + bit
      local block = blocks[i]
      if factor > 0 then
        for _ = 1, standing do
          if block >= at_most then break end
          block = block * factor
        end
        if block > at_most then block = at_most end
      end
      if seen + block >= last_end then last_end, last_tier = seen + block, i end
    end
  end
  if last_tier and (not blocked or last_end > ends) then
    since, ends, scope, fresh = seen, last_end, ARGV[last_tier + 1], 1
    if factor == 0 then
      strikes = 0
    elseif not blocked then
      strikes = standing < 32 and standing + 1 or 32
    end
    blocked = true
  end
  told_since, told_ends, told_scope = since, ends, scope
elseif op == 2 and state then
  attempts, count, changed = '', 0, true
elseif op == 3 and blocked then
  redis.call('DEL', key)
end

if changed then
  local expires = 0
  if count > 0 then expires = read('>I7', attempts, count * 7 - 6) + windows[tiers] end
  if ends > 0 then
    local remembered = ends + (factor > 0 and memory * strikes or 0)
    if remembered > expires then expires = remembered end
  end
  if expires > seen then
    local wait_ms = floor((expires - now) / 1000) + (manual and 3606000 or 6000)
    local head = write('>BI7I7BBI7I7B', 0x16, seen, expires, strikes, started, since, ends, #scope)
    redis.call('SET', key, head .. scope .. attempts, 'PX', string.format('%.0f', wait_ms))
  else
    redis.call('DEL', key)
  end
end

if not blocked then told_since, told_ends, told_scope = 0, 0, '' end
local counts = {}
for i = 1, tiers do
  counts[i] = write('>I4', count - left(windows[i]))
end
return write('>I7BI7I7', now, fresh, told_since, told_ends) .. table.concat(counts) .. told_scope
