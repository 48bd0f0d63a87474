-- batch.lua: run a script for several calls, one after another, as one call of the server's. Each has its own keys, arguments
-- and reply, and one that fails does not keep the others from running.
-- For clients that write every script call by itself; not for clusters, where all keys of a script are in one slot.
-- KEYS       the keys of the calls, one call's after another's
-- ARGV[1]    for each call, how many keys it has u8, how many arguments u8
-- ARGV[2..]  the arguments of the calls, one call's after another's
-- Reply      for each call '+' and its reply, or '-' and its error, as a server would have sent it for the call alone

local function run(KEYS, ARGV)
<<script>>
end

-- Returns the words of an error. What is raised as a mere text, by Redis 6.2 always and by the others if the script itself is at
-- fault, has no code of its own in front; a call alone gets it from Redis 6.2 in these words.
local function words(failed)
  if type(failed) == 'table' then return (string.gsub(tostring(failed.err), '^%-', '')) end
  return 'ERR Error running script (in a batch): @user_script: 0: ' .. tostring(failed)
end

local sizes, replies, key, argument = ARGV[1], {}, 1, 2
for i = 1, #sizes / 2 do
  local keys, arguments = string.byte(sizes, 2 * i - 1, 2 * i)
  local ran, reply = pcall(run, {unpack(KEYS, key, key + keys - 1)}, {unpack(ARGV, argument, argument + arguments - 1)})
  key, argument = key + keys, argument + arguments
  if ran and type(reply) ~= 'table' then
    replies[i] = '+' .. tostring(reply)
  else
    replies[i] = '-' .. words(reply)
  end
end
return replies
