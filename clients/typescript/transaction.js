// Transactions: messages and acknowledgements that take effect together, or not at all.

import { persistently, TmsError } from "./http.js";

/** @typedef {import("./tms.js").Topic} Topic */
/** @typedef {import("./group.js").GroupMessage} GroupMessage */
/**
 * @typedef {object} TransactionOptions
 * @property {number} [timeoutS] After this time it becomes invalid.
 * @property {string} [owner] The producer whose work this is.
 * @property {number} [sequence] The number of the work; each is committed once.
 */

/** A transaction in progress. Publish in it by `topic.publish(messages, { tx })`. */
export class Transaction {
  /**
   * @param {import("./http.js").Http} http
   * @param {import("./tms.js").Schemas["StartedTransaction"]} started
   */
  constructor(http, started) {
    this.http = http;
    this.id = started.transaction_id;
    this.writePointer = started.write_pointer;
    this.path = `/v1/transactions/${this.id}`;
    /** @type {GroupMessage[]} */
    this.acked = [];
    /** @type {{topic: Topic, range: unknown}[]} */
    this.written = [];
  }

  /**
   * Acknowledge a message of a group if the transaction commits.
   * @param {GroupMessage} message
   */
  ack(message) {
    this.acked.push(message);
  }

  /**
   * Keep what undoes a publish.
   * @param {Topic} topic @param {unknown} range The answer to the publish.
   */
  published(topic, range) {
    this.written.push({ topic, range });
  }

  /** Commit. Throws the server's refusal, or `outcome_unknown` if not even the status is known. */
  async commit() {
    const acks = this.acked.map((message) => message.commitAck());
    try {
      await this.http.call("POST", `${this.path}/commit`, { body: { acks } });
    } catch (error) {
      if (!(error instanceof TmsError) || !error.isInDoubt) throw error;
      const { status } = await persistently(() => this.http.call("GET", this.path));
      if (status !== "committed") throw error;
    }
    for (const message of this.acked) message.isSettled = true;
  }

  /** Undo everything. If that fails, the transaction times out, and no reader sees its messages. */
  async abort() {
    try {
      for (const { topic, range } of this.written) {
        await this.http.call("POST", `${topic.path}/rollback`, { body: range });
      }
      await this.http.call("POST", `${this.path}/abort`);
    } catch (error) {
      if (!(error instanceof TmsError)) throw error;
    }
  }
}

/**
 * Run `work` in a transaction: commit it if `work` returns, abort it if `work` throws.
 * @template T
 * @param {import("./http.js").Http} http @param {(tx: Transaction) => Promise<T>} work
 * @param {TransactionOptions} [options] @returns {Promise<T>}
 */
export async function runTransaction(http, work, { timeoutS, owner, sequence } = {}) {
  const query = { codec: false, namespace: http.namespace };
  const body = { timeout_s: timeoutS, owner, sequence };
  const tx = new Transaction(http, await http.call("POST", "/v1/transactions", { query, body }));
  let result;
  try {
    result = await work(tx);
  } catch (error) {
    await tx.abort();
    throw error;
  }
  try {
    await tx.commit();
  } catch (error) {
    if (!(error instanceof TmsError) || !error.isInDoubt) await tx.abort();
    throw error;
  }
  return result;
}
