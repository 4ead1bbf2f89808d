-- Publishes one message of BYTES bytes to a topic, in a transaction of its own, in one request.

local bytes = tonumber(os.getenv("BYTES"))
local topic = os.getenv("TOPIC_NAME")
local body = '{"topics":{"' .. topic .. '":["' .. string.rep("x", bytes) .. '"]}}'
local all = nil

function init()
  all = wrk.format("POST", os.getenv("NAMESPACE_PATH") .. "/publish", { ["Content-Type"] = "application/json" }, body)
end

function request()
  return all
end

dofile(os.getenv("REPORT_LUA"))
