// Requests to a server, and what its errors mean for the caller. Needs only the platform's fetch.

/** @typedef {Record<string, string | number | boolean | undefined>} Query */
/**
 * @typedef {object} Options
 * @property {string} [token] A token of `tms auth token`, or a JSON Web Token.
 * @property {string} [namespace] The namespace of topics; by default `default`.
 * @property {typeof fetch} [fetch] Replaces the platform's, for a proxy for example.
 */
/**
 * @typedef {{query?: Query, body?: unknown, headers?: Record<string, string>, signal?: AbortSignal}}
 *   Request
 */

const RETRY_FIRST_MS = 100;
const RETRY_MAX_MS = 5_000;
const TRY_LATER = new Set([429, 503]);

/** An error that the server answered, or `no_answer` if its answer did not arrive. */
export class TmsError extends Error {
  /**
   * @param {number} status The HTTP status; 0 without an answer.
   * @param {{code: string, message: string, detail?: Record<string, unknown>}} problem
   * @param {number} [retryAfterMs] @param {unknown} [cause]
   */
  constructor(status, problem, retryAfterMs, cause) {
    super(`${problem.message} (${problem.code})`, { cause });
    this.name = "TmsError";
    this.status = status;
    /** Stable: programs may compare it. */
    this.code = problem.code;
    this.detail = problem.detail ?? {};
    this.retryAfterMs = retryAfterMs;
  }

  /** Whether nothing was done, and the same request may succeed later. */
  get isRefusedForNow() {
    return TRY_LATER.has(this.status) && this.code !== "outcome_unknown";
  }

  /** Whether the request may have been carried out. */
  get isInDoubt() {
    return this.status === 0 || this.status === 504 || this.code === "outcome_unknown";
  }
}

/** Sends requests to one server, or to any server of a cluster. */
export class Http {
  /** @param {string} url @param {Options} options */
  constructor(url, options) {
    this.url = url.replace(/\/+$/, "");
    this.namespace = options.namespace ?? "default";
    this.fetch = options.fetch ?? fetch;
    /** @type {Record<string, string>} */
    this.headers = options.token ? { authorization: `Bearer ${options.token}` } : {};
  }

  /**
   * Send a request; return its answer if that is a success. Throws `TmsError`.
   * @param {string} method @param {string} path @param {Request} [request]
   */
  async send(method, path, { query = {}, body, headers, signal } = {}) {
    const url = new URL(this.url + path);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    let answer;
    try {
      answer = await this.fetch(url, {
        method,
        headers: { "content-type": "application/json", ...this.headers, ...headers },
        body: body === undefined ? undefined : JSON.stringify(body),
        signal,
      });
    } catch (error) {
      throw noAnswer(error, signal);
    }
    if (!answer.ok) throw await refusalOf(answer);
    return answer;
  }

  /**
   * Send a request; return the JSON of its answer, undefined if that is empty.
   * @param {string} method @param {string} path @param {Request} [request] @returns {Promise<any>}
   */
  async call(method, path, request = {}) {
    const answer = await this.send(method, path, request);
    let text;
    try {
      text = await answer.text();
    } catch (error) {
      throw noAnswer(error, request.signal);
    }
    return text === "" ? undefined : JSON.parse(text);
  }
}

/** @param {unknown} error @param {AbortSignal} [signal] */
function noAnswer(error, signal) {
  if (signal?.aborted) return error;
  const message = "The answer did not arrive; the request may have been carried out.";
  return new TmsError(0, { code: "no_answer", message }, undefined, error);
}

/** @param {Response} answer */
async function refusalOf(answer) {
  const text = await answer.text().catch(() => "");
  const seconds = Number(answer.headers.get("retry-after") ?? Number.NaN);
  const retryAfterMs = Number.isFinite(seconds) ? seconds * 1000 : undefined;
  try {
    return new TmsError(answer.status, JSON.parse(text).error, retryAfterMs);
  } catch {
    const problem = { code: "not_tms", message: `Unexpected answer: ${text.slice(0, 200)}` };
    return new TmsError(answer.status, problem, retryAfterMs);
  }
}

/**
 * Do work that may be repeated until it succeeds or is refused for good.
 * @template T
 * @param {() => Promise<T>} work
 * @param {AbortSignal} [signal] Ends the wait, and throws its reason.
 * @returns {Promise<T>}
 */
export async function persistently(work, signal) {
  for (let waitMs = RETRY_FIRST_MS; ; waitMs = Math.min(2 * waitMs, RETRY_MAX_MS)) {
    try {
      return await work();
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof TmsError) || !(error.isRefusedForNow || error.isInDoubt)) throw error;
      await pause(error.retryAfterMs ?? waitMs, signal);
    }
  }
}

/**
 * Wait; throws the signal's reason if that ends the wait.
 * @param {number} ms @param {AbortSignal} [signal] @returns {Promise<void>}
 */
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
