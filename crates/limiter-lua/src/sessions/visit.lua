-- visit.lua: find or begin the session of a visit, touch or end one by its id, and count the visit for its address, in one
-- atomic step.
-- Twin of limiter_sessions::Session (begin, count, learn). Change both; session_laws and the comparison with the model must
-- pass.
-- Why Lua: whether a session lives decides what is written; MULTI cannot branch on what it read.
-- KEYS       session, index of its fingerprint; then, or alone with op 3, signals of its address, unique fingerprints of its
--            address. Either pair shares a slot; all four go together only where all keys are on one server
-- ARGV[1]    packed call, big-endian: op u8 (0 observe, 1 touch, 2 end, 3 signals), begun u8 (with op 3: 1 if the visit began
--            its session), retention_us u48, bot_ppm u32 (2^32-1: not told), cap of the index u16
-- ARGV[2]    5 bytes of a session's id that are its own: of a new one with op 0, of the one that is meant with op 1 and 2
-- ARGV[3..7] fingerprint, address, country ('': not told), 11 bytes that the ids of this place have in common, 4 bytes more of
--            the fingerprint's tag
-- ARGV[8]    tag of the fingerprint; then, with a manual clock only, seconds and microseconds in place of TIME
-- Session    hash: id (version u8 = 1, the id's own 5 bytes, the 4 bytes of the tag), fingerprint, ip, first_seen, last_seen,
--            expires (all us), request_count, bot_probability (ppm), geo_country
-- Index      sorted set: a member is the 16 bytes of an id and the 4 of the tag, its score is `expires`
-- Signals    hash: first_seen, last_seen, total_sessions, bot_sum (ppm), bot_count, first (the tag of the first fingerprint);
--            unique fingerprints: HyperLogLog of tags, from the second fingerprint on: most addresses never show one
-- Reply      '' if there is no such session; else of observe and touch: is_new u8, in_signals u8, first_seen u56, last_seen
--            u56, expires u56, request_count u56, bot_ppm u32, length of the country u8, country, length of the address u8,
--            address, fingerprint, the id's own 5 bytes; of end and signals: '1'
-- Errors     LIMITERSTATE if the session or the signals are of an unknown version or corrupt; nothing was written then.
--            LIMITERPART and the error if the visit was counted, or the session ended, and something after that failed
-- Order      all reads come first, so that a key of another type or a read that is not permitted changes nothing; then the
--            session, which counts the visit; each key gets its time to live in the step after the one that made it
-- TTL        frees memory, and with the server's own clock ends a session to the millisecond. With a manual clock, an hour more
-- Numbers are doubles: all stay under 2^53 and whole; microseconds, never nanoseconds

local call = redis.call
local op, begun, retention, bot, cap = struct.unpack('>BBI6I4I2', ARGV[1])
local own, fingerprint, ip, country, place, rest, tag = unpack(ARGV, 2, 8)
local manual = ARGV[9]
local time = manual and {manual, ARGV[10]} or call('TIME')
local now = time[1] * 1000000 + time[2]
local GRACE, HOUR, UNTOLD = 1000000, 3600000000, 4294967295

local function text(number)
  return string.format('%.0f', number)
end

-- Lets a key live until a moment, not a millisecond longer. Returns 0 if there is no such key, and a table, the error, if that
-- is not permitted. Not asked beforehand: once a script has written, a server that lacks memory lets it go on.
local function expire(key, until_us)
  local wait = math.floor((until_us - now) / 1000) + (manual and 3600000 or 0)
  return redis.pcall('PEXPIRE', key, text(wait > 0 and wait or 1))
end

local function is_error(reply)
  return type(reply) == 'table' and reply.err
end

-- Does what comes after the visit was counted; returns the error, marked as one that does not undo the visit.
local function finish(step)
  local done, failed = pcall(step)
  if done and not is_error(failed) then return nil end
  return redis.error_reply('LIMITERPART ' .. (type(failed) == 'table' and failed.err or tostring(failed)))
end

-- Reads what is known of an address: the fields as they are, none if it was quiet for an hour, and those after this visit.
local SIGNALS = {'first_seen', 'last_seen', 'total_sessions', 'bot_sum', 'bot_count', 'first'}
local function read_signals(key)
  local old = call('HMGET', key, unpack(SIGNALS))
  for i = 1, #SIGNALS do
    if old[1] and not (i == 6 and old[6] or tonumber(old[i])) then
      return redis.error_reply('LIMITERSTATE corrupt signals of an address')
    end
  end
  local is_quiet = old[1] and old[2] + HOUR <= now
  local known = is_quiet and {} or old
  local told = bot ~= UNTOLD
  return {
    old = old[1] and not is_quiet and old,
    is_quiet = is_quiet,
    last = math.max(now, tonumber(known[2] or 0)),
    first_seen = known[1] or text(now),
    sessions = known[3] or 0,
    bot_sum = text((known[4] or 0) + (told and bot or 0)),
    bot_count = text((known[5] or 0) + (told and 1 or 0)),
    first = known[6] or tag,
  }
end

-- Counts a visit for its address: sums and counts are only ever added to. Returns the error of who may not expire keys; then
-- the signals are as they were.
local function signal(key, uniques, known)
  if known.is_quiet then call('DEL', key, uniques) end
  local ends = known.last + HOUR
  call('HSET', key, 'first_seen', known.first_seen, 'last_seen', text(known.last), 'total_sessions', text(known.sessions + begun),
    'bot_sum', known.bot_sum, 'bot_count', known.bot_count, 'first', known.first)
  local set = expire(key, ends)
  if is_error(set) then
    if known.old then
      for i, field in ipairs(SIGNALS) do call('HSET', key, field, known.old[i]) end
    else
      call('DEL', key)
    end
    return set
  end
  set = expire(uniques, ends)
  if not is_error(set) and known.first ~= tag then
    call('PFADD', uniques, known.first, tag)
    if set == 0 then
      set = expire(uniques, ends)
      if is_error(set) then call('DEL', uniques) end
    end
  end
  return is_error(set) and set
end

if op == 3 then
  local known = read_signals(KEYS[1])
  if is_error(known) then return known end
  return signal(KEYS[1], KEYS[2], known) or '1'
end

local key, index = KEYS[1], KEYS[2]
local s = call('HMGET', key, 'id', 'fingerprint', 'ip', 'first_seen', 'last_seen', 'expires', 'request_count',
  'bot_probability', 'geo_country')
if s[1] and string.byte(s[1]) ~= 1 then
  return redis.error_reply('LIMITERSTATE unknown version ' .. (string.byte(s[1]) or 0) .. ' of the session')
end
if s[1] and not (#s[1] == 10 and s[2] and s[3] and s[4] and s[5] and s[6] and s[7]) then
  return redis.error_reply('LIMITERSTATE corrupt session')
end
local stored = s[1] and s[1]:sub(2)
local lives = stored and tonumber(s[6]) > now

if op ~= 0 and not (lives and stored:sub(1, 5) == own) then
  return ''
end
if op == 2 then
  call('DEL', key)
  return finish(function() call('ZREM', index, place .. stored) end) or '1'
end

local top = call('ZRANGE', index, -1, -1, 'WITHSCORES')
local signals = op == 0 and KEYS[3] and read_signals(KEYS[3])
if is_error(signals) then return signals end

-- Another visitor's session in this place is as good as none: theirs begins anew, nothing is mixed up.
local known = lives and (op == 1 or (s[2] == fingerprint and s[3] == ip))
local id, first, last, count, likely = own .. rest, now, now, 1, bot
if known then
  id, fingerprint, ip, first, count = stored, s[2], s[3], tonumber(s[4]), s[7] + 1
  last = math.max(now, tonumber(s[5]))
  if bot == UNTOLD then likely = tonumber(s[8] or UNTOLD) end
  if country == '' then country = s[9] or '' end
elseif stored then
  local set = expire(key, tonumber(s[6]))
  if is_error(set) then return set end
  call('DEL', key)
end
local expires = last + retention
begun = known and 0 or 1

-- What every visit changes can be taken back; what it may tell is written once that is certain.
local counts, more = {'last_seen', text(last), 'expires', text(expires), 'request_count', text(count)}, {}
if likely ~= UNTOLD and not (known and text(likely) == s[8]) then
  more[1], more[2] = 'bot_probability', text(likely)
end
if country ~= '' and not (known and country == s[9]) then
  more[#more + 1], more[#more + 2] = 'geo_country', country
end
if not known then
  for _, field in ipairs({'id', '\1' .. id, 'fingerprint', fingerprint, 'ip', ip, 'first_seen', text(first), unpack(more)}) do
    counts[#counts + 1] = field
  end
end
call('HSET', key, unpack(counts))
local set = expire(key, expires)
if is_error(set) then
  if known then
    call('HSET', key, 'last_seen', s[5], 'expires', s[6], 'request_count', s[7])
  else
    call('DEL', key)
  end
  return set
end

local failed = finish(function()
  local member = place .. id
  if known and more[1] then call('HSET', key, unpack(more)) end
  if stored and not known then call('ZREM', index, place .. stored) end
  call('ZADD', index, text(expires), member)
  local longest = math.max(expires, tonumber(top[2] or 0))
  if longest > expires and (top[1] == member or stored and not known) then
    longest = tonumber(call('ZRANGE', index, -1, -1, 'WITHSCORES')[2])
  end
  local set = expire(index, longest)
  if is_error(set) then
    call('ZREM', index, member)
    return set
  end
  call('ZREMRANGEBYSCORE', index, '-inf', text(now - GRACE))
  if call('ZCARD', index) > cap then
    call('ZREMRANGEBYRANK', index, 0, -1 - cap)
  end
  return signals and signal(KEYS[3], KEYS[4], signals)
end)
if failed then return failed end
return struct.pack('>BBI7I7I7I7I4', begun, signals and 1 or 0, first, last, expires, count, likely)
  .. struct.pack('B', #country) .. country .. struct.pack('B', #ip) .. ip .. fingerprint .. id:sub(1, 5)
