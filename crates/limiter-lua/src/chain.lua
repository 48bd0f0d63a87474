-- chain.lua: decide, peek or refund one request under a chain of plans of one identity, in one atomic step.
-- Twin of limiter_core::math (decide, peek, refund). Change both; prop_lua_agrees_with_the_model must pass.
-- Why Lua: read, decide and write must be one step; MULTI cannot branch on what it read.
-- KEYS[1]    hash of the identity: a field for each plan, named as the plan in lower case; absent: never used
-- ARGV[1]    packed call, big-endian: op u8 (0 peek, 1 acquire, 2 refund), plans u8, draw u24 (0 to 999,999), then for
--            each plan, with op 2 only, charged_at_us u56, left u32 (what of the charge was not given back before) and
--            units u32 (to give back now; 0: the plan was not charged), then tag u8 (as in the state), shadow u8
--            (0 enforced, 1 shadow) and by tag
--   0x11     period_us u32, rest_us u40, cost_us u40: a token takes period_us, capacity - cost tokens rest_us, ...
--   0x15     per u32 (tokens per period), period_us u48, rest_us u56, rest_part u32, cost_us u56, cost_part u32, rest u32
--            (*_us and *_part are tokens as the time to refill them: microseconds, and a remainder in 1/per of one)
--   0x12     limit u32, cost u32, window_us u48, granularity_us u48
--   0x13     the same, then hard u32
--   0x14     limit u32, cost u32, window_us u48
-- ARGV[2..]  the field of each plan; then, with a manual clock only, seconds and microseconds in place of TIME
-- State      tag u8: the version (1) in the high half, the form in the low half; then by tag
--   0x11     token bucket with 1 token per period < 2^32 us, full within 2^40 us: seen_us u56, debt_us u40, period_us u32
--   0x15     any token bucket: seen_us u56, debt_us u56, debt_part u32, per u32, period_us u48
--   0x12/3   sliding, suppressing window: seen_us u56, newest_began_us u56, total u56, then for each sub-bucket, the one
--            that leaves first in front: leaves_at_us u56, units u32 (total is the sum of these units)
--   0x14     fixed window: began_us u56, ends_at_us u56, used u32
-- Reply      "<seconds> <microseconds>" of now, '+' or '-' (admitted or not), then for each plan the state as it was before
--            this call, or one zero byte; the caller makes the verdict of it with the Rust twin. Of a long log that admits
--            there is one sub-bucket of all its units, of which the verdict comes out the same
-- Errors     LIMITERSTATE if a state is of an unknown version or corrupt; nothing was written then
-- TTL        frees memory, decides nothing. Time is cut into slots of 5 s; the key lives at least until the slot ends in
--            which a state ends, so the TTL is looked at only when a state comes to end in a later slot. With a manual
--            clock, an hour more
-- Numbers are doubles: all stay under 2^53 and whole; microseconds, never nanoseconds

local key, call = KEYS[1], ARGV[1]
local read, write, byte, floor = struct.unpack, struct.pack, string.byte, math.floor
local op, plans, draw, at = read('>BBI3', call)

-- Returns x * y / d rounded down, and what is left over. Exact for x < 2^53, y < 2^53, d < 2^46 and a result < 2^53: seven bits of x
-- at a time.
local function mul_div(x, y, d)
  local whole, part, quotient, left = floor(y / d), y % d, 0, 0
  for shift = 49, 0, -7 do
    local sum = left * 128 + part * (floor(x / 2 ^ shift) % 128)
    quotient, left = quotient * 128 + floor(sum / d), sum % d
  end
  return x * whole + quotient, left
end

local states
if plans == 1 then
  states = {redis.call('HGET', key, ARGV[2])}
else
  states = redis.call('HMGET', key, unpack(ARGV, 2, plans + 1))
end
local manual = ARGV[plans + 2]
local time = manual and {manual, ARGV[plans + 3]} or redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local admitted = true
local writes, n, ttl_slot = {'HSET', key}, 2, -1
local observed, observed_slot, deletes, brief

for i = 1, plans do
  local charged_at, left, units = 0, 0, 0
  if op == 2 then charged_at, left, units, at = read('>I7I4I4', call, at) end
  local tag, shadow = byte(call, at), nil
  local state = states[i]
  local form, length = 0, 0
  if state then
    form, length = byte(state), #state
    local sound
    if form == 0x11 then
      sound = length == 17
    elseif form == 0x12 or form == 0x13 then
      sound = length >= 33 and length % 11 == 0
    elseif form == 0x15 then
      sound = length == 29
    else
      sound = form == 0x14 and length == 19
    end
    if not sound then
      local what = ' of plan ' .. ARGV[i + 1]
      if form and floor(form / 16) ~= 1 then
        return redis.error_reply('LIMITERSTATE unknown version ' .. floor(form / 16) .. ' of the state' .. what)
      end
      return redis.error_reply('LIMITERSTATE corrupt state' .. what)
    end
  else
    states[i] = '\0'
  end

  local admits, after, slot, old_slot = true, nil, -1, -1

  if op == 1 and tag == 0x11 and (form == 0x11 or not state) then
    -- Twin of limiter_core::math::token_bucket, for what is commonest: as in token_buckets.lua.
    local period, rest, cost
    shadow, period, rest, cost, at = read('>xBI4I5I5', call, at)
    local seen, debt, covered = now, 0, 0
    if state then
      local old_seen, old_debt, old_period = read('>I7I5I4', state, 2)
      local full_at = old_seen + old_debt
      covered = full_at - full_at % 5000000 + 5000000
      if seen < old_seen then seen = old_seen end
      if full_at > seen then debt = full_at - seen end
      if old_period ~= period then debt = math.ceil(debt / old_period) * period end
    end
    admits = debt <= rest
    if admits then
      debt = debt + cost
      after = write('>BI7I5I4', tag, seen, debt, period)
      if seen + debt >= covered then slot = floor((seen + debt) / 5000000) end
    end

  elseif tag == 0x11 or tag == 0x15 then
    -- Twin of limiter_core::math::token_bucket.
    local per, period, rest_us, rest_part, cost_us, cost_part, rest = 1, 0, 0, 0, 0, 0, nil
    if tag == 0x11 then
      shadow, period, rest_us, cost_us, at = read('>xBI4I5I5', call, at)
      rest = rest_us / period
    else
      shadow, per, period, rest_us, rest_part, cost_us, cost_part, rest, at = read('>xBI4I6I7I4I7I4I4', call, at)
    end
    local seen, debt_us, debt_part, old_per, old_period, covered = now, 0, 0, 1, nil, 0
    if form == 0x11 then
      seen, debt_us, old_period = read('>I7I5I4', state, 2)
    elseif form == 0x15 then
      seen, debt_us, debt_part, old_per, old_period = read('>I7I7I4I4I6', state, 2)
    end
    if old_period then
      local full_at = seen + debt_us
      covered = full_at - full_at % 5000000 + 5000000
      local outlived = full_at + (debt_part > 0 and 1 or 0) <= now
      if now > seen then
        debt_us, seen = debt_us - (now - seen), now
        if debt_us < 0 then debt_us, debt_part = 0, 0 end
      end
      if units > 0 and not outlived then
        -- What is left of the charge, less what was refilled since, limits what is given back. Beyond 2^53 the numbers are not
        -- exact, but then far larger than any debt.
        local give_us, give_part = mul_div(units, old_period, old_per)
        local most_us, most_part = mul_div(left, old_period, old_per)
        if seen > charged_at then most_us = most_us - (seen - charged_at) end
        if most_us < give_us or (most_us == give_us and most_part < give_part) then
          give_us, give_part = most_us, most_part
        end
        if give_us > 0 or (give_us == 0 and give_part > 0) then
          debt_us, debt_part = debt_us - give_us, debt_part - give_part
          if debt_part < 0 then debt_us, debt_part = debt_us - 1, debt_part + old_per end
          if debt_us < 0 or (debt_us == 0 and debt_part == 0) then
            after = ''
          elseif form == 0x11 then
            after = write('>BI7I5I4', form, seen, debt_us, old_period)
          else
            after = write('>BI7I7I4I4I6', form, seen, debt_us, debt_part, old_per, old_period)
          end
        end
      elseif old_period ~= period or old_per ~= per then
        -- The plan got another rate.
        local missing, rest_of_it = mul_div(old_per, debt_us, old_period)
        missing = missing + floor((rest_of_it + debt_part + old_period - 1) / old_period)
        admits = missing <= rest
        if admits then debt_us, debt_part = mul_div(missing, period, per) end
      else
        admits = debt_us < rest_us or (debt_us == rest_us and debt_part <= rest_part)
      end
    end
    if op == 1 and admits then
      debt_us = debt_us + cost_us
      if tag == 0x11 then
        after = write('>BI7I5I4', tag, seen, debt_us, period)
      else
        debt_part = debt_part + cost_part
        if debt_part >= per then debt_us, debt_part = debt_us + 1, debt_part - per end
        after = write('>BI7I7I4I4I6', tag, seen, debt_us, debt_part, per, period)
      end
      local full_at = seen + debt_us
      if full_at >= covered then slot = floor(full_at / 5000000) end
    end

  elseif tag == 0x14 then
    -- Twin of limiter_core::math::fixed_window.
    local limit, cost, window
    shadow, limit, cost, window, at = read('>xBI4I4I6', call, at)
    local began, ends, used = now, now + window, 0
    if form == tag then
      local old_began, old_ends, old_used = read('>I7I7I4', state, 2)
      old_slot = floor(old_ends / 5000000)
      if now < old_ends then began, ends, used = old_began, old_ends, old_used end
      if units > 0 and now < old_ends and charged_at >= began then
        after = used > units and write('>BI7I7I4', tag, began, ends, used - units) or ''
      end
    end
    admits = used + cost <= limit
    if op == 1 and admits then
      local latest = (now > began and now or began) + window
      if ends > latest then ends = latest end
      after, slot = write('>BI7I7I4', tag, began, ends, used + cost), floor(ends / 5000000)
    end

  elseif tag == 0x12 or tag == 0x13 then
    -- Twin of limiter_core::math::{window_log, sliding_window, suppressing_window}.
    local limit, cost, window, granularity, hard
    shadow, limit, cost, window, granularity, at = read('>xBI4I4I6I6', call, at)
    if tag == 0x13 then hard, at = read('>I4', call, at) end
    local seen, began, total, last_leaves, last_units = now, now, 0, 0, 0
    local first = length + 1
    if form == tag then
      seen, began, total = read('>I7I7I7', state, 2)
      last_leaves, last_units = read('>I7I4', state, length - 10)
      old_slot = floor(last_leaves / 5000000)
      if now > seen then seen = now end
      if last_leaves > seen then
        first = 23
        local leaves, units = read('>I7I4', state, first)
        while leaves <= seen do
          total, first = total - units, first + 11
          leaves, units = read('>I7I4', state, first)
        end
      else
        total = 0
      end
    end

    if units > 0 then
      -- Not if a whole window has passed, or no sub-bucket got units since: then it stays as it is.
      local from, place = charged_at + window, first
      if from > seen and last_leaves >= from then
        local leaves, there = read('>I7I4', state, place)
        while leaves < from do
          place = place + 11
          leaves, there = read('>I7I4', state, place)
        end
        local kept = ''
        if there > units then
          kept = write('>I7I4', leaves, there - units)
        else
          units = there
          if place == length - 10 and place > first then
            -- When the one before it began is not known: at the earliest then. What comes next does not share it.
            local earliest = read('>I7', state, place - 11) - window + 1
            began = (earliest < began and earliest or began) - granularity
            if began < 0 then began = 0 end
          end
        end
        after = total > units and write('>BI7I7I7', tag, seen, began, total - units)
          .. state:sub(first, place - 1) .. kept .. state:sub(place + 11) or ''
      end
    elseif op == 1 then
      if tag == 0x12 then
        admits = total + cost <= limit
      elseif total + cost > limit then
        local refused = 1000000
        if total + cost < hard then
          -- Of the oldest sub-bucket some may have come more than a window ago.
          local oldest_leaves, oldest = read('>I7I4', state, first)
          local there = oldest
          if oldest_leaves - seen < granularity then
            there = mul_div(oldest, oldest_leaves - seen, granularity) + cost
            if there > oldest then there = oldest end
          end
          local passing = floor(limit * 1000000 / (total - oldest + there + cost))
          if passing > 999999 then passing = 999999 end
          if window > 1000000 then
            -- What came in the last second, and the time that it really took.
            local second, from, place, came, previous = 0, seen + window - 1000000, length - 10, nil, nil
            while place >= first do
              local leaves, units = read('>I7I4', state, place)
              if leaves <= from then
                previous = leaves - window
                break
              end
              second, came, place = second + units, leaves - window, place - 11
            end
            if came then
              local since = came - granularity
              if previous and came < previous + granularity + 1000000 then
                since = previous
              elseif place == length - 21 then
                since = began
              end
              local span = seen - since
              if span < 1000000 then span = 1000000 elseif span > window then span = window end
              local passing_now = floor(mul_div(limit * 1000000, span, window) / (second + cost))
              if passing_now < passing then passing = passing_now end
            end
          end
          refused = 1000000 - passing
        end
        admits = draw >= refused
      end
      if length > 66 and total > 0 and total + cost <= limit then
        -- All that an admission tells of a long log: how much is in it, and until when.
        brief = brief or {}
        brief[i] = write('>BI7I7I7I7I4', tag, seen, began, total, last_leaves, total)
      end
      if admits or tag == 0x13 then
        local leaves, body, newest = seen + window, '', cost
        if first > length then
          began = seen
        else
          local last = length + 1
          if seen - began < granularity then
            last, newest, total = length - 10, last_units + cost, total - last_units
            if newest > 4294967295 then newest = 4294967295 end
          else
            began = seen
          end
          if last_leaves > leaves then
            -- The plan got a shorter window: nothing stays longer than that.
            local parts = {}
            for place = first, last - 1, 11 do
              local old_leaves, old_units = read('>I7I4', state, place)
              parts[#parts + 1] = write('>I7I4', old_leaves < leaves and old_leaves or leaves, old_units)
            end
            body = table.concat(parts)
          else
            body = state:sub(first, last - 1)
          end
        end
        after = write('>BI7I7I7', tag, seen, began, total + newest) .. body .. write('>I7I4', leaves, newest)
        slot = floor(leaves / 5000000)
        if tag == 0x13 then
          observed = observed or {'HSET', key}
          observed[#observed + 1] = ARGV[i + 1]
          observed[#observed + 1] = after
          if slot > old_slot and slot > (observed_slot or -1) then observed_slot = slot end
        end
      end
    end

  else
    return redis.error_reply('LIMITERSTATE unknown version of the algorithm of plan ' .. ARGV[i + 1])
  end

  if after == '' then
    deletes = deletes or {'HDEL', key}
    deletes[#deletes + 1] = ARGV[i + 1]
  elseif after then
    writes[n + 1], writes[n + 2] = ARGV[i + 1], after
    n = n + 2
    if slot > old_slot and slot > ttl_slot then ttl_slot = slot end
  end
  if not admits and shadow == 0 then admitted = false end
end

if not admitted and op == 1 then
  writes, n, ttl_slot = observed, observed and #observed or 0, observed_slot or -1
end
if n > 2 then
  local wait_ms, ttl
  if ttl_slot >= 0 then
    wait_ms = ttl_slot * 5000 - floor(now / 1000) + (manual and 3606000 or 6000)
    ttl = redis.call('PTTL', key)
  end
  redis.call(unpack(writes))
  if ttl and ttl < wait_ms then
    local set = redis.pcall('PEXPIRE', key, wait_ms)
    if type(set) == 'table' then
      -- Not permitted. The call is refused as a whole, and a new key must not stay for ever.
      for i = 1, plans do
        if states[i] == '\0' then redis.call('HDEL', key, ARGV[i + 1]) else redis.call('HSET', key, ARGV[i + 1], states[i]) end
      end
      return set
    end
  end
end
-- Last: it cannot fail for want of memory, as HSET can, and a call takes effect as a whole or not at all.
if deletes then redis.call(unpack(deletes)) end
if brief and admitted then
  for i, state in pairs(brief) do states[i] = state end
end
return time[1] .. ' ' .. time[2] .. (admitted and '+' or '-') .. table.concat(states)
