-- signals.lua: read what is known of an address.
-- Twin of limiter_sessions::IpSignal; visit.lua writes it.
-- Why Lua: two keys have to be read at one moment, and both may have outlived their time.
-- KEYS       hash of the address, HyperLogLog of its fingerprints' tags; absent: one fingerprint
-- ARGV       with a manual clock only, seconds and microseconds in place of TIME
-- Reply      '' if the address was quiet for an hour; else first_seen u56, last_seen u56, total_sessions u56, unique
--            fingerprints u56, bot_sum u56 (ppm), bot_count u56, big-endian
-- Numbers are doubles: all stay under 2^53 and whole; microseconds, never nanoseconds

local manual = ARGV[1]
local time = manual and {manual, ARGV[2]} or redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local known = redis.call('HMGET', KEYS[1], 'first_seen', 'last_seen', 'total_sessions', 'bot_sum', 'bot_count')
if not known[1] or known[2] + 3600000000 <= now then
  return ''
end
local uniques = math.max(1, redis.call('PFCOUNT', KEYS[2]))
return struct.pack('>I7I7I7I7I7I7', known[1], known[2], known[3], uniques, known[4], known[5])
