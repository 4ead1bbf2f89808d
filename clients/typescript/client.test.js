// Uses the client against a real server: TMS_URL=http://… node --test

import { deepStrictEqual, ok, rejects, strictEqual } from "node:assert";
import { createServer, connect as connectTo } from "node:net";
import { describe, test } from "node:test";
import { bytes, connect, Reject, text, TmsError } from "./tms.js";

const URL_OF_SERVER = process.env.TMS_URL ?? "";
const tms = connect(URL_OF_SERVER);

async function newTopic(name) {
  const topic = tms.topic(name);
  await topic.create();
  return topic;
}

async function payloadsOf(messages) {
  const payloads = [];
  for await (const message of messages) payloads.push(text(message.payload));
  return payloads;
}

/** Wait until the lease of a message ends later than it did. */
async function waitForExtension(group, message) {
  const untilOf = async () => {
    const [open] = await group.http.call("GET", `${group.path}/open`);
    strictEqual(open.id, message.id);
    return open.until_ms;
  };
  const first = await untilOf();
  while ((await untilOf()) === first) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** A proxy to the server whose connections a test can cut. */
async function breakableProxy() {
  const { hostname, port } = new URL(URL_OF_SERVER);
  const sockets = new Set();
  const proxy = { connections: 0, url: "", cut: () => {}, close: () => {} };
  const server = createServer((near) => {
    proxy.connections += 1;
    const far = connectTo(Number(port), hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => [near, far].forEach((each) => each.destroy()));
    }
    near.pipe(far).pipe(near);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const address = server.address();
  ok(address !== null && typeof address === "object");
  proxy.url = `http://127.0.0.1:${address.port}`;
  proxy.cut = () => sockets.forEach((each) => each.destroy());
  proxy.close = () => {
    proxy.cut();
    server.close();
  };
  return proxy;
}

describe("the client", { concurrency: true }, () => {
  test("messages are published and polled", async () => {
    const topic = await newTopic("js-plain");
    const binary = Uint8Array.of(0, 255);
    const given = ["text", binary, { payload: "keyed", key: "k", headers: { trace: "7f" } }];

    const ids = await topic.publish(given);

    const polled = [];
    for await (const message of topic.poll()) polled.push(message);
    deepStrictEqual(polled.map((message) => message.id), ids);
    deepStrictEqual(bytes(polled[1].payload), binary);
    deepStrictEqual([polled[2].key, polled[2].headers], ["k", { trace: "7f" }]);
    deepStrictEqual(await payloadsOf(topic.poll({ after: ids[1] })), ["keyed"]);
    deepStrictEqual(await payloadsOf(topic.poll({ limit: 1 })), ["text"]);
  });

  test("a filter chooses messages", async () => {
    const topic = await newTopic("js-filters");
    await topic.publish(["a", "b", "a"].map((key) => ({ payload: key, key })));

    const filter = 'key = "a"';
    deepStrictEqual(await payloadsOf(topic.poll({ filter })), ["a", "a"]);
    deepStrictEqual(await payloadsOf(topic.poll({ filter, limit: 1 })), ["a"]);
    deepStrictEqual(await payloadsOf(topic.poll({ filter: "not key exists" })), []);
    for await (const message of topic.stream({ filter: 'key = "b"' })) {
      strictEqual(message.key, "b");
      break;
    }
  });

  test("an error has its code, and says whether something may have been done", async () => {
    const missing = (error) =>
      error instanceof TmsError && error.code === "topic_not_found" && !error.isInDoubt;
    await rejects(tms.topic("js-none").publish(["x"]), missing);
    const unreachable = connect("http://127.0.0.1:9").topic("t").publish(["x"]);
    await rejects(unreachable, (error) => error.isInDoubt);
  });

  test("a transaction publishes all of its messages or none", async () => {
    const topic = await newTopic("js-transactions");
    await tms.transaction((tx) => topic.publish(["committed"], { tx }));
    const failed = tms.transaction(async (tx) => {
      await topic.publish(["undone"], { tx });
      deepStrictEqual(await payloadsOf(topic.poll({ tx })), ["committed", "undone"]);
      throw new Error("no");
    });

    await rejects(failed, /^Error: no$/);

    deepStrictEqual(await payloadsOf(topic.poll({ committed: true })), ["committed"]);
  });

  test("a group's loop acknowledges, repeats, rejects and keeps the order of a key", async () => {
    const topic = await newTopic("js-group");
    await newTopic("js-dead");
    const group = topic.group("workers");
    await group.create({ order: "key", dead_letter: "js-dead", retry_s: 1 });
    const of = (payload, key) => ({ payload, key });
    await topic.publish([of("a1", "a"), of("a2", "a"), of("bad", "b"), of("c", "c")]);
    const seen = [];
    const stop = new AbortController();

    await group.work(
      async (message) => {
        const payload = text(message.payload);
        seen.push(`${payload}/${message.attempt}`);
        if (payload === "bad") throw new Reject("it is bad");
        if (payload === "a1" && message.attempt === 1) throw new Error("again");
        if (payload === "a2") stop.abort();
      },
      { signal: stop.signal, waitS: 5 },
    );

    deepStrictEqual(seen, ["a1/1", "bad/1", "c/1", "a1/2", "a2/1"]);
    const { state, counts } = await group.show();
    strictEqual(state.open + state.unread, 0);
    strictEqual(counts.acked, 3);
    deepStrictEqual(await payloadsOf(tms.topic("js-dead").poll()), ["bad"]);
  });

  test("a lease is extended while a handler works, and its loss is reported", async () => {
    const topic = await newTopic("js-leases");
    const group = topic.group("workers");
    await group.create();
    await topic.publish(["slow"]);
    const stop = new AbortController();
    let attempts = 0;

    await group.work(
      async (message) => {
        attempts += 1;
        await waitForExtension(group, message);
        await group.http.call("POST", `${group.path}/release`, { body: { member: "slow-one" } });
        await new Promise((resolve) => message.signal.addEventListener("abort", resolve));
        stop.abort();
        throw new Error("somebody else may have it");
      },
      { member: "slow-one", leaseS: 1, signal: stop.signal, waitS: 5 },
    );

    strictEqual(attempts, 1);
    const { state, counts } = await group.show();
    deepStrictEqual([state.leased, state.open + state.unread, counts.acked], [0, 1, 0]);
  });

  test("a handler's transaction publishes its result and acknowledges its message", async () => {
    const topic = await newTopic("js-work");
    const results = await newTopic("js-results");
    const group = topic.group("workers");
    await group.create();
    await topic.publish(["1", "2"]);
    const stop = new AbortController();

    await group.work(
      async (message, tx) => {
        await results.publish([`result of ${text(message.payload)}`], { tx });
        if (text(message.payload) === "2") {
          if (message.attempt === 1) throw new Error("its result is undone");
          stop.abort();
        }
      },
      { transaction: true, signal: stop.signal, waitS: 5 },
    );

    const committed = await payloadsOf(results.poll({ committed: true }));
    deepStrictEqual(committed, ["result of 1", "result of 2"]);
    strictEqual((await group.show()).counts.acked, 2);
  });

  test("a stream gives each message once, although its connection breaks", async () => {
    const topic = await newTopic("js-stream");
    await topic.publish(["0", "1"]);
    const proxy = await breakableProxy();
    const stop = new AbortController();
    const seen = [];

    const proxied = connect(proxy.url).topic("js-stream");
    for await (const message of proxied.stream({ signal: stop.signal })) {
      seen.push(text(message.payload));
      if (seen.length === 2) {
        proxy.cut();
        await topic.publish(["2", "3"]);
      }
      if (seen.length === 4) stop.abort();
    }

    deepStrictEqual(seen, ["0", "1", "2", "3"]);
    strictEqual(proxy.connections, 2);
    proxy.close();
  });
});
