-- Gets paths BASE1 to BASE<COUNT>, chosen at random.

local base = os.getenv("BASE")
local count = tonumber(os.getenv("COUNT"))

function init()
  math.randomseed(1)
end

function request()
  return wrk.format("GET", base .. math.random(count))
end

dofile(os.getenv("REPORT_LUA"))
