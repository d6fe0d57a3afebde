// @ts-check
/** The numbers beside and over the picture, the split of the latency, and the reason in words. */
import { byId, make, put } from "../shared/dom.js";
import { counted, fixed, known, ms, percent } from "../shared/format.js";
import { STAGE_WORDS } from "../shared/stages.js";
import { explain, glass, stageTimes } from "./why.js";

const LASTING = 6; // "status" comes twice a second: the server's and our own

/** @param {unknown} viewers connections, one's own among them */
export const crowd = (viewers) => (!known(viewers) || viewers < 1 ? "" : viewers === 1 ? " Nobody else watches." : ` ${viewers} watch, you among them.`);

export class Numbers {
  /** @param {import("./live.js").Live} live @param {import("./frames.js").FrameMeter} meter */
  constructor(live, meter) {
    this.live = live;
    this.meter = meter;
    /** @type {number | null} */
    this.photon = null;
    /** Seconds in a row in which far fewer frames were shown than sent. */
    this.starved = 0;
    live.addEventListener("status", () => this.show());
    live.addEventListener("phase", () => this.#why());
    live.addEventListener("photon", (event) => {
      this.photon = /** @type {CustomEvent} */ (event).detail.ms;
      this.show();
    });
  }

  show() {
    const { status, received } = this.live;
    const shown = this.live.peer ? this.meter.fps : null;
    this.#table(status, received, shown);
    this.#hud(status, received, shown);
    this.#split(stageTimes(status, received));
    this.#count(status, shown);
    this.#input(status);
    this.#why();
  }

  /** @param {any} s @param {number | null} shown */
  #count(s, shown) {
    const few = this.live.phase.name === "playing" && known(shown) && known(s?.fps_sent) && shown < 0.8 * s.fps_sent;
    this.starved = few ? this.starved + 1 : 0;
  }

  /** @param {any} s @param {any} r @param {number | null} shown */
  #table(s, r, shown) {
    put(byId("n-generated"), fixed(s?.fps_generated, 1), "fps");
    put(byId("n-sent"), fixed(s?.fps_sent, 1), "fps");
    put(byId("n-shown"), fixed(shown), "fps");
    put(byId("n-on-time"), percent(s?.on_time_ratio), "%");
    put(byId("n-photon"), ms(this.photon), "ms");
    const dropped = known(s?.dropped) || known(r?.frames_dropped) ? (s?.dropped ?? 0) + (r?.frames_dropped ?? 0) : null;
    put(byId("n-dropped"), fixed(dropped));
    put(byId("n-rtt"), ms(r?.rtt_ms), "ms");
    put(byId("n-jitter"), ms(r?.jitter_buffer_ms), "ms");
    put(byId("n-slack"), known(s?.steps) ? `${s.steps}, ${ms(s.slack_ms)}` : "–", "ms");
    put(byId("n-glass"), ms(glass(s, r, this.meter.delay)), "ms");
    put(byId("n-quality"), s?.quality ?? "–");
    put(byId("n-viewers"), fixed(s?.viewers));
  }

  /** What comes in, and what the age of a picture counts from. @param {any} s */
  #input(s) {
    const sending = this.live.source !== null;
    for (const id of ["n-glass-name", "hud-glass-name"]) put(byId(id), sending ? "Glass to glass" : "To the screen");
    if (!sending) return;
    const none = this.live.phase.name === "playing" ? "Nothing arrives at the server yet." : "";
    const fps = Math.round(s?.input?.fps ?? 0);
    put(byId("source-state"), s?.input ? `${counted(fps, "picture")} a second ${fps === 1 ? "arrives" : "arrive"}${s.input.sound ? ", and sound" : ""}` : none);
  }

  /** @param {any} s @param {any} r @param {number | null} shown */
  #hud(s, r, shown) {
    if (byId("hud").hidden) return;
    put(byId("hud-fps"), `${fixed(s?.fps_generated)} / ${fixed(s?.fps_sent)} / ${fixed(shown)}`);
    put(byId("hud-photon"), ms(this.photon), "ms");
    put(byId("hud-on-time"), percent(s?.on_time_ratio), "%");
    put(byId("hud-net"), `${ms(r?.rtt_ms)}, ${ms(r?.jitter_buffer_ms)}`, "ms");
    put(byId("hud-glass"), ms(glass(s, r, this.meter.delay)), "ms");
    put(byId("hud-dropped"), byId("n-dropped").textContent ?? "–");
    put(byId("hud-quality"), s?.quality ?? "–");
    put(byId("hud-place"), fixed(this.live.phase.position ?? s?.queue_position));
    const { stage } = explain(s, r, false);
    put(byId("hud-stage"), stage ? STAGE_WORDS[stage] : "–");
  }

  /** @param {[string, number][]} times */
  #split(times) {
    const total = times.reduce((sum, [, value]) => sum + value, 0);
    const words = times.map(([stage, value]) => `${STAGE_WORDS[stage]} ${ms(value)} ms`);
    byId("split").setAttribute("aria-label", words.length ? `A frame's way: ${words.join(", ")}` : "No stage times yet");
    const bars = times.map(([stage]) => this.#bar(stage));
    if (byId("split").childElementCount !== bars.length) byId("split").replaceChildren(...bars);
    times.forEach(([, value], i) => (byId("split").children[i].style.width = `${(100 * value) / (total || 1)}%`));
    byId("split-legend").replaceChildren(...times.map(([stage, value]) => make("li", {}, this.#bar(stage), `${STAGE_WORDS[stage]} ${ms(value)} ms`)));
  }

  /** @param {string} stage */
  #bar(stage) {
    const bar = make("i");
    bar.style.background = `var(--${stage})`;
    return bar;
  }

  #why() {
    const { head, text } = this.#reason();
    const line = byId("why");
    if (line.textContent !== `${head} ${text}`) line.replaceChildren(make("strong", {}, head), ` ${text}`);
  }

  #reason() {
    const { phase, session, watching, status, received } = this.live;
    if (watching) return { head: "You watch a stream that someone else steers.", text: session ? `Its words: ${session.prompt}.${crowd(status?.viewers)}` : "" };
    if (phase.name !== "playing") return { head: "No picture is due.", text: "The middle of the picture says why." };
    return explain(status, received, this.starved > LASTING);
  }
}
