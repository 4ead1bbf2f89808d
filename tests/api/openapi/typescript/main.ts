// Publishes, polls, takes, and acknowledges in a commit, with the types of openapi-typescript.

import { deepStrictEqual, ok, strictEqual } from "node:assert";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Message = components["schemas"]["Message"];
const client = createClient<paths, "application/json">({ baseUrl: process.argv[2] });
const path = { namespace: "default", topic: "from-typescript" };
const ofGroup = { path: { ...path, subscription: "workers" } };
const member = "typescript";

function idsOf(messages: Message[]): string[] {
  return messages.map((message) => message.id);
}

const topic = "/v1/namespaces/{namespace}/topics/{topic}" as const;
const created = await client.PUT(topic, { params: { path }, body: {} });
strictEqual(created.response.status, 200);

const messages = ["text", { payload: "keyed", key: "k" }];
const silent = await client.POST(`${topic}/publish`, { params: { path }, body: { messages } });
strictEqual(silent.response.status, 200);
strictEqual(silent.data, undefined);
const published = await client.POST(`${topic}/publish`, {
  params: { path, query: { ids: true } },
  body: { messages },
});
strictEqual(published.data?.ids?.length, 2);

const polled = await client.POST(`${topic}/poll`, { params: { path }, body: {} });
ok(Array.isArray(polled.data));
deepStrictEqual(idsOf(polled.data).slice(2), published.data?.ids);

await client.PUT(`${topic}/subscriptions/{subscription}`, {
  params: ofGroup,
  body: { kind: "shared", after: "start" },
});
const { data: taken } = await client.POST(`${topic}/subscriptions/{subscription}/take`, {
  params: ofGroup,
  body: { member, messages: 3 },
});
ok(taken?.delivery);
strictEqual(taken.messages.length, 3);

const { data: started } = await client.POST("/v1/transactions", { body: {} });
ok(started);
const written = await client.POST(`${topic}/publish`, {
  params: { path },
  body: { messages: ["result"], transactionWritePointer: started.write_pointer },
});
ok(written.data?.rollbackRange);
const acks = [
  {
    ...ofGroup.path,
    member,
    delivery: taken.delivery,
    ids: idsOf(taken.messages),
  },
];
const committed = await client.POST("/v1/transactions/{transaction_id}/commit", {
  params: { path: { transaction_id: started.transaction_id } },
  body: { acks },
});
strictEqual(committed.response.status, 200);

const missing = await client.POST(`${topic}/poll`, {
  params: { path: { ...path, topic: "none" } },
  body: {},
});
strictEqual(missing.error?.error.code, "topic_not_found");
