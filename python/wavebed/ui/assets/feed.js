// The stream of a laboratory, and requests to the server.

// Listens to a laboratory until `close`. `told` has `head`, `points` and `ended`.
export const listen = (lab, every, told) => {
  const source = new EventSource(`/api/labs/${encodeURIComponent(lab)}/events?every_ms=${every}`);
  source.addEventListener("head", (event) => told.head(JSON.parse(event.data)));
  source.addEventListener("points", (event) => told.points(JSON.parse(event.data)));
  source.addEventListener("end", () => {
    source.close();
    told.ended();
  });
  source.addEventListener("error", () => {
    // A refusal closes the stream for good; a broken connection is tried again by the browser, with a new head.
    if (source.readyState === EventSource.CLOSED) told.ended();
    else told.broken();
  });
  return () => source.close();
};

export const ask = async (method, path, body) => {
  const options = { method, headers: { Accept: "application/json" } };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(path, options);
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
};
