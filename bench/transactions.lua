-- Runs one short transaction after another, each of four requests: start, publish one message of
-- BYTES bytes to TOPIC_PATH, can-commit, commit. With CAN_COMMIT=0 three, like a client that has no
-- changes to announce. One connection per thread, so each thread is a client.

local bytes = tonumber(os.getenv("BYTES"))
local topic = os.getenv("TOPIC_PATH")
local verbs = { "/can-commit", "/commit" }
local bodies = { '{"changes":[]}', "" }
if os.getenv("CAN_COMMIT") == "0" then
  table.remove(verbs, 1)
  table.remove(bodies, 1)
end
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
    local body = '{"transactionWritePointer":"' .. id .. '","messages":["' .. payload .. '"]}'
    return wrk.format("POST", topic .. "/publish", json, body)
  end
  return wrk.format("POST", "/v1/transactions/" .. id .. verbs[step - 1], json, bodies[step - 1])
end

function response(status, headers, body)
  if step == 0 then id = body:match('"transaction_id":"(%d+)"') end
  step = (step + 1) % (2 + #verbs)
end

dofile(os.getenv("REPORT_LUA"))
