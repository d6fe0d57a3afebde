// @ts-check
/** The latency of frames as bars: p50, p95 and p99 of the whole, each with the stages that it is made of. */
import { byId, make } from "../shared/dom.js";
import { known, ms } from "../shared/format.js";
import { ALL_STAGES, STAGE_WORDS } from "../shared/stages.js";

const ROWS = ["p50", "p95", "p99"];
const LABEL_SHARE = 0.055;
const HINT = "The frames around each percentile of the last 10 s, from admission to";

/** @param {string} stage */
export function swatch(stage) {
  const element = make("i");
  element.style.background = `var(--${stage})`;
  return element;
}

function build() {
  byId("stages").append(
    ...ROWS.map((name) => {
      const bar = make("div", { className: "stage-bar" }, ...ALL_STAGES.map(swatch));
      return make("div", { className: "stage-row", role: "img" }, make("span", {}, name), bar, make("b", {}, "–"));
    }),
  );
  byId("stages-legend").append(...ALL_STAGES.map((stage) => make("li", {}, swatch(stage), STAGE_WORDS[stage])));
}

/** @param {any} latency of the overview @param {any} machine of the overview @param {any} live of the overview */
export function showStages(latency, machine, live) {
  if (!byId("stages").childElementCount) build();
  const seen = latency.shown.p50 !== null;
  const split = seen ? latency.shown : latency.sent;
  byId("stages-hint").textContent = `${HINT} ${seen ? "the screen, where a page tells of it" : "the last packet"}.`;
  const most = Math.max(...ROWS.map((row) => split[row]?.total ?? 0));
  ROWS.forEach((row, i) => showRow(byId("stages").children[i], split[row], row, most));
  say(latency, machine, live);
}

/** What is slow now, in words. @param {any} latency @param {any} machine @param {any} live */
function say(latency, machine, live) {
  const ratio = live.on_time_ratio_10s;
  const late = known(ratio) && ratio < 0.98 ? `${((1 - ratio) * 100).toFixed(1)} % of frames come late. ` : "";
  const taken = machine.taken ? ` Other programs take ${Math.round(100 * machine.others)} % of this machine's processor.` : "";
  const slowest = latency.slowest ? `${late}Most of the time goes to ${STAGE_WORDS[latency.slowest]}: ${ms(latency.slowest_ms)} ms.${taken}` : `No frame is sent.${taken}`;
  if (byId("slowest").textContent !== slowest) byId("slowest").textContent = slowest;
}

/** @param {any} element @param {any} row @param {string} name @param {number} most */
function showRow(element, row, name, most) {
  const [, bar, total] = element.children;
  total.textContent = row ? `${ms(row.total)} ms` : "no data";
  ALL_STAGES.forEach((stage, j) => {
    const value = row?.[stage];
    const share = known(value) && most ? value / most : 0;
    const part = bar.children[j];
    part.style.width = `${100 * share}%`;
    part.hidden = !share;
    part.textContent = share > LABEL_SHARE ? ms(value) : "";
    part.title = `${STAGE_WORDS[stage]} ${ms(value)} ms`;
  });
  const words = ALL_STAGES.filter((stage) => row?.[stage]).map((stage) => `${STAGE_WORDS[stage]} ${ms(row[stage])}`);
  element.setAttribute("aria-label", row ? `${name}: ${words.join(", ")} milliseconds` : `${name}: no data`);
}
