// A client of TMS for Node and browsers: topics, groups, transactions and streams.
//
//   const tms = connect("http://127.0.0.1:11015");
//   const orders = tms.topic("orders");
//   await orders.publish(["order 17", { payload: "order 18", key: "Ada" }]);
//   for await (const message of orders.poll()) console.log(text(message.payload));

import { eventsOf } from "./events.js";
import { Group } from "./group.js";
import { Http, pause, persistently } from "./http.js";
import { runTransaction } from "./transaction.js";

export { TmsError } from "./http.js";
export { Reject } from "./group.js";

const RECONNECT_MS = 1_000;

/** @typedef {import("./schema.js").components["schemas"]} Schemas */
/** @typedef {import("./http.js").Options} Options */
/** @typedef {import("./transaction.js").Transaction} Transaction */
/** @typedef {Schemas["Message"]} Message */
/** @typedef {string | Uint8Array | { base64: string }} Bytes */
/** @typedef {{payload: Bytes | null, key?: Bytes, headers?: Record<string, Bytes>}} KeyedMessage */
/** @typedef {Bytes | KeyedMessage} NewMessage */
/**
 * @typedef {object} PollOptions
 * @property {string} [after] The message id after which to begin.
 * @property {number} [limit] The most messages.
 * @property {number} [waitS] How long to wait if there is no message.
 * @property {boolean} [committed] Only committed messages.
 * @property {Transaction} [tx] Read in this transaction, which sees its own messages too.
 * @property {string} [filter] Only messages whose key and headers match, such as `key = "a"`.
 * @property {AbortSignal} [signal]
 */
/**
 * @typedef {object} StreamOptions
 * @property {string} [after] The message id after which to begin.
 * @property {"start" | "end"} [start] By default `start`, the oldest message.
 * @property {boolean} [committed] Only committed messages.
 * @property {string} [filter] Only messages whose key and headers match.
 * @property {AbortSignal} [signal] Ends the stream.
 * @property {(transactionId: string) => void} [onStopped] Called with the transaction that a reader
 *   of committed messages waits for.
 */

/**
 * Return a client of a server, or of a cluster by any of its servers.
 * @param {string} url @param {Options} [options]
 */
export function connect(url, options = {}) {
  return new Tms(url, options);
}

/** The client of a namespace. */
export class Tms extends Http {
  /** @param {string} name */
  topic(name) {
    return new Topic(this, name);
  }

  /**
   * Run `work` in a transaction: commit it if `work` returns, abort it if `work` throws.
   * @template T
   * @param {(tx: Transaction) => Promise<T>} work
   * @param {import("./transaction.js").TransactionOptions} [options]
   */
  transaction(work, options) {
    return runTransaction(this, work, options);
  }
}

/** A topic. */
export class Topic {
  /** @param {Http} http @param {string} name */
  constructor(http, name) {
    this.http = http;
    this.namespace = http.namespace;
    this.name = name;
    this.path = `/v1/namespaces/${this.namespace}/topics/${encodeURIComponent(name)}`;
  }

  /**
   * Create it. Throws `topic_already_exists` if it exists.
   * @param {Record<string, string | number>} [properties]
   */
  async create(properties = {}) {
    await this.http.call("PUT", this.path, { body: properties });
  }

  /** @param {string} name */
  group(name) {
    return new Group(this, name);
  }

  /**
   * Publish messages, all or none; return their ids. They are durable then. If the answer does not
   * arrive, the error says so with `isInDoubt`: publishing again may publish twice.
   * @param {NewMessage[]} messages
   * @param {{tx?: Transaction, ifLast?: string, signal?: AbortSignal}} [options]
   * @returns {Promise<string[]>}
   */
  async publish(messages, { tx, ifLast, signal } = {}) {
    const body = { messages: messages.map(encoded), transactionWritePointer: tx?.writePointer };
    const query = { ids: true, if_last: ifLast };
    const answer = await this.http.call("POST", `${this.path}/publish`, { query, body, signal });
    tx?.published(this, answer);
    return answer.ids;
  }

  /**
   * Iterate over the messages that exist, oldest first.
   * @param {PollOptions} [options] @returns {AsyncGenerator<Message, void, void>}
   */
  async *poll(options = {}) {
    const { after, limit = Number.POSITIVE_INFINITY, waitS, committed, tx, filter, signal } = options;
    const query = {
      stopped_at: filter === undefined ? undefined : true, // the answer says where to continue
      wait: waitS,
      transaction_id: tx?.id,
      isolation: committed ? "committed" : undefined,
    };
    /** @type {object} */
    let place = after === undefined ? {} : { startFrom: after, inclusive: false };
    for (let remaining = limit; remaining > 0; ) {
      const body = {
        ...place,
        filter,
        ...(remaining === Number.POSITIVE_INFINITY ? {} : { limit: remaining }),
      };
      const answer = await persistently(
        () => this.http.call("POST", `${this.path}/poll`, { query, body, signal }),
        signal,
      );
      /** @type {Message[]} */
      const page = filter === undefined ? answer : answer.messages;
      const last = page.at(-1);
      yield* page;
      if (filter === undefined ? last === undefined : answer.atEnd) return;
      remaining -= page.length;
      place = { startFrom: answer.nextPosition ?? last?.id, inclusive: filter !== undefined };
      if (last !== undefined) query.wait = undefined;
    }
  }

  /**
   * Iterate over the messages that exist, and over each new one. It connects again by itself, and
   * gives each message once. It ends if its signal is aborted.
   * @param {StreamOptions} [options] @returns {AsyncGenerator<Message, void, void>}
   */
  async *stream({ after, start, committed, filter, signal, onStopped } = {}) {
    const isolation = committed ? "committed" : undefined;
    const connection = { last: after };
    while (!signal?.aborted) {
      const begin = connection.last === undefined ? start : undefined;
      const query = { start: begin, isolation, filter };
      const path = `${this.path}/stream`;
      try {
        for await (const event of eventsOf(this.http, path, query, connection, signal)) {
          if (event.name === "stopped") onStopped?.(JSON.parse(event.data).transaction_id);
          else yield JSON.parse(event.data);
        }
        await pause(RECONNECT_MS, signal);
      } catch (error) {
        if (!signal?.aborted) throw error;
      }
    }
  }
}

/**
 * Return a message, or a value of it, as the server accepts it.
 * @param {NewMessage | null} value @returns {unknown}
 */
function encoded(value) {
  if (value instanceof Uint8Array) return { base64: base64Of(value) };
  if (value === null || typeof value === "string" || "base64" in value) return value;
  const { payload, key, headers } = value;
  const named = Object.entries(headers ?? {}).map(([name, each]) => [name, encoded(each)]);
  return {
    payload: encoded(payload),
    ...(key === undefined ? {} : { key: encoded(key) }),
    ...(headers === undefined ? {} : { headers: Object.fromEntries(named) }),
  };
}

/** @param {Uint8Array} value */
function base64Of(value) {
  return btoa(Array.from(value, (byte) => String.fromCharCode(byte)).join(""));
}

/** Return the bytes of a payload, a key or a header. @param {Schemas["GivenBytes"]} value */
export function bytes(value) {
  if (typeof value === "string") return new TextEncoder().encode(value);
  return Uint8Array.from(atob(value.base64), (each) => each.charCodeAt(0));
}

/** Return a payload, a key or a header as text. @param {Schemas["GivenBytes"]} value */
export function text(value) {
  return typeof value === "string" ? value : new TextDecoder().decode(bytes(value));
}
