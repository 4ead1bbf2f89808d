-- Polls MESSAGES messages per request, as Avro (or CONTENT_TYPE), from a random position in the file STARTS:
-- one per line, path and message id in hexadecimal; no id means the topic's start.

local messages = tonumber(os.getenv("MESSAGES"))

local function avro_length(number)
  local rest, out = number * 2, ""
  while rest > 127 do
    out = out .. string.char(rest % 128 + 128)
    rest = math.floor(rest / 128)
  end
  return out .. string.char(rest)
end

local function body_from(hex)
  local id = hex:gsub("%x%x", function(digits) return string.char(tonumber(digits, 16)) end)
  local start = id == "" and "\4" or "\0" .. avro_length(#id) .. id
  return start .. "\1\0" .. avro_length(messages) .. "\2"
end

local headers = { ["Content-Type"] = os.getenv("CONTENT_TYPE") or "avro/binary" }
local requests = {}

function init()
  for line in io.lines(os.getenv("STARTS")) do
    local path, hex = line:match("^(%S+) ?(%x*)$")
    requests[#requests + 1] = wrk.format("POST", path .. "/poll", headers, body_from(hex))
  end
  math.randomseed(1)
end

function request()
  return requests[math.random(#requests)]
end

dofile(os.getenv("REPORT_LUA"))
