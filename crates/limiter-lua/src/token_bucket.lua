-- token_bucket.lua: decide one request under one token bucket of the compact form, the commonest call there is.
-- Twin of limiter_core::math::token_bucket. Change both; prop_lua_agrees_with_the_model must pass. What this script does
-- not know it leaves to chain.lua, which does all of this too, more slowly.
-- Why Lua: read, decide and write must be one step; MULTI cannot branch on what it read.
-- KEYS[1]    hash of the identity, as in chain.lua
-- ARGV[1]    packed, big-endian: period_us u32 (one token), rest_us u40 (capacity - cost tokens), cost_us u40
-- ARGV[2]    the field of the plan; ARGV[3], ARGV[4] with a manual clock only: seconds, microseconds in place of TIME
-- State      0x11, seen_us u56, debt_us u40, period_us u32: full again debt_us after seen_us
-- Reply      "<seconds> <microseconds>" of now, '+' or '-' (admitted or not), the state before this call or one zero byte;
--            or '?' if the state is of another form: nothing was done, ask chain.lua
-- TTL        as in chain.lua
-- Numbers are doubles: all stay under 2^53 and whole; microseconds, never nanoseconds

local key, field, call = KEYS[1], ARGV[2], redis.call
local period, rest, cost = struct.unpack('>I4I5I5', ARGV[1])
local state = call('HGET', key, field)
local time = ARGV[3] and {ARGV[3], ARGV[4]} or call('TIME')
local now = time[1] * 1000000 + time[2]

-- The TTL covers a state that is full again before the moment `covered`.
local seen, debt, covered = now, 0, 0
if state then
  if #state ~= 17 then return '?' end
  local tag, old_seen, old_debt, old_period = struct.unpack('>BI7I5I4', state)
  if tag ~= 0x11 then return '?' end
  local full_at = old_seen + old_debt
  covered = full_at - full_at % 5000000 + 5000000
  if seen < old_seen then seen = old_seen end
  if full_at > seen then debt = full_at - seen end
  if old_period ~= period then debt = math.ceil(debt / old_period) * period end
end

local sign = '-'
if debt <= rest then
  sign, debt = '+', debt + cost
  local full_at, wait_ms, ttl = seen + debt, nil, nil
  if full_at >= covered then
    wait_ms = (full_at - full_at % 5000000 - now + now % 1000) / 1000 + (ARGV[3] and 3606000 or 6000)
    ttl = call('PTTL', key)
  end
  call('HSET', key, field, struct.pack('>BI7I5I4', 0x11, seen, debt, period))
  if ttl and ttl < wait_ms then
    local set = redis.pcall('PEXPIRE', key, wait_ms)
    if type(set) == 'table' then
      -- Not permitted. The call is refused as a whole, and a new key must not stay for ever. Not the other way round: once a
      -- script has written anything, a server that lacks memory lets it go on.
      if state then call('HSET', key, field, state) else call('HDEL', key, field) end
      return set
    end
  end
end
return time[1] .. ' ' .. time[2] .. sign .. (state or '\0')
