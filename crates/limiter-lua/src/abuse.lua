-- abuse.lua: record, read, forgive or unblock the attempts of one identity under one policy, in one atomic step.
-- Twin of limiter_core::abuse (record, status, forgive, unblock). Change both; abuse_laws and the comparison with the model
-- must pass.
-- Why Lua: read, decide and write must be one step; MULTI cannot branch on what it read.
-- KEYS[1]    hash of the identity under the policy; absent: never tried
-- ARGV[1]    packed call, big-endian: op u8 (0 status, 1 record, 2 forgive, 3 unblock), ignore u8 (1: attempts while blocked
--            leave no trace), tiers u8, factor u8 (0: no escalation), memory_us u48, at_most_us u48, then for each tier, the
--            mildest first, threshold u16, window_us u48, block_us u48
-- ARGV[2..]  the name of each tier; then, with a manual clock only, seconds and microseconds in place of TIME
-- Hash       `state`: tag u8 (0x16: version 1, form 6), seen_us u56, expires_us u56, strikes u8, started u8 (a bit a tier),
--            since_us u56, ends_us u56 (0: never blocked), first u48, count u16, length of the scope u8, the scope
--            Attempts are numbered as they come; those that are kept are `count` from `first` on, at most as many as the largest
--            threshold. 72 of them share a field, a chunk, so that an attempt rewrites few others: that of chunk n (attempt / 72)
--            is n modulo 65536 as u16, its value for each attempt of the chunk, the oldest first, when_us u56. It ends with the
--            last attempt of the chunk so far; in front, those may be missing that are not kept. As long as one chunk has room
--            for all, they are in one: then they get new numbers when it is full
-- Reply      now_us u56, started u8 (1: this attempt started the block), since_us u56, ends_us u56 (0: no block in force), for
--            each tier count u32, then the scope; of unblock the block that was lifted
-- Errors     LIMITERSTATE if the state is of an unknown version or corrupt; nothing was written then
-- TTL        frees memory, decides nothing; set with each change. With a manual clock, an hour more
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

local state = redis.call('HGET', key, 'state')
local seen, strikes, started, since, ends, scope, first, count = now, 0, 0, 0, 0, '', 0, 0
if state then
  local form = string.byte(state) or 0
  if floor(form / 16) ~= 1 then
    return redis.error_reply('LIMITERSTATE unknown version ' .. floor(form / 16) .. ' of the attempts')
  end
  if form ~= 0x16 or #state < 40 or #state ~= 40 + string.byte(state, 40) then
    return redis.error_reply('LIMITERSTATE corrupt attempts')
  end
  seen, strikes, started, since, ends, first, count = read('>I7xxxxxxxBBI7I7I6I2', state, 2)
  scope = state:sub(41)
  if now > seen then seen = now end
end
-- From here on `seen` is the present moment as the state sees it: time does not run back. `coming` is the number of the attempt
-- that comes next.
local coming, chunks, is_corrupt = first + count, {}, false

local CHUNK = 72

local function field(chunk)
  return write('>I2', chunk % 65536)
end

-- Returns the chunk of an attempt that is kept, and its place there.
local function look_up(attempt)
  local n = floor(attempt / CHUNK)
  local chunk = chunks[n] or redis.call('HGET', key, field(n)) or ''
  chunks[n] = chunk
  local place = #chunk - (math.min(coming, (n + 1) * CHUNK) - attempt) * 7 + 1
  if place < 1 or #chunk % 7 ~= 0 or #chunk > CHUNK * 7 then
    is_corrupt = true
    return string.rep('\0', 7), 1
  end
  return chunk, place
end

-- Returns when an attempt came.
local function came(attempt)
  return read('>I7', look_up(attempt))
end

-- Returns how many attempts are in a window that ends now.
local function within(window)
  local low, high = first, coming
  while low < high do
    local middle = floor((low + high) / 2)
    if came(middle) + window <= seen then low = middle + 1 else high = middle end
  end
  return coming - low
end

local blocked, fresh, changed = ends > seen, 0, false
local old_first, newest_chunk, others, newest = first, nil, nil, ''
local told_since, told_ends, told_scope = since, ends, scope

if op == 1 and not (blocked and ignore == 1) then
  count = within(windows[tiers])
  if count >= thresholds[tiers] then count = thresholds[tiers] - 1 end
  first, newest_chunk = coming - count, floor(coming / CHUNK)
  if first < coming then
    -- What is kept of the newest chunk, or of all if one has room for them.
    local oldest_chunk, fits = floor(first / CHUNK), count < CHUNK
    for n = fits and oldest_chunk or newest_chunk, floor((coming - 1) / CHUNK) do
      local chunk, place = look_up(math.max(first, n * CHUNK))
      newest = newest .. chunk:sub(place)
    end
    if fits and oldest_chunk < newest_chunk then
      newest_chunk = math.ceil(coming / CHUNK)
      first = newest_chunk * CHUNK
      coming = first + count
    end
  end
  -- What the chunk held, for when the call is refused below. Where nothing of it is kept, nothing has looked it up.
  others = chunks[newest_chunk] or state and redis.call('HGET', key, field(newest_chunk))
  newest = newest .. write('>I7', seen)
  chunks[newest_chunk] = newest
  coming, count, changed = coming + 1, count + 1, true

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
    if floor(started / bit) % 2 == 0 and within(windows[i]) >= thresholds[i] then
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
  -- The next chunk begins afresh.
  coming = math.ceil(coming / CHUNK) * CHUNK
  first, count, changed = coming, 0, true
end

local counts = {}
for i = 1, tiers do
  counts[i] = write('>I4', within(windows[i]))
end
if is_corrupt then return redis.error_reply('LIMITERSTATE corrupt attempts') end

local expires = 0
if changed then
  if count > 0 then expires = came(coming - 1) + windows[tiers] end
  if ends > 0 then
    local remembered = ends + (factor > 0 and memory * strikes or 0)
    if remembered > expires then expires = remembered end
  end
end
if changed and expires > seen then
  local wait_ms = floor((expires - now) / 1000) + (manual and 3606000 or 6000)
  local head = write('>BI7I7BBI7I7I6I2B', 0x16, seen, expires, strikes, started, since, ends, first, count, #scope) .. scope
  if newest_chunk then
    redis.call('HSET', key, 'state', head, field(newest_chunk), newest)
  else
    redis.call('HSET', key, 'state', head)
  end
  local set = redis.pcall('PEXPIRE', key, string.format('%.0f', wait_ms))
  if type(set) == 'table' then
    -- Not permitted. The call is refused as a whole, and a new key must not stay for ever.
    if not state then
      redis.call('DEL', key)
    else
      redis.call('HSET', key, 'state', state)
      if others then
        redis.call('HSET', key, field(newest_chunk), others)
      elseif newest_chunk then
        redis.call('HDEL', key, field(newest_chunk))
      end
    end
    return set
  end
  -- Last, as in chain.lua: the chunks of which no attempt is kept any more.
  local dead = {}
  for chunk = floor(old_first / CHUNK), floor(first / CHUNK) - 1 do
    dead[#dead + 1] = field(chunk)
  end
  if #dead > 0 then redis.call('HDEL', key, unpack(dead)) end
elseif changed or (op == 3 and blocked) then
  redis.call('DEL', key)
end

if not blocked then told_since, told_ends, told_scope = 0, 0, '' end
return write('>I7BI7I7', now, fresh, told_since, told_ends) .. table.concat(counts) .. told_scope
