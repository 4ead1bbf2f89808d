-- Takes MESSAGES messages of the group at GROUP_PATH, and acknowledges them, as FORM says:
--   two    take, then settle
--   next   each take acknowledges what the one before got
--   once   take, then publish one message of BYTES bytes to the topic OUT together with the ack
-- One connection per thread, so each thread is a member. An empty take is answered by 404: see below.

local form = os.getenv("FORM")
local path = os.getenv("GROUP_PATH")
local messages = os.getenv("MESSAGES")
local namespace, topic, group = path:match("/namespaces/(.-)/topics/(.-)/subscriptions/(.+)")
local json = { ["Content-Type"] = "application/json" }
local frames = { ["Content-Type"] = "application/json", ["Accept"] = "avro/binary;version=2" }
local payload = string.rep("x", tonumber(os.getenv("BYTES")))
local started = 0
local delivery, id, is_taken, is_empty = nil, nil, false, false

function setup(thread)
  started = started + 1
  thread:set("number", started)
end

local function take()
  local acks = delivery and form == "next" and ',"settle":{"acks":[{"delivery":' .. delivery .. "}]}" or ""
  local body = '{"member":"w-' .. number .. '","messages":' .. messages .. acks .. "}"
  return wrk.format("POST", path .. "/take", form == "once" and json or frames, body)
end

local function settle()
  local body = '{"member":"w-' .. number .. '","acks":[{"delivery":' .. delivery .. "}]}"
  return wrk.format("POST", path .. "/settle", json, body)
end

local function publish_with_ack()
  local ack = '{"namespace":"' .. namespace .. '","topic":"' .. topic .. '","subscription":"' .. group
    .. '","member":"w-' .. number .. '","delivery":' .. delivery .. ',"ids":["' .. id .. '"]}'
  local body = '{"topics":{"' .. os.getenv("OUT") .. '":["' .. payload .. '"]},"acks":[' .. ack .. "]}"
  return wrk.format("POST", "/v1/namespaces/" .. namespace .. "/publish", json, body)
end

-- wrk builds one request that it does not send, so only answers change anything.
function request()
  if is_empty then return wrk.format("GET", "/the-group-is-empty") end
  if not is_taken then return take() end
  return form == "two" and settle() or publish_with_ack()
end

-- The first field of an answer in Avro is the union of a long and null: the number of the delivery.
local function delivery_in(body)
  if body:byte(1) ~= 0 then return nil end
  local value, scale, at = 0, 1, 2
  while true do
    local byte = body:byte(at)
    value = value + (byte % 128) * scale
    if byte < 128 then return string.format("%.0f", value / 2) end
    scale, at = scale * 128, at + 1
  end
end

function response(status, headers, body)
  if is_taken then
    is_taken = false
    return
  end
  if form == "once" then
    delivery, id = body:match('"delivery":(%d+)'), body:match('"id":"(%x+)"')
  else
    delivery = delivery_in(body)
  end
  is_empty = delivery == nil
  is_taken = form ~= "next"
end

dofile(os.getenv("REPORT_LUA"))
