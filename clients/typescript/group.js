// Groups: each message is leased to one member, and comes again unless the member acknowledges it.

import { pause, persistently, TmsError } from "./http.js";
import { runTransaction } from "./transaction.js";

const EXTENDS_PER_LEASE = 3;
const REASON_CHARS_MAX = 10_000;

/** @typedef {import("./tms.js").Schemas} Schemas */
/** @typedef {import("./transaction.js").Transaction} Transaction */
/**
 * @typedef {object} WorkOptions
 * @property {string} [member] Its name, unique among those that run; by default random.
 * @property {number} [messages] How many messages to lease at once; by default 10.
 * @property {number} [leaseS] How long to lease them; leases are extended while the work goes on.
 * @property {number} [waitS] How long a take waits for messages; by default 20.
 * @property {boolean} [transaction] Whether each message is processed in a transaction, which
 *   acknowledges it.
 * @property {AbortSignal} [signal] Stops the loop after the message in progress.
 */
/** @typedef {(message: GroupMessage, tx?: Transaction) => Promise<unknown>} Handler */

/** Thrown by a handler to make a message a dead letter at once. */
export class Reject extends Error {}

/** A message that a member has leased. */
export class GroupMessage {
  /** @param {Schemas["Message"]} message @param {Delivery} delivery @param {number} attempt */
  constructor(message, delivery, attempt) {
    this.id = message.id;
    this.timestamp = message.timestamp;
    this.payload = message.payload;
    this.key = message.key ?? null;
    this.headers = message.headers ?? {};
    this.delivery = delivery;
    this.attempt = attempt; // 1 at the first delivery
    /** Aborted if the lease is lost: then another member may get the message. */
    this.signal = delivery.lost.signal;
    this.isSettled = false;
  }

  /** @returns {Schemas["CommitAcks"]} What acknowledges it in a commit. */
  commitAck() {
    const { group, member, number } = this.delivery;
    const { topic, name } = group;
    const place = { namespace: topic.namespace, topic: topic.name, subscription: name };
    return { ...place, member, delivery: number, ids: [this.id] };
  }
}

/** A group of a topic. */
export class Group {
  /** @param {import("./tms.js").Topic} topic @param {string} name */
  constructor(topic, name) {
    this.topic = topic;
    this.name = name;
    this.http = topic.http;
    this.path = `${topic.path}/subscriptions/${encodeURIComponent(name)}`;
  }

  /**
   * Create it. By default it begins with the oldest message.
   * @param {Omit<Schemas["GroupRequest"], "kind">} [settings] @returns {Promise<Schemas["Group"]>}
   */
  create(settings = {}) {
    return this.http.call("PUT", this.path, { body: { ...settings, kind: "shared" } });
  }

  /** @returns {Promise<Schemas["Group"]>} Its settings, state and counts. */
  show() {
    return this.http.call("GET", this.path);
  }

  /**
   * Call `handle` with each message, one after another, until `signal` is aborted.
   *
   * A message is acknowledged when `handle` has returned, and comes again if it throws: handlers
   * must expect a message more than once. With `transaction`, the transaction that `handle` gets
   * acknowledges it, so its messages are published once. Start several loops to work in parallel.
   * @param {Handler} handle @param {WorkOptions} [options]
   */
  async work(handle, options = {}) {
    const { messages = 10, leaseS, waitS = 20, signal } = options;
    const member = options.member ?? `js-${crypto.randomUUID()}`;
    const query = { wait: waitS };
    let sequence = Date.now();
    let anew = true;
    try {
      while (!signal?.aborted) {
        // A take that is sent again with its sequence gets the same delivery.
        const body = { member, messages, lease_s: leaseS, sequence, anew };
        /** @type {Schemas["Taken"]} */
        const taken = await persistently(
          () => this.http.call("POST", `${this.path}/take`, { query, body, signal }),
          signal,
        );
        sequence += 1;
        anew = false;
        if (taken.delivery !== null) {
          await new Delivery(this, member, taken).process(handle, options);
        } else if (taken.limited_by !== null) await pause(1_000, signal);
      }
    } catch (error) {
      if (!signal?.aborted) throw error;
    } finally {
      await this.settle({ member, leave: true }).catch(() => {}); // else the leases expire
    }
  }

  /** @param {Schemas["SettleBody"]} body @returns {Promise<Schemas["Settled"]>} */
  settle(body) {
    return this.http.call("POST", `${this.path}/settle`, { body });
  }
}

/** The messages of one take, whose lease is extended until all are settled. */
class Delivery {
  /** @param {Group} group @param {string} member @param {Schemas["Taken"]} taken */
  constructor(group, member, taken) {
    this.group = group;
    this.member = member;
    this.number = taken.delivery ?? 0;
    this.leaseMs = taken.lease_s * 1000;
    this.lost = new AbortController();
    this.messages = taken.messages.map(
      (message, index) => new GroupMessage(message, this, taken.attempts[index] ?? 1),
    );
  }

  /** @param {Handler} handle @param {WorkOptions} options */
  async process(handle, { leaseS, transaction, signal }) {
    const extend = () => void this.#extend(leaseS);
    const timer = setInterval(extend, this.leaseMs / EXTENDS_PER_LEASE);
    /** @type {Required<Pick<Schemas["SettleBody"], "acks" | "nacks" | "release">>} */
    const settled = { acks: [], nacks: [], release: [] };
    const failedKeys = new Set();
    try {
      for (const message of this.messages) {
        const part = { delivery: this.number, ids: [message.id] };
        const key = message.key === null ? null : JSON.stringify(message.key);
        if (this.lost.signal.aborted) break;
        if (signal?.aborted || (key !== null && failedKeys.has(key))) {
          settled.release.push(part); // an earlier one of its key comes first
          continue;
        }
        const error = await this.#handle(handle, message, transaction);
        if (error === undefined) {
          if (!message.isSettled) settled.acks.push(part);
          continue;
        }
        failedKeys.add(key);
        const reason = String(error).slice(0, REASON_CHARS_MAX);
        settled.nacks.push({ ...part, reason, dead: error instanceof Reject });
      }
      if (settled.acks.length + settled.nacks.length + settled.release.length > 0) {
        // Repeated until it is done: the server ignores what it did already.
        await persistently(() => this.group.settle({ member: this.member, ...settled }));
      }
    } finally {
      clearInterval(timer);
    }
  }

  /**
   * Return the error of a handler, if it failed.
   * @param {Handler} handle @param {GroupMessage} message @param {boolean} [transaction]
   */
  async #handle(handle, message, transaction) {
    try {
      if (!transaction) await handle(message);
      else {
        await runTransaction(this.group.http, async (tx) => {
          await handle(message, tx);
          tx.ack(message);
        });
      }
      return undefined;
    } catch (error) {
      return error ?? new Error("the handler failed");
    }
  }

  /** @param {number} [leaseS] */
  async #extend(leaseS) {
    const body = { member: this.member, extend: [this.number], lease_s: leaseS };
    try {
      const { refused } = await this.group.settle(body);
      if (refused.some((each) => each.id === null)) this.lost.abort(new Error("lease lost"));
    } catch (error) {
      if (!(error instanceof TmsError)) throw error; // the next one may succeed
    }
  }
}
