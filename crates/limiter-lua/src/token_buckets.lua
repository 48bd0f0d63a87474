-- token_buckets.lua: decide one request under a few enforced token buckets of the compact form, the commonest call there is.
-- Twin of limiter_core::math::token_bucket. Change both; prop_lua_agrees_with_the_model must pass. What this script does
-- not know it leaves to chain.lua, which does all of this too, more slowly.
-- A template: what stands between << and >> is written once for each plan, with its number for $, and what comes after the
-- last | between two of them. To loop over the plans instead takes a server half as long again for each.
-- Why Lua: read, decide and write must be one step; MULTI cannot branch on what it read.
-- KEYS[1]    hash of the identity, as in chain.lua
-- ARGV[1]    packed, big-endian, for each plan: period_us u32 (one token), rest_us u40 (capacity - cost tokens), cost_us u40
-- ARGV[2..]  the field of each plan; then, with a manual clock only, seconds and microseconds in place of TIME
-- State      0x11, seen_us u56, debt_us u40, period_us u32: full again debt after seen_us; or after a rate has changed, 0x17,
--            seen_us u56, debt u56 in 1/1024 us, period_us u32
-- Reply      "<seconds> <microseconds>" of now, '+' or '-' (admitted or not), for each plan the state before this call or one
--            zero byte; or '?' if a state is of another form: nothing was done, ask chain.lua
-- TTL        as in chain.lua
-- Numbers are doubles: all stay under 2^53 and whole; microseconds, never nanoseconds

local call, read, write = redis.call, struct.unpack, struct.pack
local <<field$|, >>, seconds, micros = unpack(ARGV, 2)
local <<period$, rest$, cost$|, >> = read('><<I4I5I5|>>', ARGV[1])
local time = seconds and {seconds, micros} or call('TIME')
local now, told = time[1] * 1000000 + time[2], time[1] .. ' ' .. time[2]

-- For each key
local key = KEYS[1]
local <<state$|, >> = unpack(call('HMGET', key, <<field$|, >>))
local old_end, new_end, sign = 0, 0, '+'

<<local seen$, debt$, lacks$ = now, 0, 0
if state$ then
  local length = #state$
  if length ~= 17 and length ~= 19 then return '?' end
  local tag, seen, debt, period = read('>BI7I5I4', state$)
  if length == 19 then
    tag, seen, debt, period = read('>BI7I7I4', state$)
    tag, debt = tag - 6, debt / 1024
  end
  if tag ~= 0x11 then return '?' end
  -- The slot of its TTL is that of the whole microseconds.
  local ends = seen + (debt - debt % 1)
  if ends > old_end then old_end = ends end
  if debt > now - seen then
    if period ~= period$ then
      -- The plan got another rate: what was missing at the last charge, rounded up to 1/1024 of a token.
      -- A charge to a bucket that lacks more than it holds costs no more than was refilled since: the
      -- debt that is written is no longer than this one, or than the bucket takes to fill.
      local parts = math.ceil(debt * 1024 / period)
      debt = parts * period$ / 1024
      if parts > 1024000000000 or debt >= 4398046511104 then return '?' end
    end
    if now < seen then seen$ = seen end
    local refilled = seen$ - seen
    debt$, lacks$ = debt - refilled, rest$ + cost$ - refilled
    if debt$ < 0 then debt$ = 0 end
    if debt$ < lacks$ then lacks$ = debt$ end
  end
end
if lacks$ > rest$ then sign = '-' end
debt$ = debt$ + cost$
local part$ = debt$ % 1
if seen$ + (debt$ - part$) > new_end then new_end = seen$ + (debt$ - part$) end
|
>>
if sign == '+' then
  local wait_ms, ttl
  -- The TTL covers what is full again before the slot ends in which the last of the states is.
  if new_end >= old_end - old_end % 5000000 + 5000000 then
    wait_ms = (new_end - new_end % 5000000 - now + now % 1000) / 1000 + (seconds and 3606000 or 6000)
    ttl = call('PTTL', key)
  end
  call('HSET', key, <<field$, part$ == 0 and debt$ < 1099511627776
    and write('>BI7I5I4', 0x11, seen$, debt$, period$) or write('>BI7I7I4', 0x17, seen$, debt$ * 1024, period$)|, >>)
  if ttl and ttl < wait_ms then
    local set = redis.pcall('PEXPIRE', key, wait_ms)
    if type(set) == 'table' then
      -- Not permitted. The call is refused as a whole, and a new key must not stay for ever. Not the other way round: once a
      -- script has written anything, a server that lacks memory lets it go on.
      <<if state$ then call('HSET', key, field$, state$) else call('HDEL', key, field$) end|
      >>
      return set
    end
  end
end
return told .. sign .. <<(state$ or '\0')| .. >>
