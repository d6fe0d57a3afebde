// CommonJS packages in a page, so that clients run as published, without a bundler.

const ROOT = "/node_modules/";
const EMPTY = new Set(["@eyevinn/csai-manager"]); // advertisements; they would need a dozen packages
const loaded = new Map();

function text(path) {
  const request = new XMLHttpRequest();
  request.open("GET", path, false);
  request.send();
  if (request.status !== 200) throw new Error(`${path}: ${request.status}`);
  return request.responseText;
}

function resolve(name, from) {
  if (name.startsWith(".")) {
    const path = new URL(name, new URL(from, location.origin)).pathname;
    return path.endsWith(".js") ? path : `${path}.js`;
  }
  const main = JSON.parse(text(`${ROOT}${name}/package.json`)).main ?? "index.js";
  const path = new URL(main, new URL(`${ROOT}${name}/`, location.origin)).pathname;
  if (path.endsWith(".js")) return path;
  return path.endsWith("/") ? `${path}index.js` : `${path}.js`;
}

export function load(name, from = ROOT) {
  if (EMPTY.has(name)) return {};
  const path = resolve(name, from);
  if (!loaded.has(path)) {
    const module = { exports: {} };
    loaded.set(path, module);
    const body = new Function("module", "exports", "require", text(path));
    body(module, module.exports, (inner) => load(inner, path));
  }
  return loaded.get(path).exports;
}
