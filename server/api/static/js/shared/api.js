// @ts-check
/** Calls to the server and its errors. Not: what to do about them. */

import { askKey, heldKey, keyHeader } from "./key.js";

export class ApiError extends Error {
  /** @param {number} status 0 = the server did not answer @param {any} body */
  constructor(status, body, retryAfter = 0) {
    const error = body?.error ?? {};
    super(error.message ?? body?.detail ?? body?.title ?? (status ? `The server answered ${status}.` : "The server does not answer."));
    this.status = status;
    this.code = error.code ?? null;
    this.param = error.param ?? null;
    this.queuePosition = error.queue_position ?? body?.queue_position ?? null;
    this.retryAfter = Number(error.retry_after ?? body?.retry_after ?? retryAfter) || 0;
  }
}

/** @param {string} method @param {string} url @param {RequestInit} init */
async function send(method, url, init) {
  let answer;
  try {
    answer = await fetch(url, { method, ...init, headers: { ...init.headers, ...keyHeader() } });
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new ApiError(0, null);
  }
  if (answer.ok) return answer;
  if (answer.status === 401) askKey();
  const body = await answer.json().catch(() => null);
  throw new ApiError(answer.status, body, Number(answer.headers.get("Retry-After")));
}

/** JSON in, JSON out (null for an empty answer). @param {string} method @param {string} url @param {any} [body] @param {RequestInit} [init] */
export async function call(method, url, body, init = {}) {
  const json = body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const answer = await send(method, url, { ...json, ...init });
  return answer.status === 204 ? null : answer.json();
}

/** @param {string} url @returns {Promise<Blob>} */
export async function fetchBlob(url) {
  return (await send("GET", url, {})).blob();
}

/** Posts an SDP offer. @param {string} url @param {string} sdp @returns {Promise<{sdp: string, location: string | null}>} */
export async function offer(url, sdp) {
  const answer = await send("POST", url, { body: sdp, headers: { "Content-Type": "application/sdp" } });
  return { sdp: await answer.text(), location: answer.headers.get("Location") };
}

/** DELETE that survives the page being closed. @param {string} url */
export function forget(url) {
  return fetch(url, { method: "DELETE", keepalive: true, headers: keyHeader() }).catch(() => undefined);
}

/** Downloads that bear the key: a plain link cannot. @param {MouseEvent} event on the link @param {(message: string) => void} fail */
export async function saveWithKey(event, fail) {
  if (!heldKey()) return;
  event.preventDefault();
  const link = /** @type {HTMLAnchorElement} */ (event.currentTarget);
  try {
    save(await fetchBlob(link.href), link.download);
  } catch (error) {
    fail(error instanceof Error ? error.message : String(error));
  }
}

/** Hands a file to the person. @param {Blob} blob @param {string} name */
export function save(blob, name) {
  const link = document.createElement("a");
  Object.assign(link, { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 5000);
}
