-- batch.lua: run a script for several calls, one after another, as one call of the server's. Each has its own keys, arguments
-- and reply, and one that fails does not keep the others from running.
-- For clients that write every script call by itself; not for clusters, where all keys of a script are in one slot.
-- KEYS       the keys of the calls, one call's after another's
-- ARGV[1]    for each call, how many keys it has u8, how many arguments u8
-- ARGV[2..]  the arguments of the calls, one call's after another's
-- Reply      for each call '+' and its reply, or '-' and its error

local function run(KEYS, ARGV)
<<script>>
end

local sizes, replies, key, argument = ARGV[1], {}, 1, 2
for i = 1, #sizes / 2 do
  local keys, arguments = string.byte(sizes, 2 * i - 1, 2 * i)
  local ran, reply = pcall(run, {unpack(KEYS, key, key + keys - 1)}, {unpack(ARGV, argument, argument + arguments - 1)})
  key, argument = key + keys, argument + arguments
  if type(reply) == 'table' then ran, reply = false, reply.err end
  replies[i] = (ran and '+' or '-') .. tostring(reply)
end
return replies
