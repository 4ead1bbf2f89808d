-- Publishes MESSAGES payloads of BYTES bytes per request, as Avro.
-- TOPICS > 0: to a random one of that number of topics, whose names are the path plus a number.

local messages = tonumber(os.getenv("MESSAGES"))
local bytes = tonumber(os.getenv("BYTES"))
local topics = tonumber(os.getenv("TOPICS"))
local base = os.getenv("TOPIC_PATH")

local function avro_length(number)
  local rest, out = number * 2, ""
  while rest > 127 do
    out = out .. string.char(rest % 128 + 128)
    rest = math.floor(rest / 128)
  end
  return out .. string.char(rest)
end

local payload = string.rep("x", bytes)
local parts = { "\2", avro_length(messages) }
for _ = 1, messages do
  parts[#parts + 1] = avro_length(bytes) .. payload
end
parts[#parts + 1] = "\0"
local body = table.concat(parts)
local headers = dofile(os.getenv("TOKENS_LUA"))("avro/binary")
local requests = {}

function init()
  if topics == 0 then
    for number = 1, #headers do
      requests[number] = wrk.format("POST", base .. "/publish", headers[number], body)
    end
  end
  for number = 1, topics do
    requests[number] = wrk.format("POST", base .. number .. "/publish", headers[1], body)
  end
  math.randomseed(1)
end

function request()
  return requests[#requests == 1 and 1 or math.random(#requests)]
end

dofile(os.getenv("REPORT_LUA"))
