// @ts-check
/** Stage times as bars: p50, p95 and p99, each laid end to end on one scale. */
import { byId, make } from "../shared/dom.js";
import { known, ms } from "../shared/format.js";
import { SERVER_STAGES, STAGE_WORDS } from "../shared/stages.js";

const ROWS = ["p50", "p95", "p99"];
const LABEL_SHARE = 0.055;

/** @param {string} stage */
export function swatch(stage) {
  const element = make("i");
  element.style.background = `var(--${stage})`;
  return element;
}

function build() {
  byId("stages").append(
    ...ROWS.map((name) => {
      const bar = make("div", { className: "stage-bar" }, ...SERVER_STAGES.map(swatch));
      return make("div", { className: "stage-row", role: "img" }, make("span", {}, name), bar, make("b", {}, "–"));
    }),
  );
  byId("stages-legend").append(...SERVER_STAGES.map((stage) => make("li", {}, swatch(stage), STAGE_WORDS[stage])));
}

/** @param {any} stages the overview's stages_ms */
export function showStages(stages) {
  if (!byId("stages").childElementCount) build();
  const sums = ROWS.map((row) => SERVER_STAGES.reduce((sum, stage) => sum + (stages?.[stage]?.[row] ?? 0), 0));
  const most = Math.max(...sums);
  ROWS.forEach((row, i) => showRow(byId("stages").children[i], stages, row, sums[i], most));
}

/** @param {any} element @param {any} stages @param {string} row @param {number} sum @param {number} most */
function showRow(element, stages, row, sum, most) {
  const [, bar, total] = element.children;
  total.textContent = sum ? `${ms(sum)} ms` : "no data";
  SERVER_STAGES.forEach((stage, j) => {
    const value = stages?.[stage]?.[row];
    const share = known(value) && most ? value / most : 0;
    const part = bar.children[j];
    part.style.width = `${100 * share}%`;
    part.hidden = !share;
    part.textContent = share > LABEL_SHARE ? ms(value) : "";
    part.title = `${STAGE_WORDS[stage]} ${ms(value)} ms`;
  });
  const words = SERVER_STAGES.map((stage) => `${STAGE_WORDS[stage]} ${ms(stages?.[stage]?.[row])}`);
  element.setAttribute("aria-label", sum ? `${row}: ${words.join(", ")} milliseconds` : `${row}: no data`);
}
