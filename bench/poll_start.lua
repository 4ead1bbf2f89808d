-- Polls MESSAGES messages from the topic's start at POLL_PATH, as Avro.

local messages = tonumber(os.getenv("MESSAGES"))

local function avro_length(number)
  local rest, out = number * 2, ""
  while rest > 127 do
    out = out .. string.char(rest % 128 + 128)
    rest = math.floor(rest / 128)
  end
  return out .. string.char(rest)
end

local body = "\4\1\0" .. avro_length(messages) .. "\2"
local polls = {}

function init()
  for _, headers in ipairs(dofile(os.getenv("TOKENS_LUA"))("avro/binary")) do
    polls[#polls + 1] = wrk.format("POST", os.getenv("POLL_PATH"), headers, body)
  end
  math.randomseed(1)
end

function request()
  return polls[#polls == 1 and 1 or math.random(#polls)]
end

dofile(os.getenv("REPORT_LUA"))
