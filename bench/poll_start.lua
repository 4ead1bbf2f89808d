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
local poll = nil

function init()
  poll = wrk.format("POST", os.getenv("POLL_PATH"), { ["Content-Type"] = "avro/binary" }, body)
end

function request()
  return poll
end

dofile(os.getenv("REPORT_LUA"))
