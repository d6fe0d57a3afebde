// The pattern of pattern.py: a number as sixteen bars. Drawn to be sent, read from what is shown.

const BARS = 16;
const BITS = 12;

function bars(number) {
  const bits = Array.from({ length: BITS }, (_, at) => (number >> at) & 1);
  return [1, 0, ...bits, 0, 1];
}

export class Pattern {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.number = 0;
    this.draw();
    setInterval(() => {
      this.number = (this.number + 1) % 2 ** BITS;
      this.draw();
    }, 40);
  }

  draw() {
    const { width, height } = this.canvas;
    bars(this.number).forEach((lit, at) => {
      this.context.fillStyle = lit ? "white" : "black";
      this.context.fillRect((at * width) / BARS, 0, width / BARS, height);
    });
  }

  // `fake`: the browser's own tone, where it runs no AudioContext for want of a sound card.
  async stream(fake) {
    const stream = this.canvas.captureStream(25);
    if (fake) {
      const found = await navigator.mediaDevices.getUserMedia({ audio: true });
      stream.addTrack(found.getAudioTracks()[0]);
      return stream;
    }
    const audio = new AudioContext({ sampleRate: 48_000 });
    const oscillator = audio.createOscillator();
    const target = audio.createMediaStreamDestination();
    oscillator.frequency.value = 440;
    oscillator.connect(target);
    oscillator.start();
    stream.addTrack(target.stream.getAudioTracks()[0]);
    return stream;
  }
}

function read(pixels, width, height) {
  const middle = Math.floor(height / 2);
  const levels = Array.from({ length: BARS }, (_, at) => {
    const column = Math.floor(((2 * at + 1) * width) / (2 * BARS));
    return pixels[4 * (middle * width + column) + 1];
  });
  if (levels.some((level) => level > 100 && level < 150)) return null;
  const lit = levels.map((level) => level > 125);
  if (!lit[0] || lit[1] || lit[BARS - 2] || !lit[BARS - 1]) return null;
  return lit.slice(2, 2 + BITS).reduce((sum, each, at) => sum + (each ? 1 << at : 0), 0);
}

// The numbers of the pictures shown from now on; it grows.
export function readNumbers(video, canvas) {
  const numbers = [];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const { width, height } = canvas;
  const grab = () => {
    if (video.videoWidth) {
      context.drawImage(video, 0, 0, width, height);
      const number = read(context.getImageData(0, 0, width, height).data, width, height);
      if (number !== null && number !== numbers.at(-1)) numbers.push(number);
    }
    video.requestVideoFrameCallback(grab);
  };
  video.requestVideoFrameCallback(grab);
  return numbers;
}
