-- index.lua: put a member into a sorted set of members that end, or list those that live, that which ends last first.
-- Why Lua: what has ended must go in the step in which others come, and listing must know the server's time.
-- KEYS[1]    sorted set: the score of a member is the microsecond at which it ends
-- ARGV[1]    packed call, big-endian: op u8 (0 list, 1 join), retention_us u48, cap u16
-- ARGV[2]    the member, with op 1; '' else; then, with a manual clock only, seconds and microseconds in place of TIME
-- Reply      of list: the members, one after the other, all of one length; of join: '1'
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
redis.call('ZADD', key, string.format('%.0f', now + retention), member)
redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now - 1000000))
if redis.call('ZCARD', key) > cap then
  redis.call('ZREMRANGEBYRANK', key, 0, -1 - cap)
end
local longest = tonumber(redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2])
local wait = math.floor((longest - now) / 1000) + (manual and 3600000 or 0)
local set = redis.pcall('PEXPIRE', key, string.format('%.0f', wait > 0 and wait or 1))
if type(set) == 'table' then
  -- Not permitted: the key must not stay for ever.
  redis.call('DEL', key)
  return set
end
return '1'
