// Publishes, polls, streams, takes, and acknowledges in a commit, by the functions of hey-api.

import { deepStrictEqual, ok, strictEqual } from "node:assert";
import * as tms from "./client/index.js";
import { client } from "./client/client.gen.js";

client.setConfig({ baseUrl: process.argv[2] as `http://${string}` });
const path = { namespace: "default", topic: "from-hey-api" };
const ofGroup = { ...path, subscription: "workers" };
const member = "hey-api";

strictEqual((await tms.createTopic({ path, body: {} })).response?.status, 200);

const messages = ["text", { payload: "keyed", key: "k" }];
strictEqual((await tms.publish({ path, body: { messages } })).response?.status, 200);
const published = await tms.publish({ path, query: { ids: true }, body: { messages } });
const ids = published.data?.ids ?? [];

const { data: polled } = await tms.poll({ path, body: {} });
ok(Array.isArray(polled));
deepStrictEqual(polled.slice(2).map((message) => ("id" in message ? message.id : "")), ids);

const streamed: unknown[] = [];
const { stream } = await tms.stream({ path, query: { after: ids[0], wait: 0 } });
for await (const event of stream) streamed.push(event);
deepStrictEqual(streamed.map((event) => (event as tms.Message).id), [ids[1]]);

await tms.createSubscription({ path: ofGroup, body: { kind: "shared", after: "start" } });
const { data: taken } = await tms.take({ path: ofGroup, body: { member, messages: 3 } });
ok(taken?.delivery);

const { data: started } = await tms.startTransaction({ body: {} });
ok(started && typeof started === "object" && "write_pointer" in started);
await tms.publish({
  path,
  body: { messages: ["result"], transactionWritePointer: started.write_pointer },
});
const committed = await tms.commitTransaction({
  path: { transaction_id: started.transaction_id },
  body: {
    acks: [{ ...ofGroup, member, delivery: taken.delivery, ids: taken.messages.map((each) => each.id) }],
  },
});
strictEqual(committed.response?.status, 200);

const missing = await tms.poll({ path: { ...path, topic: "none" }, body: {} });
strictEqual((missing.error as tms.Error).error.code, "topic_not_found");
