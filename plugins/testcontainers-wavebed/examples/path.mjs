const {WAVEBED_API: api, WAVEBED_TOKEN: token, WAVEBED_LAB: lab} = process.env;
async function ask(method, path, body) {
  const headers = {Authorization: `Bearer ${token}`, "Content-Type": "application/json"};
  const answer = await fetch(api + path, {method, headers, body: body && JSON.stringify(body)});
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}
await ask("PATCH", `/api/labs/${lab}/links`, {rate: "5mbit"});
await ask("PATCH", `/api/labs/${lab}/links`, {outage: "100ms"});
const {links} = await ask("GET", `/api/labs/${lab}`);
console.log(links.map(link => `${link.name} ${link.rate_bps}`).join("\n"));
