-- Returns request headers for each token in the file TOKENS, one per line; headers without a token if there is none.

local function headers_of(content_type)
  local all = {}
  local file = os.getenv("TOKENS")
  if not file or file == "" then
    return { { ["Content-Type"] = content_type } }
  end
  for token in io.lines(file) do
    all[#all + 1] = { ["Content-Type"] = content_type, ["Authorization"] = "Bearer " .. token }
  end
  return all
end

return headers_of
