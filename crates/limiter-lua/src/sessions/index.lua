-- index.lua: put a member into a sorted set of members that end, or list those that live, that which ends last first.
-- Why Lua: what has ended must go in the step in which others come, and listing must know the server's time.
-- KEYS[1]    sorted set: the score of a member is the microsecond at which it ends
-- ARGV[1]    packed call, big-endian: op u8 (0 list, 1 join), retention_us u48, cap u16
-- ARGV[2]    the member, with op 1; '' else; then, with a manual clock only, seconds and microseconds in place of TIME
-- Reply      of list: the members, one after the other, all of one length; of join: '1'
-- Errors     LIMITERPART and the error if the member has joined, and cutting the set to its size failed
-- TTL        of the member that ends last. With a manual clock, an hour more
-- Numbers are doubles: all stay under 2^53 and whole; microseconds, never nanoseconds

local key, member = KEYS[1], ARGV[2]
local op, retention, cap = struct.unpack('>BI6I2', ARGV[1])
local manual = ARGV[3]
local time = manual and {manual, ARGV[4]} or redis.call('TIME')
local now = time[1] * 1000000 + time[2]

if op == 0 then
  return table.concat(redis.call('ZREVRANGEBYSCORE', key, '+inf', string.format('(%.0f', now)))
end

-- Lets the key live until a moment; returns a table, the error, if that is not permitted.
local function expire(until_us)
  local wait = math.floor((until_us - now) / 1000) + (manual and 3600000 or 0)
  return redis.pcall('PEXPIRE', key, string.format('%.0f', wait > 0 and wait or 1))
end

local ends = now + retention
local top = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
if top[1] then
  -- Who may not expire must change nothing. Written first is what stands there already: for lack of memory, or a permission, a
  -- server refuses the first write of a script, if any.
  redis.call('ZADD', key, top[2], top[1])
  local set = expire(math.max(ends, tonumber(top[2])))
  if type(set) == 'table' then return set end
end
redis.call('ZADD', key, string.format('%.0f', ends), member)
if not top[1] then
  local set = expire(ends)
  if type(set) == 'table' then
    -- The key is new, and must not stay for ever.
    redis.call('DEL', key)
    return set
  end
elseif top[1] == member then
  expire(tonumber(redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]))
end
local done, failed = pcall(function()
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now - 1000000))
  if redis.call('ZCARD', key) > cap then
    redis.call('ZREMRANGEBYRANK', key, 0, -1 - cap)
  end
end)
if not done then
  return redis.error_reply('LIMITERPART ' .. (type(failed) == 'table' and failed.err or tostring(failed)))
end
return '1'
