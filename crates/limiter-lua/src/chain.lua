-- chain.lua: decide, peek or refund one request under a chain of plans of one identity, in one atomic step.
-- Twin of limiter_core::math (decide, peek, refund). Change both; prop_lua_agrees_with_the_model must pass.
-- Why Lua: read, decide and write must be one step; MULTI cannot branch on what it read.
-- KEYS[1]    hash of the identity: a field for each plan, named as the plan in lower case; absent: never used
-- ARGV[1]    packed call, big-endian: op u8 (0 peek, 1 acquire, 2 refund), plans u8, draw u24 (0 to 999,999), then for
--            each plan, with op 2 only, charged_at_us u56, left u32 (what of the charge was not given back before) and back u32
--            (what is given back now; 0: the plan was not charged), then tag u8 (as in the state), shadow u8 (0 enforced,
--            1 shadow) and by tag
--   0x11     period_us u32, rest_us u40, cost_us u40: a token takes period_us, capacity - cost tokens rest_us, ...
--   0x15     units u32, period_us u48, rest_us u56, rest_part u32, cost_us u56, cost_part u32
--            (*_us and *_part are tokens as the time to refill them: microseconds, and a remainder in 1/units of one)
--   0x12     limit u32, cost u32, window_us u48, granularity_us u48
--   0x13     the same, then hard u32
--   0x14     limit u32, cost u32, window_us u48
-- ARGV[2..]  the field of each plan; then, with a manual clock only, seconds and microseconds in place of TIME
-- State      tag u8: the version (1) in the high half, the form in the low half; then by tag
--   0x11     token bucket with 1 token per period < 2^32 us, full within 2^40 us: seen_us u56, debt_us u40, period_us u32
--   0x17     the same after a rate has changed, full within 2^42 us: seen_us u56, debt u56 in 1/1024 us, period_us u32
--   0x15     any token bucket: seen_us u56, debt_us u56, debt_part u40 in 1/(1024 units) us, units u32, period_us u48
--   0x12/3   sliding, suppressing window: seen_us u56, newest_began_us u56, total u56, kept_us u48, then for each sub-bucket, the
--            oldest in front: came_at_us u56, units u32 (total is the sum of these units, kept_us the longest window of the plans
--            that added to it)
--   0x14     fixed window: began_us u56, ends_at_us u56, used u32 (2^31 more if another one follows); if plans with other
--            windows have taken turns, up to four of these, the oldest in front
--            A state that has run out under the plans that left it (a bucket that is full by its rate, a log whose newest units are
--            older than kept_us, a window that has ended) counts as none, so that expiry changes nothing
-- Reply      "<seconds> <microseconds>" of now, '+' or '-' (admitted or not), then for each plan the state as it was before
--            this call, or one zero byte; the caller makes the verdict of it with the Rust twin. Of a long log that admits
--            there is one sub-bucket of all its units, of which the verdict comes out the same
-- Errors     LIMITERSTATE if a state is of an unknown version or corrupt; nothing was written then
-- TTL        frees memory, decides nothing. Time is cut into slots of 5 s; the key lives at least until the slot ends in
--            which a state ends, so the TTL is looked at only when a state comes to end in a later slot. With a manual
--            clock, an hour more
-- Numbers are doubles: all stay under 2^53 and whole; microseconds, never nanoseconds

local key, call = KEYS[1], ARGV[1]
local read, write, byte, floor, ceil = struct.unpack, struct.pack, string.byte, math.floor, math.ceil
local op, plans, draw, at = read('>BBI3', call)

-- Returns x * y / d rounded down, and what is left over. Exact for x < 2^53, y < 2^53, d <= 2^45 and a result < 2^53: seven bits of x
-- at a time.
local function mul_div(x, y, d)
  local whole, part, quotient, left = floor(y / d), y % d, 0, 0
  for shift = 49, 0, -7 do
    local sum = left * 128 + part * (floor(x / 2 ^ shift) % 128)
    quotient, left = quotient * 128 + floor(sum / d), sum % d
  end
  return x * whole + quotient, left
end

-- Returns the state of a token bucket with 1 token per period < 2^32 us: the shorter form, if it holds the debt.
local function one_token_bucket(seen, debt_us, debt_part, period)
  if debt_part == 0 and debt_us < 1099511627776 then return write('>BI7I5I4', 0x11, seen, debt_us, period) end
  return write('>BI7I7I4', 0x17, seen, debt_us * 1024 + debt_part, period)
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
  local charged_at, charge_left, back = 0, 0, 0
  if op == 2 then charged_at, charge_left, back, at = read('>I7I4I4', call, at) end
  local tag, shadow = byte(call, at), nil
  local state = states[i]
  local form, length = 0, 0
  if state then
    form, length = byte(state), #state
    local sound
    if form == 0x11 then
      sound = length == 17
    elseif form == 0x17 then
      sound = length == 19
    elseif form == 0x12 or form == 0x13 then
      sound = length >= 39 and length % 11 == 6
    elseif form == 0x15 then
      sound = length == 30
    else
      sound = form == 0x14 and length >= 19 and length <= 73 and length % 18 == 1
      for place = 16, length, 18 do
        sound = sound and (byte(state, place) > 127) == (place + 18 <= length)
      end
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

  if op == 1 and tag == 0x11 and (not state or (form == 0x11 and state:sub(14) == call:sub(at + 2, at + 5))) then
    -- Twin of limiter_core::math::token_bucket, for what is commonest: as in token_buckets.lua.
    local period, rest, cost
    shadow, period, rest, cost, at = read('>xBI4I5I5', call, at)
    local seen, debt, lacks, covered = now, 0, 0, 0
    if state then
      local old_seen, old_debt = read('>I7I5', state, 2)
      local full_at = old_seen + old_debt
      covered = full_at - full_at % 5000000 + 5000000
      if full_at > now then
        if seen < old_seen then seen = old_seen end
        local refilled = seen - old_seen
        debt, lacks = old_debt - refilled, rest + cost - refilled
        if debt < lacks then lacks = debt end
      end
    end
    admits = lacks <= rest
    if admits then
      debt = debt + cost
      after = one_token_bucket(seen, debt, 0, period)
      local full_at = seen + debt
      if full_at >= covered then slot = floor(full_at / 5000000) end
    end

  elseif tag == 0x11 or tag == 0x15 then
    -- Twin of limiter_core::math::token_bucket.
    local units, period, rest_us, rest_part, cost_us, cost_part = 1, 0, 0, 0, 0, 0
    if tag == 0x11 then
      shadow, period, rest_us, cost_us, at = read('>xBI4I5I5', call, at)
    else
      shadow, units, period, rest_us, rest_part, cost_us, cost_part, at = read('>xBI4I6I7I4I7I4', call, at)
      rest_part, cost_part = rest_part * 1024, cost_part * 1024
    end
    local second_part = units * 1024
    local seen, debt_us, debt_part, lacks_us, lacks_part = now, 0, 0, 0, 0
    local old_seen, old_us, old_part, old_units, old_period, covered = nil, nil, 0, 1, nil, 0
    local parts, keeps_rate = 0, false
    if form == 0x11 then
      old_seen, old_us, old_period = read('>I7I5I4', state, 2)
    elseif form == 0x17 then
      old_seen, old_us, old_period = read('>I7I7I4', state, 2)
      old_us, old_part = floor(old_us / 1024), old_us % 1024
    elseif form == 0x15 then
      old_seen, old_us, old_part, old_units, old_period = read('>I7I7I5I4I6', state, 2)
    end
    if old_seen then
      local full_at = old_seen + old_us
      covered = full_at - full_at % 5000000 + 5000000
      if full_at + (old_part > 0 and 1 or 0) <= now then old_seen = nil end
    end
    if old_seen then
      if seen < old_seen then seen = old_seen end
      local passed = seen - old_seen
      if back > 0 then
        -- What is left of the charge, less what was refilled since, is the most that is given back. Beyond 2^53 the numbers are
        -- not exact, but then far larger than any debt.
        local most_us, most_part = mul_div(charge_left, old_period, old_units)
        local give_us, give_part = mul_div(back, old_period, old_units)
        if seen > charged_at then most_us = most_us - (seen - charged_at) end
        if most_us < give_us or (most_us == give_us and most_part < give_part) then give_us, give_part = most_us, most_part end
        if give_us > 0 or (give_us == 0 and give_part > 0) then
          debt_us, debt_part = old_us - give_us, old_part - give_part * 1024
          if debt_part < 0 then debt_us, debt_part = debt_us - 1, debt_part + old_units * 1024 end
          if debt_us + (debt_part > 0 and 1 or 0) <= passed then
            after = ''
          elseif form ~= 0x15 then
            after = one_token_bucket(old_seen, debt_us, debt_part, old_period)
          else
            after = write('>BI7I7I5I4I6', form, old_seen, debt_us, debt_part, old_units, old_period)
          end
        end
      elseif op == 1 then
        debt_us, debt_part = old_us, old_part
        if old_period ~= period or old_units ~= units then
          -- The plan got another rate: what was missing at the last charge, rounded up to 1/1024 of a token, but at most 10^9 tokens.
          local left
          parts, left = mul_div(old_units * 1024, debt_us, old_period)
          parts = parts + ceil((left + debt_part) / old_period)
          if parts > 1024000000000 then parts = 1024000000000 end
          -- Beyond 2^53 not exact, but then far longer than any bucket takes to fill.
          debt_us, debt_part = mul_div(parts, period, second_part)
          keeps_rate = debt_us >= 4503599627370495
        end
        -- More than the bucket holds: it was empty then.
        lacks_us, lacks_part = rest_us + cost_us, rest_part + cost_part
        if lacks_part >= second_part then lacks_us, lacks_part = lacks_us + 1, lacks_part - second_part end
        if debt_us < lacks_us or (debt_us == lacks_us and debt_part < lacks_part) then lacks_us, lacks_part = debt_us, debt_part end
        lacks_us, debt_us = lacks_us - passed, debt_us - passed
        if debt_us < 0 then debt_us, debt_part = 0, 0 end
        admits = lacks_us < rest_us or (lacks_us == rest_us and lacks_part <= rest_part)
      end
    end
    if op == 1 and admits then
      if keeps_rate then
        -- It would take too long to refill at the rate of this plan: it stays at the rate that it had.
        -- A charge is a whole number of parts; of what was refilled, the whole ones count.
        local charge, left = mul_div(cost_us, second_part, period)
        local refilled = mul_div(seen - old_seen, second_part, period)
        if refilled > parts then refilled = parts end
        parts = parts - refilled + charge + (left + cost_part) / period
        tag, units, period = form == 0x15 and 0x15 or 0x11, old_units, old_period
        debt_us, debt_part = mul_div(parts, period, units * 1024)
      else
        debt_us, debt_part = debt_us + cost_us, debt_part + cost_part
        if debt_part >= second_part then debt_us, debt_part = debt_us + 1, debt_part - second_part end
      end
      -- No sequence of plans comes to this.
      if debt_us >= 4503599627370495 then debt_us, debt_part = 4503599627370495, 0 end
      if tag == 0x11 and debt_us < 4398046511104 then
        after = one_token_bucket(seen, debt_us, debt_part, period)
      else
        after = write('>BI7I7I5I4I6', 0x15, seen, debt_us, debt_part, units, period)
      end
      local full_at = seen + debt_us
      if full_at >= covered then slot = floor(full_at / 5000000) end
    end

  elseif tag == 0x14 then
    -- Twin of limiter_core::math::fixed_window.
    local limit, cost, window
    shadow, limit, cost, window, at = read('>xBI4I4I6', call, at)
    local used, oldest, gives, last_end, windows = 0, nil, false, 0, {}
    if form == tag then
      for place = 2, length, 18 do
        local began, ends, units = read('>I7I7I4', state, place)
        units = units % 2147483648
        if ends > last_end then last_end = ends end
        if now < ends then
          windows[#windows + 1] = {began, ends, units}
          if now < began + window then
            oldest = oldest or #windows
            if units > used then used = units end
            if charged_at >= began then gives = true end
          end
        end
      end
      old_slot = floor(last_end / 5000000)
    end
    admits = used + cost <= limit
    if op == 1 and admits then
      local running = windows[oldest]
      if not running then
        if #windows == 4 then
          local first = 1
          for nth = 2, 4 do
            if windows[nth][2] < windows[first][2] then first = nth end
          end
          table.remove(windows, first)
        end
        windows[#windows + 1] = {now, now + window, 0}
      elseif running[2] < running[1] + window then
        running[2] = running[1] + window
      end
    elseif back == 0 or not gives then
      windows = nil
    end
    if windows then
      -- From the newest on, so that each says whether another one follows.
      after, last_end = '', 0
      for nth = #windows, 1, -1 do
        local began, ends, units = unpack(windows[nth])
        if op == 1 then
          units = units + cost
          if units > 2147483647 then units = 2147483647 end
        elseif charged_at >= began then
          units = units - back
        end
        if units > 0 then
          if ends > last_end then last_end = ends end
          after = write('>I7I7I4', began, ends, after == '' and units or units + 2147483648) .. after
        end
      end
      if after ~= '' then after = write('>B', tag) .. after end
      if op == 1 then slot = floor(last_end / 5000000) end
    end

  elseif tag == 0x12 or tag == 0x13 then
    -- Twin of limiter_core::math::{window_log, sliding_window, suppressing_window}.
    local limit, cost, window, granularity, hard
    shadow, limit, cost, window, granularity, at = read('>xBI4I4I6I6', call, at)
    if tag == 0x13 then hard, at = read('>I4', call, at) end
    -- Of the sub-buckets, those from `first` on are kept, those from `live` on are in the window of this plan.
    local seen, began, kept, total, held, newest, newest_units = now, now, window, 0, 0, 0, 0
    local first, live, runs, old_seen, old_total = length + 1, length + 1, false, nil, nil
    if form == tag then
      newest, newest_units = read('>I7I4', state, length - 10)
      local old_began, old_kept
      old_seen, old_began, old_total, old_kept = read('>I7I7I7I6', state, 2)
      old_slot = floor((newest + old_kept) / 5000000)
      runs = newest + old_kept > now
      if runs then
        began, total, kept, first = old_began, old_total, old_kept, 29
        if seen < old_seen then seen = old_seen end
        if op == 1 and kept < window then kept = window end
        while first < length do
          local came, units = read('>I7I4', state, first)
          if came + kept > seen then break end
          total, first = total - units, first + 11
        end
        held, live = total, first
        while live < length do
          local came, units = read('>I7I4', state, live)
          if came + window > seen then break end
          held, live = held - units, live + 11
        end
      end
    end

    if back > 0 then
      -- Nothing, if the log has run out, a whole window has passed since the charge, or nothing has come since.
      if runs and charged_at + window > seen and newest >= charged_at then
        local place, rest = 29, ''
        local came, units = read('>I7I4', state, place)
        while came < charged_at do
          place = place + 11
          came, units = read('>I7I4', state, place)
        end
        if units > back then
          rest = write('>I7I4', came, units - back)
        else
          back = units
          if place == length - 10 and place > 29 then
            -- When the one before it began is not known: at the earliest then. What comes next does not share it.
            local earliest = read('>I7', state, place - 11) + 1
            began = (earliest < began and earliest or began) - granularity
            if began < 0 then began = 0 end
          end
        end
        after = old_total > back and write('>BI7I7I7I6', tag, old_seen, began, old_total - back, kept)
          .. state:sub(29, place - 1) .. rest .. state:sub(place + 11) or ''
      end
    elseif op == 1 then
      if tag == 0x12 then
        admits = held + cost <= limit
      elseif held + cost > limit then
        local refused = 1000000
        if held + cost < hard then
          -- Of the oldest sub-bucket some may have come more than a window ago.
          local came, oldest = read('>I7I4', state, live)
          local there, stays = oldest, came + window - seen
          if stays < granularity then
            -- As many as at the rate of all after them, but not fewer than if they came evenly.
            there = mul_div(held + cost - oldest, stays - 1, seen - came) + cost
            local evenly = mul_div(oldest, stays, granularity)
            if there < evenly then there = evenly end
            if there > oldest then there = oldest end
          end
          local passing = floor(limit * 1000000 / (held - oldest + there + cost))
          if passing > 999999 then passing = 999999 end
          if window > 1000000 then
            -- What came in the last second, and the time that it really took.
            local second, place, earliest, previous = 0, length - 10, nil, nil
            while place >= live do
              local came, units = read('>I7I4', state, place)
              if came + 1000000 <= seen then
                previous = came
                break
              end
              second, earliest, place = second + units, came, place - 11
            end
            if earliest then
              local since = earliest - granularity
              if previous and earliest < previous + granularity + 1000000 then
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
      if length > 72 and held > 0 and held + cost <= limit then
        -- All that an admission tells of a long log: how much is in it, and until when.
        brief = brief or {}
        brief[i] = write('>BI7I7I7I6I7I4', tag, seen, began, held, window, newest, held)
      end
      if admits or tag == 0x13 then
        local last, body, units = length + 1, '', cost
        if live < length and seen - began < granularity then
          last, units, total = length - 10, newest_units + cost, total - newest_units
          if units > 4294967295 then units = 4294967295 end
        else
          began = seen
        end
        if first < live then
          -- They left the window of this plan, and stay for a longer one: in at most so many parts of its length.
          local parts, part, joined, joined_came = {}, floor(kept / 32) + 1, nil, nil
          for place = first, live - 1, 11 do
            local came, units = read('>I7I4', state, place)
            if joined and floor(came / part) == floor(joined_came / part) then
              joined = joined + units
              if joined > 4294967295 then joined, total = 4294967295, total - (joined - 4294967295) end
            else
              if joined then parts[#parts + 1] = write('>I7I4', joined_came, joined) end
              joined = units
            end
            joined_came = came
          end
          parts[#parts + 1] = write('>I7I4', joined_came, joined)
          body, first = table.concat(parts), live
        end
        if last > length and #body + last - first > 2816 then
          -- Changed plans have left more than 256 sub-buckets: of those, the two oldest leave with the second.
          body, first = body .. state:sub(first, last - 1), last
          local _, units_1, came_2, units_2 = read('>I7I4I7I4', body)
          local both = units_1 + units_2
          if both > 4294967295 then both, total = 4294967295, total - both + 4294967295 end
          body = write('>I7I4', came_2, both) .. body:sub(23)
        end
        after = write('>BI7I7I7I6', tag, seen, began, total + units, kept) .. body .. (state or ''):sub(first, last - 1)
          .. write('>I7I4', seen, units)
        slot = floor((seen + kept) / 5000000)
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
