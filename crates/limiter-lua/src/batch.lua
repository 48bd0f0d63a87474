-- batch.lua: run a script for several calls, one after another, as one call of the server's. Each has its own keys and reply,
-- one that fails does not keep the others from running, and all run at one moment: the server is asked for the time once.
-- What a script does before the line `-- For each key` it does once for all calls with the same arguments.
-- Not for clusters, where all keys of a script are in one slot.
-- KEYS       the keys of the calls, one call's after another's
-- ARGV[1]    for each call, how many keys it has u8, the number of its list of arguments u8
-- ARGV[2]    for each list, how many arguments it has u8
-- ARGV[3..]  the lists, one after another. Calls whose arguments are the same, as those under one plan, share one
-- Reply      for each call its reply, which is a text, or its error in the words in which a server would have sent it for the call
--            alone; then the numbers of those that failed, each u8

local moment
local function server_time()
  moment = moment or redis.call('TIME')
  return moment
end

local function prepare(ARGV)
<<prepare>>
return function(KEYS)
<<run>>
end
end

-- Returns the words of an error. What is raised as a mere text, by Redis 6.2 always and by the others if the script itself is at
-- fault, has no code of its own in front; a call alone gets it from Redis 6.2 in these words.
local function words(failed)
  if type(failed) == 'table' then return (string.gsub(tostring(failed.err), '^%-', '')) end
  return 'ERR Error running script (in a batch): @user_script: 0: ' .. tostring(failed)
end

local runs, argument = {}, 3
for i = 1, #ARGV[2] do
  local last = argument + string.byte(ARGV[2], i) - 1
  local prepared, run = pcall(prepare, {unpack(ARGV, argument, last)})
  runs[i], argument = prepared and run or function() error(run, 0) end, last + 1
end

local calls, replies, failed, key = ARGV[1], {}, '', 1
for i = 1, #calls / 2 do
  local keys, list = string.byte(calls, 2 * i - 1, 2 * i)
  local ran, reply = pcall(runs[list], keys == 1 and {KEYS[key]} or {unpack(KEYS, key, key + keys - 1)})
  key = key + keys
  if not ran or type(reply) ~= 'string' then
    reply, failed = words(reply), failed .. string.char(i)
  end
  replies[i] = reply
end
replies[#replies + 1] = failed
return replies
