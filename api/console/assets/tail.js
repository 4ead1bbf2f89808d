// Shows new messages of a topic in the element with data-stream, as long as it is unfolded and seen.
"use strict";
(() => {
  const ROWS_MAX = 100, CHARS_MAX = 240, WAIT_MS_MAX = 60_000;
  const tail = document.querySelector("[data-stream]");
  const status = tail.querySelector("[role=status]"), rows = tail.querySelector("tbody");
  const loaded = performance.now();
  let source, start, last, timer, waiting = [], frame, count = 0, waitMs = 1_000;

  const text = (value) => {
    const bytes = value?.base64 === undefined ? value : `base64: ${value.base64}`;
    return bytes.length > CHARS_MAX ? `${bytes.slice(0, CHARS_MAX)}…` : bytes;
  };
  const make = (name, content, where) => {
    const made = document.createElement(name);
    made.textContent = content;
    where.append(made);
    return made;
  };
  const row = ({ id, timestamp, payload, key, headers }) => {
    const made = document.createElement("tr"), cell = () => make("td", "", made);
    const link = make("a", new Date(timestamp).toISOString().slice(0, 19).replace("T", " "), cell());
    link.href = `${tail.dataset.messages}/${id}`;
    const about = cell();
    if (key !== undefined) make("code", text(key), about);
    for (const [name, value] of Object.entries(headers ?? {})) make("small", `${name}: ${text(value)}`, about);
    make(payload === null ? "em" : "code", payload === null ? "no payload" : text(payload), cell()).parentNode.className = "payload";
    return made;
  };
  const draw = () => {
    frame = undefined;
    rows.prepend(...waiting.reverse().map((each) => row(JSON.parse(each))));
    while (rows.rows.length > ROWS_MAX) rows.lastElementChild.remove();
    waiting = [];
    status.textContent = `${count.toLocaleString("en")} messages since it was opened.`;
  };
  const close = () => {
    clearTimeout(timer);
    source?.close();
    source = undefined;
  };
  const look = () => {
    if (!tail.open || document.hidden) return close();
    if (source) return;
    start ??= Number(tail.dataset.nowMs) + Math.floor(performance.now() - loaded);
    source = new EventSource(`${tail.dataset.stream}?${last ? `after=${last}` : `time=${start}`}`);
    source.onopen = () => { waitMs = 1_000; if (!count) status.textContent = "Waiting for messages."; };
    source.onmessage = ({ data, lastEventId }) => {
      last = lastEventId;
      count += 1;
      waiting.push(data);
      if (waiting.length > ROWS_MAX) waiting.shift();
      frame ??= requestAnimationFrame(draw);
    };
    source.addEventListener("stopped", ({ data }) => {
      status.textContent = `The stream waits for the transaction ${JSON.parse(data).transaction_id}.`;
    });
    source.onerror = () => {
      status.textContent = "The connection broke. It is opened again.";
      if (source.readyState !== EventSource.CLOSED) return; // the browser opens it again
      close();
      timer = setTimeout(look, waitMs);
      waitMs = Math.min(2 * waitMs, WAIT_MS_MAX);
    };
  };
  tail.hidden = false;
  tail.addEventListener("toggle", look);
  document.addEventListener("visibilitychange", look);
})();
