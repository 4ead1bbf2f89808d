// A client as people write one: all answers by JSON.parse, and ids as they come.
//   node json_client.mjs URL COUNT
// It starts so many transactions, then ends each in the way that its number says. It prints, for
// each way, the ids it was given.
const [url, count] = process.argv.slice(2);
const topic = `${url}/v1/namespaces/ns/topics/t`;
const transactions = `${url}/v1/transactions`;

async function call(method, where, body) {
  const answer = await fetch(where, {
    method,
    headers: { 'Content-Type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${where}: ${answer.status} ${text}`);
  return text === '' ? null : JSON.parse(text);
}

const ways = {
  async committed(id, number) {
    await call('POST', `${topic}/publish`, { transactionWritePointer: id, messages: [`${number}`] });
    await call('POST', `${transactions}/${id}/commit`);
  },
  async aborted(id, number) {
    const asked = { transactionWritePointer: id, messages: [`${number}`] };
    const range = await call('POST', `${topic}/publish`, asked);
    await call('POST', `${topic}/rollback`, range);
    await call('POST', `${transactions}/${id}/abort`);
  },
  async stored(id, number) {
    const { write_pointer } = await call('POST', `${transactions}/${id}/checkpoint?codec=false`);
    const asked = { transactionWritePointer: write_pointer, messages: [`${number}`] };
    await call('POST', `${topic}/store`, asked);
    const publish = [{ namespace: 'ns', topic: 't', write_pointer }];
    await call('POST', `${transactions}/${id}/commit`, { publish });
  },
  async truncated(id, number) {
    await call('POST', `${topic}/publish`, { transactionWritePointer: id, messages: [`${number}`] });
    await call('POST', `${transactions}/${id}/invalidate`);
    const info = await call('GET', `${transactions}/${id}?codec=false`);
    const { truncated } = await call('POST', `${transactions}/invalid/truncate`, {
      ids: info.write_pointers,
    });
    if (truncated !== 1) throw new Error(`${id} was not on the invalid list`);
  },
  async invalid(id) {
    const listed = await call('GET', transactions);
    const info = listed.find(({ transaction_id }) => transaction_id === id);
    await call('POST', `${transactions}/${info.transaction_id}/invalidate`);
  },
  async open() {},
};

const ids = [];
for (let number = 0; number < count; number++) {
  ids.push((await call('POST', `${transactions}?codec=false`, {})).transaction_id);
}
const names = Object.keys(ways);
const ended = Object.fromEntries(names.map((name) => [name, []]));
for (const [number, id] of ids.entries()) {
  const name = names[number % names.length];
  await ways[name](id, number);
  ended[name].push(id);
}
console.log(JSON.stringify(ended));
