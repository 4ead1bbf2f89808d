// What a service on Node does with a registry: register, encode, decode, evolve, be refused.
const assert = require("node:assert");
const { SchemaRegistry, SchemaType, COMPATIBILITY } = require("@kafkajs/confluent-schema-registry");

async function main(host) {
  const registry = new SchemaRegistry({ host });
  const order = (...fields) =>
    JSON.stringify({
      type: "record",
      name: "Order",
      namespace: "shop",
      fields: [{ name: "id", type: "string" }, ...fields],
    });

  const first = await registry.register(
    { type: SchemaType.AVRO, schema: order() },
    { subject: "orders-value", compatibility: COMPATIBILITY.BACKWARD },
  );
  const bytes = await registry.encode(first.id, { id: "a" });
  assert.strictEqual(bytes.readUInt8(0), 0);
  assert.strictEqual(bytes.readInt32BE(1), first.id);

  const other = new SchemaRegistry({ host });
  assert.deepStrictEqual({ ...(await other.decode(bytes)) }, { id: "a" });
  assert.strictEqual(await other.getLatestSchemaId("orders-value"), first.id);
  assert.strictEqual(await other.getRegistryId("orders-value", 1), first.id);

  const second = await registry.register(
    { type: SchemaType.AVRO, schema: order({ name: "count", type: "int", default: 1 }) },
    { subject: "orders-value" },
  );
  assert.notStrictEqual(second.id, first.id);
  await assert.rejects(
    registry.register(
      { type: SchemaType.AVRO, schema: order({ name: "must", type: "int" }) },
      { subject: "orders-value" },
    ),
    /incompatible/,
  );
  await assert.rejects(other.getLatestSchemaId("nosuch"), /not found/);
  console.log(JSON.stringify({ first: first.id, second: second.id }));
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
