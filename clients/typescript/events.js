// Server-sent events by fetch, which can send a token, unlike EventSource.

import { persistently } from "./http.js";

/**
 * Iterate over the events with data of one connection; return when it ends.
 *
 * Each event's id is kept in `connection.last` before the event is given, and is sent as
 * `Last-Event-ID` by the next connection.
 * @param {import("./http.js").Http} http @param {string} path
 * @param {import("./http.js").Query} query @param {{last?: string}} connection
 * @param {AbortSignal} [signal] @returns {AsyncGenerator<{name: string, data: string}, void, void>}
 */
export async function* eventsOf(http, path, query, connection, signal) {
  const headers = {
    accept: "text/event-stream",
    ...(connection.last === undefined ? {} : { "last-event-id": connection.last }),
  };
  const request = { query, headers, signal };
  const answer = await persistently(() => http.send("GET", path, request), signal);
  if (answer.body === null) throw new TypeError("the platform's fetch gives no body");
  let event = { name: "message", data: "", id: connection.last };
  try {
    for await (const line of linesOf(answer.body)) {
      if (line === "") {
        connection.last = event.id;
        if (event.data !== "") yield { name: event.name, data: event.data };
        event = { name: "message", data: "", id: connection.last };
      } else if (line.startsWith("id: ")) event.id = line.slice(4);
      else if (line.startsWith("event: ")) event.name = line.slice(7);
      else if (line.startsWith("data: ")) event.data += line.slice(6);
    }
  } catch (error) {
    if (signal?.aborted) throw error; // else the connection broke
  }
}

/**
 * Iterate over whole lines; an unfinished one at the end is dropped.
 * @param {ReadableStream<Uint8Array>} body @returns {AsyncGenerator<string, void, void>}
 */
async function* linesOf(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
