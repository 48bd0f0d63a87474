-- feed.lua: take an anomaly into the feed of its severity, or read the newest.
-- Why Lua: entry, cut and time to live must be one step, and times must not fall where the clock does.
-- KEYS[1]    stream of the severity; an entry has the fields at (us), kind, session (16 bytes or ''), note
-- ARGV[1]    packed call, big-endian: op u8 (0 recent, 1 push), keeps u16 (entries), retention_us u48, since_us u56, limit u16
-- ARGV[2..4] with op 1: kind, session, note; '' else; then, with a manual clock only, seconds and microseconds
-- Reply      of push: '1'; of recent: for each entry, the newest first, at_us u56, length of kind u8, kind, length of session
--            u8, session, length of note u8, note
-- TTL        the retention, from the newest entry on. With a manual clock, an hour more
-- Numbers are doubles: all stay under 2^53 and whole; microseconds, never nanoseconds

local key = KEYS[1]
local op, keeps, retention, since, limit = struct.unpack('>BI2I6I7I2', ARGV[1])
local manual = ARGV[5]
local time = manual and {manual, ARGV[6]} or redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Returns the fields of an entry by their names.
local function read(entry)
  local fields = {}
  for i = 1, #entry[2], 2 do
    fields[entry[2][i]] = entry[2][i + 1]
  end
  return fields
end

if op == 1 then
  local at = now
  local newest = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
  if newest then at = math.max(now, tonumber(read(newest).at)) end
  local wait = math.floor((at + retention - now) / 1000) + (manual and 3600000 or 0)
  wait = string.format('%.0f', wait > 0 and wait or 1)
  -- Who may not expire must change nothing: a stream that is there lives longer before it grows. Having written, the script is
  -- let go on by a server that lacks memory; what a stream holds is bounded.
  local set = newest and redis.pcall('PEXPIRE', key, wait)
  if type(set) == 'table' then return set end
  redis.call('XADD', key, 'MAXLEN', keeps, '*', 'at', string.format('%.0f', at),
    'kind', ARGV[2], 'session', ARGV[3], 'note', ARGV[4])
  if not newest then
    set = redis.pcall('PEXPIRE', key, wait)
    if type(set) == 'table' then
      -- The key is new, and must not stay for ever.
      redis.call('DEL', key)
      return set
    end
  end
  return '1'
end

local reply = {}
if limit > 0 then
  for _, entry in ipairs(redis.call('XREVRANGE', key, '+', '-', 'COUNT', limit)) do
    local fields = read(entry)
    local at = tonumber(fields.at)
    if at < since or at + retention <= now then break end
    reply[#reply + 1] = struct.pack('>I7', at)
    for _, name in ipairs({'kind', 'session', 'note'}) do
      reply[#reply + 1] = struct.pack('B', #fields[name]) .. fields[name]
    end
  end
end
return table.concat(reply)
