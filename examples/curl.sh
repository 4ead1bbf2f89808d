#!/usr/bin/env bash
# Topics, messages and transactions with curl. Start a server with scripts/run, then:
#   examples/curl.sh
set -euo pipefail

server=${TMS_URL:-http://127.0.0.1:11015}
topics=$server/v1/namespaces/default/topics
topic=$topics/example-$$-$RANDOM

# call METHOD URL [BODY]: prints the answer; on failure prints the error and ends the script.
call() {
  curl --silent --show-error --fail-with-body --request "$1" "$2" \
    --header 'Content-Type: application/json' ${3:+--data "$3"}
}

echo "create, with a time to live of an hour"
call PUT "$topic" '{"ttl": 3600, "owner": "curl.sh"}'
trap 'call DELETE "$topic"' EXIT

echo "publish text, and bytes that are not text as base64"
call POST "$topic/publish" '{"messages": ["text", {"base64": "/wA="}]}'

echo "poll everything:"
call POST "$topic/poll" '{}' && echo

echo "poll only the first message, then those after it:"
first=$(call POST "$topic/poll" '{"limit": 1}')
echo "$first"
id=$(sed 's/.*"id":"\([0-9a-f]*\)".*/\1/' <<<"$first")
call POST "$topic/poll" "{\"startFrom\": \"$id\", \"inclusive\": false}" && echo

echo "start a transaction, store under it, publish what was stored, roll it back"
started=$(call POST "$server/v1/transactions?codec=false" '{}')
pointer=$(sed 's/.*"write_pointer":"\([0-9]*\)".*/\1/' <<<"$started")
call POST "$topic/store" "{\"transactionWritePointer\": \"$pointer\", \"messages\": [\"a\", \"b\"]}"
range=$(call POST "$topic/publish" "{\"transactionWritePointer\": \"$pointer\", \"messages\": []}")
echo "$range"
call POST "$topic/rollback" "$range"
call POST "$server/v1/transactions/$pointer/abort" && echo

echo "change the properties, and show them:"
call PUT "$topic/properties" '{"ttl": 60}'
call GET "$topic" && echo

echo "a wrong request says what is wrong:"
call POST "$topic/poll" '{"limit": 0}' && echo || echo
