-- Runs one short transaction after another, each of four requests: start, publish one message of
-- BYTES bytes to TOPIC_PATH, can-commit, commit. One connection a thread, so each thread is a client.

local bytes = tonumber(os.getenv("BYTES"))
local topic = os.getenv("TOPIC_PATH")
local json = { ["Content-Type"] = "application/json" }
local payload = string.rep("x", bytes)
local start = nil
local step, id = 0, nil

function init()
  start = wrk.format("POST", "/v1/transactions?codec=false", json, "{}")
end

function request()
  if step == 0 then return start end
  if step == 1 then
    local body = '{"transactionWritePointer":' .. id .. ',"messages":["' .. payload .. '"]}'
    return wrk.format("POST", topic .. "/publish", json, body)
  end
  local verb = step == 2 and "/can-commit" or "/commit"
  local body = step == 2 and '{"changes":[]}' or ""
  return wrk.format("POST", "/v1/transactions/" .. id .. verb, json, body)
end

function response(status, headers, body)
  if step == 0 then id = body:match('"transaction_id":(%d+)') end
  step = (step + 1) % 4
end

dofile(os.getenv("REPORT_LUA"))
